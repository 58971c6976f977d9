"""Kill a process that saves, at every call to the file system and at random times.

    python tests/faults/kills.py --random 400

Each time a process of its own saves states into a chain and tells, once `save` has returned, which
step that was and the digest of its track. It is killed (SIGKILL) before or after one of its calls
to the file system, another one each time until all have had their turn, or at a random time. Then
everything that was told must restore to the last bit, and the chain must go on.

A forked process starts in no time; codec allows it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

import codec
from codec.state import Arrays

STEPS = 5  # of one process; the shapes change at the third
LIFETIME = 0.015  # seconds, about, of a process that is not killed
CALLS = ("open", "write", "fsync", "link", "unlink", "fchmod", "mkdir", "close", "replace")


def main(arguments: list[str] | None = None) -> int:
    """Run all kills; returns the number of those after which something was lost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--random", type=int, default=100, help="kills at random times")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    codec.warm_up()
    rng = random.Random(options.seed)
    met: Counter[str] = Counter()
    for resumed in (False, True):
        for when in ("before", "after"):
            number = 0
            while one_kill(resumed, Trap(when, number), None, met):
                number += 1
    for _ in range(options.random):
        one_kill(rng.random() < 0.5, None, rng.uniform(0, LIFETIME), met)
    print(", ".join(f"{n} {what}" for what, n in sorted(met.items())))
    return met["lost"]


class Trap:
    """Kills its own process before or after call ``number``, counted over all of CALLS."""

    def __init__(self, when: str, number: int) -> None:
        self.when, self.number = when, number

    def set(self) -> None:
        """From now on. A file is written in two halves, each of them a call."""
        for name in CALLS:
            setattr(os, name, self._trapped(getattr(os, name)))
        fdopen = os.fdopen
        os.fdopen = lambda *args, **kwargs: _Halves(  # type: ignore[assignment]
            fdopen(*args, **kwargs), self._trapped
        )

    def _trapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def trapped(*args: Any, **kwargs: Any) -> Any:
            self.number -= 1
            mine = self.number == -1
            if mine and self.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*args, **kwargs)
            if mine:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return trapped


class _Halves:
    """A file whose writes take two calls."""

    def __init__(self, file: Any, trapped: Callable[..., Any]) -> None:
        self._file, self._write = file, trapped(self._now)

    def _now(self, data: bytes) -> None:
        self._file.write(data)
        self._file.flush()

    def write(self, data: bytes) -> int:
        """All of it."""
        self._write(data[: len(data) // 2])
        self._write(data[len(data) // 2 :])
        return len(data)

    def __enter__(self) -> _Halves:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def one_kill(resumed: bool, trap: Trap | None, seconds: float | None, met: Counter[str]) -> bool:
    """Save, be killed, look. Returns whether the process was killed.

    resumed: the chain had records before. trap, seconds: when it is killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.lcc"
        told: dict[int, str] = {}
        if resumed:
            with codec.Checkpointer(path, bits=2) as checkpoints:
                told |= dict(saves(checkpoints, range(2)))
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _child(path, trap, writing)
        os.close(writing)
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        with os.fdopen(reading) as pipe:
            lines = [line.split() for line in pipe.read().splitlines(keepends=True) if "\n" in line]
        told |= {int(step): digest for step, digest in lines}
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        assert killed or os.waitstatus_to_exitcode(status) == 0, "the process that saves failed"
        met["killed" if killed else "not killed in time"] += 1
        met["steps told"] += len(told)
        try:
            check(path, told)
        except Exception as exc:
            met["lost"] += 1
            print(f"LOST: {trap and vars(trap)}, {seconds}: {type(exc).__name__}: {exc}")
        return killed


def _child(path: Path, trap: Trap | None, writing: int) -> None:
    tell = os.write
    try:
        if trap:
            trap.set()
        with codec.Checkpointer(path, bits=2, resume=True) as checkpoints:
            first = 0 if checkpoints.step is None else checkpoints.step + 1
            for step, digest in saves(checkpoints, range(first, first + STEPS)):
                tell(writing, f"{step} {digest}\n".encode())
        os._exit(0)
    except BaseException as exc:
        print(f"{type(exc).__name__}: {exc}", file=sys.stderr)
        os._exit(1)


def saves(checkpoints: codec.Checkpointer, steps: range) -> Iterator[tuple[int, str]]:
    """Save these steps; yields each with the digest of its track."""
    for step in steps:
        checkpoints.save(step, state_of(step))
        assert checkpoints.tracker is not None
        yield step, digest_of(checkpoints.tracker.state)


def state_of(step: int) -> dict[str, Any]:
    """What is saved at a step: always the same."""
    rng = np.random.default_rng(step)
    size = 3000 if step % STEPS < 3 else 2000
    model = {"w": rng.normal(size=size).astype(np.float32), "n": np.array(step)}
    return {"model": model, "step": step, "exact": rng.normal(size=50)}


def digest_of(arrays: Arrays) -> str:
    """Of a track, from every byte of it."""
    h = xxhash.xxh3_128()
    for name in sorted(arrays):
        h.update(name.encode() + arrays[name].tobytes())
    return h.hexdigest()


def check(path: Path, told: dict[int, str]) -> None:
    """Raise unless all steps restore as they were told of, and the chain can go on."""
    if not told:
        with codec.Checkpointer(path, bits=2, resume=True) as checkpoints:
            checkpoints.save(1000, state_of(0))
        assert codec.verify(path).ok
        return
    for step, digest in told.items():
        *_, position = codec.Chain(path).replay(step)
        assert digest_of(position.state) == digest, f"step {step} has changed"
        restored = codec.restore(path, step)
        assert restored["step"] == step
        assert restored["exact"].tobytes() == state_of(step)["exact"].tobytes()
    assert codec.verify(path).ok, codec.verify(path).problems
    with codec.Checkpointer(path, bits=2, resume=True) as checkpoints:
        assert checkpoints.step is not None
        assert checkpoints.step >= max(told)
        checkpoints.save(1000, state_of(0))
    report = codec.verify(path)
    assert report.ok, report.problems
    assert set(told) <= set(report.steps)
    assert not list(path.glob(".lcc-*")), "a temporary file was left behind"


if __name__ == "__main__":
    sys.exit(min(main(), 1))
