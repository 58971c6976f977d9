"""Experiments that visitors ask for: one at a time, shared, kept, and stopped when unwatched.

An experiment comes in parts, such as its seeds. Each finished part is kept: whoever asks for the
same experiment again, or for more parts of it, gets them at once. A job goes on while somebody
watches it; when the last one has left, or has had no page open for WATCH_SECONDS, it stops the next
time it reports progress.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch

import codec
import demo_models
from lcviz.lab.progress import Report

IDLE, WAITING, WORKING = "idle", "waiting", "working"
DONE, STOPPED, FAILED = "done", "stopped", "failed"
ACTIVE = (WAITING, WORKING)
WATCH_SECONDS = 20.0
UNWATCHED = f"Stopped: no visitor had a page open for {WATCH_SECONDS:.0f} seconds."
MAX_WAITING = 6  # jobs behind the one that is being done
MAX_KEPT = 200  # experiments whose parts are kept

T = TypeVar("T")
Work = Callable[[int, Report], T]  # the number of a part, from 0 -> its result
_LOG = logging.getLogger(__name__)


class CrowdedError(Exception):
    """The line is full; the message is a sentence for the person at the screen."""


class _Stopped(Exception):  # noqa: N818 - not an error
    """Nobody wants the job any more."""


@dataclass(frozen=True)
class FinishedPart(Generic[T]):
    """What a part gave. at: when it was finished, in seconds since the epoch."""

    value: T
    at: float


@dataclass(frozen=True)
class View(Generic[T]):
    """A job as it is now.

    status: IDLE if nobody has asked for it. message: a sentence if it was stopped, the reason if it
    failed. finished_parts: in order, from the first part on. share: of the part under way, 0 to 1.
    so_far: what that part has reported. ahead: how many jobs come before it. watchers: how many
    sessions want it.
    """

    status: str
    message: str
    finished_parts: tuple[FinishedPart[T], ...]
    share: float = 0.0
    so_far: Any = None
    ahead: int = 0
    watchers: int = 0


@dataclass
class _QueuedJob:
    key: tuple[Hashable, int]
    work: Callable[[int, Report], Any]
    watchers: dict[str, float] = field(default_factory=dict)  # -> time of the last look, monotonic
    share: float = 0.0
    so_far: Any = None


class Jobs(Generic[T]):
    """The line of all jobs of this server; thread-safe.

    is_open: Whether a watcher has any page open. One who has none must look again in WATCH_SECONDS.
    """

    def __init__(self, is_open: Callable[[str], bool] = lambda _: False) -> None:
        self._is_open = is_open
        self._condition = threading.Condition()
        self._line: list[_QueuedJob] = []  # the first is being done
        self._finished: dict[Hashable, list[FinishedPart[T]]] = {}  # the newest last
        self._ends: dict[tuple[Hashable, int], tuple[str, str]] = {}  # status, message
        self._thread: threading.Thread | None = None
        atexit.register(self.close)

    # What watchers call. watcher: the id of a session.

    def ask(self, experiment: Hashable, parts: int, work: Work[T], watcher: str) -> None:
        """Put a job in line for those of the parts 0 to parts - 1 that are not finished.

        Args:
            experiment: Whatever determines the results of the parts.
            parts: How many of them.
            work: Does one part.
            watcher: Watches this job from now on, and leaves every other one.

        Raises:
            CrowdedError: The line is full; nothing has changed.
        """
        key = experiment, parts
        with self._condition:
            self._sweep()
            job = next((j for j in self._line if j.key == key), None)
            if job is None and len(self._finished.get(experiment, ())) < parts:
                # This job takes the place of one that the watcher alone was waiting for.
                replaced = any(set(j.watchers) == {watcher} for j in self._line[1:])
                if len(self._line) - replaced > MAX_WAITING:
                    raise CrowdedError(
                        "The line of waiting experiments is full: this server's limit is "
                        f"{MAX_WAITING}. Try again in a minute or two."
                    )
                job = _QueuedJob(key, work)
                self._line.append(job)
                self._ends.pop(key, None)
            if job is not None:
                job.watchers[watcher] = time.monotonic()
            self._leave(watcher, job)
            if self._line and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
                self._thread.start()

    def look(self, experiment: Hashable, parts: int, watcher: str | None = None) -> View[T]:
        """The job as it is now. A watcher keeps it going."""
        key = experiment, parts
        with self._condition:
            self._sweep()
            finished = tuple(self._finished.get(experiment, ())[:parts])
            if len(finished) == parts:
                return View(DONE, "", finished)
            for ahead, job in enumerate(self._line):
                if job.key == key:
                    if watcher is not None:
                        job.watchers[watcher] = time.monotonic()
                    if not job.watchers:
                        break  # it is about to stop
                    status, watchers = WAITING if ahead else WORKING, len(job.watchers)
                    return View(status, "", finished, job.share, job.so_far, ahead, watchers)
            status, message = self._ends.get(key, (IDLE, ""))
            return View(status, message, finished)

    def leave(self, watcher: str) -> None:
        """Let a watcher leave all jobs. A job without watchers stops."""
        with self._condition:
            self._leave(watcher)

    def forget(self, experiment: Hashable) -> None:
        """Drop the finished parts of an experiment that nobody can ask for any more.

        A finalizer may call this at any time, also in the thread that holds the lock.
        """
        with self._condition:
            self._finished.pop(experiment, None)

    def wait(self, experiment: Hashable, parts: int, timeout: float) -> View[T]:
        """Block until the job has left the line, or the timeout in seconds is over."""
        key = experiment, parts
        with self._condition:
            self._condition.wait_for(lambda: all(j.key != key for j in self._line), timeout)
        return self.look(experiment, parts)

    def close(self) -> None:
        """Stop all jobs; returns when the part under way has ended."""
        with self._condition:
            for job in self._line:
                job.watchers.clear()
            self._sweep()
            thread = self._thread
        if thread is not None:
            thread.join()

    # With the lock held.

    def _leave(self, watcher: str, but: _QueuedJob | None = None) -> None:
        for job in self._line:
            if job is not but:
                job.watchers.pop(watcher, None)
        self._sweep()

    def _sweep(self) -> None:
        """Drop watchers who have been away for long, and waiting jobs without watchers."""
        now = time.monotonic()
        for i, job in reversed(list(enumerate(self._line))):
            all_left = not job.watchers
            seen = {w: now if self._is_open(w) else at for w, at in job.watchers.items()}
            job.watchers = {w: at for w, at in seen.items() if now - at < WATCH_SECONDS}
            if not job.watchers and job.key not in self._ends:
                self._ends[job.key] = STOPPED, "Stopped." if all_left else UNWATCHED
            elif job.watchers and i == 0:
                self._ends.pop(job.key, None)  # somebody came back in time
            if not job.watchers and i:
                self._drop(job)

    def _drop(self, job: _QueuedJob) -> None:
        self._line.remove(job)
        while len(self._ends) > MAX_KEPT:
            del self._ends[next(iter(self._ends))]
        self._condition.notify_all()

    # What the thread does.

    def _run(self) -> None:
        torch.set_num_threads(1)  # as runs do: sums come out the same every time
        while True:
            with self._condition:
                if not self._line:
                    self._thread = None
                    return
                job = self._line[0]
            stopped, failure = False, ""
            try:
                self._do(job)
            except _Stopped:
                stopped = True  # `_sweep` has said why
            except Exception as exc:  # the jobs behind it must go on
                failure = _reason(exc)
            with self._condition:
                if failure:
                    self._ends[job.key] = FAILED, failure
                if not (stopped and job.watchers):  # else somebody came back at the last moment
                    self._drop(job)

    def _do(self, job: _QueuedJob) -> None:
        experiment, parts = job.key

        def report(done: int, total: int, so_far: Any = None, /) -> None:
            with self._condition:
                self._sweep()
                if not job.watchers:
                    raise _Stopped
                job.share, job.so_far = done / total, so_far

        while True:
            with self._condition:
                part = len(self._finished.get(experiment, ()))
            if part >= parts:
                return
            report(0, 1)
            value = job.work(part, report)
            with self._condition:
                self._finished.setdefault(experiment, []).append(FinishedPart(value, time.time()))
                while len(self._finished) > MAX_KEPT:
                    self._finished.pop(next(iter(self._finished)), None)
                job.share, job.so_far = 0.0, None
                self._condition.notify_all()


def _reason(exc: Exception) -> str:
    """Why a job failed; never shows a path of the server."""
    if isinstance(exc, MemoryError):
        return "this machine does not have enough memory for it."
    if isinstance(exc, (demo_models.DataError, codec.LccError)):
        return f"{str(exc).rstrip('.')}."
    if isinstance(exc, OSError):
        return f"{str(exc.strerror or exc).rstrip('.')}."
    _LOG.error("an experiment failed", exc_info=exc)
    return f"an unexpected error stopped it, {exc!r}."
