"""Tune, Compare: the newest checkpoint of the run on Live with A, B, and every setting."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import streamlit as st
import torch

import codec
from codec import Coding
from codec.inspect import layout_of
from lcviz.lab.series import LossOf
from lcviz.run.run import Run
from lcviz.run.snapshot import CLOSED, PLAYING, Snapshot
from lcviz.text import loss_text, nbytes_text
from lcviz.ui import session, widgets
from lcviz.ui.coding_form import coding_form, widget_values
from lcviz.ui.glossary import explained
from lcviz.ui.polling import polled
from lcviz.ui.settings import describe

from .compare import OneDelta, Trial, all_settings, try_all, try_one
from .compare_figure import compare_panel, headline, picked, tensors_table

GONE = "The states of this run are no longer kept: wait for its next checkpoint."
TABLE_HELP = (
    "Bits per value: of the code words that end in a tensor, and its share of levels and code "
    "table, which tensors coded together share by their values. Relative error: of this delta, 1 "
    "if all of it is dropped. Left as it was: values that keep what the track has, because their "
    "change was dropped or there was none."
)
MEASURED = (
    "Bytes: on disk, header included. Distance: ‖ũ − u‖ / ‖u − u₀‖ after this one delta. A chain "
    "reuses code tables and takes a little less."
)
QUESTION = "which of two settings is better?"
SAME = "A and B are the same, change one of them"
DEFAULTS = {"A": Coding(2), "B": Coding(3)}
MOST_ROWS = 8  # of the table of tensors; with more it scrolls
_SIDES = "tune-sides-chosen"  # in the session: A and B, as they were right last
_DELTA = "tune-delta"  # in the session: the delta that is shown
_TRIED = "tune-tried"  # in the session: what all settings and what single ones give for a delta
_PANEL = "compare"
Trials = tuple[dict[Coding, Trial], dict[Coding, Trial], float]  # all, A and B so far, live loss


def section() -> None:
    """The whole section."""
    run = session.current_run()
    if run is None:
        session.await_example()
        return
    poll = session.poll_interval(run)
    polled(poll, _look, run, poll)


def _look(run: Run, poll: float | None) -> None:
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or poll != session.poll_interval(run):
        st.rerun()  # the whole page: polling changes pace, or another tab has reset the run
    which = "the example" if session.is_example(run) else "your run on Live"
    # Settings are compared on the weights, where a run saves more.
    alone = ". Below are its weights alone" if run.settings.optimizer_state else ""
    about = f"On {which}: {run.task.title} · {describe(run.settings)}{alone}"
    answer = st.container(key="answer")
    title = QUESTION
    if snapshot.newest.kind == "base":
        st.info("So far this run has saved its base only: play it on Live.")
    elif (delta := _shown_delta(run, snapshot)) is None:
        st.info(GONE)
    else:
        pictures = st.container()
        sides = _both_sides()
        try:
            title = _show(run, snapshot, delta, sides, pictures)
        except codec.LccError as exc:
            pictures.error(f"This delta cannot be encoded. {exc}", icon=":material/error:")
    answer.title(f"Tune: {title}", anchor=False)
    answer.caption(about)


def _show(
    run: Run,
    snapshot: Snapshot,
    delta: OneDelta,
    sides: dict[str, Coding],
    pictures: AbstractContextManager[Any],
) -> str:
    """The picture in its place, and the table of tensors here.

    Returns the answer. Raises codec.LccError.
    """
    of_all, of_sides, live_loss = _trials(run, snapshot, delta)
    trials: dict[str, Trial] = {}
    for who, coding in sides.items():
        try:
            if coding not in of_sides:
                of_sides[coding] = try_one(delta, coding, _loss_of(run))
            trials[who] = of_sides[coding]
        except codec.LccError as exc:
            st.error(f"{who} cannot encode this delta. {exc}", icon=":material/error:")
    with pictures, st.container(border=True, key="tune-compare"):
        marked = {who: (sides[who], trial) for who, trial in trials.items()}
        widgets.show(compare_panel(delta, of_all, marked), _PANEL, _clicked)
        full = nbytes_text(delta.layout.nbytes)
        losses = "".join(f"{who} {loss_text(trial.loss)}, " for who, trial in trials.items())
        st.caption(
            f"Restored loss: {losses}live {loss_text(live_loss)}. Of {full} in float32, with new "
            "code tables.",
            help=MEASURED,
        )
    sizes = {t.name: t.size for t in delta.layout.tensors if t.lossy}
    table = tensors_table(sizes, trials)
    st.markdown("**Tensor by tensor**", help=TABLE_HELP)
    widgets.scrolling(table, "tune-tensors", widgets.rows_height(table, MOST_ROWS))
    widgets.tables_toggle()
    if len(trials) < 2:
        return QUESTION
    return SAME if sides["A"] == sides["B"] else headline(trials["A"], trials["B"])


def _both_sides() -> dict[str, Coding]:
    """ "A" and "B" as they are chosen now; one with a wrong number stays as it was before."""
    st.markdown(explained("Two settings of [[bits|bits x]], [[scope]] and coder:"))
    grid = st.grid(2, min_column_width=380, border=True, key="tune-sides")
    sides: dict[str, Coding] = st.session_state.setdefault(_SIDES, DEFAULTS.copy())
    for who, default in DEFAULTS.items():
        with grid.cell():
            st.markdown(f"**{who}**")
            row = st.container(horizontal=True, key=f"tune-side-{who}")
            number = st.container()
            with row:
                coding = coding_form(f"tune_{who.lower()}_", default, number)
            if coding is not None:
                sides[who] = coding
    return sides


def _clicked() -> None:
    """The point that was clicked becomes B."""
    for point in st.session_state[widgets.panel_key(_PANEL)].selection.points:
        coding = picked(point["curve_number"], point["point_index"], all_settings())
        if coding is not None:
            for name, value in widget_values(coding).items():
                st.session_state[f"tune_b_{name}"] = value


def _trials(run: Run, snapshot: Snapshot, delta: OneDelta) -> Trials:
    """What was found out about a delta; A and B are added to it."""

    def trials() -> Trials:
        live_loss = snapshot.at(delta.step).live_loss
        if live_loss is None:
            live_loss = _loss_of(run)(delta.after)
        return try_all(delta), {}, live_loss

    return session.cached(_TRIED, (delta.run_id, delta.step), trials)


def _loss_of(run: Run) -> LossOf:
    """The loss of a state on the run's own held-out examples."""
    torch.set_num_threads(1)  # as the run's thread does: the same sums, and at once
    return run.task.probe_loss


def _shown_delta(run: Run, snapshot: Snapshot) -> OneDelta | None:
    """The delta to show; None if its states are no longer kept.

    It is the newest one; while the run plays, the one that is shown until the newest is asked for.
    A Plotly figure is drawn from nothing when it changes: it would flicker, and forget its zoom.
    """
    delta: OneDelta | None = st.session_state.get(_DELTA)
    if delta is not None and delta.run_id != run.id:
        delta = None
    newest = snapshot.newest
    if delta is not None and delta.step == newest.step:
        return delta
    if delta is not None and snapshot.status == PLAYING:
        with st.container(horizontal=True, vertical_alignment="center", key="tune-newer"):
            icon = ":material/skip_next:"
            wanted = widgets.button("Take the newest", icon=icon, key="tune-newest")
            st.markdown(f"Step {delta.step}; the run goes on.", width="content")
        if not wanted:
            return delta
    if (states := run.saved.states(newest.step)) is not None:
        arrays = layout_of(states.live), states.before, states.live
        delta = st.session_state[_DELTA] = OneDelta(run.id, newest.step, *arrays, newest.moved)
    return delta
