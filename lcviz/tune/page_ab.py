"""Tune, A against B: two choices of the codec on the same checkpoints of one run."""

from __future__ import annotations

import streamlit as st

import codec
from codec.state.tensors import layout_of
from lcviz.run.run import Run
from lcviz.run.snapshot import Snapshot
from lcviz.text import plural
from lcviz.ui import widgets
from lcviz.ui.glossary import explained

from .ab import MOST, Followers, Side
from .ab_figure import ab_distances, ab_sentence, ab_sizes, ab_table
from .page_choices import both
from .page_newest_delta import following, live_loss, loss_of, moments

_FOLLOWERS = "tune-followers"  # in the session: the run's id and what follows it


def duel() -> None:
    """The whole section."""
    st.markdown(
        explained(
            "Two settings save **the same checkpoints** of the run on Live, each with a [[track]] "
            "of its own: what one drops, its own next [[delta]] sees again. Change either of them."
        )
    )
    following(_duel)


def _duel(run: Run, snapshot: Snapshot) -> None:
    chosen = both()
    seen = moments(run, snapshot)
    if len(seen) < 2:
        st.info(
            "Of this run only the newest state is in memory, and two are needed: a base, and a "
            "checkpoint after it. Smaller models keep more of them."
        )
        return
    held = st.session_state.get(_FOLLOWERS)
    if held is None or held[0] != run.id:
        held = st.session_state[_FOLLOWERS] = run.id, Followers()
    layout = layout_of(seen[0].arrays)
    sides: list[Side] = []
    try:
        for variant in chosen.values():
            follower = held[1].follow(variant, layout, seen)
            sides.append(follower.side(loss_of(run)))
    except codec.LccError as exc:
        st.error(f"These settings cannot follow the run. {exc}", icon=":material/error:")
        return
    a, b = sides
    st.markdown(ab_sentence(a, b))
    with st.container(border=True, key="tune-ab"):
        st.table(ab_table(a, b, live_loss(run, snapshot)), hide_index=True)
        st.caption(_basis(seen[0].step, run.steps_held()[0], a))
    widgets.tables_toggle()
    grid = st.grid(2, min_column_width=420, border=True, key="tune-ab-panels")
    with grid.cell():
        widgets.show(ab_sizes(a, b), "ab-sizes")
    with grid.cell():
        widgets.show(ab_distances(a, b), "ab-distances")


def _basis(base: int, oldest: int, side: Side) -> str:
    """What the numbers rest on. oldest: the first step whose state is in memory."""
    steps = [s.step for s in side.every]
    if base == 0:
        own = "as the run's own chain does"
    elif oldest < base:
        own = f"so that no more than {MOST} checkpoints have to be saved again"
    else:
        own = "for older states are no longer in memory"
    return (
        f"Both begin with an exact base at step {base}, {own}, and save the "
        f"{plural(len(steps), 'checkpoint')} after it, up to step {steps[-1]}. Bytes are of "
        "records on disk, header included. Loss: on held-out examples. Distance: ‖ũ − u‖ / "
        "‖u − u₀‖. Times are of this machine just now, with what else it does."
    )
