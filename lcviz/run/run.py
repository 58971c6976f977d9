"""One live training run: a thread that trains, saves through the codec, and measures.

The thread owns the model; all others get immutable snapshots. Pages call `Run.watch`; a run that
nobody watched for WATCH_SECONDS pauses itself.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import codec
import demo_models
from codec.inspect import Codes
from demo_models import Task

from .live_model import LiveModel, forget_model, new_model, restarted_model
from .memory import AlphabetsOnDisk, NewestSteps
from .saved_step import save_step
from .snapshot import (
    DEAD,
    NEXT,
    TRAINING,
    Checkpoint,
    Kill,
    RunError,
    RunSettings,
    Snapshot,
    States,
    Status,
    describe_divergence,
)

WATCH_SECONDS = 20.0
CODES_BUDGET = 16 * 2**20  # bytes of exponent-stage codes kept for "removed bucket"
STATES_BUDGET = 64 * 2**20  # bytes of the states of the newest deltas
IN_MEMORY = 1 / 16  # share of both budgets that is in memory; the rest is on disk


def _newest(budget: int, path: Path) -> NewestSteps[Any]:
    return NewestSteps(budget, int(budget * IN_MEMORY), path.parent)


class Run:
    """One training run with its chain on disk.

    settings: see `RunSettings`. path: the chain directory, which must not exist yet; the run owns
    it, and `close` deletes it. Raises RunError, demo_models.DataError or codec.LccError for
    settings that cannot be used.
    """

    def __init__(self, run_id: str, settings: RunSettings, path: Path) -> None:
        settings.check()
        self.id, self.settings, self.path = run_id, settings, path
        self.task: Task = demo_models.make_task(
            settings.model, settings.data, seed=settings.seed, folder=settings.folder
        )
        self._live: LiveModel | None = new_model(self.task, settings, path)  # None while KILLED
        self._condition = threading.Condition()
        self._status, self._message = Status.PAUSED, ""
        self._step_end = 0  # the iteration at which STEPPING ends
        self._steering = threading.Lock()  # held while the thread is ended or another one started
        self._last_watched = time.monotonic()
        self._iteration = 0
        self._kills: list[Kill] = []
        self._checkpoints: list[Checkpoint] = []
        self._train_seconds = self._train_seconds_saved = 0.0
        self._loss_seconds = self._wall_seconds = self._idle_seconds = 0.0
        self._speed: float | None = None
        self._codes: NewestSteps[list[Codes]] = _newest(CODES_BUDGET, path)
        self._states: NewestSteps[States] = _newest(STATES_BUDGET, path)
        self._alphabets, self._n_on_disk = AlphabetsOnDisk(path.parent), 0
        self._save(self._live, float("nan"))
        self._thread = self._start()

    # What watchers call.

    def play(self) -> None:
        """Train until the run is paused or finished."""
        self._become(Status.PLAYING, watched=True)

    def pause(self) -> None:
        """Pause after the current iteration."""
        self._become(Status.PAUSING, watched=True)

    def step(self) -> None:
        """Train up to the next checkpoint, then pause."""
        with self._condition:
            if self._become(Status.STEPPING, watched=True):
                interval = self.settings.interval
                self._step_end = (self._iteration // interval + 1) * interval

    def set_speed(self, rate: float | None) -> None:
        """Limit the iterations per second; None for no limit."""
        with self._condition:
            self._speed = rate
            self._condition.notify_all()

    @property
    def speed(self) -> float | None:
        """Limit of iterations per second; None for no limit."""
        return self._speed

    def watch(self) -> None:
        """Note that a page watches the run."""
        with self._condition:
            self._last_watched = time.monotonic()

    def seconds_unwatched(self) -> float:
        """Seconds since the last `watch`."""
        with self._condition:
            return time.monotonic() - self._last_watched

    def states(self, step: int | None = None) -> States | None:
        """The two states of a saved step's delta; step None: the newest step.

        None if they were dropped: the newest STATES_BUDGET bytes stay, and at least one step.
        """
        with self._condition:
            return self._states.get(self._checkpoints[-1].step if step is None else step)

    def steps_with_states(self) -> tuple[int, ...]:
        """The steps that `states` has, rising."""
        with self._condition:
            return self._states.steps

    def codes(self, step: int) -> list[Codes] | None:
        """The exponent stage's codes of a saved step, by alphabet; None if they were dropped."""
        with self._condition:
            return self._codes.get(step)

    def snapshot(self) -> Snapshot:
        """The run as it is now."""
        with self._condition:
            return Snapshot(
                Status.PLAYING if self._status in (*TRAINING, Status.DYING) else self._status,
                self._message,
                self._iteration,
                tuple(self._checkpoints),
                self._train_seconds,
                self._wall_seconds,
                tuple(self._kills),
            )

    def wait(self, timeout: float | None = None) -> Snapshot:
        """Block until the run is at rest, or the timeout in seconds is over."""
        busy = (*TRAINING, Status.DYING, Status.RESTORING)
        with self._condition:
            self._condition.wait_for(lambda: self._status not in busy, timeout)
            return self.snapshot()

    def kill(self) -> None:
        """Crash after the current iteration and its save, if it has one.

        The thread ends and all that is only in memory is lost; the chain on disk and the snapshots
        stay. Does nothing for a run that is dead already. Raises RunError if there is no delta yet,
        or the run has failed or is closed.
        """
        if self._status in DEAD:  # also while another tab has it restored
            return
        with self._steering:
            with self._condition:
                if self._status in DEAD:
                    return
                if len(self._checkpoints) < 2 and Status.DYING in NEXT[self._status]:
                    raise RunError("Only the base is saved yet: go to the next checkpoint.")
                if not self._become(Status.DYING):
                    raise RunError("This run is over already: it cannot be killed.")
            self._thread.join()
            with self._condition:
                if self._status == Status.DYING:  # it may have failed or been closed meanwhile
                    model = self.task.model.state_dict()
                    self._kills.append(self.snapshot().killed(model, self._loss_seconds))
                    forget_model(self.task)
                    self._live = None
                    self._become(Status.KILLED)

    def go_on(self) -> None:
        """Restart a killed run from the newest step of its chain, paused.

        A longer chain takes longer. Raises RunError if the run is not killed, or if its chain
        cannot be read; then it stays killed, and its message says why.
        """
        if not self._become(Status.RESTORING):
            raise RunError("This run was not killed: it cannot go on from a checkpoint.")
        self._restore(Status.PAUSED)

    def go_on_in_background(self, patience: float = 0.0) -> None:
        """`go_on` and `play` in the background; if that fails, the run's message says why.

        Returns when that is done, or after `patience` seconds. Does nothing unless the run is
        KILLED.
        """
        with self._condition:
            if self._become(Status.RESTORING):
                threading.Thread(
                    target=self._restore_in_background, name=f"restore-{self.id}", daemon=True
                ).start()
            self._condition.wait_for(lambda: self._status != Status.RESTORING, patience)

    def stop(self) -> None:
        """Make the thread end after the current iteration, without waiting for it."""
        self._become(Status.CLOSED)

    def close(self) -> None:
        """End the thread, which may take as long as one iteration, and delete the chain.

        Only the newest states stay in memory, for pages that still show the run.
        """
        self.stop()
        with self._steering:
            self._thread.join()
        shutil.rmtree(self.path, ignore_errors=True)
        with self._condition:
            self._codes.keep(0)
            self._states.keep(1)

    def _become(self, status: Status, message: str = "", *, watched: bool = False) -> bool:
        """Change the status and return True if NEXT allows it; else return False."""
        with self._condition:
            if status not in NEXT[self._status]:
                return False
            self._status, self._message = status, message
            if watched:
                self._last_watched = time.monotonic()
            self._condition.notify_all()
            return True

    # Restoring.

    def _restore_in_background(self) -> None:
        with contextlib.suppress(RunError):  # its text is the run's message
            self._restore(Status.PLAYING)

    def _restore(self, then: Status) -> None:
        """Load the newest step and start the thread; if that fails, the run is KILLED again."""
        with self._steering:
            try:
                live = self._loaded()
            except BaseException as exc:
                problem = f"This run cannot go on because of an unexpected error: {exc!r}"
                self._become(Status.KILLED, str(exc) if isinstance(exc, RunError) else problem)
                raise
            with self._condition:
                self._live, self._iteration = live, self._checkpoints[-1].step
                self._become(then, watched=True)  # if closed meanwhile, the thread ends at once
                self._thread = self._start()

    def _loaded(self) -> LiveModel:
        try:
            live = restarted_model(self.task, self.settings, self.path)
        except (codec.LccError, OSError) as exc:
            raise RunError(f"The chain of this run cannot be read. {exc}") from exc
        newest = self._checkpoints[-1].step
        if live.checkpointer.step != newest:
            live.checkpointer.close()
            forget_model(self.task)
            raise RunError(
                f"The record of step {newest} on disk is damaged: this run cannot go on. "
                "Export the rest of its chain, then Reset."
            )
        return live

    # What the thread does.

    def _start(self) -> threading.Thread:
        assert self._live is not None, "only a run that is not killed trains"
        thread = threading.Thread(
            target=self._work, args=(self._live,), name=f"run-{self.id}", daemon=True
        )
        thread.start()
        return thread

    def _work(self, live: LiveModel) -> None:
        # One thread a run: the models are too small to gain from more, the other core is free for
        # the page, and sums come out the same every time.
        torch.set_num_threads(1)
        try:
            while self._may_iterate(live):
                started = time.monotonic()
                self._iterate(live)
                self._idle(started)
            if self._status == Status.DYING:
                self._measure_losses(live)
        except codec.LccError as exc:
            self._become(
                Status.FAILED, f"Saving failed: {exc}. Every earlier checkpoint still restores."
            )
        except Exception as exc:  # only the page can show it: no caller waits for this thread
            self._become(Status.FAILED, f"Training stopped on an unexpected error: {exc!r}")
            raise
        finally:
            live.checkpointer.close()

    def _may_iterate(self, live: LiveModel) -> bool:
        """Wait until the run may train; False if it is over. Measures the newest losses first."""
        while True:
            with self._condition:
                if self._status_at_rest() is None:
                    return self._status in TRAINING
            self._measure_losses(live)
            with self._condition:
                at_rest = self._status_at_rest()  # again: the status may have changed meanwhile
                if at_rest is None:
                    continue
                self._become(*at_rest)
                if self._status == Status.FINISHED:
                    return False
                self._condition.wait()

    def _idle(self, started: float) -> None:
        """Wait after an iteration that began at `started`, to keep to the speed limit."""
        waited = time.monotonic()
        with self._condition:
            while self._speed and self._status == Status.PLAYING:
                seconds_left = started + 1 / self._speed - time.monotonic()
                if seconds_left <= 0:
                    break
                self._condition.wait(seconds_left)
            self._idle_seconds += time.monotonic() - waited

    def _status_at_rest(self) -> tuple[Status, str] | None:
        """The status and message to rest with; None if the run trains on, or ends."""
        if self._status not in (*TRAINING, Status.PAUSED):
            return None
        if self._iteration >= self.settings.stop_after:
            return Status.FINISHED, ""
        stepped = self._status == Status.STEPPING and self._iteration >= self._step_end
        if stepped or self._status in (Status.PAUSED, Status.PAUSING):
            return Status.PAUSED, ""
        if self.seconds_unwatched() >= WATCH_SECONDS:
            return Status.PAUSED, "Paused, because no page was watching. Press Play to go on."
        return None

    def _iterate(self, live: LiveModel) -> None:
        started = time.perf_counter()
        iteration = self._iteration + 1
        train_loss = live.training.iterate(iteration)
        seconds = time.perf_counter() - started
        if not math.isfinite(train_loss):
            self._measure_losses(live)
            self._become(
                Status.FAILED, describe_divergence(self._checkpoints, iteration, train_loss)
            )
            return
        with self._condition:
            self._iteration = iteration
            self._train_seconds += seconds
        if iteration % self.settings.interval == 0:
            self._save(live, train_loss)
        with self._condition:
            self._wall_seconds += time.perf_counter() - started

    def _save(self, live: LiveModel, train_loss: float) -> None:
        """Save through the codec, take the delta apart, and measure losses if there is time."""
        seconds = self._train_seconds - self._train_seconds_saved
        saved = save_step(live, self._iteration, train_loss, seconds)
        live.saved, live.track = saved.states.live, saved.track
        step = saved.checkpoint.step
        with self._condition:
            self._train_seconds_saved = self._train_seconds
            self._checkpoints.append(saved.checkpoint)
            self._states.add(step, saved.states, saved.states.nbytes)
            self._codes.add(step, saved.codes, sum(c.nbytes for c in saved.codes))
        self._move_to_disk()
        share = self.settings.loss_share
        spent = self._wall_seconds + self._idle_seconds
        if share is None or self._loss_seconds <= share * spent:
            self._measure_losses(live)

    def _move_to_disk(self) -> None:
        """Move alphabets to disk, those of steps whose states are no longer in memory."""
        checkpoints = self._checkpoints  # only this thread changes them
        in_memory = self._states.steps_in_memory[0]
        while checkpoints[self._n_on_disk].step < in_memory:  # the newest stays there
            older = checkpoints[self._n_on_disk]
            if older.alphabets:
                try:
                    stored = replace(older, alphabets=self._alphabets.put(older.alphabets))
                except OSError:  # the disk is full: they stay in memory until the next try
                    return
                with self._condition:
                    checkpoints[self._n_on_disk] = stored
            self._n_on_disk += 1

    def _measure_losses(self, live: LiveModel) -> None:
        """Measure the newest checkpoint on the probe, unless that is done already."""
        newest = self._checkpoints[-1]
        if newest.measured:
            return
        started = time.perf_counter()
        of_live = self.task.probe_metric(live.saved)
        restored = self.task.probe_metric(live.track) if newest.kind == "delta" else of_live
        seconds = time.perf_counter() - started
        with self._condition:
            self._checkpoints[-1] = replace(
                newest,
                live_loss=of_live[0],
                restored_loss=restored[0],
                live_metric=of_live[1],
                restored_metric=restored[1],
                measure_seconds=newest.measure_seconds + seconds,
            )
            self._loss_seconds += seconds
