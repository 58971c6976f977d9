"""Refuse every call to the file system in turn: no room, an I/O error, no permission.

    PYTHONPATH=. python tests/faults/disks.py

A chain is begun, opened, saved to, read and packed, and each time one call fails, or that one and
all after it, as on a disk that is gone for a while. Then what failed must have failed with a named
error, everything that was saved before must restore to the last bit, and the same Checkpointer must
go on. The kernel refuses as well: files that may grow no larger, and a file system that is full.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import os
import resource
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from common import MEMORY, READING, WRITING, Calls, chain_of, check_told, saves, state_of

import codec
from codec.errors import ChainNotFoundError, LockedError, SkippedRecordWarning

Task = Callable[[Path, "Refusal", Counter[str]], None]
CODES = (errno.ENOSPC, errno.EIO, errno.EACCES)
FILLER = "filler"


class Refusal:
    """The call ``number``, counted from 0, fails; if lasting, all after it too.

    But not for what needs no disk: a lock is let go of whatever happens to it.
    """

    def __init__(self, number: int, code: int, lasting: bool) -> None:
        self.number, self.code, self.lasting = number, code, lasting
        self.calls, self.met = 0, ""

    def __call__(self, name: str) -> None:
        later = self.lasting and self.calls > self.number and name != "flock"
        mine = self.calls == self.number or later
        self.calls += 1
        if mine:
            self.met = self.met or name
            raise OSError(self.code, f"{os.strerror(self.code)} ({name})")

    def watching(self) -> Calls:
        """While this is entered."""
        return Calls(self, names=WRITING + READING)


def main(arguments: list[str] | None = None) -> int:
    """Run everything; returns the number of faults after which something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--codes", type=int, default=len(CODES), help="1: ENOSPC alone")
    parser.add_argument("--every", type=int, default=1, help="of so many calls one fails alone")
    parser.add_argument("--lasting", type=int, default=1, help="of so many calls one that lasts")
    parser.add_argument("--stride", type=int, default=1, help="of the sizes a file may have")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", SkippedRecordWarning)
    codec.warm_up()
    met: Counter[str] = Counter()
    for at, what in enumerate(TASKS):
        for code in CODES[: options.codes]:
            for lasting, share in ((False, options.every), (True, options.lasting)):
                number = at % share  # so that all tasks together meet every kind of call
                while one_fault(what, Refusal(number, code, lasting), met):
                    number += share
    for real in (small_files, small_files_of_another_process, full_disk):
        attempt(real.__name__, lambda real=real: real(met, options.stride), met)
    print(", ".join(f"{n} {what}" for what, n in sorted(met.items())))
    return met["WRONG"]


def attempt(
    what: str, work: Callable[[], None], met: Counter[str], refusal: Refusal | None = None
) -> None:
    """Do it; whatever it raises is told and counted."""
    try:
        work()
    except Exception as exc:
        met["WRONG"] += 1
        print(f"WRONG: {what}, {refusal and vars(refusal)}: {type(exc).__name__}: {exc}")


def one_fault(what: str, refusal: Refusal, met: Counter[str]) -> bool:
    """Returns whether there was such a call."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        attempt(what, lambda: TASKS[what](Path(folder) / "run.lcc", refusal, met), met, refusal)
    met["calls refused"] += bool(refusal.met)
    return bool(refusal.met)


@contextlib.contextmanager
def refused(refusal: Refusal, met: Counter[str], *kinds: type) -> Iterator[list[Exception]]:
    """The calls within are refused; what that raises must be of these kinds."""
    raised: list[Exception] = []
    try:
        with refusal.watching():
            yield raised
        met["done all the same"] += bool(refusal.met)
    except Exception as exc:
        if type(exc) not in kinds or len(str(exc)) > 1000:
            raise
        met[type(exc).__name__] += 1
        raised.append(exc)


# What is done while calls are refused: to a chain that begins at path.


def begun(path: Path, refusal: Refusal, met: Counter[str]) -> None:
    """A new chain."""
    kinds = (codec.WriteError, codec.ChainError, LockedError)
    with refused(refusal, met, *kinds):
        codec.Checkpointer(path).close()
    go_on(path, {})


def saved(path: Path, refusal: Refusal, met: Counter[str], step: int) -> None:
    """The record of a step, after those of all steps before."""
    with codec.Checkpointer(path) as checkpoints:
        noted = dict(saves(checkpoints, range(step)))
        with refused(refusal, met, codec.WriteError) as raised:
            noted |= saves(checkpoints, range(step, step + 1))
        check_told(path, noted)
        left = list(path.glob(".lcc-*"))
        assert refusal.lasting or bool(refusal.met) != bool(raised) or not left, f"{left} is left"
        noted |= saves(checkpoints, range(step + 1, step + 3))
        check_told(path, noted)
        report = codec.verify(path)
        assert report.ok, report.problems
    go_on(path, noted)


def opened(path: Path, refusal: Refusal, met: Counter[str]) -> None:
    """A chain whose newest record is damaged, and set aside."""
    noted = chain_of(path, 5)
    del noted[4]
    (path / "00000004.delta.safetensors").write_bytes(b"damaged")
    open_refused(path, refusal, met, noted)


def opened_before_a_base(path: Path, refusal: Refusal, met: Counter[str]) -> None:
    """A chain whose newest base is damaged: what is before it is looked for."""
    noted = chain_of(path, 5)
    (path / "00000003.base.safetensors").write_bytes(b"damaged")
    open_refused(path, refusal, met, {step: noted[step] for step in range(3)})


def open_refused(path: Path, refusal: Refusal, met: Counter[str], noted: dict[int, str]) -> None:
    """Continue a chain; all that was told must still be there."""
    (path / ".lcc-left-over").touch()
    kinds = (codec.WriteError, codec.ChainError, LockedError)
    checkpoints = None
    with refused(refusal, met, *kinds):
        checkpoints = codec.Checkpointer(path, resume=True)
    check_told(path, noted)
    if checkpoints is not None:
        noted |= saves(checkpoints, range(10, 12))
        check_told(path, noted)
        checkpoints.close()
    go_on(path, noted)


def read(path: Path, refusal: Refusal, met: Counter[str]) -> None:
    """The newest step that can be read, and one that is asked for."""
    noted = chain_of(path, 3)
    kinds = (codec.ChainError, ChainNotFoundError, codec.WriteError)
    with refused(refusal, met, *kinds):
        for step in (1, None):
            restored = codec.restore(path, step)
            got = restored["step"]
            assert step in (got, None)
            assert restored["exact"].tobytes() == state_of(got)["exact"].tobytes()
    refusal.calls = 0
    with refused(refusal, met, *kinds):
        report = codec.verify(path)
        assert report.ok == (report.steps == (0, 1, 2))
    go_on(path, noted)


def packed(path: Path, refusal: Refusal, met: Counter[str]) -> None:
    """An archive, over an older one."""
    noted = chain_of(path, 2)
    target = path.with_name("run.lcc.zip")
    codec.Chain(path).pack(target)
    before = target.read_bytes()
    with codec.Checkpointer(path, resume=True) as checkpoints:
        noted |= saves(checkpoints, range(2, 4))
    kinds = (codec.WriteError, codec.ChainError, ChainNotFoundError)
    with refused(refusal, met, *kinds):
        codec.Chain(path).pack(target)
    if target.read_bytes() == before:
        del noted[2], noted[3]
    check_told(target, noted)


TASKS: dict[str, Task] = {
    "begun": begun,
    "saved first": partial(saved, step=0),
    "saved delta": partial(saved, step=1),
    "saved base": partial(saved, step=3),
    "opened": opened,
    "opened before a base": opened_before_a_base,
    "read": read,
    "packed": packed,
}


def go_on(path: Path, noted: dict[int, str]) -> None:
    """Raise unless the disk, now sound, lets the chain be opened, saved to and read."""
    newest = max(noted, default=0)
    with codec.Checkpointer(path, resume=True) as checkpoints:
        assert (checkpoints.step is None) == (not noted)
        noted |= saves(checkpoints, range(newest + 10, newest + 12))
    check_told(path, noted)
    report = codec.verify(path)
    assert report.ok, report.problems
    assert set(report.steps) >= set(noted)
    assert not list(path.glob(".lcc-*")), "a temporary file is left"


# What the kernel refuses.


@contextlib.contextmanager
def file_size(nbytes: int, process: int = 0) -> Iterator[None]:
    """Files that a process writes may have so many bytes; what is beyond is not written."""
    unlimited = resource.RLIM_INFINITY
    resource.prlimit(process, resource.RLIMIT_FSIZE, (nbytes, unlimited))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_FSIZE, (unlimited, unlimited))


def small_files(met: Counter[str], stride: int) -> None:
    """Every size that a record may reach before the disk is full."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.lcc"
        with codec.Checkpointer(path) as checkpoints:
            noted, step = dict(saves(checkpoints, range(1))), 1
            for nbytes in range(0, 20_000, 97 * stride):
                with file_size(nbytes):
                    try:
                        noted |= saves(checkpoints, range(step, step + 1))
                    except codec.WriteError:
                        met["records too large for the disk"] += 1
                assert not list(path.glob(".lcc-*")), "a temporary file is left"
                step += 1
            assert set(range(step - 5, step)) <= set(noted), "every record has room at the end"
            noted |= saves(checkpoints, range(step, step + 2))
        check_told(path, noted)
        go_on(path, noted)


def small_files_of_another_process(met: Counter[str], stride: int) -> None:
    """Saved asynchronously: told by the next call, which saves nothing; then it goes on."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        path = Path(folder) / "run.lcc"
        with codec.Checkpointer(path, asynchronous=True) as checkpoints:
            assert checkpoints.save(0, state_of(0)).nbytes
            process = checkpoints._recorder._process.pid  # type: ignore[union-attr]
            for step in range(1, 12, 2):
                with file_size(400, process):
                    checkpoints.save(step, state_of(step))
                    try:
                        checkpoints.save(step + 1, state_of(step + 1))
                        raise AssertionError("a full disk was not told of")
                    except codec.WriteError:
                        pass
                met["records too large for the disk"] += 1
                assert checkpoints.save(step + 1, state_of(step + 1)).nbytes
        report = codec.verify(path)
        assert report.ok, report.problems
        assert report.steps == (0, 2, 4, 6, 8, 10, 12)
        for step in report.steps:
            expected = state_of(step)["exact"].tobytes()
            assert codec.restore(path, step)["exact"].tobytes() == expected


def full_disk(met: Counter[str], stride: int) -> None:
    """A file system of 128 KiB that another file fills, and leaves again."""
    with tempfile.TemporaryDirectory() as folder:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "mount") or libc.mount(
            b"none", folder.encode(), b"tmpfs", 0, b"size=128k"
        ):
            print("no full disk: only root can mount one")
            return
        try:
            path = Path(folder) / "run.lcc"
            with codec.Checkpointer(path) as checkpoints:
                noted = dict(saves(checkpoints, range(2)))
                for room in range(5):
                    step = 2 + 2 * room
                    fill(Path(folder) / FILLER, room * os.sysconf("SC_PAGE_SIZE"))
                    try:
                        noted |= saves(checkpoints, range(step, step + 1))
                    except codec.WriteError:
                        met["records too large for the disk"] += 1
                    check_told(path, noted)
                    (Path(folder) / FILLER).unlink()
                    noted |= saves(checkpoints, range(step + 1, step + 2))
                assert len(noted) < 12, "the disk was never full"
            check_told(path, noted)
            go_on(path, noted)
        finally:
            libc.umount(folder.encode())


def fill(path: Path, room: int) -> None:
    """Take all of a disk but this room."""
    with path.open("wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(b"x" * os.sysconf("SC_PAGE_SIZE"))
        file.truncate(file.tell() - room)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
