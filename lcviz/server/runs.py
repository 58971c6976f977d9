"""All runs of this server, each with an id that nobody can guess; limited and cleaned up.

A run outlasts its server: the next server that gets its link reopens it.
"""

from __future__ import annotations

import atexit
import contextlib
import hmac
import os
import re
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from lcviz.run.run import Run
from lcviz.run.saved_steps import JOURNAL
from lcviz.run.snapshot import BUSY, FAILED, PLAYING, RunError, RunSettings

from . import heap
from .temp_folders import TempFolder, lasting_folder, locked, unlock

MAX_RUNS = 12  # each may hold a model, 5 MB of codes and states, and 80 MB of them on disk
IDLE_SECONDS = 300.0  # then a run at rest that no page shows may be closed for a new one
STORED_SECONDS = 24 * 3600.0  # since its last checkpoint: then a run of no server is deleted
# A training gives up the interpreter at every tensor operation, and a page keeps it for this long:
# with Python's own 5 ms, a page would stop the training that it shows.
SWITCH_SECONDS = 0.0005
EXAMPLE = RunSettings()
EXAMPLE_ID = "example"
EXAMPLE_OPENS = 20  # the step of the example to show first: a restart there still loses something
CHAIN = "run.lcc"  # in the folder of a run
_ID = re.compile("[0-9a-f]{24}")


def secret_in(folder: Path) -> bytes:
    """The secret from which the keys of all runs are derived; made if missing. Raises OSError."""
    path = folder / "secret"
    if not path.exists():
        descriptor, fresh = tempfile.mkstemp(dir=folder)
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            os.link(fresh, path)
        except FileExistsError:  # another server was faster
            pass
        except OSError:  # a disk without links
            shutil.copyfile(fresh, path)
        Path(fresh).unlink()
    return path.read_bytes()


class Runs:
    """The manager of all runs; thread-safe."""

    def __init__(self) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._scratch = TempFolder("example")
        self._folder = lasting_folder("runs") or self._scratch.path
        self._runs: dict[str, Run] = {}
        self._locks: dict[str, int | None] = {}  # of the runs' folders, by id
        self._secret = secret_in(self._folder)
        self._lock = threading.Lock()
        self._creating = threading.Lock()  # apart from _lock: making a run can take seconds
        self._making_example = threading.Lock()
        self._prepared = threading.Event()
        atexit.register(self.close_all)

    def prepare(self) -> None:
        """Train the example in the background, and delete what nobody came back to."""
        threading.Thread(target=self._prepare, name="prepare", daemon=True).start()
        heap.give_back_regularly()

    def prepared(self, timeout: float = 0.0) -> bool:
        """True once the example is there, or has failed; waits up to `timeout` seconds."""
        return self._prepared.wait(timeout)

    def _prepare(self) -> None:
        with contextlib.suppress(Exception):  # `example` raises it again for whoever asks
            self.example()
        self._prepared.set()
        self._delete_old()

    def create(self, settings: RunSettings, instead_of: Run | None = None) -> Run:
        """A new, paused run; ``instead_of`` is closed once the new one is there.

        Raises RunError if the server is full, and what Run raises; then nothing is closed.
        """
        with self._creating:
            # If several tabs reset one run at once, only the first gets its place.
            old = None if instead_of is None or instead_of.id == EXAMPLE_ID else instead_of
            if old is None or self._runs.get(old.id) is not old:
                self._close_an_idle_run()
            run = self._new(secrets.token_hex(12), settings)  # a component's key has no "__"
            if old is not None:
                with self._lock:
                    self._runs.pop(old.id, None)
        if old is not None:
            self.close(old)
        self._delete_old()
        return run

    def get(self, run_id: str | None) -> Run | None:
        """The run with that id, also one of a server that has ended; None if there is none."""
        with self._lock:
            run = self._runs.get(run_id or "")
        if run is None and run_id and self.is_stored(run_id):
            with self._creating:
                run = self._runs.get(run_id) or self._reopened(run_id)
        return run

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
        folder = (self._scratch.path if run_id == EXAMPLE_ID else self._folder) / run_id
        shutil.rmtree(folder, ignore_errors=True)  # left by an attempt that failed
        folder.mkdir(parents=True)
        lock = locked(folder)
        try:
            run = Run(run_id, settings, folder / CHAIN)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            unlock(lock)
            raise
        with self._lock:
            self._runs[run_id], self._locks[run_id] = run, lock
        return run

    def _reopened(self, run_id: str) -> Run | None:
        """A run of a server that has ended; None if it cannot go on here."""
        folder, run, lock = self._folder / run_id, None, None
        try:
            lock = locked(folder)
            run = Run.reopened(run_id, folder / CHAIN)
            self._close_an_idle_run()
        except Exception:
            # It is in use by another server, damaged, or of other code; or this server is full.
            if run is not None:
                run.end()
            unlock(lock)
            return None
        with self._lock:
            self._runs[run_id], self._locks[run_id] = run, lock
        return run

    def is_stored(self, run_id: str) -> bool:
        """Whether there is a run of this id, which perhaps cannot be opened now."""
        return bool(_ID.fullmatch(run_id)) and (self._folder / run_id).is_dir()

    def _delete_old(self) -> None:
        """Delete the runs of ended servers: after a day, or if there are too many."""
        ended = []
        for journal in self._folder.glob(f"*/{JOURNAL}"):
            with contextlib.suppress(OSError):  # a server has it, perhaps this one
                age = time.time() - journal.stat().st_mtime
                ended.append((age, journal.parent, locked(journal.parent)))
        for i, (age, folder, lock) in enumerate(sorted(ended)):
            if age > STORED_SECONDS or i >= MAX_RUNS:
                shutil.rmtree(folder, ignore_errors=True)
            unlock(lock)

    def close(self, run: Run) -> None:
        """End a run and delete its chain; the example stays."""
        if run.id != EXAMPLE_ID:
            self._forget(run)

    def _forget(self, run: Run) -> None:
        with self._lock:
            self._runs.pop(run.id, None)
            lock = self._locks.pop(run.id, None)
        run.close()
        shutil.rmtree(run.path.parent, ignore_errors=True)
        unlock(lock)
        heap.give_back()

    def close_all(self) -> None:
        """End every thread before the process exits. Runs stay on disk; the example is deleted."""
        with self._lock:
            runs, locks = list(self._runs.values()), list(self._locks.values())
            self._runs.clear()
            self._locks.clear()
        for run in runs:
            run.stop()  # all at once, then wait for each
        for run in runs:
            run.end()
        for lock in locks:
            unlock(lock)
        self._scratch.close()

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
