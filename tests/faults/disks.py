"""Fail every call to the file system in turn: no room, an I/O error, a stale or a taken name.

    PYTHONPATH=. python tests/faults/disks.py

A chain is begun, opened, saved to, read and packed, distributed steps and gradients are saved. Each
time one call fails, or takes effect and loses its answer, or one fails and all after it, as on a
disk that is gone for a while. Then what failed must have failed with a named error, everything that
was reported as saved must restore to the last bit, and the same writer must go on: of the next five
saves at least four succeed. The kernel refuses as well: files that may grow no larger, and a file
system that is full.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import resource
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from common import (
    READING,
    WRITING,
    Calls,
    attempt,
    chain_of,
    check_told,
    in_words,
    new_path,
    options_of,
    saves,
    state_of,
)
from savers import Distributed, Gradients, Saver
from torch.distributed.checkpoint.api import CheckpointException

import codec
from codec.errors import ChainNotFoundError, LockedError, SkippedRecordWarning, StepOrderError
from codec.saving import process
from codec.storage import directory

Task = Callable[[Path, "Refusal", Counter[str]], None]
CODES = (errno.EIO, errno.ENOSPC, errno.ESTALE, errno.EEXIST, errno.EACCES)
LATER = 5  # saves after one that failed
FILLER = "filler"


class Refusal:
    """The call ``number``, counted from 0, fails. Not a lock's release: that needs no disk.

    when: "before" it takes effect; "after" it, so that only the answer is lost; "lasting": before
    it takes effect, as do all calls after it.
    """

    def __init__(self, number: int, code: int, when: str) -> None:
        self.number, self.code, self.when = number, code, when
        self.calls = 0
        self._met = mmap.mmap(-1, 1)  # also of a fork

    def __repr__(self) -> str:
        return f"{self.when} call {self.number}, {errno.errorcode[self.code]}"

    @property
    def met(self) -> bool:
        """Whether there was such a call."""
        return bool(self._met[0])

    def before(self, name: str) -> None:
        """To be called before each call."""
        lasts = self.when == "lasting" and self.calls > self.number and name != "flock"
        if self.when != "after" and (self.calls == self.number or lasts):
            self._fail(name)
        self.calls += 1

    def after(self, name: str) -> None:
        """To be called after each call."""
        if self.when == "after" and self.calls == self.number + 1 and not self.met:
            self._fail(name)

    def _fail(self, name: str) -> None:
        self.calls += 1
        self._met[0] = 1
        raise OSError(self.code, f"{os.strerror(self.code)} ({name})")

    def watching(self) -> Calls:
        """While this is entered."""
        return Calls(self.before, self.after, names=WRITING + READING)


def main(arguments: list[str] | None = None) -> int:
    """Run everything; returns the number of faults after which something was wrong."""
    options = options_of(
        __doc__,
        arguments,
        codes=(len(CODES), "how many error codes to try; 1: EIO alone"),
        every=(1, "refuse only every Nth call"),
        sample=(0, "take every Nth case, with one call each; 0: all"),
        stride=(1, "try every Nth size of a file"),
    )
    warnings.simplefilter("ignore", SkippedRecordWarning)
    codec.warm_up()
    met: Counter[str] = Counter()
    cases = [*product(TASKS, CODES[: options.codes], ("before", "after", "lasting"))]
    for offset in range(0, len(cases), options.sample or 1):
        what, code, when = cases[offset]
        number = offset % options.every  # so that all tasks together meet every kind of call
        while one_fault(what, Refusal(number, code, when), met) and not options.sample:
            number += options.every
    for real in (small_files, small_files_of_another_process, full_disk):
        with attempt(met, real.__name__):
            real(met, options.stride)
    print(in_words(met))
    return met["WRONG"]


def one_fault(what: str, refusal: Refusal, met: Counter[str]) -> bool:
    """Returns whether there was such a call."""
    with new_path() as path, attempt(met, what, refusal):
        TASKS[what](path, refusal, met)
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


def saved(
    path: Path, refusal: Refusal, met: Counter[str], step: int, nameless: bool = True
) -> None:
    """The record of a step, after those of all steps before, and those of the next five.

    nameless: on a disk where files can be made without a name.
    """
    opened = directory._directory_for_nameless if nameless else lambda _path: None
    with (
        mock.patch.object(directory, "_directory_for_nameless", opened),
        codec.Checkpointer(path) as checkpoints,
    ):
        noted = dict(saves(checkpoints, range(step)))
        with refused(refusal, met, codec.WriteError, StepOrderError) as raised:
            noted |= saves(checkpoints, range(step, step + 1))
        check_told(path, noted)
        unchanged = bool(raised) and "nothing was changed" in str(raised[0])
        steps = codec.Chain(path).steps if any(path.glob("*.safetensors")) else ()
        assert not unchanged or steps == tuple(noted)
        left = list(path.glob(".lcc-*"))
        assert refusal.when != "before" or bool(refusal.met) != bool(raised) or not left, left
        later = range(step + bool(refusal.number % 2), step + LATER + 1)  # or the same step again
        noted |= go_on_saving(checkpoints, later)
        check_told(path, noted)
        report = codec.verify(path)
        assert report.ok, report.problems
        assert set(report.steps) >= set(noted)
    go_on(path, noted)


def go_on_saving(checkpoints: codec.Checkpointer, steps: range) -> dict[int, str]:
    """Save these steps after one that failed: all but one must succeed. What was saved."""
    noted: dict[int, str] = {}
    for step in steps:
        with contextlib.suppress(codec.WriteError, StepOrderError):
            noted |= saves(checkpoints, range(step, step + 1))
    assert len(noted) >= len(steps) - 1, f"of {steps} only {list(noted)} were saved"
    return noted


def saved_in_background(path: Path, refusal: Refusal, met: Counter[str]) -> None:
    """Records that another process saves, in which a call fails."""

    def forked(_command: Any, *, stdin: int, pass_fds: list[int]) -> Any:
        (theirs,) = pass_fds
        parent, child = os.getpid(), os.fork()
        if child == 0:
            try:
                os.closerange(3, theirs)  # the training's side among them
                with refusal.watching(), Connection(theirs) as connection:
                    process.serve_training(connection, parent)
            finally:
                os._exit(0)
        return SimpleNamespace(wait=cache(lambda: os.waitpid(child, 0)[1]))

    noted: dict[int, str] = {}
    with mock.patch.object(process, "subprocess", SimpleNamespace(Popen=forked, DEVNULL=-3)):
        try:
            with codec.Checkpointer(path, asynchronous=True) as checkpoints:
                for step in range(2 + LATER):
                    with contextlib.suppress(codec.WriteError, StepOrderError):
                        checkpoints.save(step, state_of(step)).result()
                        noted[step] = ""
                assert len(noted) >= 1 + LATER or refusal.when == "lasting", f"only {list(noted)}"
        except (codec.ChainError, LockedError) as exc:  # it could not begin
            met[type(exc).__name__] += 1
    for step in noted:
        assert codec.restore(path, step)["exact"].tobytes() == state_of(step)["exact"].tobytes()
    go_on(path, {}, max(noted, default=0))


def saved_by(
    path: Path,
    refusal: Refusal,
    met: Counter[str],
    kind: type[Saver],
    *errors: type,
    later: tuple[type[Exception], ...] = (codec.WriteError, StepOrderError),
) -> None:
    """Steps of another kind.

    errors: beside `WriteError` and `StepOrderError`. later: what later saves may raise.
    """
    saver, n = kind(path), 0

    def save() -> None:
        nonlocal n
        n += 1
        try:
            saver.save(n)
        except CheckpointException as exc:
            raise exc.failures[0][0] from exc

    for _ in range(3):
        save()
    with refused(refusal, met, codec.WriteError, StepOrderError, *errors):
        save()
    for _ in range(LATER):
        with contextlib.suppress(*later):
            save()
    assert len(saver.told) >= 2 + LATER, f"only {saver.told} were saved"
    saver.close()
    saver.check()


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
    "saved by a temporary name": partial(saved, step=1, nameless=False),
    "saved in the background": saved_in_background,
    "saved gradients": lambda *given: saved_by(*given, Gradients),
    "saved distributed": lambda *given: saved_by(
        *given, Distributed, codec.ChainError, later=(codec.WriteError,)
    ),
    "opened": opened,
    "opened before a base": opened_before_a_base,
    "read": read,
    "packed": packed,
}


def go_on(path: Path, noted: dict[int, str], newest: int = 0) -> None:
    """Raise unless the disk, now sound, lets the chain be opened, saved to and read."""
    newest = max(noted, default=newest)
    with codec.Checkpointer(path, resume=True) as checkpoints:
        assert (checkpoints.step or 0) >= newest
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
    with new_path() as path:
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
    with new_path() as path:
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
