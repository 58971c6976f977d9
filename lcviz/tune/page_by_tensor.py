"""Tune, tensor by tensor: what A and B make of each tensor of the newest delta."""

from __future__ import annotations

from typing import Any

import streamlit as st

import codec
from codec import Coding
from lcviz.run.run import Run
from lcviz.run.snapshot import Snapshot
from lcviz.ui import widgets
from lcviz.ui.glossary import explained

from .by_tensor import ByTensor, by_tensor, choices_in_columns
from .by_tensor_figure import MEASURES, by_tensor_panel, highest
from .page_choices import both
from .page_run import GONE, NewestDelta, follow_run, shown_delta

_FOUND = "tune-by-tensor"  # in the session: a delta's key, and what was found by scope and coder
MEASURE_HELP = (
    "Bits per parameter: of the code words that end in a tensor, and its share of levels and code "
    "table, which tensors coded together share by their values. Relative error: of this delta, 1 "
    "if all of it is dropped. Left as they were: values that keep what the track has, because "
    "their change was dropped or there was none."
)


def section() -> None:
    """The whole section."""
    st.markdown(
        explained(
            "The newest [[delta]], tensor by tensor; A and B are framed. [[Buckets|bucket]] over "
            "the whole model may all go to one tensor."
        )
    )
    follow_run(_by_tensor)


def _by_tensor(run: Run, snapshot: Snapshot) -> None:
    measure = widgets.choice(
        "Measure", MEASURES, default="bits", key="tune_measure", help=MEASURE_HELP
    )
    delta = shown_delta(run, snapshot, "tune-by-tensor-delta")
    if delta is None:
        st.info(GONE)
        return
    sides = both()
    if sides is None:
        return
    try:
        found = {who: _found(delta, choice) for who, choice in sides.items()}
    except codec.LccError as exc:
        st.error(f"This delta cannot be encoded. {exc}", icon=":material/error:")
        return
    top = highest(tuple(found.values()), measure)
    grid = st.grid(2, min_column_width=560, border=True, key="tune-by-tensor")
    for who, choice in sides.items():
        with grid.cell():
            panel = by_tensor_panel(found[who], choice, measure, who, top)
            widgets.show(panel, f"by-tensor-{who}")
    widgets.tables_toggle()


def _found(delta: NewestDelta, choice: Coding) -> ByTensor:
    held: tuple[Any, dict[tuple[Coding, ...], ByTensor]] | None = st.session_state.get(_FOUND)
    if held is None or held[0] != delta.key:
        held = st.session_state[_FOUND] = delta.key, {}
    wanted = choices_in_columns(choice)
    if wanted not in held[1]:
        held[1][wanted] = by_tensor(delta.layout, delta.before, delta.state, wanted)
    return held[1][wanted]
