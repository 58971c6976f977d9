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

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codec.inspect import Arrays, copy_arrays, layout_of, to_arrays
from demo_models import Training
from lcviz.lab.measures import crossing, distance, smoothed
from lcviz.lab.progress import Report, unreported
from lcviz.lab.workload import Workload

from .methods import Method
from .savers import TimedSaver, savers_of


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

    @property
    def is_back(self) -> bool:
        """Whether the loss is back, on the trend and without smoothing."""
        return not (self.capped or self.capped_raw)

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
            loss_restored=restored[0],
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
    training = workload.training(seed)
    laps = _Laps(training, protocol, len(methods), report)
    if protocol.optimizer_at_start:
        training.begin_optimizer()
    start = _model(training.state())
    with savers_of(methods) as savers:
        laps.fail(savers, after)
        restored = [saver.restore() for saver in savers]
    end = _model(training.state())
    undisturbed, seconds = laps.go_on(), laps.median_seconds
    moved, full_nbytes = distance(end, start), sum(4 * a.size for a in end.values())
    for method, saver, restored_state in zip(methods, savers, restored):
        off = distance(_model(restored_state), end) / moved if moved else 0.0
        at_restart = Outcome(
            method,
            seed,
            rework=0,
            capped=True,
            rework_raw=0,
            loss_before=undisturbed.undisturbed[0],
            loss_restored=math.nan,
            distance=off,
            nbytes=saver.nbytes,
            share=saver.nbytes / full_nbytes,
            save_seconds=saver.seconds,
            seconds=seconds,
            race=undisturbed,
            since=protocol.since,
        )
        laps.race(at_restart, restored_state)
    laps.end()
    return laps.outcomes


class _Laps:
    """The iterations of an experiment, timed and reported, and its outcomes so far."""

    def __init__(self, training: Training, p: Protocol, n_methods: int, report: Report) -> None:
        self.outcomes: list[Outcome] = []
        self._training, self._p, self._report = training, p, report
        self._plan, self._done = p.iterations(n_methods), 0
        self._seconds: list[float] = []
        self._losses: dict[int, float] = {}  # by iteration, from p.first_loss on

    @property
    def median_seconds(self) -> float:
        """The median of an iteration."""
        return float(np.median(self._seconds))

    def fail(self, savers: Sequence[TimedSaver], after: Callable[[int, Training], None]) -> None:
        """Train and save up to the failure. after: see `fail_and_recover`."""
        p = self._p
        for t in range(p.fail_at + 1):
            if t:
                self._train(t)
            if t >= p.first and (t - p.first) % p.interval == 0:
                state = self._training.state()
                for saver in savers:
                    saver.save(t, state if p.optimizer else {"model": state["model"]})
            if t:
                after(t, self._training)
            if t >= p.first_loss:
                self._losses[t] = self._training.task.probe_loss()

    def go_on(self) -> Race:
        """Train on as if nothing had failed; returns the race of this training."""
        p, losses = self._p, self._losses
        for t in range(p.fail_at + 1, p.fail_at + p.cap + p.smooth + 1):
            self._train(t)
            losses[t] = self._training.task.probe_loss()
        trend = smoothed(list(losses.values()), p.smooth)
        before = range(max(p.first_trend, 0), p.fail_at + 1) if p.first_trend < p.fail_at else ()
        return Race(
            undisturbed=tuple(losses[t] for t in range(p.fail_at, p.fail_at + p.cap + 1)),
            trend=tuple(trend[p.fail_at - p.first_loss :]),
            restored=(),
            before=tuple(losses[t] for t in before),
            trend_before=tuple(trend[t - p.first_loss] for t in before),
        )

    def race(self, at_restart: Outcome, restored_state: dict[str, Any]) -> None:
        """Go on from a restored state until its loss is back; adds the outcome."""
        self._tell(sum(self._plan[: 2 + len(self.outcomes)]))
        self._training.load(restored_state)
        p, restored = self._p, list[float]()
        self.outcomes.append(at_restart)
        # At least two losses from T on: the second shows whether the first one stays down.
        while len(restored) <= p.since + p.cap and (
            p.whole or len(restored) < p.since + 2 or not self.outcomes[-1].is_back
        ):
            if restored:
                self._train(p.fail_at - p.since + len(restored))
            restored.append(self._training.task.probe_loss())
            self.outcomes[-1] = at_restart.after(restored)

    def end(self) -> None:
        """Report that all is done."""
        self._tell(sum(self._plan))

    def _train(self, iteration: int) -> None:
        began = time.perf_counter()
        self._training.iterate(iteration)
        self._seconds.append(time.perf_counter() - began)
        self._tell(self._done + 1)

    def _tell(self, done: int) -> None:
        self._done, total = done, sum(self._plan)
        self._report(min(done, total), total, tuple(self.outcomes))


def _model(state: Mapping[str, Any]) -> Arrays:
    """The model's tensors, copied, by name."""
    model = state["model"]
    return copy_arrays(to_arrays(model, layout_of(model)))
