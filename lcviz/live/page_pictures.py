"""Live's pictures of one checkpoint: its size, δ, buckets, bits, the loss, and what it reads."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import streamlit as st

from codec import Coding
from lcviz.lab.follow_weight import Weight
from lcviz.lab.progress import Report
from lcviz.lab.removed_bucket import RemovedBuckets
from lcviz.run.run import Run
from lcviz.run.snapshot import DEAD, PLAYING, Checkpoint, RunSettings, Snapshot
from lcviz.run.whole_run import Trial
from lcviz.server.jobs import FAILED, CrowdedError
from lcviz.server.replays import Retried
from lcviz.text import CODER_NAMES, enumerated, kept_text, percent_text
from lcviz.ui import layout, picture, session
from lcviz.ui.coding_form import LEAST_BUDGET, chosen
from lcviz.ui.picture import Events, Picture
from lcviz.ui.session import is_example
from lcviz.ui.set_widgets import set_widgets

from .bits_picture import bits_picture
from .buckets_picture import ERROR, STEPS, Worth, bits_that_keep, buckets_picture
from .examples_picture import examples_picture, image_side, n_shown
from .followed import Thread, first_weight, largest_in_bucket, thread_of
from .headline import describe_crash, describe_lost_work, describe_status, headline, loss_or_nan
from .loss_picture import loss_picture
from .page_kill import race_back, show_problems
from .page_step_slider import look_into, step_slider
from .shown_step import ShownStep, as_saved, retried
from .steps_picture import Bars, steps_picture
from .weight_picture import weight_picture
from .weights_picture import Image, drawable, weights_picture

# Of this run, after so many crashes, before or in the race back: what is tried ends with it.
Era = tuple[str, int, bool]
CUT = "cut"  # in the URL: how many buckets of each step a visitor keeps
_CUT = "live-cut"  # in the session: (era, how many buckets of each step a visitor keeps)
CHANGED = "live-changed"  # in the session: what a picture set the form to, until it shows that
_FORM = "live-form"  # in the session: (era, the form's coding as that began, if not tried since)
CARRIES = "carries"  # of the switch: whether what a checkpoint leaves out stays in the next δ
PATIENCE = 0.3  # seconds that a page waits for a whole run; a short one is over by then
_WHO = "live-who"  # in the session: an id that nobody else has
_TENSOR = "live-tensor"  # in the session: the tensor whose weights are shown
_STAIRS = "live-stairs"  # in the session: of what, and the stairs of the followed weight
_WORTH = "live-worth"  # in the session: what the bars of the buckets show


@dataclass(frozen=True)
class Shown:
    """What the pictures show.

    Attributes:
        step: The step, as the run saved it, or as it would be if the whole run were saved as tried.
        retried: The whole run as tried, as far as it is; None if nothing is tried.
    """

    step: ShownStep
    retried: Retried | None = None

    @property
    def trial(self) -> Retried | None:
        """The whole run as tried, once it has come to this step."""
        return self.retried if self.step.trial else None


def show_pictures(run: Run, snapshot: Snapshot, settings: RunSettings) -> bool:
    """Everything on the first screen below the controls.

    Returns whether a whole run is still being saved once more.
    """
    changed: Coding | None = st.session_state.get(CHANGED)
    coding = changed or settings.coding
    back = race_back(run, snapshot)
    race = back.picture if back and (back.watching or snapshot.status in DEAD) else None
    places = layout.live(race=race is not None)
    with places["steps"]:
        viewed = step_slider(run, snapshot)
    if back is not None:
        with places["messages"]:
            show_problems(snapshot, back)
    if viewed.kind == "base":
        places["messages"].info(
            "Step 0 is the base: the starting weights, stored exactly. Later steps have a δ."
        )
        return False
    era = run.id, len(snapshot.kills), back is not None and back.begun
    shown, problem = _shown(run, viewed, coding, era)
    if problem:
        places["messages"].warning(problem, icon=":material/info:")
    if viewed.non_finite:
        places["messages"].warning(
            f"δ is not finite in {', '.join(viewed.non_finite)}: stored exactly in this step.",
            icon=":material/warning:",
        )
    thread = _thread(run, shown, era)
    worth, measuring = _worth(run, snapshot, shown, era)
    crash = describe_crash(snapshot, viewed.step, back.ours if back else None)
    every = pictures(run, snapshot, shown, thread, crash, worth)
    # Each is drawn while the next is made.
    for name, drawn in chain([("race", race)] if race else [], every):
        with places[name]:
            if isinstance(drawn, str):
                st.caption(drawn)
            else:
                # Another module must not draw in the place of the one before it.
                key = "equal-steps" if drawn.name == "steps" else name
                picture.show(drawn, key, _events(name, run, shown.step, coding, era))
    return measuring or (shown.retried is not None and not shown.retried.is_over)


def pictures(
    run: Run,
    snapshot: Snapshot,
    every: Shown,
    thread: Thread | None,
    crash: str,
    worth: Worth,
) -> Iterator[tuple[str, Picture | str]]:
    """All pictures of a step by name; a sentence where one cannot be drawn any more.

    Args:
        run: The run.
        snapshot: As it is now.
        every: What is shown of it.
        thread: The followed weight; None if the weights of the step are no longer kept.
        crash: What a crash costs, in words.
        worth: What removing a bucket costs.
    """
    shown, trial = every.step, every.trial
    gone = f"The weights of step {shown.step} are no longer kept: choose a later step."
    measured = snapshot.measured
    side = image_side(run.task)
    status = describe_status(snapshot, run.settings.stop_after, run.speed)
    losses, cost = None, ""
    if every.retried and not every.retried.problem:  # as far as it is
        losses = every.retried.losses
        if losses and every.retried.is_over:
            cost = describe_lost_work(snapshot, losses)
    own = _own(run, trial.replay.trial) if trial else ""
    nbytes = {step.step: step.nbytes for step in trial.found} if trial else None
    yield "headline", headline(shown, snapshot.checkpoints, status, crash, own, nbytes)
    marked = thread.bucket if thread else None
    if any(a.uniform for a in shown.alphabets):
        yield "buckets", steps_picture(shown, thread.followed if thread else None)
    else:
        yield "buckets", buckets_picture(shown, bits_that_keep(shown), worth, marked)
    image = None
    if thread:
        image = Image.of(shown, _tensor(shown), side)
        told = snapshot.status != PLAYING  # a look must not take much from the training
        yield "weights", weights_picture(shown, image, thread.followed, told=told)
        s = run.settings
        drawn = weight_picture(thread, s.interval, s.stop_after, carries=shown.carries)
        yield "weight", drawn
    else:
        yield "weights", gone
        yield "weight", gone
    yield "bits", bits_picture(shown, thread, image)
    yield (
        "loss",
        loss_picture(
            [c.step for c in measured],
            [loss_or_nan(c.live_loss) for c in measured],
            [loss_or_nan(c.restored_loss) for c in measured],
            shown.step,
            run.settings.stop_after,
            [kill.iteration for kill in snapshot.kills],
            losses,
            cost,
        ),
    )
    yield "examples", _examples(run, shown, trial) if thread else gone


def _own(run: Run, trial: Trial) -> str:
    """What the run has where a trial differs from it, in words."""
    own, differs = run.settings.coding, []
    if trial.most is not None or kept_text(trial.coding) != kept_text(own):
        differs.append(kept_text(own))
    if trial.coding.coder != own.coder:
        differs.append(CODER_NAMES[own.coder])
    if trial.coding.scope != own.scope:
        differs.append("one code" if own.scope == "model" else "a code for each tensor")
    if not trial.carries:
        differs.append("the track")
    has = enumerated(differs)
    return f"the example has {has}" if is_example(run) else f"the run has {has} until Reset"


def _thread(run: Run, shown: Shown, era: Era) -> Thread | None:
    """The followed weight: the one in the URL if this run has it, else one that the step changes.

    None if the states or codes of the step are no longer kept.
    """
    step = shown.step
    if step.states is None or step.codes is None:
        return None
    try:
        weight = Weight.read(session.remembered(session.WEIGHT) or "")
    except ValueError:
        weight = None
    if weight is None or not weight.is_in(step.states.live):
        weight = first_weight(step)
        session.remember(session.WEIGHT, str(weight))  # a link shows the same one
    replay = shown.trial.replay if shown.trial else None
    key = era, weight, replay.trial if replay else None
    held = st.session_state.get(_STAIRS)
    thread = thread_of(run, step, weight, replay, held[1] if held and held[0] == key else None)
    st.session_state[_STAIRS] = key, thread.stairs
    return thread


def _worth(run: Run, snapshot: Snapshot, shown: Shown, era: Era) -> tuple[Worth, bool]:
    """What removing a bucket costs, if a visitor wants to see it.

    Returns whether it is still being measured as well.
    """
    step = shown.step
    if st.session_state.get(_WORTH) != ERROR:
        return Worth(), False
    if snapshot.status == PLAYING:
        return Worth(True, waiting="Pause to measure the loss without each bucket."), False
    if step.states is None or step.codes is None:
        return Worth(True), False

    def work(_part: int, report: Report) -> RemovedBuckets:
        return step.removed_buckets(run.task.probe_loss, report)

    jobs, who = session.all_measurements(), _who()
    key = era, step.step, shown.trial.replay.trial if shown.trial else None
    view = jobs.look(key, 1, who)
    if not view.found and view.status != FAILED:
        try:
            jobs.ask(key, 1, work, who)
        except CrowdedError as exc:
            return Worth(True, waiting=str(exc)), False
        view = jobs.wait(key, 1, PATIENCE)
    if view.found:
        return Worth(True, view.found[0].value), False
    if view.status == FAILED:
        return Worth(True, waiting=f"The losses cannot be measured: {view.message}"), False
    return Worth(True, waiting=f"Losses are being measured: {percent_text(view.share)}."), True


def _events(name: str, run: Run, shown: ShownStep, form: Coding, era: Era) -> Events:
    """What a picture can send, and what happens then. form: the coding at the side."""

    def keep(most: float) -> None:
        _keep(era, int(most))

    def attempt(coding: Coding) -> None:
        st.session_state[_FORM] = era, None
        _try(coding)

    def choose(text: str) -> None:
        if text == STEPS:  # at the size of what is shown
            share = shown.nbytes / shown.checkpoint.full_nbytes
            attempt(form.keeping(budget=max(round(share, 4), LEAST_BUDGET)))
        else:
            attempt(form.keeping(None if text == "all" else int(text)))

    def follow_pixel(at: Sequence[float]) -> None:
        row, column = map(int, at)
        image = Image.of(shown, _tensor(shown), image_side(run.task))
        follow(image.weight(row, column))

    def follow_bucket(key: Sequence[float]) -> None:
        exponent, sign = map(int, key)
        follow(largest_in_bucket(shown, (exponent, sign), _tensor(shown)))

    def follow_steps(at: float) -> None:
        follow(Bars.of(shown).weight(shown, int(at), _tensor(shown)))

    def follow(weight: Weight | None) -> None:
        if weight is not None:
            session.remember(session.WEIGHT, str(weight))

    every: dict[str, Events] = {
        "headline": {"back": lambda _: _try(run.settings.coding, **{CARRIES: True})},
        "weights": {
            "tensor": lambda name: st.session_state.update({_TENSOR: name}),
            "pixel": follow_pixel,
        },
        "buckets": {
            "cut": keep,
            "bits": choose,
            "bucket": follow_bucket,
            "bar": follow_steps,
            "view": lambda view: st.session_state.update({_WORTH: view}),
        },
        "bits": {
            "coder": lambda coder: attempt(replace(form, coder=coder)),
            "word": lambda at: follow(Weight(str(at[0]), int(at[1]))),
        },
        "loss": {"step": lambda step: look_into(run, int(step))},
        "weight": {"step": lambda step: look_into(run, int(step))},
    }
    return every.get(name, {})


def _shown(run: Run, viewed: Checkpoint, form: Coding, era: Era) -> tuple[Shown, str | None]:
    """The step as it was saved, or as it would be if the whole run were saved as tried.

    Returns it, and why nothing can be tried, or how far that is.
    """
    saved = Shown(as_saved(run, viewed))
    own = run.settings.coding
    held = st.session_state.get(_FORM)
    if held is None and chosen(form).keys() & st.query_params.to_dict().keys():
        held = st.session_state[_FORM] = era, own  # what a link says is tried at once
    if held is None or held[0] != era:
        held = st.session_state[_FORM] = era, form
    coding = own if form == held[1] else form
    trial = Trial(coding, _cut_of(era), bool(st.session_state.get(CARRIES, True)))
    if trial == Trial(own):
        return saved, None
    try:
        whole = session.all_replays().look(run, trial, viewed.step, _who(), PATIENCE)
    except CrowdedError as exc:
        return saved, str(exc)
    if whole.problem:
        return saved, f"The run cannot be saved like this: {whole.problem}"
    # The replay goes on meanwhile: it may have the delta of a step that `whole` lacks.
    if whole.at(viewed.step) and (own_delta := whole.replay.delta(viewed.step)):
        return Shown(retried(viewed, trial, own_delta), whole), None
    done = f"{len(whole.found)} of {whole.n} checkpoints"
    if not whole.is_over:
        return replace(saved, retried=whole), f"The whole run is saved like this: {done}."
    return saved, f"Step {viewed.step} is no longer kept. Choose a later one to try a setting."


def _who() -> str:
    who: str = st.session_state.setdefault(_WHO, secrets.token_hex(8))
    return who


def _cut_of(era: Era) -> int | None:
    """How many buckets a visitor keeps of each step: a run that goes on does not take it back."""
    if _CUT not in st.session_state:  # what a link says is tried at once
        text = st.query_params.get(CUT, "")
        _keep(era, int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else None)
    held = st.session_state[_CUT]
    most: int | None = held[1] if held[0] == era else None
    if most is None:
        st.query_params.pop(CUT, None)
    return most


def _keep(era: Era, most: int | None) -> None:
    """Keep so many buckets of each step from now on, None for what the coding keeps."""
    st.session_state[_CUT] = era, most
    if most is not None:
        st.query_params[CUT] = str(most)


def _try(coding: Coding, **more: bool) -> None:
    """Set the form at the side: what it says is tried. more: of other widgets, by key."""
    if _CUT in st.session_state:
        _keep(st.session_state[_CUT][0], None)
    set_widgets({**chosen(coding), **more})
    st.session_state[CHANGED] = coding


def _tensor(shown: ShownStep) -> str:
    """The tensor that is drawn."""
    assert shown.states is not None
    tensors = drawable(shown.states.live)
    chosen = st.session_state.get(_TENSOR)
    return chosen if chosen in tensors else tensors[0]


def _examples(run: Run, shown: ShownStep, trial: Retried | None) -> Picture:
    """trial: the whole run as it is tried; None for a step as it was saved."""
    restored, states, c = shown.restored, shown.states, shown.checkpoint
    assert restored is not None
    assert states is not None
    saved = run.states(shown.step) if trial else None  # a trial's δ may have another end
    n = n_shown(run.task)
    live, again = (run.task.predictions(n, s) for s in ((saved or states).live, restored))
    retried_step = trial.at(shown.step) if trial else None
    metric = retried_step.metric if retried_step else c.restored_metric
    return examples_picture(run.task, live, again, c.live_metric, metric, trial=trial is not None)
