"""Chains behind URLs: as on disk, and whatever the way there does."""

from __future__ import annotations

import contextlib
import errno
import functools
import http.server
import os
import re
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import codec
from codec.chain import upkeep
from codec.cli.main import main
from codec.errors import (
    ArchiveError,
    ChainNotFoundError,
    LockedError,
    RewoundWarning,
    SkippedRecordWarning,
    StepOrderError,
)
from codec.storage import read_ahead as ahead
from codec.storage import remote
from codec.storage.lease import WRITER
from codec.storage.location import Location
from tests import s3
from tests.codec.states import random_states
from tests.codec.storage.way import Way

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

Arrays = dict[str, np.ndarray]
URL = "memory://bucket/run.lcc"
FLAKY = "flaky://bucket/run.lcc"


def around(call: str, name: str) -> Callable[..., Any]:
    """A method of the memory filesystem, between Flaky's hooks."""
    original = getattr(MemoryFileSystem, name)

    def method(self: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        type(self).before(call, path)
        seen = original(self, path, *args, **kwargs)
        type(self).after(call, path)
        return seen

    return method


class Flaky(MemoryFileSystem):
    """Calls ``before`` and ``after`` around each request, with its name and path: they may raise,
    or do something else meanwhile."""

    protocol = "flaky"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    before: Callable[[str, str], None] = staticmethod(lambda _call, _path: None)
    after: Callable[[str, str], None] = staticmethod(lambda _call, _path: None)
    pipe_file, cat_file = around("put", "pipe_file"), around("get", "cat_file")
    info, ls, rm_file = around("info", "info"), around("ls", "ls"), around("rm", "rm_file")
    cp_file = around("cp", "cp_file")

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(re.sub(rf"^{cls.protocol}://([^/]*@)?", "memory://", path))


class Careless(Flaky):
    """Ignores that something may be there already."""

    protocol = "careless"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value, **kwargs)


class Terse(Flaky):
    """Says that a condition was not met, but not which one."""

    protocol = "terse"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        try:
            super().pipe_file(path, value, mode, **kwargs)
        except FileExistsError as exc:
            raise OSError(errno.EINVAL, "one of the pre-conditions did not hold") from exc


class Unable(Flaky):
    """Answers that it knows no conditions."""

    protocol = "unable"
    error: Exception = OSError(errno.ENOSYS, "A header implies functionality that is not")

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        if mode != "overwrite":
            raise self.error
        super().pipe_file(path, value)


class Plain(Unable):
    """Says that it knows no modes, and no sizes."""

    protocol = "plain"
    error = NotImplementedError("Exclusive write")

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        return super().info(path, **kwargs) | {"size": None}


KINDS = (Flaky, Careless, Plain, Terse, Unable)
for each in KINDS:
    fsspec.register_implementation(each.protocol, each, clobber=True)


@pytest.fixture(autouse=True)
def store(monkeypatch: Patch) -> dict[str, Any]:
    """What memory:// holds, and the others; nothing at first."""
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    for kind in KINDS:
        monkeypatch.setattr(kind, "store", MemoryFileSystem.store)
        monkeypatch.setattr(kind, "pseudo_dirs", [""])
    return MemoryFileSystem.store


@pytest.fixture
def on(monkeypatch: Patch) -> Callable[..., None]:
    """Do something before or after a call whose path ends so; once, or from then on."""

    def set_up(
        when: str, call: str, ends: str, do: Callable[[], None] | BaseException, once: bool = True
    ) -> None:
        def hook(seen: str, path: str) -> None:
            if seen == call and path.endswith(ends):
                if once:
                    monkeypatch.setattr(Flaky, when, staticmethod(lambda _call, _path: None))
                if isinstance(do, BaseException):
                    raise do
                do()

        monkeypatch.setattr(Flaky, when, staticmethod(hook))

    return set_up


class Training:
    """A small state that moves; remembers what `save` reported as saved, bit by bit."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self.state = {"w": self._rng.normal(size=40).astype(np.float32), "n": np.array(0)}
        self.saved: dict[int, Arrays] = {}

    def save(self, checkpoints: codec.Checkpointer, step: int) -> codec.Saved:
        """Go on, and save."""
        w = self.state["w"] + self._rng.normal(size=40).astype(np.float32)
        self.state = {"w": w, "n": np.array(step)}
        saved = checkpoints.save(step, self.state)
        assert saved.kind in ("base", "delta")  # asynchronously, this waits for it
        seen = checkpoints.restore()
        assert seen is not None
        self.saved[step] = seen
        return saved

    def check(self, url: str, options: dict[str, Any] | None = None) -> None:
        """Every step that was reported as saved restores to the last bit, and there is no other
        trouble."""
        report = codec.verify(url, storage_options=options)
        assert (report.problems, set(report.steps) >= set(self.saved)) == ((), True)
        chain = codec.Chain(url, storage_options=options)
        for step, expected in self.saved.items():
            seen = chain.restore(step)
            assert {k: v.tobytes() for k, v in seen.items()} == {
                k: v.tobytes() for k, v in expected.items()
            }


@contextlib.contextmanager
def begun(n: int, url: str = FLAKY) -> Iterator[tuple[Training, codec.Checkpointer]]:
    """A training that has saved so many steps."""
    training = Training()
    with codec.Checkpointer(url) as checkpoints:
        for step in range(n):
            training.save(checkpoints, step)
        yield training, checkpoints


def names(store: dict[str, Any]) -> list[str]:
    return sorted(path.removeprefix("/bucket/run.lcc/") for path in store)


def test_the_same_chain_as_on_disk(tmp_path: Path, store: dict[str, Any]) -> None:
    here = tmp_path / "run.lcc"
    for path in (here, URL):
        with codec.Checkpointer(path, bits=3, base_every=4) as checkpoints:
            for step, state in enumerate(random_states(9)):
                checkpoints.save(step, state)
    assert checkpoints.path == URL
    files = {p.name: p.read_bytes() for p in here.glob("*.safetensors")}
    assert {Path(k).name: v.getvalue() for k, v in store.items()} == files
    assert len(files) == 9

    assert codec.verify(URL) == codec.verify(here) == codec.verify(here.as_uri())
    assert Location(here.as_uri(), {"key": "of no use"}).path == here
    for step in range(9):
        restored = codec.restore(URL, step), codec.restore(here, step)
        assert len({str({k: v.tobytes() for k, v in seen.items()}) for seen in restored}) == 1

    nbytes = codec.Chain(URL).pack(tmp_path / "run.lcc.zip")
    archive = (tmp_path / "run.lcc.zip").read_bytes()
    assert len(archive) == nbytes
    fsspec.filesystem("memory").pipe_file("/bucket/run.lcc.zip", archive)
    assert codec.verify("memory://bucket/run.lcc.zip") == codec.verify(here)
    with pytest.raises(codec.SettingsError, match=r"run\.lcc\.zip: can only be read"):
        codec.Checkpointer("memory://bucket/run.lcc.zip")
    with pytest.raises(ChainNotFoundError, match=r"there is no \.lcc\.zip there"):
        codec.Chain("memory://bucket/other.lcc.zip")
    fsspec.filesystem("memory").pipe_file("/bucket/run.lcc.zip", archive[:-30])
    with pytest.raises(ArchiveError, match=r"^memory://bucket/run\.lcc\.zip: ends too early"):
        codec.Chain("memory://bucket/run.lcc.zip")

    changes = [codec.compact(path) for path in (URL, here)]
    assert len({(c.records, c.nbytes) for c in changes}) == 1
    assert codec.verify(URL) == codec.verify(here)
    upkeep.unpack(URL, "memory://bucket/copy.lcc")
    assert codec.verify("memory://bucket/copy.lcc") == codec.verify(here)
    with pytest.raises(StepOrderError, match="holds a chain already"):
        upkeep.unpack(here, "memory://bucket/copy.lcc")
    assert WRITER not in " ".join(store)


def test_a_damaged_newest_record_is_set_aside(store: dict[str, Any]) -> None:
    """By a copy that is compared, for nothing can be renamed; twice in one place."""
    with begun(3, URL) as (training, _):
        pass
    damaged = []
    for kind in ("delta", "delta"):
        name = f"/bucket/run.lcc/00000002.{kind}.safetensors"
        damaged.append(store[name].getvalue()[: -1 - len(damaged)])
        fsspec.filesystem("memory").pipe_file(name, damaged[-1])
        with pytest.warns(SkippedRecordWarning, match="1 records after it were set aside"):
            checkpoints = codec.Checkpointer(URL, resume=True)
        with checkpoints:
            assert checkpoints.step == 1
            assert training.save(checkpoints, 2).kind == "delta"
    aside = ["00000002.delta.safetensors.unusable", "00000002.delta.safetensors.unusable-2"]
    assert names(store)[-2:] == aside
    assert [store[f"/bucket/run.lcc/{name}"].getvalue() for name in aside] == damaged
    training.check(URL)


def test_a_record_that_was_removed(store: dict[str, Any], monkeypatch: Patch) -> None:
    """A listing tells, at most one every LOOK seconds; and only if the record itself is missing."""
    calls: list[str] = []
    monkeypatch.setattr(Flaky, "before", staticmethod(lambda call, _path: calls.append(call)))
    training, url = Training(), "flaky://bucket/run.lcc"
    with codec.Checkpointer(url) as checkpoints:
        of_saves, kinds = list[list[str]](), list[str]()
        for step in range(6):
            calls.clear()
            if step == 3:
                monkeypatch.setattr("codec.storage.lease.LOOK", 0.0)
                del store["/bucket/run.lcc/00000000.base.safetensors"]
                training.saved.clear()
            with monkeypatch.context() as patch:
                if step == 5:  # a listing that is late
                    patch.setattr(remote.Remote, "sizes", lambda _self: {})
                kinds.append(training.save(checkpoints, step).kind)
            of_saves.append(list(calls))
    assert kinds == ["base", "delta", "delta", "base", "delta", "delta"]
    assert [calls.count("ls") for calls in of_saves] == [0, 0, 0, 1, 1, 0]
    assert len(of_saves[2]) == len(of_saves[4]) - 1 == len(of_saves[5]) - 1
    for step, expected in training.saved.items():
        assert codec.restore(url, step)["w"].tobytes() == expected["w"].tobytes()


@pytest.mark.parametrize("failure", [None, OSError("busy"), PermissionError("no")], ids=repr)
def test_a_look_that_fails(
    failure: OSError | None, store: dict[str, Any], on: Callable[..., None], monkeypatch: Patch
) -> None:
    """Says nothing; but a place where nothing is left says all."""
    monkeypatch.setattr("codec.storage.lease.LOOK", 0.0)
    with begun(1) as (training, checkpoints):
        if failure is not None:
            on("before", "ls", "", failure)
        else:
            del store["/bucket/run.lcc/00000000.base.safetensors"]
        assert training.save(checkpoints, 1).kind == ("delta" if failure else "base")
        training.save(checkpoints, 2)


def test_one_writer(store: dict[str, Any]) -> None:
    """Only who resumes takes over, and whoever was taken over from writes nothing more."""
    training, other = Training(), Training()
    first = codec.Checkpointer(FLAKY)
    training.save(first, 0)
    said = rf"run\.lcc: another writer \(process {os.getpid()} on '.+'\) writes here, or was killed"
    for call in (codec.Checkpointer, codec.compact):
        with pytest.raises(LockedError, match=said):
            call(FLAKY)
    training.save(first, 1)
    with codec.Checkpointer(FLAKY, resume=True) as second:
        for _ in range(2):
            with pytest.raises(LockedError, match=r"on '.+'\) has taken over; what was saved"):
                other.save(first, 2)
        assert training.save(second, 2).kind == "base"  # the other may have been at one
        first.close()  # which leaves the other's token alone
        training.save(second, 3)
        fsspec.filesystem("memory").pipe_file(f"/bucket/run.lcc/{WRITER}", b"\xff[")
        with pytest.raises(LockedError, match=r"another writer has taken over"):
            training.save(second, 4)
        del store[f"/bucket/run.lcc/{WRITER}"]
        with pytest.raises(LockedError, match=r"\.writer, .*was deleted: another writer may"):
            training.save(second, 4)
    training.check(FLAKY)
    with pytest.raises(StepOrderError, match="already holds a chain up to step 3"):
        codec.Checkpointer(FLAKY)
    assert WRITER not in names(store)


def test_what_the_writer_before_was_still_putting(on: Callable[..., None]) -> None:
    """It arrives after the next one has looked: before what he writes it is a step more, after that
    it does not belong there, and is set aside before it can mislead anybody."""
    training, other = Training(), Training()
    with codec.Checkpointer(FLAKY) as first:
        training.save(first, 0)
        taken: list[codec.Checkpointer] = []
        take = lambda: taken.append(codec.Checkpointer(FLAKY, resume=True))  # noqa: E731
        on("before", "put", "/00000005.delta.safetensors", take)
        other.save(first, 5)
        on("before", "put", "/00000009.delta.safetensors", take)
        second = taken[0]
        assert second.step == 0
        assert training.save(second, 6).kind == "base"
        training.save(second, 7)
        training.saved |= other.saved
        training.check(FLAKY)
        other.save(second, 9)
        third = taken[1]
        assert third.step == 7
        with pytest.warns(SkippedRecordWarning, match=r"00000009\.delta.* the previous writer"):
            assert training.save(third, 8).kind == "base"
        assert training.save(third, 9).kind == "delta"
        third.close()
        second.close()
    training.check(FLAKY)


@pytest.mark.parametrize("step", [3, 0, None])
def test_going_back(step: int | None, store: dict[str, Any]) -> None:
    """As on disk: the old chain is a chain inside, and the training goes on from the step."""
    with begun(5) as (training, _):
        pass
    assert codec.rewind(FLAKY, 4) is None
    assert codec.rewind("flaky://bucket/none.lcc", 4) is None
    with pytest.warns(RewoundWarning, match=r"until-4\.lcc"):
        old = codec.rewind(FLAKY, step)
    assert old == f"{FLAKY}/until-4.lcc"
    training.check(old)
    kept = {n: s for n, s in training.saved.items() if step is not None and n <= step}
    training.saved = kept
    if kept:
        training.check(FLAKY)
    with codec.Checkpointer(FLAKY, resume=True) as checkpoints:
        assert checkpoints.step == step
        for again in (6, 7):
            training.save(checkpoints, again)
    training.check(FLAKY)
    assert WRITER not in names(store)
    with pytest.warns(RewoundWarning):
        assert codec.rewind(FLAKY, 6) == f"{FLAKY}/until-7.lcc"
    with codec.Checkpointer(FLAKY, resume=True) as checkpoints:
        training.save(checkpoints, 7)
    with pytest.warns(RewoundWarning):
        assert codec.rewind(FLAKY, 6) == f"{FLAKY}/until-7-2.lcc"


def test_going_back_after_a_writer_that_was_killed(store: dict[str, Any]) -> None:
    with begun(4) as (training, checkpoints):
        with pytest.raises(LockedError, match="takes over"):
            codec.rewind(FLAKY, 1)
        assert codec.rewind(FLAKY, 3) is None  # nothing is locked for it
        with pytest.warns(RewoundWarning):
            codec.rewind(FLAKY, 1, takes_over=True)
        with pytest.raises(LockedError, match="has taken over"):
            training.save(checkpoints, 4)
    training.check(f"{FLAKY}/until-3.lcc")
    assert codec.Chain(FLAKY).steps == (0, 1)


@pytest.mark.filterwarnings("ignore::codec.errors.RewoundWarning")
def test_a_removal_that_may_come_late(on: Callable[..., None]) -> None:
    """The chain is not closed then: the next writer has to take it over, and begins with a base."""
    with begun(4) as (training, _):
        pass
    on("before", "rm", "00000003.delta.safetensors", TimeoutError("no answer"))
    with pytest.raises(codec.WriteError, match="no answer"):
        codec.rewind(FLAKY, 2)
    with pytest.raises(LockedError, match="resume=True takes over"):
        codec.rewind(FLAKY, 2)
    codec.rewind(FLAKY, 2, takes_over=True)
    with codec.Checkpointer(FLAKY, resume=True) as checkpoints:
        assert training.save(checkpoints, 3).kind == "base"
    training.check(FLAKY)


@pytest.mark.filterwarnings("ignore::codec.errors.RewoundWarning")
@pytest.mark.parametrize("when", ["before", "after"])
def test_going_back_stopped_anywhere(when: str, monkeypatch: Patch, store: dict[str, Any]) -> None:
    """Before or after each request: one of the two chains has each step."""
    with begun(4):
        pass
    whole = {path: file.getvalue() for path, file in store.items()}
    n_stopped = 0
    while True:
        store.clear()
        fs = fsspec.filesystem("memory")
        for path, data in whole.items():
            fs.pipe_file(path, data)
        left = n_stopped

        def hook(_call: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError("cut")

        with monkeypatch.context() as patch:
            patch.setattr(Flaky, when, staticmethod(hook))
            try:
                codec.rewind(FLAKY, 1, takes_over=True)
                break
            except codec.ChainError:
                n_stopped += 1
        steps = set(codec.Chain(FLAKY).steps)
        for old in {path.split("/")[3] for path in store if "/until-" in path}:
            steps |= set(codec.verify(f"{FLAKY}/{old}").steps)
        assert steps == {0, 1, 2, 3}
        assert codec.verify(FLAKY).ok
    assert n_stopped > 15
    assert codec.Chain(FLAKY).steps == (0, 1)


def test_a_store_that_copies_nothing(monkeypatch: Patch) -> None:
    """Records then go through this machine."""

    def refuse(*_args: Any) -> None:
        raise NotImplementedError

    with begun(3) as (training, _):
        pass
    monkeypatch.setattr(Flaky, "cp_file", refuse)
    with pytest.warns(RewoundWarning):
        old = codec.rewind(FLAKY, 1)
    training.check(str(old))


def test_going_back_in_a_store_with_directories(tmp_path: Path) -> None:
    """They must be made before a file is put there."""
    url = f"dir://{tmp_path}/run.lcc"
    fsspec.register_implementation("dir", Directories, clobber=True)
    with begun(3, url) as (training, _):
        pass
    with pytest.warns(RewoundWarning):
        old = codec.rewind(url, 1)
    assert old == f"{url}/until-2.lcc"
    training.check(old)


class Directories(LocalFileSystem):
    """A store with directories."""

    protocol = "dir"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.removeprefix("dir://"))


def test_a_copy_that_is_cut_short(monkeypatch: Patch, store: dict[str, Any]) -> None:
    """Nothing is removed."""

    def cut(fs: Flaky, path: str, other: str) -> None:
        fs.pipe_file(other, fs.cat_file(path)[:-1])

    with begun(3) as (training, _):
        pass
    monkeypatch.setattr(Flaky, "cp_file", cut)
    with pytest.raises(codec.WriteError, match=r"the copy of 0+\.base\.safetensors has another"):
        codec.rewind(FLAKY, 1)
    training.check(FLAKY)


@pytest.mark.parametrize("keep_steps", [None, 2])
def test_a_base_of_the_writer_before_comes_late(
    keep_steps: int | None, store: dict[str, Any], monkeypatch: Patch
) -> None:
    """Its parent is the one that the next writer went on from as well: two chains of one. What the
    writer that lives has saved is what remains, and none of it is removed as too old."""
    training = Training()
    killed = codec.Checkpointer(FLAKY)
    for step in (90, 95):
        training.save(killed, step)
    with codec.Checkpointer(FLAKY, resume=True) as before:
        Training().save(before, 98)  # a base, for it has taken over
    late = "/bucket/run.lcc/00000098.base.safetensors"
    base = store.pop(late)  # on its way as yet
    fsspec.filesystem("memory").pipe_file(f"/bucket/run.lcc/{WRITER}", b"[]")  # killed as well
    with codec.Checkpointer(FLAKY, resume=True, base_every=2, keep_steps=keep_steps) as checkpoints:
        for step in (96, 97, 98, 99):
            training.save(checkpoints, step)
        store[late] = base
        with pytest.warns(SkippedRecordWarning, match=r"00000098\.base.* the previous writer"):
            training.save(checkpoints, 100)
        for step in range(101, 110):
            training.save(checkpoints, step)
        store[late.replace("098", "200")] = base
        with pytest.warns(SkippedRecordWarning, match=r"00000200\.base.* the previous writer"):
            checkpoints.close()
    training.check(FLAKY)  # all are there: nothing is removed while something may come
    assert store[f"{late}.unusable"].getvalue() == base.getvalue()
    monkeypatch.setattr("codec.storage.lease.LATE", 0)
    with codec.Checkpointer(FLAKY, resume=True, base_every=2, keep_steps=keep_steps) as checkpoints:
        for step in range(110, 116):
            training.save(checkpoints, step)
    bases = [name for name in names(store) if name.endswith(".base.safetensors")]
    assert (len(bases) == 1) == (keep_steps == 2)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_overwritten(
    kind: type[Flaky], store: dict[str, Any], on: Callable[..., None]
) -> None:
    """Also where the store does not see to it; and nothing is lost, neither track nor chain."""
    url, training = f"{kind.protocol}://bucket/run.lcc", Training()
    with codec.Checkpointer(url) as checkpoints:
        training.save(checkpoints, 0)
        path = "/bucket/run.lcc/00000001.delta.safetensors"
        fsspec.filesystem("memory").pipe_file(path, b"another's")
        with pytest.raises(StepOrderError, match=r"01\.delta\.safetensors: exists already"):
            training.save(checkpoints, 1)
        if kind is Plain:  # it is looked for, and nobody says whether it is there
            name = "01.delta.safetensors"
            on("after", "get", name, lambda: on("before", "info", name, LOST))
            with pytest.raises(StepOrderError, match=r"01\.delta\.safetensors: exists already"):
                training.save(checkpoints, 1)
        on("after", "get", "01.delta.safetensors", LOST)  # the same with a read that fails
        with pytest.raises(codec.WriteError, match="may be left of a failed save"):
            training.save(checkpoints, 1)
        assert store.pop(path).getvalue() == b"another's"
        assert training.save(checkpoints, 1).kind == "delta"
        with pytest.raises(LockedError):
            codec.Checkpointer(url)
    training.check(url)


LOST, REFUSED = ConnectionError("reset by peer"), PermissionError("Access Denied")
NEXT = "00000002.delta.safetensors"
FINDS_OUT = "the next save finds out"


def cut_and_refuse() -> None:
    """Only a part arrives, and it is said that nothing has."""
    store, path = MemoryFileSystem.store, f"/bucket/run.lcc/{NEXT}"
    store[path].truncate(100)
    raise REFUSED


@pytest.mark.parametrize(
    ("failures", "error", "match", "after"),
    [
        # Nothing arrives, and whether it still will nobody knows: a base depends on neither.
        ([("before", "put", LOST)], codec.WriteError, "was not saved, or the answer", "base"),
        # It is refused: nothing is on its way.
        ([("before", "put", REFUSED)], codec.WriteError, "nothing was changed", "delta"),
        # It arrives, but the answer does not: seen when it is read.
        ([("after", "put", LOST)], None, None, "delta"),
        ([("after", "info", LOST)], None, None, "delta"),
        # Nor can it be read: it is taken back later.
        ([("after", "put", LOST), ("before", "get", LOST)], codec.WriteError, FINDS_OUT, "base"),
        # Tried again, by a library, it is refused: what came first may be there.
        ([("after", "put", REFUSED), ("before", "get", LOST)], codec.WriteError, FINDS_OUT, "base"),
        ([("after", "put", cut_and_refuse)], codec.WriteError, "was not saved, or the ans", "base"),
        # Another library's error.
        ([("before", "put", KeyError("etag"))], codec.WriteError, "KeyError: 'etag'", "base"),
        ([("before", "put", KeyboardInterrupt())], KeyboardInterrupt, None, "base"),
        ([("after", "put", KeyboardInterrupt())], KeyboardInterrupt, None, "base"),
        # Before anything is put: who writes there is asked first.
        ([("before", "get", LOST, WRITER)], codec.WriteError, "cannot be reached", "delta"),
    ],
)
def test_a_put_that_fails(
    on: Callable[..., None],
    store: dict[str, Any],
    failures: list[Any],
    error: type[BaseException] | None,
    match: str | None,
    after: str,
) -> None:
    with begun(2) as (training, checkpoints):
        before = {name: store[name].getvalue() for name in store}
        for when, call, failure, *where in failures:
            on(when, call, *(where or [NEXT]), failure)
        with pytest.raises(error, match=match) if error else contextlib.nullcontext():
            training.save(checkpoints, 2)
        assert before.items() <= {name: store[name].getvalue() for name in store}.items()
        assert checkpoints.step == (1 if error else 2)
        step = 2 if error else 3
        assert training.save(checkpoints, step).kind == after
        assert training.save(checkpoints, step + 1).kind == "delta"
    training.check(FLAKY)


def test_a_put_that_is_cut_short_or_comes_late(
    store: dict[str, Any], on: Callable[..., None]
) -> None:
    path = f"/bucket/run.lcc/{NEXT}"

    def cut() -> None:
        data = store[path].getvalue()
        late.append(data)
        fsspec.filesystem("memory").pipe_file(path, data[:100])

    late: list[bytes] = []
    with begun(2) as (training, checkpoints):
        on("after", "put", NEXT, cut)
        with pytest.raises(codec.WriteError, match="the next save finds out: it was cut short"):
            training.save(checkpoints, 2)
        assert path in store
        # What was in doubt still is after a save that could not even ask who writes here.
        on("before", "get", WRITER, lambda: on("before", "get", WRITER, LOST))
        with pytest.raises(codec.WriteError, match="cannot be reached, nothing was changed"):
            training.save(checkpoints, 3)
        assert training.save(checkpoints, 3).kind == "base"
        assert path not in store
        fsspec.filesystem("memory").pipe_file(path, late[0])  # whole, long after
        training.save(checkpoints, 4)
    training.check(FLAKY)  # step 2, which was said to have failed, restores as well


@pytest.mark.parametrize("failure", [LOST, KeyboardInterrupt()])
def test_a_removal_that_may_still_arrive(
    failure: BaseException, store: dict[str, Any], on: Callable[..., None]
) -> None:
    """Its name is not used again, and the next writer has to take over."""
    training, base = Training(), "00000000.base.safetensors"
    with codec.Checkpointer(FLAKY) as checkpoints:
        on("after", "put", base, LOST)
        on("before", "get", base, LOST)
        with pytest.raises(codec.WriteError, match="the next save finds out"):
            training.save(checkpoints, 0)
        on("before", "rm", base, failure)
        with pytest.raises((codec.WriteError, KeyboardInterrupt)):
            training.save(checkpoints, 0)
        with pytest.raises(codec.WriteError, match=r"may still do so; .*another step"):
            training.save(checkpoints, 0)
        assert training.save(checkpoints, 1).kind == "base"
        assert base not in names(store)
    assert WRITER in names(store)
    training.check(FLAKY)


def test_a_short_read_of_anothers_record(monkeypatch: Patch, store: dict[str, Any]) -> None:
    """It may be the beginning of ours, and is not removed."""
    read, path = remote.Remote.read, f"/bucket/run.lcc/{NEXT}"
    with begun(2) as (training, checkpoints):
        fsspec.filesystem("memory").pipe_file(path, b"save")
        with pytest.raises(StepOrderError):
            training.save(checkpoints, 2)
        with monkeypatch.context() as patch:
            patch.setattr(remote.Remote, "read", lambda *a: read(*a)[: 0 if NEXT in a else None])
            with pytest.raises(codec.WriteError, match="only 0 of its 4 bytes"):
                training.save(checkpoints, 2)
        assert store.pop(path).getvalue() == b"save"
    training.check(FLAKY)


def test_an_interrupted_opening_holds_no_token(store: dict[str, Any], monkeypatch: Patch) -> None:
    for place in ("storage.lease.LeasedStore._is_conditional", "saving.checkpointer.load_beside"):
        with monkeypatch.context() as patch:
            patch.setattr(f"codec.{place}", interrupt)
            with pytest.raises(KeyboardInterrupt) as kept:
                codec.Checkpointer(FLAKY)
        codec.Checkpointer(FLAKY).close()
        assert WRITER not in names(store)
        del kept


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("when", "every"),
    [
        ("before", 5),
        ("after", 2),
        *(pytest.param(when, 1, marks=pytest.mark.exhaustive) for when in ("before", "after")),
    ],
)
def test_any_request_may_fail(
    when: str, every: int, store: dict[str, Any], monkeypatch: Patch
) -> None:
    """Each of those that opening, saving, resuming, setting aside and closing take, once, or its
    answer if it changes something: an error of ours or none, and whatever was reported as saved
    restores."""
    calls, failing = 0, -1

    def fails(call: str, _path: str) -> None:
        nonlocal calls
        if when == "before" or call in ("put", "rm"):
            calls += 1
            if calls == failing:
                raise ConnectionError("reset by peer")

    def opened(step: int | None) -> codec.Checkpointer:
        with warnings.catch_warnings(action="ignore", category=SkippedRecordWarning):
            try:
                seen = codec.Checkpointer(FLAKY, resume=True)
            except codec.ChainError:
                seen = codec.Checkpointer(FLAKY, resume=True)
        assert seen.step == step
        return seen

    errors = 0
    while failing <= calls:
        failing, calls = failing + every, 0
        store.clear()
        training = Training()
        monkeypatch.setattr(Flaky, when, staticmethod(fails))
        checkpoints = opened(None)
        for step in range(3):
            try:
                training.save(checkpoints, step)
            except codec.ChainError:
                errors += 1
        checkpoints.close()
        if step in training.saved:
            damaged = next(path for path in store if "/00000002" in path)
            store[damaged].truncate(90)
            del training.saved[step]
        newest = max(training.saved)
        for step in (newest + 3, newest + 4):
            try:
                checkpoints = opened(newest)
                training.save(checkpoints, step)
                newest = step
            except codec.ChainError:
                errors += 1
            checkpoints.close()
        monkeypatch.setattr(Flaky, when, staticmethod(lambda _call, _path: None))
        training.check(FLAKY)
    assert failing > (30 if when == "before" else 8)
    assert errors > 4 // every if when == "before" else errors == 0  # it is seen that all arrived


def test_downloads_cut_short(store: dict[str, Any], monkeypatch: Patch) -> None:
    """Not taken for damage: nothing is set aside, and what has to be is copied as a whole."""
    whole = MemoryFileSystem.cat_file
    with begun(3, URL) as (training, _):
        pass
    before = {name: store[name].getvalue() for name in store}

    def cut(self: Any, path: str, *args: Any, **kwargs: Any) -> bytes:
        data: bytes = whole(self, path, *args, **kwargs)
        return data[:100] if path.endswith(NEXT) else data

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "cat_file", cut)
        with pytest.raises(codec.ChainError, match=r"02\.delta.*: cannot be read: only 100 of its"):
            codec.Checkpointer(URL, resume=True)
        with (
            pytest.raises(codec.WriteError, match="could not be set aside: only 100 of its"),
            Location(URL).store(takes_over=True) as directory,
        ):
            directory.set_aside(NEXT)
    assert {name: store[name].getvalue() for name in before} == before
    with codec.Checkpointer(URL, resume=True) as checkpoints:
        assert checkpoints.step == 2
    training.check(URL)


def test_closed_without_knowing(store: dict[str, Any], on: Callable[..., None]) -> None:
    """What became of the newest save: the next one has to take over, and begins with a base."""
    path, late = "/bucket/run.lcc/00000002.delta.safetensors", []

    def delay() -> None:
        late.append(store.pop(path))
        raise LOST

    with begun(2) as (training, checkpoints):
        on("after", "put", NEXT, delay)
        with pytest.raises(codec.WriteError, match="the answer was lost"):
            training.save(checkpoints, 2)
    with pytest.raises(LockedError, match="without knowing whether its newest save arrived"):
        codec.compact(FLAKY)
    with codec.Checkpointer(FLAKY, resume=True) as checkpoints:
        store[path] = late[0]
        for step in (3, 4):
            training.save(checkpoints, step)
    training.check(FLAKY)
    assert WRITER not in names(store)

    # Taken over from one who is at work, by one who fails before he has saved anything.
    with codec.Checkpointer(FLAKY, resume=True):
        on("before", "put", WRITER, lambda: on("before", "put", WRITER, LOST))
        with pytest.raises(codec.WriteError, match="cannot be written to: reset by peer"):
            codec.Checkpointer(FLAKY, resume=True)
        with codec.Checkpointer(FLAKY, resume=True) as checkpoints:
            assert training.save(checkpoints, 5).kind == "base"


def test_two_begin_at_once(on: Callable[..., None], store: dict[str, Any]) -> None:
    """Both have seen that nobody writes there: one of them does."""
    training = Training()
    first: list[codec.Checkpointer] = []

    def begin() -> None:
        first.append(codec.Checkpointer(FLAKY))
        training.save(first[0], 0)

    on("before", "put", WRITER, begin)
    with pytest.raises(LockedError, match=r"run\.lcc: another writer \(process"):
        codec.Checkpointer(FLAKY)
    training.save(first[0], 1)
    first[0].close()
    on("before", "put", WRITER, lambda: first.append(codec.Checkpointer(FLAKY, resume=True)))
    with codec.Checkpointer(FLAKY, resume=True) as second:
        with pytest.raises(LockedError, match="has taken over"):
            training.save(first[1], 2)
        assert training.save(second, 2).kind == "base"
    training.check(FLAKY)
    on("after", "put", WRITER, FileExistsError())  # said to a library that has asked twice
    with codec.Checkpointer(FLAKY, resume=True) as second:
        assert training.save(second, 3).kind == "delta"


def test_where_nothing_can_be_deleted(
    store: dict[str, Any], on: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """A save of which nobody knows stays there, and those after it do without it."""

    def refuse() -> None:
        on("before", "rm", "", REFUSED, once=False)
        raise LOST

    with begun(2) as (training, checkpoints):
        on("after", "put", NEXT, LOST)
        on("before", "get", NEXT, refuse)
        with pytest.raises(codec.WriteError, match="the next save finds out"):
            training.save(checkpoints, 2)
        assert training.save(checkpoints, 2).kind == "base"
        assert training.save(checkpoints, 3).kind == "delta"
    assert "00000002.delta.safetensors stays" in caplog.text
    training.check(FLAKY)


def test_listings_of_several_pages(
    monkeypatch: Patch, on: Callable[..., None], store: dict[str, Any]
) -> None:
    """They are of no one moment: repeated until nothing changes."""
    with begun(3):
        pass
    late = store.pop("/bucket/run.lcc/00000002.delta.safetensors")
    add = functools.partial(store.__setitem__, "/bucket/run.lcc/00000002.delta.safetensors", late)
    on("after", "ls", "run.lcc", add)
    assert codec.Chain(FLAKY).steps == (0, 1)
    monkeypatch.setattr(remote, "PAGE", 2)
    del store["/bucket/run.lcc/00000002.delta.safetensors"]
    on("after", "ls", "run.lcc", add)
    assert codec.Chain(FLAKY).steps == (0, 1, 2)


def test_records_are_read_ahead(monkeypatch: Patch) -> None:
    """So many at a time, and no more; what fails, fails where it is read."""
    together, begun = threading.Barrier(ahead.THREADS), []
    first = [str(i) for i in range(ahead.THREADS)]

    def read(name: str) -> bytes:
        begun.append(name)
        if name in first:
            together.wait(300)
        if name == "3":
            raise FileNotFoundError(name)
        mine = threading.current_thread() is threading.main_thread()
        return name.encode() if mine or name.isdigit() else b"of the pool"

    seen = ahead.ReadAhead(read)
    assert seen.read("x") == b"x"
    begun.clear()
    seen.expect(str(i) for i in range(30))
    assert seen.read("0") == b"0"
    assert set(begun) <= {str(i) for i in range(ahead.THREADS + 1)}
    with pytest.raises(FileNotFoundError):
        seen.read("3")
    assert [seen.read(str(i)) for i in range(4, 30)] == [b"%d" % i for i in range(4, 30)]
    assert sorted(begun, key=int) == [str(i) for i in range(30)]
    seen.expect("ab")
    monkeypatch.setattr(os, "getpid", lambda: 0)  # in a fork, where nobody would answer
    assert seen.read("a") == b"a"


def test_opening_and_removing_that_fail(on: Callable[..., None], store: dict[str, Any]) -> None:
    on("before", "put", WRITER, REFUSED)
    with pytest.raises(codec.WriteError, match=r"run\.lcc: cannot be written to: Access Denied"):
        codec.Checkpointer(FLAKY)
    with begun(2) as (training, checkpoints):
        on("after", "get", WRITER, LOST)  # so it stays
    assert WRITER in names(store)
    with codec.Checkpointer(FLAKY, resume=True) as checkpoints:
        training.save(checkpoints, 2)
    base = "00000002.base.safetensors"  # for nobody had said that the writer before was gone
    fsspec.filesystem("memory").pipe_file(f"/bucket/run.lcc/{base}", b"damaged")
    on("before", "put", f"{base}.unusable", LOST)
    with (
        pytest.raises(codec.WriteError, match=r"could not be set aside: reset by peer"),
        codec.Checkpointer(FLAKY, resume=True),
    ):
        pass
    on("before", "get", "base.safetensors", LOST)
    with pytest.raises(codec.ChainError, match=r"00\.base\.safetensors: cannot be read: reset by"):
        codec.restore(FLAKY, 1)


def test_what_is_no_place_for_a_chain(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for url, match in (
        ("nowhere://bucket/run.lcc", r"^nowhere://bucket/run\.lcc: cannot be opened: .*not known"),
        ("gs://bucket/run.lcc", r"pip install fsspec gcsfs$"),
        ("s3://", "^s3://: needs the place of one chain"),
        ("s3://anna:geheim@bucket//run.lcc", r"^s3://bucket//run\.lcc: .* two slashes after"),
        ("simplecache::s3://bucket/run.lcc", "one URL"),
        ("s3:/bucket/run.lcc", "give a URL as text"),
        (Path("s3://bucket/run.lcc"), "a Path drops one of its slashes"),
        ("file://elsewhere/run.lcc", "another machine"),
    ):
        with pytest.raises(codec.SettingsError, match=match):
            codec.Checkpointer(url)
        with pytest.raises(codec.SettingsError, match=match):
            codec.Chain(url)
    with pytest.raises(codec.SettingsError, match="can only be read"):
        codec.Checkpointer("https://localhost/run.lcc")
    with pytest.raises(codec.SettingsError, match="storage_options are a mapping"):
        codec.restore(URL, storage_options=["key"])  # type: ignore[arg-type]
    with pytest.raises(codec.SettingsError, match="this process's own"):
        codec.Checkpointer(URL, asynchronous=True)
    with pytest.raises(codec.SettingsError, match="which cannot get these: TypeError"):
        codec.Checkpointer(FLAKY, asynchronous=True, storage_options={"session": sys})
    assert not list(tmp_path.iterdir())
    assert Location("exp:/run.lcc").path == Path("exp:/run.lcc")
    assert Location("file:///data/run%20#1.lcc").path == Path("/data/run #1.lcc")
    (tmp_path / "s3:").mkdir()
    assert Location("s3:/run.lcc").path == Path("s3:/run.lcc")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(codec.SettingsError, match="fsspec is not installed; pip install fsspec"):
        codec.Chain(URL)


def test_secrets_are_not_told(on: Callable[..., None]) -> None:
    """Neither the URL's nor those of storage_options, in no error and no cause of it."""
    url = "flaky://anna:geheim1@bucket/run.lcc"
    options = {"client_kwargs": {"aws_secret_access_key": "geheim2"}, "endpoint": "here"}
    error = RuntimeError("geheim1 and geheim2 do not open here")
    on("before", "put", WRITER, error)
    with pytest.raises(codec.WriteError, match="RuntimeError: … and … do not open here") as caught:
        codec.Checkpointer(url, storage_options=options)
    said = "".join(traceback.format_exception(caught.value))
    assert "flaky://bucket/run.lcc: cannot be" in said
    assert "geheim" not in said + str(Location(url, options)) + repr(Location(url, options))
    https = Location("https://a:geheim1@host/run.lcc?signature=geheim2")
    assert str(https) == "https://host/run.lcc"
    assert str(Location("ftp://user:p@geheim@host/run.lcc")) == "ftp://host/run.lcc"
    assert str(Location("https://a:geheim1@geheim2@host/run.lcc")) == "https://host/run.lcc"
    for none in (
        "simplecache::https://a:geheim1@geheim2@host/run.lcc?signature=geheim3",
        Path("https://a:geheim1@host/run.lcc?signature=geheim2"),
        "file://a:geheim1@host/run.lcc?signature=geheim2",
    ):
        with pytest.raises(codec.SettingsError, match=r":/{1,2}host/run\.lcc: ") as refused:
            Location(none)
        assert "geheim" not in str(refused.value)


def test_over_http(run: Path, web_server: Any, capsys: Capture, monkeypatch: Patch) -> None:
    """Directories whose server lists them, and archives; only to be read. Of what is signed,
    nothing without the signature."""
    handler, server = http.server.SimpleHTTPRequestHandler, web_server.url
    answer = handler.send_head

    def answer_if_signed(self: Any) -> Any:
        if "/signed/" not in self.path or "?signature=geheim" in self.path:
            return answer(self)
        return self.send_error(403)

    monkeypatch.setattr(handler, "send_head", answer_if_signed)
    codec.Chain(run).pack(run.parent / "run.lcc.zip")
    expected = codec.verify(run)
    assert codec.verify(f"{server}/run.lcc") == codec.verify(f"{server}/run.lcc.zip") == expected
    (run.parent / "signed").symlink_to(run.parent)
    signed = f"{server}/signed/run.lcc"
    with pytest.raises(codec.ChainError, match="cannot be listed: ClientResponseError: 403"):
        codec.verify(signed)
    for suffix in ("", ".zip"):
        assert main(["verify", f"{signed}{suffix}?signature=geheim"]) == 0
    for other in ("no", "no.zip"):
        with pytest.raises(ChainNotFoundError, match="there is no"):
            codec.restore(f"{server}/{other}")
    assert main(["info", "--json", f"{signed}?signature=geheim"]) == 0
    assert main(["verify", f"{signed}?signature=geheimer"]) == 0
    assert main(["verify", f"{signed}?other=geheim"]) == 1
    assert main(["verify", f"{signed}?other=%67eheim%2B%2Fgeheim&more=geheim,2"]) == 1
    assert main(["compact", f"{signed}?signature=geheim"]) == 2
    said = capsys.readouterr()
    assert "can only be read" in said.err
    assert "geheim" not in said.out + said.err


# A real server, and a way to it that can be cut.


@pytest.fixture(scope="module")
def moto_port() -> Iterator[int]:
    """Of an S3 server in a process of its own."""
    with s3.server() as port:
        yield port


def reached(port: int) -> dict[str, Any]:
    """storage_options that lead there, and fail soon."""
    return {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "key": "anna",
        "secret": "geheim",
        "client_kwargs": {"region_name": "eu-central-1"},
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 2, "read_timeout": 5},
    }


def emptied(moto_port: int) -> Any:
    """The server's file system, without its bucket."""
    fs = fsspec.filesystem("s3", **reached(moto_port))
    if fs.exists("bucket"):
        fs.rm("bucket", recursive=True)
    return fs


@pytest.fixture
def way(moto_port: int) -> Iterator[Way]:
    """To a server with a bucket, empty at first."""
    emptied(moto_port).mkdir("bucket")
    way = Way(moto_port)
    yield way
    way.cut()


S3 = "s3://bucket/runs/run.lcc"


@pytest.mark.parametrize(
    "asking",
    [
        lambda there: there.put("a", bytes(2**25)),
        lambda there: there.create("a", b"a", conditional=True),
        lambda there: there.read("a", 1),
        lambda there: there.read_spans("a", [(0, 1), (2, 3)]),
        lambda there: there.nbytes("a"),
        lambda there: there.remove("a"),
        lambda there: there.names(),
        lambda there: there.sizes(),
    ],
    ids=["put", "create", "read", "read_spans", "nbytes", "remove", "names", "sizes"],
)
def test_s3_that_falls_silent(asking: Callable[[remote.Remote], Any], monkeypatch: Patch) -> None:
    """A request that nobody answers fails, also a long one that nobody takes."""
    monkeypatch.setattr(remote, "PATIENCE", 0.5)
    monkeypatch.setattr(remote, "SLOWEST", 1e9)
    with socket.create_server(("127.0.0.1", 0)) as nobody:  # the kernel accepts connections
        patient = {"config_kwargs": {"read_timeout": 3600}}
        there = Location(S3, reached(nobody.getsockname()[1]) | patient).remote
        assert there is not None
        with pytest.raises((OSError, codec.ChainError), match=r"no answer for \d+ s"):
            asking(there)


def test_s3_parts_of_what_is_not_there(way: Way) -> None:
    """The error is that of the store, of the first part that fails."""
    there = Location(S3, reached(way.port)).remote
    assert there is not None
    with pytest.raises(FileNotFoundError):
        there.read_spans("a", [(0, 1), (2, 3)])


def test_s3_listed_and_then_written_by_others(way: Way, moto_port: int) -> None:
    """A listing is not believed later."""
    there = Location(S3, reached(way.port)).remote
    assert there is not None
    there.put("a", b"here")
    assert there.names() == {"a": True}
    direct = fsspec.filesystem("s3", **reached(moto_port), skip_instance_cache=True)
    direct.pipe_file(f"{S3[5:]}/b", b"of others")
    assert there.read("b", 0) == there.read_whole("b") == b"of others"


@pytest.mark.exhaustive
def test_s3_cut_in_the_middle(way: Way, moto_port: int) -> None:
    """Requests are few; a way that is cut is a named error soon, and what was reported as saved
    restores once it is mended, to the last bit."""
    options, direct, training = reached(way.port), reached(moto_port), Training()
    fs = fsspec.filesystem("s3", **direct)
    with codec.Checkpointer(S3, storage_options=options) as checkpoints:
        assert way.counted() == {"GET": 1, "PUT": 2, "LIST": 1}
        for step in (0, 2):
            training.save(checkpoints, step)
            assert way.counted() == {"GET": 1, "PUT": 1, "HEAD": 1}

        # Its answer is lost; s3fs asks again, and is told that it is there.
        lost: list[str] = []

        def lose(method: str, path: str) -> bool:
            if method == "PUT":
                lost.append(path)
            return method == "PUT" and len(lost) == 1

        way.at_answer = lose
        assert training.save(checkpoints, 3).kind == "delta"
        assert set(lost) == {"/bucket/runs/run.lcc/00000003.delta.safetensors"}
        assert way.counted()["PUT"] == 2

        # The way is cut while the record is put, before or after it arrives.
        for step, hook in ((4, "at_request"), (6, "at_answer")):
            way.counted()
            setattr(way, hook, lambda method, _path: method == "PUT" and way.cut() is None)
            with pytest.raises(codec.WriteError, match="the answer was lost") as caught:
                training.save(checkpoints, step)
            with pytest.raises(codec.WriteError, match="cannot be reached"):
                training.save(checkpoints, step + 1)
            assert way.counted() == {"GET": 1, "PUT": 1}, "nothing is tried again"
            assert "geheim" not in "".join(traceback.format_exception(caught.value))
            there = f"bucket/runs/run.lcc/{step:08d}.delta.safetensors"
            assert fs.exists(there) == (hook == "at_answer")
            with pytest.raises(codec.ChainError, match="cannot be listed: "):
                codec.restore(S3, storage_options=options)
            way.at_request = way.at_answer = lambda _method, _path: False
            way.mend()
            assert training.save(checkpoints, step + 1).kind == "base"
            fs.invalidate_cache()
            assert not fs.exists(there)

        assert training.save(checkpoints, 8).kind == "delta"
        way.counted()
        with pytest.raises(LockedError, match="another writer"):
            codec.compact(S3, storage_options=options)
    training.check(S3, options)
    way.counted()
    seen = codec.restore(S3, storage_options=options)
    assert way.counted() == {"LIST": 1, "GET": 2}  # a base and a delta
    assert seen["w"].tobytes() == training.saved[8]["w"].tobytes()
    n_records = len(codec.Chain(S3, storage_options=options).entries)
    way.counted()
    with pytest.warns(RewoundWarning):
        old = codec.rewind(S3, 6, storage_options=options)
    counted = way.counted()
    assert counted["PUT"] == 2 + n_records  # the token, a trial, and copies within the store
    assert counted["GET"] < n_records  # for the token only
    training.check(str(old), options)
    assert codec.Chain(S3, storage_options=options).steps[-1] < 7
    with codec.Checkpointer(S3, resume=True, storage_options=options) as checkpoints:
        for step in (7, 8):
            training.save(checkpoints, step)
    training.saved.pop(6, None)
    seen = codec.restore(S3, storage_options=options)
    fs.pipe_file("bucket/runs/run.lcc/00000009.delta.safetensors", b"")
    with pytest.warns(SkippedRecordWarning, match="goes on from step 8; 1 records after it"):
        codec.Checkpointer(S3, resume=True, storage_options=options).close()

    # What was opened here can be read in a fork: there it has a connection of its own.
    chain = codec.Chain(S3, storage_options=options)
    chain.restore(8)
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        os._exit(chain.restore(8)["w"].tobytes() != seen["w"].tobytes())
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.exhaustive
def test_s3_asynchronously_and_in_commands(
    way: Way, forks: None, monkeypatch: Patch, tmp_path: Path, capsys: Capture
) -> None:
    """The process that saves finds its way there, and says what fails; commands find theirs in
    the environment."""
    options, training = reached(way.port), Training()
    with codec.Checkpointer(S3, asynchronous=True, storage_options=options) as checkpoints:
        for step in range(2):
            training.save(checkpoints, step)
        way.cut()
        with pytest.raises(codec.WriteError, match=r"runs/run\.lcc: cannot be reached"):
            training.save(checkpoints, 2)
        way.mend()
        assert training.save(checkpoints, 2).kind == "delta"
    training.check(S3, options)

    for name, value in s3.environment(way.port).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    zipped, file = str(tmp_path / "run.lcc.zip"), str(tmp_path / "out.safetensors")
    assert main(["pack", S3, "-o", zipped]) == main(["restore", S3, "-o", file]) == 0
    assert main(["compress", file, "-o", "s3://bucket/other.lcc", "--json"]) == 0
    assert main(["compact", S3]) == 0
    assert main(["unpack", zipped, "-o", "s3://bucket/copy.lcc"]) == 0
    capsys.readouterr()
    assert main(["info", "s3://bucket/copy.lcc"]) == main(["info", S3]) == 0
    assert re.findall(r"\w+ records", capsys.readouterr().out) == ["3 records", "1 records"]
    with pytest.raises(SystemExit):
        main(["pack", S3, "-o", "s3://bucket/other.lcc.zip"])
    assert main(["verify", "s3://bucket/none.lcc"]) == 1
    way.cut()
    assert main(["verify", S3]) == 1
    said = capsys.readouterr()
    assert "is a URL" in said.err
    assert re.findall(r"error: s3://bucket/.*: (there is no|cannot be)", said.err) == [
        "there is no",
        "cannot be",
    ]
    assert "Traceback" not in said.err
    assert "geheim" not in said.err + said.out


def test_s3_that_comes_back_empty(way: Way, moto_port: int) -> None:
    """It is no place to go on from, but one to begin anew."""
    options, training = reached(way.port), Training()
    checkpoints = codec.Checkpointer(S3, storage_options=options)
    training.save(checkpoints, 0)
    fs = emptied(moto_port)
    with pytest.raises(LockedError, match=r"\.writer, .* was deleted"):
        training.save(checkpoints, 1)
    checkpoints.close()
    with pytest.raises(codec.WriteError, match=r"cannot be written to: .*bucket does not exist"):
        codec.Checkpointer(S3, storage_options=options)
    fs.mkdir("bucket")
    training.saved.clear()
    with codec.Checkpointer(S3, resume=True, storage_options=options) as checkpoints:
        assert training.save(checkpoints, 2).kind == "base"
    training.check(S3, options)
