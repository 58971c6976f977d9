"""Live's pictures of one checkpoint: its size, δ, buckets, bits, the loss, and what it reads."""

from __future__ import annotations

from typing import Any

import streamlit as st

import codec
from codec import Coding
from lcviz.run.run import Run
from lcviz.run.snapshot import Checkpoint, RunSettings, Snapshot
from lcviz.ui import follow_weight, picture
from lcviz.ui.settings import choose_coding, coding_words

from .bits_picture import bits_picture
from .buckets_picture import bits_that_keep, buckets_picture
from .examples_picture import N, examples_picture
from .headline import headline
from .loss_picture import loss_picture
from .page_costs import describe_crash, describe_status, loss_or_nan
from .page_step_slider import look_into, step_slider
from .shown_step import ShownStep, as_saved, cut, tried
from .weights_picture import drawable, weights_picture

_CUT = "live-cut"  # in the session: (run, step, how many buckets a visitor keeps)
_CHANGED = "live-changed"  # in the session: the form was set, but has not been drawn since
_FORM = "live-form"  # in the session: (run, the form's coding when the run was first shown)
_TENSOR = "live-tensor"  # in the session: the tensor whose weights are shown


def show_pictures(run: Run, snapshot: Snapshot, settings: RunSettings) -> None:
    """Everything on the first screen below the controls."""
    if st.session_state.pop(_CHANGED, False):
        st.rerun()  # the whole page, with the form
    top = st.container(horizontal=True, vertical_alignment="center", key="headline")
    with top:
        size = st.container()
        with st.container(horizontal=True, vertical_alignment="center", key="steps", width=330):
            viewed = step_slider(run, snapshot)
    if viewed.kind == "base":
        st.info("Step 0 is the base: the starting weights, stored exactly. Later steps have a δ.")
        return
    shown, problem = _shown(run, viewed, settings.coding)
    with size:
        picture.show(
            headline(
                shown,
                describe_status(snapshot, run.settings.stop_after, run.speed),
                describe_crash(snapshot),
                coding_words(run.settings.coding),
            ),
            "headline",
            {"back": lambda _: _back(run)},
        )
    if problem:
        st.warning(problem, icon=":material/info:")
    if viewed.non_finite:
        st.warning(
            f"δ is not finite in {', '.join(viewed.non_finite)}: stored exactly in this step.",
            icon=":material/warning:",
        )
    grid = st.grid(3, min_column_width=330, border=True, key="pictures")
    with grid.cell():
        _weights(run, shown)
    with grid.cell():
        _buckets(run, shown)
    with grid.cell():
        picture.show(bits_picture(shown), "bits", {"coder": lambda name: _try(coder=name)})
    with grid.cell(column_span=2):
        _loss(run, snapshot, viewed)
    with grid.cell():
        _examples(run, shown)


def _shown(run: Run, viewed: Checkpoint, form: Coding) -> tuple[ShownStep, str | None]:
    """The step as it was saved, or as the form at the side would save it; and what went wrong."""
    saved = as_saved(run, viewed)
    held = st.session_state.get(_FORM)
    if held is None or held[0] != run.id:
        held = st.session_state[_FORM] = run.id, form
    found, problem = saved, None
    try:
        if form not in (run.settings.coding, held[1]):
            found = tried(run, viewed, form) or saved
        if (most := _cut_at(run, viewed)) is not None:
            found = cut(found, most) or saved
    except codec.LccError as exc:
        problem = f"This setting cannot save step {viewed.step}. {exc}"
    if saved.codes is None and (form not in (run.settings.coding, held[1]) or _cut_at(run, viewed)):
        problem = (
            f"Step {viewed.step} is no longer in memory, so it is shown as it was saved. Choose a "
            "later one to try another setting."
        )
    return found, problem


def _cut_at(run: Run, viewed: Checkpoint) -> int | None:
    """How many buckets a visitor keeps of this step."""
    held = st.session_state.get(_CUT)
    return held[2] if held is not None and held[:2] == (run.id, viewed.step) else None


def _try(**changes: Any) -> None:
    """Set the form at the side: what it says is tried on the step shown."""
    st.session_state.pop(_CUT, None)
    choose_coding(**changes)
    st.session_state[_CHANGED] = True


def _back(run: Run) -> None:
    """Show the record again, as the run saved it."""
    coding = run.settings.coding
    _try(bits=coding.bits, budget=coding.budget, coder=coding.coder, scope=coding.scope)


def _weights(run: Run, shown: ShownStep) -> None:
    if shown.restored is None or shown.states is None:
        st.markdown("**δ**")
        st.caption(
            f"The weights of step {shown.step} are no longer in memory: choose a later step."
        )
        return
    tensors = drawable(shown.states.live)
    tensor = st.session_state.get(_TENSOR)
    images = run.task.dataset.n_classes is not None
    side = run.task.dataset.held_out[0].shape[-1] if images else None
    picture.show(
        weights_picture(shown, tensor if tensor in tensors else tensors[0], side),
        "weights",
        {"tensor": lambda name: st.session_state.update({_TENSOR: name})},
    )


def _buckets(run: Run, shown: ShownStep) -> None:
    def keep(most: int) -> None:
        st.session_state[_CUT] = run.id, shown.step, int(most)

    def choose(text: str) -> None:
        _try(bits=None if text == "all" else int(text), budget=None)

    def mark(key: list[int]) -> None:
        now = follow_weight.marked(run, shown.checkpoint)
        follow_weight.mark(None if now == tuple(key) else (key[0], key[1]))

    marked = follow_weight.marked(run, shown.checkpoint)
    picture.show(
        buckets_picture(shown, bits_that_keep(shown), marked),
        "buckets",
        {"cut": keep, "bits": choose, "mark": mark},
    )


def _loss(run: Run, snapshot: Snapshot, viewed: Checkpoint) -> None:
    measured = snapshot.measured
    picture.show(
        loss_picture(
            [c.step for c in measured],
            [loss_or_nan(c.live_loss) for c in measured],
            [loss_or_nan(c.restored_loss) for c in measured],
            viewed.step,
            run.settings.stop_after,
            [kill.iteration for kill in snapshot.kills],
        ),
        "loss",
        {"step": lambda step: look_into(run, int(step))},
    )


def _examples(run: Run, shown: ShownStep) -> None:
    restored = shown.restored
    if restored is None or shown.states is None:
        st.caption(f"The model of step {shown.step} is no longer in memory: choose a later step.")
        return
    task, c = run.task, shown.checkpoint
    metric = task.probe_metric(restored)[1] if shown.trial else c.restored_metric
    live, again = (task.predictions(N, state) for state in (shown.states.live, restored))
    picture.show(examples_picture(task, live, again, c.live_metric, metric), "examples")
