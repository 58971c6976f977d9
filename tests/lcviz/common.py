"""What tests of the dashboard do to runs, and to chains and files on disk."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import codec
from lcviz.run.run import Run, Snapshot

Patch = pytest.MonkeyPatch
# Fixtures that are functions; `Answer`: an exit code, and what was printed.
Make = Callable[..., Any]
MakeRun = Callable[..., Run]
MakePath = Callable[..., Path]
Answer = Callable[..., tuple[int, str]]

SECONDS = 300  # for anything awaited, also on a busy machine


class Calls(list[tuple[Any, ...]]):
    """A function that does nothing: what it was called with."""

    def __call__(self, *given: Any) -> None:
        """Keep it."""
        self.append(given)

    def __bool__(self) -> bool:
        """It is there, also before its first call."""
        return True


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


def saved(path: Path | str, states: Iterable[Any], **settings: Any) -> Path:
    """A chain of these states at steps 0, 1, 2, …: its path."""
    with codec.Checkpointer(path, **settings) as checkpoints:
        for step, state in enumerate(states):
            checkpoints.save(step, state)
    return Path(path)


def save_steps(path: Path, first: int, last: int, **settings: Any) -> Path:
    """Save steps first to last of a chain; past 0 it is continued: its path."""
    rng = np.random.default_rng(first)
    state = {"w": rng.normal(size=(30, 40)).astype(np.float32), "n": np.array(first)}
    if first:
        state = codec.restore(path)
    with codec.Checkpointer(path, resume=first > 0, **{"bits": 4} | settings) as chain:
        for step in range(first, last + 1):
            state["w"] = state["w"] + 0.1 * rng.normal(size=(30, 40)).astype(np.float32) ** 3
            state["n"] = np.array(state["n"] + 1)
            chain.save(step, state)
    return path


def files(folder: Path, states: Iterable[Any]) -> Path:
    """These states as files 0.pt, 1.pt, 2.pt, …: their folder."""
    for i, state in enumerate(states):
        torch.save(state, folder / f"{i}.pt")
    return folder


def flip(path: Path, step: int | None = None) -> Path:
    """Flip a bit of a file; step: of a chain's record. The path of that file."""
    (record,) = [path] if step is None else path.glob(f"{step:08d}.*")
    data = bytearray(record.read_bytes())
    data[-3] ^= 8
    record.write_bytes(data)
    return record
