"""Recovery: how much work a crash costs with each method of saving, at equal bytes on disk.

Protocol. Train with a fixed order of batches, save every few iterations with every method, and let
the training fail at iteration T. Each method restores its newest checkpoint, of iteration c, and
the training goes on from c + 1 with the same batches. The price of the failure, rework, is the
number of iterations that are repeated: the T - c since the checkpoint, and those after T until the
loss on fixed held-out examples is again at or below its value just before the failure. The loss of
a restart without the optimizer's state may begin there but rise at once; then its return counts.

A training's loss jumps between iterations by more than it falls. So rework is counted on its
trend: the loss of the undisturbed training, averaged over 2w + 1 iterations, plus the excess of the
restored training over the undisturbed one at the same iteration. Both see the same batches, so
their common jumps cancel. Rework is interpolated between two iterations: an excess of a tenth of
what one iteration gains costs a tenth of an iteration.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from codec.inspect import Arrays, copy_arrays, layout_of, to_arrays
from demo_models import Training
from lcviz.lab.measures import crossing, distance, smoothed
from lcviz.lab.progress import Progress, Report, unreported
from lcviz.lab.workload import Workload

from .methods import Method, Saver


class ProtocolError(ValueError):
    """Numbers that no experiment can use."""


@dataclass(frozen=True)
class Protocol:
    """When a training fails, and how rework is counted.

    fail_at: T, the last iteration before the failure. interval: iterations between checkpoints.
    cap: iterations after T to look for rework. smooth: w, iterations on either side. optimizer:
    whether a checkpoint holds the optimizer's state; if not, a failure resets it.
    optimizer_at_start: whether that state exists, as zeros, before the first iteration, so that all
    checkpoints have the same tensors. before: number of iterations before the failure whose losses
    are returned, too. first: the iteration of the first checkpoint. whole: whether a race always
    goes on to the cap. Raises ProtocolError.
    """

    fail_at: int = 80
    interval: int = 1
    cap: int = 100
    smooth: int = 5
    optimizer: bool = True
    optimizer_at_start: bool = False
    before: int = 0
    first: int = 0
    whole: bool = False

    def __post_init__(self) -> None:
        saves_once = 1 <= self.interval <= self.fail_at - self.first and self.cap >= 1
        if not saves_once or min(self.smooth, self.before, self.first) < 0:
            raise ProtocolError(
                "a training must save before it fails; cap is at least 1, the others at least 0; "
                f"got fail_at {self.fail_at}, interval {self.interval}, cap {self.cap}, smooth "
                f"{self.smooth}, before {self.before}, first {self.first}"
            )

    @property
    def since(self) -> int:
        """T - c, iterations from the newest checkpoint to the failure."""
        return (self.fail_at - self.first) % self.interval

    @property
    def first_trend(self) -> int:
        """The first iteration whose trend is needed; below 0 after an early failure."""
        return self.fail_at - max(self.before, self.since)

    @property
    def first_loss(self) -> int:
        """The first iteration whose loss is needed."""
        return max(self.first_trend - self.smooth, 0)

    def iterations(self, methods: int) -> tuple[int, ...]:
        """Most iterations: up to the failure, on without it, and after each restore."""
        return self.fail_at, self.cap + self.smooth, *methods * [self.since + self.cap]


@dataclass(frozen=True)
class Race:
    """Losses on the probe.

    undisturbed, trend: of the training that did not fail, at T to T + cap: as measured, and
    averaged over 2w + 1 iterations. restored: of the restored training, at c (right after
    restoring), c + 1, ..., until it is back both on the trend and without smoothing, or to the cap;
    at least two from T on.

    before, trend_before: as measured, and averaged, at the iterations up to T that the protocol
    asks for, at least from c on; fewer after an early failure.
    """

    undisturbed: tuple[float, ...]
    trend: tuple[float, ...]
    restored: tuple[float, ...]
    before: tuple[float, ...] = ()
    trend_before: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What one failure costs with one method.

    rework: the price in iterations, on the trend; if capped, all iterations that were trained after
    restoring. rework_raw: whole iterations until the loss itself, without smoothing, is at or below
    that before the failure; all that were trained if it never is. loss_before, loss_restored: on
    the probe. distance: ||restored - u_T|| / ||u_T - u_0|| of the model. nbytes: mean size on disk
    of a checkpoint after the first. share: of the float32 size. save_seconds, seconds: medians, of
    one save and of an iteration of training. race: the losses behind rework. since: T - c, the
    part of rework that was never saved.
    """

    method: Method
    seed: int
    rework: float
    capped: bool
    rework_raw: int
    loss_before: float
    loss_restored: float
    distance: float
    nbytes: float
    share: float
    save_seconds: float
    seconds: float
    race: Race
    since: int = 0

    @property
    def on_trend(self) -> tuple[float, ...]:
        """The trend plus the restored training's excess over the undisturbed one, from c on."""
        trend, undisturbed = (
            before[-1 - self.since : -1] + after
            for before, after in (
                (self.race.trend_before, self.race.trend),
                (self.race.before, self.race.undisturbed),
            )
        )
        return tuple(t + r - u for t, r, u in zip(trend, self.race.restored, undisturbed))

    @property
    def capped_raw(self) -> bool:
        """Whether the loss itself was not back when the cap was reached."""
        return not any(loss <= self.loss_before for loss in self.race.restored[self.since :])

    def after(self, restored: Sequence[float]) -> Outcome:
        """The outcome with these losses of the restored training, from c on."""
        losses = restored[self.since :]
        crossed = crossing(self.race.trend, [u - v for u, v in zip(losses, self.race.undisturbed)])
        raw_crossings = [
            self.since + r for r, loss in enumerate(losses) if loss <= self.loss_before
        ]
        n_iterations = len(restored) - 1
        return replace(
            self,
            rework=n_iterations if crossed is None else self.since + crossed,
            capped=crossed is None,
            rework_raw=raw_crossings[0] if raw_crossings else n_iterations,
            race=replace(self.race, restored=tuple(restored)),
        )


def fail_and_recover(
    workload: Workload,
    seed: int,
    methods: Sequence[Method],
    protocol: Protocol,
    report: Report = unreported,
    after: Callable[[int, Training], None] = lambda _iteration, _training: None,
) -> list[Outcome]:
    """One training, one failure, and its outcome with each method.

    Args:
        workload, seed: What is trained.
        methods: All save the same states.
        protocol: When the training fails, and how rework is counted.
        report: Called with iterations done and in all, see `Protocol.iterations`, and with a tuple
            of the outcomes so far; the race of the last one may be under way. An exception from
            it ends the experiment and leaves no file behind.
        after: Called with the iteration and the training after each iteration up to the failure
            is trained and saved; it may load another state into the training.

    Raises:
        demo_models.DataError, codec.LccError: The training or a method raises it.
    """
    p = protocol
    plan = p.iterations(len(methods))
    total, done = sum(plan), 0
    training = workload.training(seed)
    if p.optimizer_at_start:
        training.begin_optimizer()
    start = _model(training.state())
    losses: dict[int, float] = {}
    seconds: list[float] = []
    outcomes: list[Outcome] = []

    def iterate(iteration: int) -> None:
        nonlocal done
        began = time.perf_counter()
        training.iterate(iteration)
        seconds.append(time.perf_counter() - began)
        done += 1
        report(min(done, total), total, tuple(outcomes))

    def state() -> Mapping[str, Any]:
        full_state = training.state()
        return full_state if p.optimizer else {"model": full_state["model"]}

    with ExitStack() as stack:
        savers = []
        for method in methods:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            savers.append(_TimedSaver(stack.enter_context(closing(method.open(Path(folder))))))
        for t in range(p.fail_at + 1):
            if t:
                iterate(t)
            if t >= p.first and (t - p.first) % p.interval == 0:
                saved_state = state()
                for saver in savers:
                    saver.save(t, saved_state)
            if t:
                after(t, training)
            if t >= p.first_loss:
                losses[t] = training.task.probe_loss()
        restored = [saver.saver.restore() for saver in savers]
    end = _model(training.state())
    for t in range(p.fail_at + 1, p.fail_at + p.cap + p.smooth + 1):
        iterate(t)
        losses[t] = training.task.probe_loss()
    undisturbed = _undisturbed(p, losses)
    moved = distance(end, start)
    for i, (method, saver, restored_state) in enumerate(zip(methods, savers, restored)):
        done = sum(plan[: 2 + i])
        report(done, total, tuple(outcomes))
        training.load(restored_state)
        race = [training.task.probe_loss()]
        nbytes = float(np.mean(saver.sizes[1:]))
        at_restart = Outcome(
            method,
            seed,
            0,
            True,
            0,
            losses[p.fail_at],
            race[0],
            distance(_model(restored_state), end) / moved if moved else 0.0,
            nbytes,
            nbytes / sum(4 * a.size for a in end.values()),
            float(np.median(saver.seconds[1:])),
            float(np.median(seconds)),
            undisturbed,
            p.since,
        )
        outcomes.append(at_restart.after(race))
        # At least two losses from T on: the second shows whether the first one stays down.
        while len(race) <= p.since + p.cap and (
            p.whole or len(race) < p.since + 2 or outcomes[-1].capped or outcomes[-1].capped_raw
        ):
            iterate(p.fail_at - p.since + len(race))
            race.append(training.task.probe_loss())
            outcomes[-1] = at_restart.after(race)
    report(total, total, tuple(outcomes))
    return outcomes


class _TimedSaver:
    """A saver, with the bytes and seconds of each save."""

    def __init__(self, saver: Saver) -> None:
        self.saver = saver
        self.sizes: list[int] = []
        self.seconds: list[float] = []

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        began = time.perf_counter()
        self.sizes.append(self.saver.save(step, state))
        self.seconds.append(time.perf_counter() - began)


def _undisturbed(p: Protocol, losses: Mapping[int, float]) -> Race:
    """The race of the training that did not fail. losses: by iteration, from p.first_loss on."""
    trend = smoothed(list(losses.values()), p.smooth)
    before = range(max(p.first_trend, 0), p.fail_at + 1) if p.first_trend < p.fail_at else ()
    return Race(
        tuple(losses[t] for t in range(p.fail_at, p.fail_at + p.cap + 1)),
        tuple(trend[p.fail_at - p.first_loss :]),
        (),
        tuple(losses[t] for t in before),
        tuple(trend[t - p.first_loss] for t in before),
    )


@dataclass(frozen=True)
class RepeatedOutcome:
    """A training that failed several times.

    metric: over all held-out examples at its end. undisturbed: the same for a training that never
    failed. Both are a fraction of right answers ("accuracy") or in rating units ("RMSE"). share: of
    float32, the mean size on disk of a checkpoint after the first.
    """

    method: Method
    seed: int
    metric_name: str
    metric: float
    undisturbed: float
    share: float


def fail_repeatedly(
    workload: Workload,
    seed: int,
    methods: Sequence[Method],
    failures: int,
    iterations: int,
    progress: Progress = lambda _done, _total: None,
) -> list[RepeatedOutcome]:
    """Train once with each method, saving after every iteration and failing at even distances.

    After each failure a training goes on from the restored state with the next batch, so it sees
    every batch once. (After Agrawal et al., "Inshrinkerator", SoCC 2024, who restore 10 times in a
    training.) Raises demo_models.DataError, codec.LccError, ProtocolError.
    """
    if not 1 <= failures < iterations:
        raise ProtocolError(
            f"give at least 1 failure, and fewer than iterations; got {failures} failures in "
            f"{iterations} iterations"
        )
    failing_steps = {round(iterations * i / (failures + 1)) for i in range(1, failures + 1)}
    done, total = 0, iterations * (len(methods) + 1)

    def train(training: Training, after: Callable[[int], None]) -> float:
        nonlocal done
        for step in range(1, iterations + 1):
            training.iterate(step)
            after(step)
            done += 1
            progress(done, total)
        return training.task.held_out_metric()

    def save_and_fail(training: Training, saver: Saver, sizes: list[int], step: int) -> None:
        sizes.append(saver.save(step, training.state()))
        if step in failing_steps:
            training.load(saver.restore())

    undisturbed = train(workload.training(seed), lambda _step: None)
    outcomes = []
    for method in methods:
        training = workload.training(seed)
        sizes: list[int] = []
        with tempfile.TemporaryDirectory() as folder, closing(method.open(Path(folder))) as saver:
            saver.save(0, training.state())
            metric = train(training, partial(save_and_fail, training, saver, sizes))
        n = sum(p.numel() for p in training.task.model.parameters())
        outcomes.append(
            RepeatedOutcome(
                method,
                seed,
                training.task.metric_name,
                metric,
                undisturbed,
                float(np.mean(sizes)) / (4 * n),
            )
        )
    return outcomes


def _model(state: Mapping[str, Any]) -> Arrays:
    """The model's tensors, copied, by name."""
    model = state["model"]
    return copy_arrays(to_arrays(model, layout_of(model)))
