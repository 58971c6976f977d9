"""All runs of this server: made, found by their unguessable id, capped and cleaned up."""

from __future__ import annotations

import atexit
import secrets
import shutil
import tempfile
import threading
from pathlib import Path

import codec

from .session import PLAYING, Run, RunError, Settings

MAX_RUNS = 12  # each may hold a chain, a model and up to 64 MB of codes
IDLE_SECONDS = 1800.0  # an unwatched, paused run is closed after that when room is needed
EXAMPLE = Settings(stop_after=40)
EXAMPLE_ID = "example"


class Runs:
    """The manager of all runs; safe to use from every session's thread."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="lcviz-"))
        self._runs: dict[str, Run] = {}
        self._lock = threading.Lock()
        self._making_example = threading.Lock()
        atexit.register(shutil.rmtree, self._root, ignore_errors=True)

    def create(self, settings: Settings) -> Run:
        """A new, paused run. Raises RunError if the server is full, and what Run raises."""
        with self._lock:
            self._make_room()
        run_id = secrets.token_urlsafe(12)
        run = Run(run_id, settings, self._root / run_id / "run.lcc")
        with self._lock:
            self._runs[run_id] = run
        return run

    def get(self, run_id: str | None) -> Run | None:
        """The run of that id, or None if this server does not have it (any more)."""
        with self._lock:
            return self._runs.get(run_id or "")

    def example(self) -> Run:
        """The finished short run that every page starts with, trained on first use."""
        with self._making_example:
            run = self.get(EXAMPLE_ID)
            if run is None:
                codec.warm_up()
                run = Run(EXAMPLE_ID, EXAMPLE, self._root / EXAMPLE_ID / "run.lcc")
                run.play()
                run.wait()
                with self._lock:
                    self._runs[EXAMPLE_ID] = run
        return run

    def close(self, run: Run) -> None:
        """End a run and delete its chain; the example stays."""
        if run.id != EXAMPLE_ID:
            with self._lock:
                self._runs.pop(run.id, None)
            run.close()

    def _make_room(self) -> None:
        """Close the longest unwatched idle run if the server is full; the lock is held."""
        if len(self._runs) < MAX_RUNS:
            return
        idle = [
            r
            for r in self._runs.values()
            if r.id != EXAMPLE_ID
            and r.snapshot().status != PLAYING
            and r.seconds_unwatched() > IDLE_SECONDS
        ]
        if not idle:
            raise RunError(
                f"This server already holds {MAX_RUNS} runs, its limit. Reset a run that is no "
                "longer needed, or come back when one has been idle for half an hour."
            )
        oldest = max(idle, key=Run.seconds_unwatched)
        del self._runs[oldest.id]
        oldest.close()
