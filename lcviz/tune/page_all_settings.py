"""Tune, all settings: the newest delta of the run with every number of bits, scope and coder."""

from __future__ import annotations

from typing import Any

import streamlit as st

import codec
from codec import Coding
from lcviz.run.run import Run
from lcviz.run.snapshot import Snapshot
from lcviz.text import nbytes_text, percent_text, plural
from lcviz.ui import widgets
from lcviz.ui.glossary import explained

from .ab import TrialSave
from .all_settings import all_choices, try_all
from .all_settings_figure import all_settings_panel, picked
from .page_choices import both, put
from .page_run import GONE, NewestDelta, follow_run, shown_delta

RUN = "this run"
_TRIED = "tune-tried"  # in the session: a delta's key, and what was found
_PANEL = "all-settings"
_PICK = "tune_pick"


def section() -> None:
    """The whole section."""
    st.markdown(
        explained(
            "The newest [[delta]] with every number of [[bits|bits x]], [[scope]] and coder. "
            "**Click a point** to choose it."
        )
    )
    follow_run(_all_settings)


def _all_settings(run: Run, snapshot: Snapshot) -> None:
    delta = shown_delta(run, snapshot, "tune-all-settings-delta")
    if delta is None:
        st.info(GONE)
        return
    try:
        found = _found(delta)
    except codec.LccError as exc:
        st.error(f"This delta cannot be encoded. {exc}", icon=":material/error:")
        return
    full = delta.layout.nbytes
    _pick(found, full)
    place = st.container(border=True, key="tune-all-settings")
    marked = {RUN: run.settings.coding} | (both() or {})
    with place:
        widgets.show(all_settings_panel(found, full, marked), _PANEL, _clicked)
        st.caption(
            f"Of {nbytes_text(full)} in float32, with new code tables.",
            help="Distance: ‖ũ − u‖ / ‖u − u₀‖ after this one delta. A chain reuses code tables: "
            "see A against B.",
        )
    widgets.tables_toggle()


def _found(delta: NewestDelta) -> dict[Coding, TrialSave]:
    held: tuple[Any, dict[Coding, TrialSave]] | None = st.session_state.get(_TRIED)
    if held is None or held[0] != delta.key:
        found = try_all(delta.layout, delta.before, delta.state)
        held = st.session_state[_TRIED] = delta.key, found
    return held[1]


def _pick(found: dict[Coding, TrialSave], full_nbytes: int) -> None:
    """The chosen setting, and where it goes."""
    names = {v.describe(): v for v in all_choices()}
    with st.container(horizontal=True, vertical_alignment="bottom", key="tune-picked"):
        name = st.selectbox(
            "Setting",
            list(names),
            key=_PICK,
            bind="query-params",
            persist_state="session",
        )
        for who in ("A", "B"):
            st.button(
                f"Put into {who}",
                key=f"tune-put-{who}",
                on_click=put,
                args=(who, names[name]),
                icon=":material/input:",
            )
    saved = found[names[name]]
    st.caption(
        f"{saved.nbytes:,} B, {percent_text(saved.nbytes / full_nbytes)} of float32, distance "
        f"{percent_text(saved.distance)}, {plural(saved.kept, 'bucket')}."
    )


def _clicked() -> None:
    """The point that was clicked becomes the chosen setting."""
    for point in st.session_state[widgets.panel_key(_PANEL)].selection.points:
        st.session_state[_PICK] = picked(point["curve_number"], point["point_index"]).describe()
