"""What the fault tests share: options, processes of their own, calls to the file system that are
told of, states, digests."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import os
import select
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

import codec
from codec.state.tensors import Arrays

STEPS = 5  # after so many the states begin anew; the shapes change at the third
WRITING = ("open", "write", "fsync", "link", "unlink", "fchmod", "mkdir", "close")
WRITING += ("replace", "rename", "utime")
READING = ("stat", "lstat", "fstat", "listdir", "scandir", "read", "flock")

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # for files whose fsync means nothing

Told = Callable[[str], None]
Tell = Callable[..., None]  # takes words


def options_of(
    doc: str | None, arguments: list[str] | None, **options: tuple[Any, str]
) -> argparse.Namespace:
    """What a script was called with; each option has a default and a help text."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    for name, (default, text) in options.items():
        kind: Any = {"action": "store_true"} if default is False else {"type": type(default)}
        parser.add_argument(f"--{name}", default=default, help=text, **kind)
    return parser.parse_args(arguments)


@contextlib.contextmanager
def attempt(met: Counter[str], *what: object) -> Iterator[None]:
    """Print what is raised within, count it as WRONG, and go on."""
    try:
        yield
    except Exception as exc:
        met["WRONG"] += 1
        print(f"WRONG: {', '.join(map(str, what))}: {type(exc).__name__}: {exc}")


def in_words(met: Mapping[str, int]) -> str:
    """How often each was met."""
    return ", ".join(f"{n} {what}" for what, n in sorted(met.items()))


@contextlib.contextmanager
def new_path() -> Iterator[Path]:
    """A path for a chain in a temporary directory."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder) / "run.lcc"


class Child:
    """A fork, which starts at once. It runs a function that sends lines back."""

    def __init__(self, act: Callable[[Tell], object]) -> None:
        self._reading, writing = os.pipe()
        self._rest = b""
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._reading)
            _end_with(act, writing)
        os.close(writing)

    def lines(self, *, wait: bool = False) -> list[str]:
        """Lines since the last call. wait: until there is one, or the process has ended."""
        lines: list[str] = []
        while select.select([self._reading], [], [], None if wait and not lines else 0)[0]:
            if not (data := os.read(self._reading, 2**16)):
                break
            *more, self._rest = (self._rest + data).split(b"\n")
            lines += map(bytes.decode, more)
        return lines

    def has_ended(self) -> bool:
        """Whether there will be no more lines."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._pid, options) is not None

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send SIGKILL, or another signal."""
        os.kill(self._pid, number)

    def code(self) -> int:
        """Its exit code once it has ended, or the negative signal. Call this once."""
        os.close(self._reading)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _end_with(act: Callable[[Tell], object], writing: int) -> None:
    def tell(*words: object) -> None:
        os.write(writing, " ".join(map(str, words)).replace("\n", " ").encode() + b"\n")

    try:
        act(tell)
        os._exit(0)
    except BaseException as exc:
        print(f"{type(exc).__name__}: {exc}", file=sys.stderr)
        os._exit(1)


class Calls:
    """Has every call to the file system told of by its name, before and after it.

    before: may raise, and the call is then not made (but for a close, which always closes).
    names: of the calls that count. Files are written in two halves, each of them a call.
    """

    def __init__(
        self, before: Told, after: Told = lambda name: None, names: tuple[str, ...] = WRITING
    ) -> None:
        self._before, self._after, self._names = before, after, names
        self._replaced: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Calls:
        for name in self._names:
            for module in (os, fcntl):
                if hasattr(module, name) and name not in ("read", "write"):
                    self._replace(module, name, self.noted(name, getattr(module, name)))
        self._replace(os, "fdopen", self._opened(os.fdopen))
        if "read" in self._names:
            self._replace(io, "open", self._opened(self.noted("open", io.open)))
        return self

    def __exit__(self, *_: object) -> None:
        for module, name, call in reversed(self._replaced):
            setattr(module, name, call)

    def _replace(self, module: Any, name: str, call: Any) -> None:
        self._replaced.append((module, name, getattr(module, name)))
        setattr(module, name, call)

    def noted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, told of if it is one of the names."""
        if name not in self._names:
            return call

        def noted(*args: Any, **kwargs: Any) -> Any:
            if "r+b" in args:  # shared memory
                return call(*args, **kwargs)
            try:
                self._before(name)
            except BaseException:
                if name == "close":
                    call(*args, **kwargs)
                raise
            result = call(*args, **kwargs)
            self._after(name)
            return result

        return noted

    def _opened(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Of fdopen and open: binary files made of calls that are told of."""

        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if mode not in ("rb", "wb"):
                return call(file, mode, *args, **kwargs)
            plain = call(file, mode, buffering=0)
            raw = _File(os.dup(plain.fileno()), mode, self)
            plain.close()
            return io.BufferedReader(raw) if mode == "rb" else io.BufferedWriter(raw)

        return opened


class _File(io.FileIO):
    """A file whose first write writes one half only, as a disk may do."""

    def __init__(self, descriptor: int, mode: str, calls: Calls) -> None:
        super().__init__(descriptor, mode)
        self._calls, self._fresh = calls, True

    def write(self, data: Any) -> int:
        data = memoryview(data)
        if self._fresh and len(data) > 1:
            data = data[: len(data) // 2]
        self._fresh = False
        written = self._calls.noted("write", super().write)(data)
        assert isinstance(written, int)
        return written

    def readall(self) -> bytes:
        return bytes(self._calls.noted("read", super().readall)())

    def close(self) -> None:
        if not self.closed:
            self._calls.noted("close", super().close)()


def saves(checkpoints: codec.Checkpointer, steps: range) -> Iterator[tuple[int, str]]:
    """Save these steps; yields each with the digest of its track."""
    for step in steps:
        checkpoints.save(step, state_of(step))
        assert checkpoints.tracker is not None
        yield step, digest_of(checkpoints.tracker.state)


def chain_of(path: Path, steps: int, **settings: Any) -> dict[int, str]:
    """A new chain; its steps and the digests of their tracks."""
    target = {} if "tolerance" in settings else {"bits": 2}
    with codec.Checkpointer(path, **target | settings) as checkpoints:
        return dict(saves(checkpoints, range(steps)))


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


def check_told(path: Path | str, noted: dict[int, str]) -> None:
    """Raise unless all steps of `saves` restore to the last bit."""
    left = dict(noted)
    while left:
        for position in codec.Chain(path).replay(max(left)):  # from the last base on
            step = position.step
            if step in left:
                assert digest_of(position.track.arrays) == left.pop(step), f"{step} has changed"
                restored = codec.restore(path, step) if step == max(noted) else position.whole()
                assert restored["step"] == step
                assert restored["exact"].tobytes() == state_of(step)["exact"].tobytes()
