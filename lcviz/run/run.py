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
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

import codec
import demo_models
from codec.scheme.quantize import Codes
from demo_models import Task
from lcviz.lab.removed_bucket import RemovedBuckets

from .endings import divergence, last_words
from .live_model import arrays_of, begun, bury, restarted
from .older_steps import Details
from .recent import Newest
from .removed_buckets import Removal
from .saved_step import take
from .snapshot import (
    CLOSED,
    DEAD,
    FAILED,
    FINISHED,
    KILLED,
    PAUSED,
    PLAYING,
    RESTORING,
    Checkpoint,
    Kill,
    RunError,
    RunSettings,
    Snapshot,
    States,
)

WATCH_SECONDS = 20.0
CODES_BUDGET = 16 * 2**20  # bytes of exponent-stage codes kept for "removed bucket"
STATES_BUDGET = 32 * 2**20  # bytes of the states that the newest deltas lie between


class Run:
    """One training run with its chain on disk.

    settings: see `RunSettings`. path: the chain directory, which must not exist yet; the run
    owns and, in `close`, deletes it. Raises RunError, demo_models.DataError or
    codec.LccError for settings that cannot be used.
    """

    def __init__(self, run_id: str, settings: RunSettings, path: Path) -> None:
        settings.check()
        self.id, self.settings, self.path = run_id, settings, path
        self.task: Task = demo_models.make_task(
            settings.model, settings.data, seed=settings.seed, folder=settings.folder
        )
        # These, and the two states below, are gone while the run is KILLED.
        self._training, self._checkpointer, self._start = begun(self.task, settings, path)
        self._condition = threading.Condition()
        self._status, self._message = PAUSED, ""
        self._single_steps = 0
        self._working = self._dying = self._restoring = False
        self._steering = threading.Lock()  # for what ends the thread, or begins another
        self._last_watched = time.monotonic()
        self._iteration = 0
        self._kills: list[Kill] = []
        self._checkpoints: list[Checkpoint] = []
        self._train_seconds = self._codec_seconds = self._measure_seconds = 0.0
        self._loss_seconds = self._wall_seconds = self._train_seconds_saved = 0.0
        self._codes: Newest[list[Codes]] = Newest(CODES_BUDGET)
        self._removal = Removal(self.task, path)
        self._details, self._put_away = Details(path.parent), 0
        self._live = self._track = self._start
        self._states: Newest[States] = Newest(STATES_BUDGET)
        self._save(float("nan"))
        self._thread = self._started()

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
                self._single_steps = self.settings.interval - (
                    self._iteration % self.settings.interval
                )
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

    def states(self, step: int | None = None) -> States | None:
        """What a saved step's delta lies between, the newest one's unless a step is given.

        None once they are let go: the newest STATES_BUDGET bytes are kept, at least one step's.
        """
        with self._condition:
            return self._states.get(self._checkpoints[-1].step if step is None else step)

    def steps_held(self) -> tuple[int, ...]:
        """The steps that `states` still knows, rising."""
        with self._condition:
            return self._states.steps

    def snapshot(self) -> Snapshot:
        """The run as it is now."""
        with self._condition:
            status = self._status
            if status == PAUSED and (self._single_steps or self._working):
                status = PLAYING
            elif status == KILLED and self._restoring:
                status = RESTORING
            return Snapshot(
                status,
                self._message,
                self._iteration,
                tuple(self._checkpoints),
                self._train_seconds,
                self._codec_seconds,
                self._measure_seconds,
                self._wall_seconds,
                tuple(self._kills),
            )

    def wait(self, timeout: float | None = None) -> Snapshot:
        """Block until the run is at rest, or the timeout in seconds is over."""

        def at_rest() -> bool:
            busy = self._single_steps or self._working or self._restoring
            return self._status != PLAYING and not busy

        with self._condition:
            self._condition.wait_for(at_rest, timeout)
        return self.snapshot()

    def codes(self, step: int) -> list[Codes] | None:
        """The exponent stage's codes of a saved step, by alphabet; None once they are let go."""
        with self._condition:
            return self._codes.get(step)

    def removed_buckets(
        self, step: int, progress: Callable[[int, int], None] | None = None
    ) -> RemovedBuckets:
        """The removed-bucket experiment for a saved step; repeated calls are free.

        Raises RunError for the base, and for a step whose small buckets are no longer held.
        """
        with self._condition:
            codes, states = self._codes.get(step), self._states.get(step)
            checkpoints, closed = tuple(self._checkpoints), self._status == CLOSED
        if closed:
            raise RunError("This run was reset or closed; its chain is gone.")
        return self._removal.of(step, checkpoints, codes, states, progress)

    def kill(self) -> None:
        """Crash: the thread ends after the iteration under way, and its save if it has one, and
        what lives in memory alone is gone. The chain on disk stays as it is.

        What was shown stays, too. Once more does nothing. Raises RunError if there is no delta
        yet, or the run has failed or is closed.
        """
        if self.snapshot().status in DEAD:  # also one that goes on: that was not what to kill
            return
        with self._steering:
            with self._condition:
                if self._status == KILLED:
                    return
                if self._status in (CLOSED, FAILED):
                    raise RunError("This run is over already: there is nothing left to kill.")
                if len(self._checkpoints) < 2:
                    raise RunError("Nothing but the base is saved yet: go to the next checkpoint.")
                self._dying = True
                self._condition.notify_all()
            self._thread.join()
            with self._condition:
                self._dying = self._working = False
                if self._status not in (CLOSED, FAILED):  # or it has failed in the last moment
                    self._kills.append(
                        last_words(
                            self.snapshot(), self.task.model.state_dict(), self._loss_seconds
                        )
                    )
                    bury(self.task)
                    del self._training, self._checkpointer, self._start, self._live, self._track
                    self._status, self._message, self._single_steps = KILLED, "", 0
                self._condition.notify_all()

    def go_on(self) -> None:
        """Restart a killed run from the newest step of its chain, paused; takes the longer, the
        longer the chain is.

        Raises RunError if it is not killed, or if its chain cannot be read; it stays as it is.
        """
        with self._steering:
            if self.snapshot().status not in DEAD:
                raise RunError("Only a run that was killed goes on from its checkpoint.")
            try:
                living = restarted(self.task, self.settings, self.path)
            except (codec.LccError, OSError) as exc:
                raise RunError(f"The chain of this run cannot be read. {exc}") from exc
            newest = self._checkpoints[-1].step
            if living.checkpointer.step != newest:
                living.checkpointer.close()
                bury(self.task)
                raise RunError(
                    f"The record of step {newest} on disk is damaged: this run cannot go on. "
                    "Export what is left of its chain, then Reset."
                )
            self._training, self._checkpointer, self._start = living
            self._live = self._track = arrays_of(self.task)
            with self._condition:
                self._iteration = newest
                if self._status == KILLED:  # else closed just now: the thread ends at once
                    self._status, self._message = PAUSED, ""
                    self._last_watched = time.monotonic()
                self._thread = self._started()

    def go_on_beside(self, patience: float = 0.0) -> None:
        """`go_on` and `play` in a thread of their own: the run is RESTORING meanwhile, and if it
        cannot go on, its message says why.

        Returns once that is done, or after so many seconds. Does nothing for a run that is not
        killed, or is on its way already.
        """
        with self._condition:
            if self._status == KILLED and not self._restoring:
                self._restoring, self._message = True, ""
                threading.Thread(
                    target=self._restore, name=f"restore-{self.id}", daemon=True
                ).start()
            self._condition.wait_for(lambda: not self._restoring, patience)

    def _restore(self) -> None:
        problem = ""
        try:
            self.go_on()
        except RunError as exc:
            problem = str(exc)
        except Exception as exc:  # shown on the page: a thread has nobody else to tell
            problem = f"This run cannot go on because of an unexpected error: {exc!r}"
            raise
        finally:
            with self._condition:
                self._restoring = False
                if self._status == KILLED:
                    self._message = problem
                self.play()  # which a run that is still dead, or closed, does not
                self._condition.notify_all()

    def stop(self) -> None:
        """Ask the thread to end after the iteration under way; `close` waits for that."""
        with self._condition:
            self._status, self._single_steps = CLOSED, 0
            self._condition.notify_all()

    def close(self) -> None:
        """End the thread, which may take as long as one iteration, and delete the chain.

        Of what was kept in memory only the newest states stay, for pages that still show the run.
        """
        self.stop()
        with self._steering:
            if threading.current_thread() is not self._thread:
                self._thread.join()
        shutil.rmtree(self.path, ignore_errors=True)
        with self._condition:
            self._codes.keep(0)
            self._states.keep(1)

    # What the thread does.

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._work, name=f"run-{self.id}", daemon=True)
        thread.start()
        return thread

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
            if self._dying:
                self._measure_losses()
        except codec.LccError as exc:
            self._end(FAILED, f"Saving failed: {exc}. Every earlier checkpoint still restores.")
        except Exception as exc:  # shown on the page: a thread has nobody else to tell
            self._end(FAILED, f"Training stopped on an unexpected error: {exc!r}")
            raise
        finally:
            try:
                self._checkpointer.close()
            finally:
                self._rest()  # who waits for a run that another tab closes must not sleep over it

    def _may_iterate(self) -> bool:
        """Wait for work; False when the run is over. At rest the newest losses are known."""
        while True:
            with self._condition:
                if self._ending():
                    return False
                over = self._iteration >= self.settings.stop_after
                if self._wanted() and self._watched() and not over:
                    self._working = True
                    return True
            self._measure_losses()
            with self._condition:
                if over and self._status in (PLAYING, PAUSED):
                    self._status, self._single_steps = FINISHED, 0
                elif self._wanted() and not self._watched():
                    self._status, self._single_steps = PAUSED, 0
                    self._message = "Paused, because no page was watching. Press Play to go on."
                self._working = False
                self._condition.notify_all()
                if over:
                    return False
                # Else it would sleep over an end that was asked for while it measured.
                if not self._wanted() and not self._ending():
                    self._condition.wait()

    def _ending(self) -> bool:
        return self._status in (CLOSED, FAILED) or self._dying

    def _wanted(self) -> bool:
        return self._status == PLAYING or (self._status == PAUSED and self._single_steps > 0)

    def _watched(self) -> bool:
        return time.monotonic() - self._last_watched < WATCH_SECONDS

    def _iterate(self) -> None:
        started = time.perf_counter()
        iteration = self._iteration + 1
        train_loss = self._training.iterate(iteration)
        seconds = time.perf_counter() - started
        if not math.isfinite(train_loss):
            self._measure_losses()
            self._end(FAILED, divergence(self._checkpoints, iteration, train_loss))
            return
        with self._condition:
            self._iteration = iteration
            self._train_seconds += seconds
        if iteration % self.settings.interval == 0:
            self._save(train_loss)
        with self._condition:
            self._single_steps = max(0, self._single_steps - 1)
            self._wall_seconds += time.perf_counter() - started

    def _save(self, train_loss: float) -> None:
        """Save through the codec, take the delta apart, and measure if there is time."""
        taken = take(
            self.task,
            self._checkpointer,
            self._start,
            self._iteration,
            train_loss,
            self._train_seconds - self._train_seconds_saved,
        )
        self._live, self._track = taken.states.live, taken.track
        checkpoint = taken.checkpoint
        with self._condition:
            self._train_seconds_saved = self._train_seconds
            self._codec_seconds += checkpoint.codec_seconds
            self._measure_seconds += checkpoint.measure_seconds
            self._checkpoints.append(checkpoint)
            self._states.add(checkpoint.step, taken.states, taken.states.nbytes)
            self._codes.add(checkpoint.step, taken.codes, sum(c.nbytes for c in taken.codes))
        self._put_older_away()
        share = self.settings.loss_share
        if share is None or self._loss_seconds <= share * self._wall_seconds:
            self._measure_losses()

    def _put_older_away(self) -> None:
        """What is known of steps whose states were let go is on disk from now on."""
        every = self._checkpoints  # this thread alone changes them
        while self._states.get(every[self._put_away].step) is None:
            older = every[self._put_away]
            if older.alphabets:
                try:
                    away = replace(older, alphabets=self._details.put(older.alphabets))
                except OSError:  # the disk is full: it stays in memory, and is tried again
                    return
                with self._condition:
                    every[self._put_away] = away
            self._put_away += 1

    def _measure_losses(self) -> None:
        """Measure the newest checkpoint on the probe, unless that is done."""
        newest = self._checkpoints[-1]
        if newest.measured:
            return
        started = time.perf_counter()
        live = self.task.probe_loss(self._live)
        restored = self.task.probe_loss(self._track) if newest.kind == "delta" else live
        seconds = time.perf_counter() - started
        with self._condition:
            self._checkpoints[-1] = replace(
                newest,
                live_loss=live,
                restored_loss=restored,
                measure_seconds=newest.measure_seconds + seconds,
            )
            self._loss_seconds += seconds
            self._measure_seconds += seconds

    def _end(self, status: str, message: str) -> None:
        with self._condition:
            if self._status != CLOSED:
                self._status, self._message, self._single_steps = status, message, 0
            self._rest()

    def _rest(self) -> None:
        with self._condition:
            self._working = False
            self._condition.notify_all()
