"""Tune, A against B: two choices of the codec on the same checkpoints of one run."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

import codec
from codec import Coding
from codec.inspect import layout_of
from lcviz.run.run import Run
from lcviz.run.snapshot import Snapshot
from lcviz.text import plural
from lcviz.ui import widgets
from lcviz.ui.glossary import explained

from . import ab
from .ab_figure import ab_distances, ab_sentence, ab_sizes, ab_table
from .page_choices import both
from .page_run import follow_run, live_loss, loss_of, replayed_states, stays

MEASURED = (
    "Bytes: on disk, header included. Distance: ‖ũ − u‖ / ‖u − u₀‖. Times: this machine, just now."
)
_CHAINS = "tune-chains"  # in the session: the run's id and its trial chains
_SHOWN = "tune-compared"  # in the session
Asked = tuple[str, Coding, Coding]  # a run's id, A and B


@dataclass(frozen=True)
class Compared:
    """What is shown. basis: what the numbers rest on."""

    asked: Asked
    a: ab.Side
    b: ab.Side
    live_loss: float
    basis: str


def section() -> None:
    """The whole section."""
    st.markdown(
        explained("A and B save **the same checkpoints**, each with a [[track]] of its own.")
    )
    follow_run(_both)


def _both(run: Run, snapshot: Snapshot) -> None:
    pictures = st.container()
    chosen = both()
    if chosen is None:
        return
    asked = run.id, chosen["A"], chosen["B"]
    shown: Compared | None = st.session_state.get(_SHOWN)
    with pictures:
        if shown is None or shown.asked != asked or not stays(snapshot, shown.a.newest.step):
            shown = st.session_state[_SHOWN] = _compare(run, snapshot, asked)
        if shown is None:
            return
        a, b = shown.a, shown.b
        st.markdown(ab_sentence(a, b))
        grid = st.grid(2, min_column_width=420, border=True, key="tune-ab-panels")
    with grid.cell():
        widgets.show(ab_sizes(a, b), "ab-sizes")
    with grid.cell():
        widgets.show(ab_distances(a, b), "ab-distances")
    with st.container(border=True, key="tune-ab"):
        st.table(ab_table(a, b, shown.live_loss), hide_index=True)
        st.caption(shown.basis, help=MEASURED)
    widgets.tables_toggle()


def _compare(run: Run, snapshot: Snapshot, asked: Asked) -> Compared | None:
    """Replay both; None, and why, if they cannot be."""
    seen = replayed_states(run, snapshot)
    if len(seen) < 2:
        st.info("Only one state of this run is kept. Two are needed: a base and a later one.")
        return None
    held = st.session_state.get(_CHAINS)
    if held is None or held[0] != run.id:
        held = st.session_state[_CHAINS] = run.id, ab.TrialChains()
    layout, choices = layout_of(seen[0].arrays), asked[1:]
    try:
        sides = [held[1].replay(choice, layout, seen).side(loss_of(run)) for choice in choices]
    except codec.LccError as exc:
        st.error(f"These settings cannot follow the run. {exc}", icon=":material/error:")
        return None
    basis = _basis(seen[0].step, run.steps_held()[0], sides[0])
    if not run.settings.optimizer_state:  # else the run's records hold more than is compared
        are_own = [choice == run.settings.coding for choice in choices]
        sides = [
            ab.as_saved(side, [snapshot.at(s.step) for s in side.saves]) if is_own else side
            for side, is_own in zip(sides, are_own)
        ]
        if any(are_own) and seen[0].step:
            whose = " and ".join(who for who, is_own in zip("AB", are_own) if is_own)
            basis += f" {whose}: as the run saved them."
    a, b = sides
    return Compared(asked, a, b, live_loss(run, snapshot), basis)


def _basis(base: int, oldest: int, side: ab.Side) -> str:
    """What the numbers rest on. oldest: the first step whose state is kept."""
    text = f"{plural(len(side.saves), 'checkpoint')} after an exact base at step {base}"
    if base == 0:
        return f"{text}."
    if oldest < base:
        return f"{text}; no more than {ab.MOST_CHECKPOINTS} are replayed."
    return f"{text}; older states are no longer kept."
