"""Live's pictures of one checkpoint: size, δ, buckets, bits, loss and examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from lcviz.lab.follow_weight import Weight
from lcviz.lab.progress import Report
from lcviz.lab.removed_bucket import RemovedBuckets
from lcviz.play import page_board
from lcviz.run.run import Run
from lcviz.run.snapshot import DEAD, PLAYING, Checkpoint, RunSettings, Snapshot
from lcviz.run.whole_run import Trial
from lcviz.run.whole_state import own_name
from lcviz.server.jobs import FAILED, CrowdedError
from lcviz.server.replays import RetriedRun
from lcviz.text import percent_text
from lcviz.ui import picture, session, widgets
from lcviz.ui.coding_form import LEAST_BUDGET, MOST_BUDGET
from lcviz.ui.picture import Events, Picture

from .bits_picture import bits_picture
from .buckets_picture import ERROR, STEPS, Worth, bits_that_keep, buckets_picture
from .examples_picture import examples_picture, image_side, n_examples
from .followed import WeightHistory, first_weight, history_of, largest_in_bucket
from .headline import cost_of, crash_of, headline, reads_of, status_of, tried_settings
from .loss_picture import loss_picture
from .page_attempt import CARRIES, Attempt, attempt_in
from .page_kill import race_back, show_problems
from .page_step import chosen_step, look_into, viewed_checkpoint
from .step_record import StepRecord, saved_record, trial_record
from .steps_picture import Bars, steps_picture
from .weight_picture import weight_picture
from .weights_picture import Image, drawable, weights_picture

PATIENCE = 0.3  # seconds that a page waits for a whole run; a short one is over by then
_TENSOR = "live-tensor"  # in the session: the tensor in the picture of δ
_WORTH = "live-worth"  # in the session: what the bars of the buckets show


@dataclass(frozen=True)
class Subject:
    """What the pictures show.

    Attributes:
        record: Of the step on the page: as the run saved it, or in the trial.
        whole_run: The whole run saved once more in the trial, so far; None without a trial.
        raised_budget: See `Attempt`; None if the trial has another budget.
    """

    record: StepRecord
    whole_run: RetriedRun | None = None
    raised_budget: float | None = None

    @property
    def trial_run(self) -> RetriedRun | None:
        """The whole run in the trial, if the record is the trial's, else None."""
        return self.whole_run if self.record.is_trial else None


def show_base(run: Run, text: str) -> None:
    """The board before the first delta. text: what is to say."""
    shown = {"newest": 0, "shown": 0, "carries": True, "step": None}
    page_board.mount_run(run.id, {}, _range(run) | shown, text, {})


def _range(run: Run) -> dict[str, Any]:
    """What is trained, and the range of the slider of steps."""
    interval, last = run.settings.interval, run.settings.stop_after
    about = f"{run.task.title}, seed {run.settings.seed}."
    return {"about": about, "interval": interval, "last": last // interval * interval}


def show_pictures(run: Run, snapshot: Snapshot, settings: RunSettings) -> bool:
    """Everything on the first screen below the controls.

    Returns whether to look again soon: a whole run is still being saved once more, or losses are
    being measured.
    """
    back = race_back(run, snapshot)
    race = back.picture if back and (back.watching or snapshot.status in DEAD) else None
    if back is not None:
        show_problems(snapshot, back)
    viewed = viewed_checkpoint(snapshot)
    era = run.id, len(snapshot.kills), back is not None and back.begun
    attempt = attempt_in(era, settings.coding, run.settings.coding)
    subject, problem = _subject(run, viewed, attempt)
    if viewed.saved.non_finite:
        names = ", ".join(map(own_name, viewed.saved.non_finite))
        st.warning(
            f"δ is not finite in {names}: stored exactly in this step.", icon=":material/warning:"
        )
    history = _history(run, subject, attempt)
    worth = _worth(run, snapshot, subject, attempt)
    crash = crash_of(snapshot, viewed.step, back.lc_outcome if back else None)
    drawn = dict(pictures(run, snapshot, subject, history, crash, worth))
    if race:
        drawn["race"] = race
    shown = {
        "newest": snapshot.newest.step,
        "shown": viewed.step,
        "carries": subject.record.carries,
        "step": viewed.step if viewed.step == chosen_step() else None,
    }
    page_board.mount_run(
        run.id,
        {name: one if isinstance(one, str) else one.data for name, one in drawn.items()},
        _range(run) | shown,
        problem or "",
        _events(run, subject.record, attempt),
    )
    if picture.tables_shown():
        for name, one in drawn.items():
            if not isinstance(one, str):
                widgets.show_table(one.table, f"{name}-picture")
    return worth.is_measuring or (subject.whole_run is not None and not subject.whole_run.is_over)


def pictures(
    run: Run,
    snapshot: Snapshot,
    subject: Subject,
    history: WeightHistory | None,
    crash: Mapping[str, Any],
    worth: Worth,
) -> Iterator[tuple[str, Picture | str]]:
    """All pictures of a step by name; a sentence in place of a picture that cannot be drawn.

    Args:
        run: The run.
        snapshot: Of the run, now.
        subject: The step, and the trial if there is one.
        history: The followed weight; None if the run has dropped the weights of the step.
        crash: What a crash costs, see `crash_of`.
        worth: What removing a bucket costs.
    """
    record, trial_run, image = subject.record, subject.trial_run, None
    no_weights = f"The weights of step {record.step} are no longer kept: choose a later step."
    status = status_of(snapshot, run.settings.stop_after, run.speed)
    tried = trial_run.replay.trial if trial_run else None
    settings = tried_settings(Trial(run.settings.coding), tried)
    nbytes = {step.step: step.nbytes for step in trial_run.steps} if trial_run else None
    if trial_run:  # a crash of the run as it is tried, not the one that happened
        crash = {**crash, "cost": _trial_cost(snapshot, subject), "raced": None}
    reads = reads_of(run.task.dataset.n_classes is not None, *_metrics(record, trial_run))
    yield "headline", headline(record, snapshot.checkpoints, status, crash, reads, settings, nbytes)
    if any(a.uniform for a in record.alphabets):
        followed = history.followed if history else None
        yield "buckets", steps_picture(record, followed, subject.raised_budget)
    else:
        marked = history.bucket if history else None
        yield "buckets", buckets_picture(record, bits_that_keep(record), worth, marked)
    if history:
        image = Image.of(record, _tensor(record), image_side(run.task))
        with_values = snapshot.status != PLAYING  # while the run plays, training needs the time
        yield "weights", weights_picture(record, image, history.followed, with_values=with_values)
        interval, last = run.settings.interval, run.settings.stop_after
        yield "weight", weight_picture(history, interval, last, carries=record.carries)
    else:
        yield "weights", no_weights
        yield "weight", no_weights
    yield "bits", bits_picture(record, history, image)
    yield "loss", _losses(run, snapshot, subject)
    yield "examples", _examples(run, record, trial_run) if history else no_weights


def _trial_cost(snapshot: Snapshot, subject: Subject) -> dict[str, int | float | None] | None:
    """What a crash would cost in the trial; None without one, or until it is over."""
    tried = subject.whole_run
    if tried is None or tried.problem or not tried.is_over or not tried.losses:
        return None
    return cost_of(snapshot, subject.record.step, tried.losses)


def _losses(run: Run, snapshot: Snapshot, subject: Subject) -> Picture:
    tried = subject.whole_run
    trial = tried.losses if tried and not tried.problem else None
    kills, last = [kill.iteration for kill in snapshot.kills], run.settings.stop_after
    return loss_picture(snapshot.losses, subject.record.step, last, kills, trial)


def _history(run: Run, subject: Subject, attempt: Attempt) -> WeightHistory | None:
    """The followed weight: the one in the URL if this run has it, else one that the step changes.

    None if the record has no states or codes.
    """
    record = subject.record
    if record.states is None or record.codes is None:
        return None
    try:
        weight = Weight.read(session.remembered(session.WEIGHT) or "")
    except ValueError:
        weight = None
    if weight is None or not weight.is_in(record.states.live):
        weight = first_weight(record)
        session.remember(session.WEIGHT, str(weight))  # a link then shows the same weight
    replay = subject.trial_run.replay if subject.trial_run else None
    key = weight, replay.trial if replay else None
    history = history_of(run, record, weight, replay, attempt.stairs.get(key))
    attempt.stairs = {key: history.stairs}
    return history


def _worth(run: Run, snapshot: Snapshot, subject: Subject, attempt: Attempt) -> Worth:
    """What removing a bucket costs, if a visitor has chosen this view."""
    record = subject.record
    if st.session_state.get(_WORTH) != ERROR:
        return Worth()
    if snapshot.status == PLAYING:
        return Worth(True, waiting="Pause to measure the loss without each bucket.")
    if record.states is None or record.codes is None:
        return Worth(True)

    def work(_part: int, report: Report) -> RemovedBuckets:
        return record.removed_buckets(run.task.probe_loss, report)

    jobs, visitor = session.all_measurements(), session.visitor()
    trial = subject.trial_run.replay.trial if subject.trial_run else None
    key = attempt.era, record.step, trial
    view = jobs.look(key, 1, visitor)
    if not view.finished_parts and view.status != FAILED:
        try:
            jobs.ask(key, 1, work, visitor)
        except CrowdedError as exc:
            return Worth(True, waiting=str(exc))
        view = jobs.wait(key, 1, PATIENCE)
    if view.finished_parts:
        return Worth(True, view.finished_parts[0].value)
    if view.status == FAILED:
        return Worth(True, waiting=f"The losses cannot be measured: {view.message}")
    waiting = f"Losses are being measured: {percent_text(view.share)}."
    return Worth(True, waiting=waiting, is_measuring=True)


def _events(run: Run, record: StepRecord, attempt: Attempt) -> Events:
    """What the pictures of the board can send, each with its handler."""

    def choose(text: str) -> None:
        if text == STEPS:  # at the size of the record on the page
            share = record.nbytes / record.checkpoint.full_nbytes
            attempt.use(attempt.form.keeping(budget=max(round(share, 4), LEAST_BUDGET)))
        else:
            attempt.use(attempt.form.keeping(bits=None if text == "all" else int(text)))

    def follow_pixel(pixel: Sequence[float]) -> None:
        row, column = map(int, pixel)
        image = Image.of(record, _tensor(record), image_side(run.task))
        follow(image.weight(row, column))

    def follow_bucket(key: Sequence[float]) -> None:
        exponent, sign = map(int, key)
        follow(largest_in_bucket(record, (exponent, sign), _tensor(record)))

    def follow_bar(bar: float) -> None:
        follow(Bars.of(record).weight(record, int(bar), _tensor(record)))

    def follow(weight: Weight | None) -> None:
        if weight is not None:
            session.remember(session.WEIGHT, str(weight))

    return {
        "back": lambda _: attempt.use(run.settings.coding, **{CARRIES: True}),
        "tensor": lambda name: st.session_state.update({_TENSOR: name}),
        "pixel": follow_pixel,
        "cut": lambda most: attempt.keep(int(most)),
        "bits": choose,
        "bucket": follow_bucket,
        "bar": follow_bar,
        "view": lambda view: st.session_state.update({_WORTH: view}),
        "coder": lambda coder: attempt.use(replace(attempt.form, coder=coder)),
        "word": lambda weight: follow(Weight(str(weight[0]), int(weight[1]))),
        "step": lambda step: look_into(int(step) or None),
    }


def _subject(run: Run, viewed: Checkpoint, attempt: Attempt) -> tuple[Subject, str | None]:
    """The step as the run saved it, or in the trial if a visitor tries something.

    Also returns a sentence if the record is not the trial's: what prevents it, or the progress.
    """
    saved = Subject(saved_record(run, viewed))
    actual = run.settings.coding
    trial = attempt.trial(actual)
    if trial == Trial(actual):
        return saved, None
    try:
        whole_run = session.all_replays().look(run, trial, viewed.step, session.visitor(), PATIENCE)
    except CrowdedError as exc:
        return saved, str(exc)
    advised = whole_run.replay.advised_budget
    if whole_run.problem and advised is not None and advised <= MOST_BUDGET:
        attempt.raise_budget(trial.coding, advised)
        return saved, None
    if whole_run.problem:
        return saved, f"The run cannot be saved like this: {whole_run.problem}"
    # The replay works in the background: it may have a delta that `whole_run` does not list yet.
    if whole_run.at(viewed.step) and (delta := whole_run.replay.delta(viewed.step)):
        raised = attempt.raised_budget if attempt.raised_budget == trial.coding.budget else None
        return Subject(trial_record(viewed, trial, delta), whole_run, raised), None
    done = f"{len(whole_run.steps)} of {whole_run.n} checkpoints"
    if not whole_run.is_over:
        return replace(saved, whole_run=whole_run), f"The whole run is saved like this: {done}."
    return saved, f"Step {viewed.step} is no longer kept. Choose a later one to try a setting."


def _tensor(record: StepRecord) -> str:
    """The tensor in the picture of δ."""
    assert record.states is not None
    tensors = drawable(record.states.live)
    chosen = st.session_state.get(_TENSOR)
    return chosen if chosen in tensors else tensors[0]


def _examples(run: Run, record: StepRecord, trial_run: RetriedRun | None) -> Picture:
    """trial_run: the whole run in the trial; None if the record is the saved one."""
    after, states = record.restored, record.states
    assert after is not None
    assert states is not None
    # In a trial states.live may differ.
    live_states = (run.saved.states(record.step) if trial_run else None) or states
    n = n_examples(run.task)
    live, restored = (run.task.predictions(n, s) for s in (live_states.live, after))
    is_trial = trial_run is not None
    return examples_picture(run.task, live, restored, *_metrics(record, trial_run), trial=is_trial)


def _metrics(record: StepRecord, trial_run: RetriedRun | None) -> tuple[float | None, float | None]:
    """`Task.probe_metric` of the live and the restored model; None if not measured."""
    losses = record.checkpoint.losses
    live, restored = (losses.live_metric, losses.restored_metric) if losses else (None, None)
    if trial_run and (retried := trial_run.at(record.step)):
        restored = retried.metric
    return live, restored
