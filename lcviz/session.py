"""One live training run: a thread that trains, saves through the codec, and measures.

The thread owns the model; everybody else sees immutable snapshots. It trains only while
somebody watches: `Run.watch` is the watchers' sign of life, and a run that has not had one
for WATCH_SECONDS pauses itself. Nothing here knows a screen.
"""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

import codec
import demo_models
from codec.quantize import Codes
from codec.state import Arrays, copy_arrays, layout_of, to_arrays
from demo_models import Task

from .lab.anatomy import Alphabet, dissect
from .lab.removed import RemovedBuckets, removed_buckets

WATCH_SECONDS = 20.0
CODES_BUDGET = 64 * 2**20  # bytes of exponent-stage codes kept for "removed bucket"

PAUSED, PLAYING, FINISHED, FAILED, CLOSED = "paused", "playing", "finished", "failed", "closed"


class RunError(Exception):
    """Something a run cannot do; the message is a sentence for the person at the screen."""


@dataclass(frozen=True)
class Settings:
    """Everything that determines a run: the same settings give the same bytes of chain.

    interval: iterations between checkpoints. stop_after: iterations until the run finishes
    by itself. folder: where MNIST, MovieLens or Jester files are; None for built-in data.
    """

    model: str = "lenet5"
    data: str = "digits"
    folder: str | None = None
    optimizer: str = "sgd"
    lr: float = 0.05
    momentum: float = 0.0
    batch_size: int = 32
    seed: int = 0
    interval: int = 1
    bits: int | None = 2
    scope: str = "model"
    stop_after: int = 200

    def check(self) -> None:
        """Raise RunError, with a way out, for numbers that no run can use."""
        if self.interval < 1 or self.stop_after < 1:
            raise RunError("Checkpoint interval and number of iterations are at least 1.")
        if self.interval > self.stop_after:
            raise RunError(
                f"With a checkpoint every {self.interval} iterations and {self.stop_after} "
                "iterations in all, nothing would be saved: lower the interval."
            )


@dataclass(frozen=True)
class Checkpoint:
    """One saved step and what was measured with it.

    nbytes, full_nbytes: bytes of the record, and of the same state in float32.
    stream_nbytes: the part of nbytes that is payload, table, levels and exact tensors.
    train_loss: of the iteration's batch. live_loss, restored_loss: on the probe, of the
    live model and of the track. distance: ||track - u_t|| / ||u_t - u_0||. moved: that
    denominator. train_, codec_, measure_seconds: since the checkpoint before.
    """

    step: int
    kind: str
    nbytes: int
    full_nbytes: int
    stream_nbytes: int
    train_loss: float
    live_loss: float
    restored_loss: float
    distance: float
    moved: float
    alphabets: tuple[Alphabet, ...]
    non_finite: tuple[str, ...]
    train_seconds: float
    codec_seconds: float
    measure_seconds: float


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment; safe to keep and to share between threads.

    message: a sentence where the status needs one. checkpoints: the base first. The seconds
    are sums over the run; wall_seconds leaves out the pauses.
    """

    status: str
    message: str
    iteration: int
    checkpoints: tuple[Checkpoint, ...]
    train_seconds: float
    codec_seconds: float
    measure_seconds: float
    wall_seconds: float

    @property
    def rate(self) -> float:
        """Iterations a second of wall-clock time, saving and measuring included."""
        return self.iteration / self.wall_seconds if self.wall_seconds else 0.0

    @property
    def newest(self) -> Checkpoint:
        """The last saved step; the base is always there."""
        return self.checkpoints[-1]

    @property
    def steps(self) -> tuple[int, ...]:
        """Saved steps, rising; 0 is the base."""
        return tuple(c.step for c in self.checkpoints)

    def at(self, step: int) -> Checkpoint:
        """The newest checkpoint at or before ``step``."""
        return next(c for c in reversed(self.checkpoints) if c.step <= max(step, 0))


class Run:
    """One training run with its chain on disk.

    settings: see `Settings`. path: the chain directory, which must not exist yet; the run
    owns and, in `close`, deletes it. Raises RunError, demo_models.DataError or
    codec.LccError for settings that cannot be used.
    """

    def __init__(self, run_id: str, settings: Settings, path: Path) -> None:
        settings.check()
        self.id, self.settings, self.path = run_id, settings, path
        self.task: Task = demo_models.make_task(
            settings.model, settings.data, seed=settings.seed, folder=settings.folder
        )
        self._optimizer = demo_models.make_optimizer(
            settings.optimizer, self.task.model.parameters(), settings.lr, settings.momentum
        )
        self.task.batch(1, settings.batch_size)  # a bad batch size is found here, not later
        self._checkpointer = codec.Checkpointer(path, settings.bits, settings.scope)
        self._condition = threading.Condition()
        self._status, self._message = PAUSED, ""
        self._single_steps = 0
        self._working = False
        self._last_watched = time.monotonic()
        self._iteration = 0
        self._checkpoints: list[Checkpoint] = []
        self._seconds = [0.0, 0.0, 0.0]  # training, codec, measuring
        self._wall_seconds = 0.0
        self._codes: dict[int, list[Codes]] = {}
        self._removed: dict[int, RemovedBuckets] = {}
        self._removing = threading.Lock()
        self._start = self._arrays()
        self._save(float("nan"), 0.0)
        self._thread = threading.Thread(target=self._work, name=f"run-{run_id}", daemon=True)
        self._thread.start()

    # What watchers call.

    def play(self) -> None:
        """Train until told otherwise."""
        self._switch(PLAYING)

    def pause(self) -> None:
        """Stop after the iteration that is under way."""
        self._switch(PAUSED)

    def step(self) -> None:
        """Train up to the next checkpoint, then pause."""
        with self._condition:
            if self._status in (PAUSED, PLAYING):
                self._status, self._message = PAUSED, ""
                self._single_steps = self.settings.interval
                self._last_watched = time.monotonic()
                self._condition.notify_all()

    def watch(self) -> None:
        """A watcher's sign of life."""
        with self._condition:
            self._last_watched = time.monotonic()

    def seconds_unwatched(self) -> float:
        """Seconds since the last sign of life."""
        with self._condition:
            return time.monotonic() - self._last_watched

    def snapshot(self) -> Snapshot:
        """The run as it is now."""
        with self._condition:
            busy = self._status == PAUSED and (self._single_steps or self._working)
            status = PLAYING if busy else self._status
            train, saving, measuring = self._seconds
            return Snapshot(
                status,
                self._message,
                self._iteration,
                tuple(self._checkpoints),
                train,
                saving,
                measuring,
                self._wall_seconds,
            )

    def wait(self, timeout: float | None = None) -> Snapshot:
        """Block until the run is at rest, or the timeout in seconds is over."""

        def at_rest() -> bool:
            return self._status != PLAYING and not self._single_steps and not self._working

        with self._condition:
            self._condition.wait_for(at_rest, timeout)
        return self.snapshot()

    def removed_buckets(
        self, step: int, progress: Callable[[int, int], None] | None = None
    ) -> RemovedBuckets:
        """The removed-bucket experiment for a saved step; repeated calls are free.

        Raises RunError for the base, and for a step whose small buckets are no longer held.
        """
        with self._removing:
            if step in self._removed:
                return self._removed[step]
            checkpoints = self.snapshot().checkpoints
            at = next((i for i, c in enumerate(checkpoints) if c.step == step), 0)
            with self._condition:
                codes = self._codes.get(step)
            if at == 0:
                raise RunError("The base is stored exactly: it has no buckets to remove.")
            if codes is None:
                raise RunError(
                    f"The dropped values of step {step} are no longer in memory (the newest "
                    f"{CODES_BUDGET // 2**20} MB are kept): choose a later step."
                )
            replay = codec.Chain(self.path).replay(checkpoints[at - 1].step)
            before = deque(replay, maxlen=1).pop().state  # the last position, holding only it
            c = checkpoints[at]
            result = removed_buckets(
                step, before, c.alphabets, codes, c.moved, self.task.probe_loss, progress
            )
            self._removed[step] = result
            return result

    def close(self) -> None:
        """End the thread and delete the chain directory."""
        with self._condition:
            self._status, self._single_steps = CLOSED, 0
            self._condition.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        shutil.rmtree(self.path, ignore_errors=True)

    # What the thread does.

    def _switch(self, status: str) -> None:
        with self._condition:
            if self._status in (PAUSED, PLAYING):
                self._status, self._message, self._single_steps = status, "", 0
                self._last_watched = time.monotonic()
                self._condition.notify_all()

    def _work(self) -> None:
        # One thread a run: the models are too small to gain from more, the other core is
        # free for the page, and sums come out the same every time.
        torch.set_num_threads(1)
        try:
            while self._may_iterate():
                self._iterate()
        except codec.LccError as exc:
            self._end(FAILED, f"Saving failed: {exc}. Every earlier checkpoint still restores.")
        except Exception as exc:  # shown on the page: a thread has nobody else to tell
            self._end(FAILED, f"Training stopped on an unexpected error: {exc!r}")
            raise

    def _may_iterate(self) -> bool:
        """Wait for work; False when the run is over."""
        with self._condition:
            self._working = False
            self._condition.notify_all()
            while True:
                if self._status in (CLOSED, FAILED):
                    return False
                if self._iteration >= self.settings.stop_after:
                    self._single_steps = 0
                    if self._status != FINISHED:
                        self._status = FINISHED
                        self._condition.notify_all()
                elif self._status == PLAYING:
                    if time.monotonic() - self._last_watched < WATCH_SECONDS:
                        self._working = True
                        return True
                    self._status = PAUSED
                    self._message = "Paused, because no page was watching. Play goes on."
                    self._condition.notify_all()
                elif self._single_steps:
                    self._working = True
                    return True
                self._condition.wait()

    def _iterate(self) -> None:
        started = time.perf_counter()
        iteration = self._iteration + 1
        self._optimizer.zero_grad()
        loss = self.task.loss(self.task.batch(iteration, self.settings.batch_size))
        loss.backward()
        self._optimizer.step()
        train_loss, seconds = loss.item(), time.perf_counter() - started
        if not math.isfinite(train_loss):
            saved = self._checkpoints[-1].step
            self._end(
                FAILED,
                f"Training diverged: the loss became {train_loss} at iteration {iteration}. Every "
                f"checkpoint up to step {saved} restores. Reset, and try a lower learning rate.",
            )
            return
        with self._condition:
            self._iteration = iteration
            self._seconds[0] += seconds
        if iteration % self.settings.interval == 0:
            self._save(train_loss, self._seconds[0] - self._trained_until_last_save())
        with self._condition:
            self._single_steps = max(0, self._single_steps - 1)
            self._wall_seconds += time.perf_counter() - started

    def _trained_until_last_save(self) -> float:
        return sum(c.train_seconds for c in self._checkpoints)

    def _save(self, train_loss: float, train_seconds: float) -> None:
        """Save through the codec, then measure what was saved."""
        tracker = self._checkpointer.tracker
        before = tracker.state if tracker else {}  # the checkpointer replaces it, never edits it
        saved = self._checkpointer.save(self._iteration, self.task.model.state_dict())
        started = time.perf_counter()
        assert self._checkpointer.tracker is not None
        track, live = self._checkpointer.tracker.state, self._arrays()
        alphabets, exponent_stage = dissect(before, live, saved.delta) if saved.delta else ((), [])
        moved = _distance(live, self._start)
        checkpoint = Checkpoint(
            step=saved.step,
            kind=saved.kind,
            nbytes=saved.nbytes,
            full_nbytes=saved.full_nbytes,
            stream_nbytes=saved.delta.nbytes if saved.delta else saved.full_nbytes,
            train_loss=train_loss,
            live_loss=self.task.probe_loss(),
            restored_loss=self.task.probe_loss(track),
            distance=_distance(track, live) / moved if moved else 0.0,
            moved=moved,
            alphabets=alphabets,
            non_finite=saved.delta.non_finite if saved.delta else (),
            train_seconds=train_seconds,
            codec_seconds=saved.seconds,
            measure_seconds=0.0,
        )
        seconds = time.perf_counter() - started
        with self._condition:
            self._checkpoints.append(replace(checkpoint, measure_seconds=seconds))
            self._seconds[1] += saved.seconds
            self._seconds[2] += seconds
            self._codes[saved.step] = [q.codes for q in exponent_stage]
            while sum(c.nbytes for own in self._codes.values() for c in own) > CODES_BUDGET:
                del self._codes[next(iter(self._codes))]

    def _arrays(self) -> Arrays:
        """The live model's state as float32 arrays, copied."""
        state = self.task.model.state_dict()
        return copy_arrays(to_arrays(state, layout_of(state)))

    def _end(self, status: str, message: str) -> None:
        with self._condition:
            self._working = False
            if self._status != CLOSED:
                self._status, self._message, self._single_steps = status, message, 0
            self._condition.notify_all()


def _distance(a: Arrays, b: Arrays) -> float:
    """||a - b|| over all tensors, in float64."""
    total = sum(
        float(np.square(a[name].astype(np.float64) - b[name].astype(np.float64)).sum())
        for name in a
    )
    return math.sqrt(total)
