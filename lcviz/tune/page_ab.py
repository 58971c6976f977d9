"""Tune, A against B: two choices of the codec on the same checkpoints of one run."""

from __future__ import annotations

import streamlit as st

import codec
from codec.inspect import layout_of
from lcviz.run.run import Run
from lcviz.run.snapshot import Snapshot
from lcviz.text import plural
from lcviz.ui import picture, widgets
from lcviz.ui.glossary import explained

from . import ab
from .ab_figure import ab_distances, ab_sentence, ab_sizes, ab_table
from .page_choices import both
from .page_run import follow_run, live_loss, loss_of, replayed_states

_CHAINS = "tune-chains"  # in the session: the run's id and its trial chains


def section() -> None:
    """The whole section."""
    st.markdown(
        explained(
            "Two settings save **the same checkpoints** of the run on Live, each with its own "
            "[[track]]: what one leaves out stays in its next [[delta]]."
        )
    )
    follow_run(_both)


def _both(run: Run, snapshot: Snapshot) -> None:
    pictures = st.container()
    chosen = both()
    if chosen is None:
        return
    seen = replayed_states(run, snapshot)
    if len(seen) < 2:
        st.info(
            "Only the newest state of this run is in memory. Two are needed: a base, and a "
            "checkpoint after it. Smaller models keep more states."
        )
        return
    held = st.session_state.get(_CHAINS)
    if held is None or held[0] != run.id:
        held = st.session_state[_CHAINS] = run.id, ab.TrialChains()
    layout = layout_of(seen[0].arrays)
    try:
        replays = [held[1].replay(choice, layout, seen) for choice in chosen.values()]
        a, b = (replay.side(loss_of(run)) for replay in replays)
    except codec.LccError as exc:
        st.error(f"These settings cannot follow the run. {exc}", icon=":material/error:")
        return
    with pictures:
        st.markdown(ab_sentence(a, b))
        grid = st.grid(2, min_column_width=420, border=True, key="tune-ab-panels")
    with grid.cell():
        picture.show(ab_sizes(a, b), "ab-sizes")
    with grid.cell():
        picture.show(ab_distances(a, b), "ab-distances")
    widgets.tables_toggle()
    with st.container(border=True, key="tune-ab"):
        st.table(ab_table(a, b, live_loss(run, snapshot)), hide_index=True)
        st.caption(_basis(seen[0].step, run.steps_held()[0], a))


def _basis(base: int, oldest: int, side: ab.Side) -> str:
    """What the numbers rest on. oldest: the first step whose state is in memory."""
    steps = [s.step for s in side.saves]
    if base == 0:
        why = "as the run's own chain does"
    elif oldest < base:
        why = f"so that no more than {ab.MOST_CHECKPOINTS} checkpoints have to be replayed"
    else:
        why = "because older states are no longer in memory"
    return (
        f"Both begin with an exact base at step {base}, {why}, and save the "
        f"{plural(len(steps), 'checkpoint')} after it, up to step {steps[-1]}. Bytes: records on "
        "disk, header included. Distance: ‖ũ − u‖ / ‖u − u₀‖. Times: this machine, just now."
    )
