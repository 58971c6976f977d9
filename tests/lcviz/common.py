"""What tests of the dashboard do to runs, and to records on disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from lcviz.run.run import Run, Snapshot

SECONDS = 300  # for anything awaited, also on a busy machine


def until(holds: Callable[[], object]) -> None:
    """Wait until this holds."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "it never does"
        time.sleep(0.001)


def stepped(run: Run, n: int = 1) -> Snapshot:
    """Train it to its next checkpoint, n times."""
    for _ in range(n):
        run.step()
        snapshot = run.wait(SECONDS)
    return snapshot


def finished(run: Run) -> Run:
    """Train it to its end."""
    run.play()
    assert run.wait(SECONDS).status == "finished"
    return run


def flip(path: Path, step: int | None = None) -> Path:
    """Flip a bit of a file; step: of a chain's record. The path of that file."""
    (record,) = [path] if step is None else path.glob(f"{step:08d}.*")
    data = bytearray(record.read_bytes())
    data[-3] ^= 8
    record.write_bytes(data)
    return record
