"""What a run does now: its status, which pages steer, and its thread follows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .snapshot import NEXT, TRAINING, Status

WATCH_SECONDS = 20.0  # a run that nobody watched for so long pauses itself
UNWATCHED = (
    f"Paused: no visitor had a page open for {WATCH_SECONDS:.0f} seconds. Press Play to go on."
)


class Controls:
    """The status of a run, its iteration and speed limit. Thread-safe.

    interval, stop_after: see `RunSettings`. changed: held while a status changes; notified after
    each change. status, message: now; snapshots show fewer statuses. iteration: the last that was
    trained.
    """

    def __init__(self, interval: int, stop_after: int) -> None:
        self.changed = threading.Condition()
        self.status, self.message, self.iteration = Status.PAUSED, "", 0
        self._interval, self._stop_after = interval, stop_after
        self._step_end = 0  # the iteration at which STEPPING ends
        self._last_watched = time.monotonic()
        self._visitors: dict[str, Callable[[str], bool]] = {}
        self._speed: float | None = None

    def play(self) -> None:
        """Train until the run is paused or finished."""
        self.become(Status.PLAYING, watched=True)

    def pause(self) -> None:
        """Pause after the current iteration."""
        self.become(Status.PAUSING, watched=True)

    def step(self) -> None:
        """Train up to the next checkpoint, then pause."""
        with self.changed:
            if self.become(Status.STEPPING, watched=True):
                self._step_end = (self.iteration // self._interval + 1) * self._interval

    @property
    def speed(self) -> float | None:
        """Limit of iterations per second; None for no limit."""
        return self._speed

    def set_speed(self, rate: float | None) -> None:
        """Limit the iterations per second; None for no limit."""
        with self.changed:
            self._speed = rate
            self.changed.notify_all()

    def watch(self, visitor: str = "", is_open: Callable[[str], bool] | None = None) -> None:
        """Note that somebody watches the run: now, and as long as is_open(visitor) is true."""
        with self.changed:
            self._last_watched = time.monotonic()
            if is_open is not None:
                self._visitors[visitor] = is_open

    def leave(self, visitor: str) -> None:
        """Note that a visitor watches the run no more."""
        with self.changed:
            self._visitors.pop(visitor, None)

    def seconds_unwatched(self) -> float:
        """Seconds since somebody watched the run."""
        with self.changed:
            if any(is_open(visitor) for visitor, is_open in self._visitors.items()):
                self._last_watched = time.monotonic()
            return time.monotonic() - self._last_watched

    def become(self, status: Status, message: str = "", *, watched: bool = False) -> bool:
        """Change the status and return True if NEXT allows it; else return False."""
        with self.changed:
            if status not in NEXT[self.status]:
                return False
            self.status, self.message = status, message
            if watched:
                self._last_watched = time.monotonic()
            self.changed.notify_all()
            return True

    def at_rest(self) -> tuple[Status, str] | None:
        """The status and message to rest with; None if the run trains on, or ends."""
        if self.status not in (*TRAINING, Status.PAUSED):
            return None
        if self.iteration >= self._stop_after:
            return Status.FINISHED, ""
        stepped = self.status == Status.STEPPING and self.iteration >= self._step_end
        if stepped or self.status in (Status.PAUSED, Status.PAUSING):
            return Status.PAUSED, ""
        if self.seconds_unwatched() >= WATCH_SECONDS:
            return Status.PAUSED, UNWATCHED
        return None

    def keep_pace(self, started: float) -> None:
        """Wait after an iteration that began at `started`, to keep to the speed limit."""
        with self.changed:
            while self._speed and self.status == Status.PLAYING:
                seconds_left = started + 1 / self._speed - time.monotonic()
                if seconds_left <= 0:
                    break
                self.changed.wait(seconds_left)
