"""Recovery: how much work a crash costs with each way to save, at equal bytes on disk.

Protocol. Train with a fixed order of batches, save every few iterations with every method, and let
the training fail at iteration T. Each method restores its newest checkpoint, of iteration c, and
the training goes on from c + 1 with the same batches. The price of the failure, rework, is how many
iterations have to be repeated: the T - c since the checkpoint, and those after them until the loss
on fixed held-out examples is again at or below its value just before the failure. A restart without
the optimizer's state may begin there and rise at once: it is back when it is there again.

A training's loss jumps between iterations by more than it falls. So rework is counted on its
trend: the loss of the undisturbed training, averaged over 2w + 1 iterations, plus what the restored
training is above the undisturbed one at the same iteration. Both see the same batches, so jumps
that both make cancel. Between two iterations it is interpolated: an excess of a tenth of what one
iteration gains costs a tenth of an iteration.
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
    cap: the most rework that is looked for after T. smooth: w, iterations on either side.
    optimizer: whether a checkpoint holds the optimizer's state; if not, a failure resets it. begun:
    whether it has one, of zeros, before the first iteration: checkpoints then have the same tensors
    from the first on. before: for how many iterations before the failure losses are returned, too.
    first: the iteration of the first checkpoint. whole: whether a race goes on to the cap when the
    loss is back. Raises ProtocolError.
    """

    fail_at: int = 80
    interval: int = 1
    cap: int = 100
    smooth: int = 5
    optimizer: bool = True
    begun: bool = False
    before: int = 0
    first: int = 0
    whole: bool = False

    def __post_init__(self) -> None:
        sound = 1 <= self.interval <= self.fail_at - self.first and self.cap >= 1
        if not sound or min(self.smooth, self.before, self.first) < 0:
            raise ProtocolError(
                f"a training saves at least once before it fails, and looks for some rework; got "
                f"fail_at {self.fail_at}, interval {self.interval}, cap {self.cap}, smooth "
                f"{self.smooth}, before {self.before}, first {self.first}"
            )

    @property
    def since(self) -> int:
        """T - c, iterations from the newest checkpoint to the failure."""
        return (self.fail_at - self.first) % self.interval

    def iterations(self, methods: int) -> tuple[int, ...]:
        """Iterations at most: up to the failure, on without one, and after each restore."""
        return self.fail_at, self.cap + self.smooth, *methods * [self.since + self.cap]


@dataclass(frozen=True)
class Race:
    """Losses on the probe.

    undisturbed, trend: of the training that did not fail, of T to T + cap, as measured and
    averaged over 2w + 1 iterations. restored: of the restored one, at iterations c (right after
    restoring), c + 1, ..., until it was back both on the trend and without smoothing, or to the
    cap; two from T on at least.

    before, trend_before: as measured and averaged, of the iterations before T that the protocol
    asks for, from c on at least, T last; fewer if it failed early.
    """

    undisturbed: tuple[float, ...]
    trend: tuple[float, ...]
    restored: tuple[float, ...]
    before: tuple[float, ...] = ()
    trend_before: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What one method made of one failure.

    rework: the price in iterations, on the trend; if capped as many as were tried, up to the
    protocol's cap after T. rework_raw: whole iterations until the loss itself is at or below that
    before the failure, without any smoothing; as many as were tried if it never was. loss_before,
    loss_restored: on the probe. distance: ||restored - u_T|| / ||u_T - u_0|| of the model. nbytes:
    of a checkpoint after the first, on disk, the mean. share: of the float32 size. save_seconds: of
    one save, median; seconds: of an iteration of training, median. race: the
    losses that rework was counted on. since: T - c, the part of rework that was never saved.
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
        """The trend plus what the restored training is above the undisturbed one, from c on."""
        trend, calm = (
            before[-1 - self.since : -1] + after
            for before, after in (
                (self.race.trend_before, self.race.trend),
                (self.race.before, self.race.undisturbed),
            )
        )
        return tuple(t + r - u for t, r, u in zip(trend, self.race.restored, calm))

    @property
    def capped_raw(self) -> bool:
        """Whether the loss itself was not back when the cap was reached."""
        return not any(loss <= self.loss_before for loss in self.race.restored[self.since :])

    def after(self, restored: Sequence[float]) -> Outcome:
        """The same with these losses of the restored training, from c on."""
        again = restored[self.since :]
        more = crossing(self.race.trend, [u - v for u, v in zip(again, self.race.undisturbed)])
        raw = [self.since + r for r, loss in enumerate(again) if loss <= self.loss_before]
        tried = len(restored) - 1
        return replace(
            self,
            rework=tried if more is None else self.since + more,
            capped=more is None,
            rework_raw=raw[0] if raw else tried,
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
    """One training, one failure, and what each method makes of it.

    Args:
        workload, seed: what is trained.
        methods: ways to save, each given the same states.
        protocol: when the training fails, and how rework is counted.
        report: called with iterations done and in all, see `Protocol.iterations`, and with the
            outcomes so far, a tuple; the last may be one whose race is under way. An exception from
            it ends the experiment and leaves no file behind.
        after: called with the iteration and the training once each iteration up to the failure is
            trained and saved; the training goes on from what it loads.

    Raises:
        demo_models.DataError, codec.LccError: what the training or a method raises.
    """
    p = protocol
    plan = p.iterations(len(methods))
    total, done = sum(plan), 0
    training = workload.training(seed)
    if p.begun:
        training.begin_optimizer()
    start = _model(training.state())
    losses: dict[int, float] = {}
    seconds: list[float] = []
    found: list[Outcome] = []

    def iterate(iteration: int) -> None:
        nonlocal done
        began = time.perf_counter()
        training.iterate(iteration)
        seconds.append(time.perf_counter() - began)
        done += 1
        report(min(done, total), total, tuple(found))

    def state() -> Mapping[str, Any]:
        whole = training.state()
        return whole if p.optimizer else {"model": whole["model"]}

    told = p.fail_at - max(p.before, p.since)  # the first iteration whose trend is needed
    since = max(told - p.smooth, 0)  # and the first whose loss is
    with ExitStack() as stack:
        savers = []
        for method in methods:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            savers.append(stack.enter_context(closing(method.open(Path(folder)))))
        sizes: list[list[int]] = [[] for _ in methods]
        spent: list[list[float]] = [[] for _ in methods]
        for t in range(p.fail_at + 1):
            if t:
                iterate(t)
            if t == p.first:
                for saver in savers:
                    saver.save(t, state())
            elif t > p.first and (t - p.first) % p.interval == 0:
                now = state()
                for saver, own, its in zip(savers, sizes, spent):
                    began = time.perf_counter()
                    own.append(saver.save(t, now))
                    its.append(time.perf_counter() - began)
            if t:
                after(t, training)
            if t >= since:
                losses[t] = training.task.probe_loss()
        restored = [saver.restore() for saver in savers]
    end = _model(training.state())
    for t in range(p.fail_at + 1, p.fail_at + p.cap + p.smooth + 1):
        iterate(t)
        losses[t] = training.task.probe_loss()
    whole = smoothed([losses[t] for t in sorted(losses) if t >= since], p.smooth)
    trend = whole[p.fail_at - since :]
    before = range(max(told, 0), p.fail_at + 1) if told < p.fail_at else range(0)
    undisturbed = tuple(losses[p.fail_at + r] for r in range(p.cap + 1))
    moved = distance(end, start)
    for i, (method, saved, own, its) in enumerate(zip(methods, restored, sizes, spent)):
        done = sum(plan[: 2 + i])
        report(done, total, tuple(found))
        training.load(saved)
        race = [training.task.probe_loss()]
        untried = Outcome(
            method,
            seed,
            0,
            True,
            0,
            losses[p.fail_at],
            race[0],
            distance(_model(saved), end) / moved if moved else 0.0,
            float(np.mean(own)),
            float(np.mean(own)) / sum(4 * a.size for a in end.values()),
            float(np.median(its)),
            float(np.median(seconds)),
            Race(
                undisturbed,
                tuple(trend),
                (),
                tuple(losses[t] for t in before),
                tuple(whole[t - since] for t in before),
            ),
            p.since,
        )
        found.append(untried.after(race))
        # Two losses from T on at least: the second shows whether a loss that is back stays there.
        while len(race) <= p.since + p.cap and (
            p.whole or len(race) < p.since + 2 or found[-1].capped or found[-1].capped_raw
        ):
            iterate(p.fail_at - p.since + len(race))
            race.append(training.task.probe_loss())
            found[-1] = untried.after(race)
    report(total, total, tuple(found))
    return found


@dataclass(frozen=True)
class RepeatedOutcome:
    """A training that failed several times.

    metric: of all held-out examples at its end. undisturbed: the same of a training that never
    failed. Both are a fraction of right answers ("accuracy") or in rating units ("RMSE"). share: of
    float32, of a checkpoint after the first on disk, the mean.
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
    """One training a method, saved after every iteration, that fails at even distances.

    After each failure it goes on from the restored state with the next batch, so every training
    sees every batch once. (After Agrawal et al., "Inshrinkerator", SoCC 2024, who restore 10 times
    in a training.) Raises demo_models.DataError, codec.LccError, ProtocolError.
    """
    if not 1 <= failures < iterations:
        raise ProtocolError(
            f"a training fails at least once, and less often than it iterates; got {failures} "
            f"failures in {iterations} iterations"
        )
    fails = {round(iterations * i / (failures + 1)) for i in range(1, failures + 1)}
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
        if step in fails:
            training.load(saver.restore())

    undisturbed = train(workload.training(seed), lambda _step: None)
    found = []
    for method in methods:
        training = workload.training(seed)
        sizes: list[int] = []
        with tempfile.TemporaryDirectory() as folder, closing(method.open(Path(folder))) as saver:
            saver.save(0, training.state())
            metric = train(training, partial(save_and_fail, training, saver, sizes))
        n = sum(p.numel() for p in training.task.model.parameters())
        found.append(
            RepeatedOutcome(
                method,
                seed,
                training.task.metric_name,
                metric,
                undisturbed,
                float(np.mean(sizes)) / (4 * n),
            )
        )
    return found


def _model(state: Mapping[str, Any]) -> Arrays:
    """The model's tensors, copied, by name."""
    model = state["model"]
    return copy_arrays(to_arrays(model, layout_of(model)))
