"""Experiments that visitors ask for: one at a time, shared, kept, and stopped when unwatched.

An experiment comes in parts, such as its seeds. Each finished part is kept: whoever asks for the
same experiment again, or for more parts of it, gets them at once. A job goes on while somebody
looks at it; when the last one has left, or has not looked for WATCH_SECONDS, it stops the next time
it reports progress.
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
    """A result, and when it was finished. at: seconds since the epoch."""

    value: T
    at: float


@dataclass(frozen=True)
class View(Generic[T]):
    """A job as it is now.

    status: IDLE if nobody has asked for it. message: a sentence if it was stopped, the reason if it
    failed. found: the finished parts, from the first on. share: of the part under way, 0 to 1.
    so_far: what that part has reported. ahead: jobs that come before it. watchers: who wants it,
    with the one who looks.
    """

    status: str
    message: str
    found: tuple[FinishedPart[T], ...]
    share: float = 0.0
    so_far: Any = None
    ahead: int = 0
    watchers: int = 0


@dataclass
class _QueuedJob:
    key: tuple[Hashable, int]
    work: Callable[[int, Report], Any]
    seen: dict[str, float] = field(default_factory=dict)  # who -> when, monotonic
    share: float = 0.0
    so_far: Any = None


class Jobs(Generic[T]):
    """The line of all jobs of this server; thread-safe."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._line: list[_QueuedJob] = []  # the first is being done
        self._kept: dict[Hashable, list[FinishedPart[T]]] = {}  # the newest last
        self._ended: dict[tuple[Hashable, int], tuple[str, str]] = {}  # status, message
        self._thread: threading.Thread | None = None
        atexit.register(self.close)

    # What watchers call. who: an id of the session.

    def ask(self, experiment: Hashable, parts: int, work: Work[T], who: str) -> None:
        """Get the missing ones of parts 0 to parts - 1 done; `who` leaves every other job.

        Args:
            experiment: Whatever determines the results of the parts.
            parts: How many of them.
            work: Does one part.
            who: Watches the job from now on.

        Raises:
            CrowdedError: The line is full; nothing has changed.
        """
        key = experiment, parts
        with self._condition:
            self._sweep()
            job = next((j for j in self._line if j.key == key), None)
            if job is None and len(self._kept.get(experiment, ())) < parts:
                # A visitor who asks for something else leaves room for it.
                given_up = any(set(j.seen) == {who} for j in self._line[1:])
                if len(self._line) - given_up > MAX_WAITING:
                    raise CrowdedError(
                        "The line of waiting experiments is full: this server's limit is "
                        f"{MAX_WAITING}. Try again in a minute or two."
                    )
                job = _QueuedJob(key, work)
                self._line.append(job)
                self._ended.pop(key, None)
            if job is not None:
                job.seen[who] = time.monotonic()
            self._leave(who, job)
            if self._line and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
                self._thread.start()

    def look(self, experiment: Hashable, parts: int, who: str | None = None) -> View[T]:
        """The job as it is; ``who`` watches it, if given, which keeps it going."""
        key = experiment, parts
        with self._condition:
            self._sweep()
            found = tuple(self._kept.get(experiment, ())[:parts])
            if len(found) == parts:
                return View(DONE, "", found)
            for ahead, job in enumerate(self._line):
                if job.key == key:
                    if who is not None:
                        job.seen[who] = time.monotonic()
                    if not job.seen:
                        break  # it is about to stop
                    status = WAITING if ahead else WORKING
                    return View(status, "", found, job.share, job.so_far, ahead, len(job.seen))
            status, message = self._ended.get(key, (IDLE, ""))
            return View(status, message, found)

    def leave(self, who: str) -> None:
        """Want no job any more; what nobody else wants stops."""
        with self._condition:
            self._leave(who)

    def forget(self, experiment: Hashable) -> None:
        """Drop its finished parts: nobody can ask for it any more.

        A finalizer may call this at any time, also in the thread that holds the lock.
        """
        with self._condition:
            self._kept.pop(experiment, None)

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
                job.seen.clear()
            self._sweep()
            thread = self._thread
        if thread is not None:
            thread.join()

    # With the lock held.

    def _leave(self, who: str, but: _QueuedJob | None = None) -> None:
        for job in self._line:
            if job is not but:
                job.seen.pop(who, None)
        self._sweep()

    def _sweep(self) -> None:
        """Forget who has not looked for long, and drop from the line what nobody wants."""
        now = time.monotonic()
        for i, job in reversed(list(enumerate(self._line))):
            left = not job.seen
            job.seen = {who: at for who, at in job.seen.items() if now - at < WATCH_SECONDS}
            if not job.seen and job.key not in self._ended:
                why = "Stopped." if left else "Stopped, because no page was watching."
                self._ended[job.key] = STOPPED, why
            elif job.seen and i == 0:
                self._ended.pop(job.key, None)  # somebody came back in time
            if not job.seen and i:
                self._drop(job)

    def _drop(self, job: _QueuedJob) -> None:
        self._line.remove(job)
        while len(self._ended) > MAX_KEPT:
            del self._ended[next(iter(self._ended))]
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
            except Exception as exc:  # the next one in line must not suffer
                failure = _reason(exc)
            with self._condition:
                if failure:
                    self._ended[job.key] = FAILED, failure
                if not (stopped and job.seen):  # else somebody came back in the last moment
                    self._drop(job)

    def _do(self, job: _QueuedJob) -> None:
        experiment, parts = job.key

        def report(done: int, total: int, so_far: Any = None, /) -> None:
            with self._condition:
                self._sweep()
                if not job.seen:
                    raise _Stopped
                job.share, job.so_far = done / total, so_far

        while True:
            with self._condition:
                part = len(self._kept.get(experiment, ()))
            if part >= parts:
                return
            report(0, 1)
            value = job.work(part, report)
            with self._condition:
                self._kept.setdefault(experiment, []).append(FinishedPart(value, time.time()))
                while len(self._kept) > MAX_KEPT:
                    self._kept.pop(next(iter(self._kept)), None)
                job.share, job.so_far = 0.0, None
                self._condition.notify_all()


def _reason(exc: Exception) -> str:
    """Why a job failed. A path of the server is not shown."""
    if isinstance(exc, MemoryError):
        return "this machine does not have enough memory for it."
    if isinstance(exc, (demo_models.DataError, codec.LccError)):
        return f"{str(exc).rstrip('.')}."
    if isinstance(exc, OSError):
        return f"{str(exc.strerror or exc).rstrip('.')}."
    _LOG.error("an experiment failed", exc_info=exc)
    return f"an unexpected error stopped it, {exc!r}."
