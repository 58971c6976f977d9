"""All runs of this server, each with an id that nobody can guess; limited and cleaned up."""

from __future__ import annotations

import atexit
import contextlib
import hmac
import secrets
import shutil
import sys
import threading
from collections.abc import Iterable

from lcviz.run.run import Run
from lcviz.run.snapshot import BUSY, FAILED, PLAYING, RunError, RunSettings

from . import heap
from .temp_folders import TempFolder

MAX_RUNS = 12  # each may hold a model, 5 MB of codes and states, and 80 MB of them on disk
IDLE_SECONDS = 300.0  # then a run at rest that no page shows may be closed for a new one
# A training gives up the interpreter at every tensor operation, and a page keeps it for this long:
# with Python's own 5 ms, a page would stop the training that it shows.
SWITCH_SECONDS = 0.0005
EXAMPLE = RunSettings()
EXAMPLE_ID = "example"
EXAMPLE_OPENS = 20  # the step of the example to show first: a restart there still loses something


class Runs:
    """The manager of all runs; thread-safe."""

    def __init__(self) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._folder = TempFolder("runs")
        self._runs: dict[str, Run] = {}
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._creating = threading.Lock()  # apart from _lock: making a run can take seconds
        self._making_example = threading.Lock()
        self._prepared = threading.Event()
        atexit.register(self.close_all)

    def prepare(self) -> None:
        """Train the example in the background."""
        threading.Thread(target=self._prepare, name="prepare", daemon=True).start()
        heap.give_back_regularly()

    def prepared(self, timeout: float = 0.0) -> bool:
        """True once the example is there, or has failed; waits up to `timeout` seconds."""
        return self._prepared.wait(timeout)

    def _prepare(self) -> None:
        with contextlib.suppress(Exception):  # `example` raises it again for whoever asks
            self.example()
        self._prepared.set()

    def create(self, settings: RunSettings, instead_of: Run | None = None) -> Run:
        """A new, paused run; ``instead_of`` is closed once the new one is there.

        Raises RunError if the server is full, and what Run raises; then nothing is closed.
        """
        with self._creating:
            # If several tabs reset one run at once, only the first gets its place.
            old = None if instead_of is None or instead_of.id == EXAMPLE_ID else instead_of
            if old is None or self.get(old.id) is not old:
                self._close_an_idle_run()
            run = self._new(secrets.token_hex(12), settings)  # a component's key has no "__"
            if old is not None:
                with self._lock:
                    self._runs.pop(old.id, None)
        if old is not None:
            self.close(old)
        return run

    def get(self, run_id: str | None) -> Run | None:
        """The run with that id, None if this server does not have it."""
        with self._lock:
            return self._runs.get(run_id or "")

    def key(self, run: Run) -> str:
        """The secret that opens a run's controls."""
        return hmac.digest(self._secret, run.id.encode(), "sha256").hex()[:32]

    def opened_by(self, run: Run, keys: Iterable[str]) -> bool:
        """Whether one of the keys opens the run's controls; none opens those of the example."""
        secret = self.key(run).encode()
        matches = [hmac.compare_digest(secret, key.encode()) for key in keys]
        return any(matches) and run.id != EXAMPLE_ID

    def example(self) -> Run:
        """The finished short run that every page starts with; trained at the first call."""
        with self._making_example:
            run = self.get(EXAMPLE_ID)
            if run is None:
                run = self._new(EXAMPLE_ID, EXAMPLE)
                run.play()
                while (snapshot := run.wait(5)).status == PLAYING:
                    run.watch()
                if snapshot.status == FAILED:
                    self._forget(run)
                    raise RunError(f"The example run failed. {snapshot.message}")
        return run

    def _new(self, run_id: str, settings: RunSettings) -> Run:
        folder = self._folder.path / run_id
        shutil.rmtree(folder, ignore_errors=True)  # left by an attempt that failed
        try:
            run = Run(run_id, settings, folder / "run.lcc")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with self._lock:
            self._runs[run_id] = run
        return run

    def close(self, run: Run) -> None:
        """End a run and delete its chain; the example stays."""
        if run.id != EXAMPLE_ID:
            self._forget(run)

    def _forget(self, run: Run) -> None:
        with self._lock:
            self._runs.pop(run.id, None)
        run.close()
        shutil.rmtree(run.path.parent, ignore_errors=True)
        heap.give_back()

    def close_all(self) -> None:
        """End every thread and delete every chain, before the process ends."""
        with self._lock:
            runs = list(self._runs.values())
            self._runs.clear()
        for run in runs:
            run.stop()  # all at once, then wait for each
        for run in runs:
            run.close()
        shutil.rmtree(self._folder.path, ignore_errors=True)

    def _close_an_idle_run(self) -> None:
        """Close the longest unwatched idle run if the server is full. Raises RunError."""
        with self._lock:
            runs = [r for r in self._runs.values() if r.id != EXAMPLE_ID]
        if len(runs) < MAX_RUNS:
            return
        idle = [
            r
            for r in runs
            if r.snapshot().status not in BUSY and r.seconds_unwatched() > IDLE_SECONDS
        ]
        if not idle:
            raise RunError(
                f"This server already holds {MAX_RUNS} runs, its limit. Reset a run that is no "
                "longer needed, or come back when one has been left alone for five minutes."
            )
        self.close(max(idle, key=Run.seconds_unwatched))
