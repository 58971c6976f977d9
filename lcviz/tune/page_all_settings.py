"""Tune, all settings: the newest delta of the run with every number of bits, scope and coder."""

from __future__ import annotations

from typing import Any

import streamlit as st

import codec
from lcviz.run.run import Run
from lcviz.run.snapshot import Snapshot
from lcviz.text import nbytes_text, percent_text, plural
from lcviz.ui import widgets
from lcviz.ui.charts import inked
from lcviz.ui.glossary import explained

from .ab import Saved, Variant
from .all_settings import every_variant, tried
from .all_settings_figure import every_panel, picked
from .page_choices import both, put
from .page_newest_delta import GONE, Delta, following, held_delta

RUN = "this run"
_TRIED = "tune-tried"  # in the session: a delta's key, and what was found
_CHART = "panel-every"
_PICK = "tune_pick"


def every() -> None:
    """The whole section."""
    st.markdown(
        explained(
            "The **newest [[delta]]** of the run on Live, from the [[track]] that it had before to "
            "what was saved, encoded with all [[bits|bits x]], [[scopes|scope]] and coders. Choose "
            "one, by a click on its point or from the list, and put it into A or B."
        )
    )
    following(_every)


def _every(run: Run, snapshot: Snapshot) -> None:
    delta = held_delta(run, snapshot, "tune-every-delta")
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
    own = run.settings
    place = st.container(border=True, key="tune-every")
    marked = {RUN: Variant(own.bits, own.scope, own.coder, own.budget)} | both()
    widgets.tables_toggle()
    with place:
        panel = every_panel(found, full, marked)
        st.markdown(f"**{panel.title}**")
        st.echarts_chart(
            inked(panel.chart, st.context.theme.type or "light"),
            key=_CHART,
            height=panel.height,
            alt=panel.alt,
            renderer="svg",
            on_select=_clicked,
        )
        st.markdown(f":small[{panel.sentence}]")
        if st.session_state.get("tables"):
            widgets.show_table(panel.table, "every")
        st.caption(
            "Bytes of the record on disk with new code tables, header included, against "
            f"{nbytes_text(full)} in float32. Distance: ‖ũ − u‖ / ‖u − u₀‖ after this one delta; "
            "the coder does not change it. In a chain tables are used again, and what one "
            "checkpoint drops comes back in the next: A against B shows that."
        )


def _found(delta: Delta) -> dict[Variant, Saved]:
    held: tuple[Any, dict[Variant, Saved]] | None = st.session_state.get(_TRIED)
    if held is None or held[0] != delta.key:
        found = tried(delta.layout, delta.before, delta.moment)
        held = st.session_state[_TRIED] = delta.key, found
    return held[1]


def _pick(found: dict[Variant, Saved], full_nbytes: int) -> None:
    """The chosen setting, and where it goes."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="tune-picked"):
        names = {v.text: v for v in every_variant()}
        name = st.selectbox(
            "Setting",
            list(names),
            key=_PICK,
            bind="query-params",
            persist_state="session",
            help="Or click on a point in the chart.",
        )
        variant = names[name]
        for who in ("A", "B"):
            st.button(
                f"Put into {who}",
                key=f"tune-put-{who}",
                on_click=put,
                args=(who, variant),
                icon=":material/input:",
            )
    saved = found[variant]
    st.caption(
        f"{saved.nbytes:,} B, {percent_text(saved.nbytes / full_nbytes)} of float32, "
        f"{percent_text(saved.distance)} of the way trained from what was saved, "
        f"{plural(saved.kept, 'bucket')} kept."
    )


def _clicked() -> None:
    """The point that was clicked becomes the chosen setting."""
    for group in st.session_state[_CHART].selection.selected:
        for i in group["data_indices"]:
            st.session_state[_PICK] = picked(group["series_index"], i).text
