"""Compacting chains: every step that is kept restores as before, whatever happens."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import codec
from codec import errors
from codec.record import record as records
from codec.storage.entry import Entry
from tests.codec.chains import all_steps, flip, records_in, save_all
from tests.codec.forging import forge, parts_of, refield
from tests.codec.states import jumping_states, random_states, sparse_states
from tests.compaction import add_base


def names(path: Path) -> list[str]:
    """Records as step and first letter of the kind: ["0b", "10d"]."""
    files = sorted(p.name for p in path.iterdir() if p.name != ".lock")
    return [re.sub(r"0*(\d+)\.(\w)\w*\.safetensors", r"\1\2", name) for name in files]


def write(
    path: Path, states: Iterable[Any], first: int = 0, stride: int = 10, **settings: Any
) -> None:
    """Save these states at steps 0, 10, 20…, or go on with them; with 2 bits by default."""
    if not {"budget", "tolerance"} & settings.keys():
        settings = {"bits": 2} | settings
    save_all(path, states, first, stride, resume=True, **settings)


def tables(path: Path) -> dict[str, tuple[int, list[int]]]:
    """The code tables sent last."""
    return {
        k: (t.classes, t.lengths.tolist()) for k, t in codec.Chain(path).at().track.tables.items()
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base and eight deltas, steps 0, 10 … 80; nobody changes it."""
    path = tmp_path_factory.mktemp("written") / "run.lcc"
    write(path, jumping_states(9))
    return path


@pytest.fixture(scope="module")
def before(written: Path) -> dict[int, tuple[Any, ...]]:
    """All its steps."""
    return all_steps(written)


@pytest.fixture
def chain(tmp_path: Path, written: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(written, tmp_path / "run.lcc")


class Killed(BaseException):
    """What stands for a kill: nothing in the codec catches it."""


@contextlib.contextmanager
def killed_after_removing(n: int) -> Iterator[None]:
    """Be killed before one more record is removed than these."""
    left, unlink = [n], os.unlink

    def kill(path: Any, *args: Any, **kwargs: Any) -> None:
        if str(path).endswith(".safetensors"):
            if not left[0]:
                raise Killed
            left[0] -= 1
        unlink(path, *args, **kwargs)

    with mock.patch.object(os, "unlink", kill):
        yield


def entry_of(path: Path, step: int) -> Entry:
    """The record of a step."""
    return next(entry for entry in codec.Chain(path).entries if entry.step == step)


SETTINGS: list[dict[str, Any]] = [
    {"bits": None, "coder": "runlength", "scope": "model"},
    {"bits": 1, "coder": "huffman", "scope": "tensor"},
    {"bits": 8, "coder": "runlength", "scope": "tensor"},
    {"budget": 0.3, "quantizer": "exponent", "coder": "huffman", "scope": "model"},
    {"budget": 0.3, "quantizer": "uniform", "coder": "runlength", "scope": "tensor"},
    {"tolerance": 0.1, "coder": "huffman", "scope": "model"},
    {"tolerance": 1e-5, "coder": "runlength", "scope": "model"},
]


@settings(max_examples=8, phases=[Phase.generate])  # to shrink it would take minutes
@given(st.data())
def test_any_chain(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Compacted and resumed in any order: the newest state and the steps are those of a
    chain left alone, the records of a new save are its very bytes."""
    draw = data.draw
    make = draw(st.sampled_from([jumping_states, random_states, sparse_states]))
    rows = {"rows": 300} if make is random_states else {}
    states = make(7, draw(st.integers(0, 99)), **rows)
    for step in draw(st.lists(st.integers(1, 6), max_size=2)):
        broken = states[step]["w"].copy()
        broken.reshape(-1)[0] = np.nan
        states[step] = states[step] | {"w": broken}
    path = tmp_path_factory.mktemp("any")
    at = 0
    while at < len(states):
        n = draw(st.integers(1, 4))
        option = draw(st.sampled_from(SETTINGS))
        for name in ("plain", "kept"):
            write(path / name, states[at : at + n], at, **option)
        at += n
        if draw(st.booleans()):
            codec.compact(path / "kept", draw(st.integers(1, 4)))
        assert tables(path / "kept") == tables(path / "plain")
    plain, old = all_steps(path / "plain"), all_steps(path / "kept")
    report = codec.verify(path / "kept")
    assert (report.problems, report.steps) == ((), tuple(old))
    assert list(plain)[-1] == list(old)[-1]
    assert old.items() <= plain.items()


# Compacting


def test_compact(chain: Path, written: Path, before: Any) -> None:
    seen: list[tuple[int, int]] = []
    assert codec.compact(chain, 3, lambda *at: seen.append(at)).records == (9, 3)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert names(chain) == ["60b", "70d", "80d"]
    assert all_steps(chain) == {step: before[step] for step in (60, 70, 80)}
    base, replaced = (codec.Chain(path).read(entry_of(path, 60)) for path in (chain, written))
    assert (base.replaces, base.identity) == (replaced.identity, replaced.identity)
    after = records_in(chain)
    assert codec.compact(chain, 3).records == (3, 3)  # there is nothing to do
    assert records_in(chain) == after
    write(chain, jumping_states(3, 1), 9)
    newest = all_steps(chain)[110]
    assert codec.compact(chain).records == (6, 1)
    assert names(chain) == ["110b"]
    assert all_steps(chain) == {110: newest}
    with pytest.raises(errors.StepNotFoundError, match="no record of step 100; it has 1"):
        codec.restore(chain, 100)
    report = codec.verify(chain)
    assert (report.problems, report.steps) == ((), (110,))


@pytest.mark.parametrize(
    ("n", "nth", "keep_steps", "left"),
    [
        (4, None, 1, "30b"),
        (6, 3, 2, "40b 50d"),  # there is a base already
        (7, 1, 3, "40b 50d 60b"),
        (7, 1, 4, "30b 40b 50d 60b"),
        (7, 1, 7, "0b 10d 20b 30d 40b 50d 60b"),
        (3, 9, 9, "0b 10d 20d"),
    ],
)
def test_what_compact_leaves(tmp_path: Path, n: int, nth: Any, keep_steps: int, left: str) -> None:
    path = tmp_path / "run.lcc"
    write(path, jumping_states(n), base_every=nth)
    before, nbytes = all_steps(path), codec.Chain(path).nbytes
    change = codec.compact(path, keep_steps)
    assert names(path) == left.split()
    assert change.records == (n, len(names(path)))
    assert change.nbytes == (nbytes, codec.Chain(path).nbytes)
    assert all_steps(path) == {step: before[step] for step in list(before)[-keep_steps:]}


def test_compact_where_the_newest_base_is_damaged(chain: Path) -> None:
    """No other can take its name: the error is that of the base."""
    add_base(chain)
    flip(chain / "00000080.base.safetensors")
    before = records_in(chain)
    with (
        pytest.warns(errors.SkippedRecordWarning, match="another way: 00000080.base"),
        pytest.raises(errors.DigestError, match=r"^00000080\.base\.safetensors"),
    ):
        codec.compact(chain)
    assert records_in(chain) == before


def test_a_base_that_is_another_state(chain: Path) -> None:
    """Sealed and sound, but not what the record in whose place it stands led to."""
    add_base(chain)
    path = chain / "00000080.base.safetensors"
    fields, arrays = parts_of(path.read_bytes())
    record = records.load(path.read_bytes(), path.name)
    fields["track"] = parts_of((chain / "00000070.delta.safetensors").read_bytes())[0]["track"]
    path.write_bytes(forge(fields, arrays | {"t/n": np.array(7)}))
    assert not codec.verify(chain).ok
    place = records.Place(80, record.header.run, record.header.parent, record.replaces)
    path.write_bytes(records.dump_base(place, codec.Chain(chain).at(70).track))
    (problem,) = codec.verify(chain).problems
    assert "00000080.base.safetensors: expected a track of digest" in problem


# Being killed, and failing


@pytest.fixture(scope="module")
def compacted(written: Path) -> tuple[Path, dict[int, tuple[Any, ...]]]:
    """Compacted, and gone on; and all steps. Two steps, kept, make six records needless."""
    path = shutil.copytree(written, written.parent / "compacted.lcc")
    codec.compact(path, 5)
    write(path, jumping_states(2, 1), 9)
    return path, all_steps(path)


@pytest.mark.parametrize("removed", range(8))
def test_killed_while_compacting(compacted: Any, tmp_path: Path, removed: int) -> None:
    """Whatever has gone by then, what is left restores; the next one finishes it."""
    chain = shutil.copytree(compacted[0], tmp_path / "run.lcc")
    with killed_after_removing(removed), warnings.catch_warnings(action="error"):
        try:
            codec.compact(chain, 2)
        except Killed:
            assert removed < 6
    report = codec.verify(chain)
    assert report.problems == ()
    after = all_steps(chain)
    assert after.items() <= compacted[1].items()
    assert set(after) >= {90, 100}
    assert report.steps == tuple(after)
    codec.compact(chain, 2)
    assert names(chain) == ["90b", "100d"]


def test_a_full_disk_changes_nothing(chain: Path, before: Any) -> None:
    content = records_in(chain)
    with (
        mock.patch.object(os, "fsync", side_effect=OSError(28, "No space left on device")),
        pytest.raises(codec.WriteError, match="could not be written, nothing was changed"),
    ):
        codec.compact(chain)
    assert records_in(chain) == content
    codec.compact(chain)  # and nothing is locked
    assert all_steps(chain) == {80: before[80]}


def test_what_cannot_be_removed_stays(compacted: Any, tmp_path: Path) -> None:
    chain = shutil.copytree(compacted[0], tmp_path / "run.lcc")
    with (
        mock.patch.object(os, "unlink", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(codec.WriteError, match="records could not be removed"),
    ):
        codec.compact(chain, 2)
    for leftover in chain.glob(".lcc-*"):
        leftover.unlink()
    assert names(chain)[-3:] == ["90b", "90d", "100d"]
    assert all_steps(chain) == compacted[1]
    codec.compact(chain, 2)
    assert names(chain) == ["90b", "100d"]


def test_a_wrong_record_is_never_published(chain: Path, written: Path) -> None:
    """The track is rebuilt from the bytes before they get a name."""
    dump_base = records.dump_base

    def one_more(place: Any, track: Any) -> bytes:
        return dump_base(place, replace(track, arrays=track.arrays | {"n": track.arrays["n"] + 1}))

    with (
        mock.patch.object(records, "dump_base", one_more),
        pytest.raises(errors.TrackDigestError, match=r"^00000080\.base.* a track of digest"),
    ):
        codec.compact(chain)
    assert records_in(chain) == records_in(written)


def test_tables_that_no_base_can_tell(tmp_path: Path) -> None:
    """Nothing is published that could not be read."""
    path = tmp_path / "run.lcc"
    states = sparse_states(9)
    write(path, states[:5])
    n = sum(t.lengths.size for t in codec.Chain(path).at().track.tables.values())
    write(path, states[5:], 5, scope="tensor")
    before = records_in(path)
    with (
        mock.patch.object(records, "MAX_LENGTHS", n),
        pytest.raises(errors.MalformedRecordError, match=rf"^00000080\.base.*more than {n} code"),
    ):
        codec.compact(path)
    assert records_in(path) == before


@pytest.mark.parametrize("step", [0, 30, 80, -30])
def test_a_damaged_chain_is_left_alone(chain: Path, step: int) -> None:
    """Or one without a record: the error names the record that cannot be applied."""
    (path,) = chain.glob(f"{abs(step):08d}.*")
    path.unlink() if step < 0 else flip(path)
    error, name = (errors.ParentError, "00000040") if step < 0 else (errors.DigestError, path.name)
    before = records_in(chain)
    with pytest.raises(error, match=f"^{name}"):
        codec.compact(chain, 4)
    assert records_in(chain) == before


def test_what_a_newer_version_wrote_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "run.lcc"
    write(path, jumping_states(8), base_every=5)
    refield(path / "00000070.delta.safetensors", format=99)
    before = records_in(path)
    with pytest.raises(errors.VersionError, match=r"^00000070\.delta"):
        codec.compact(path)
    assert records_in(path) == before


def test_a_damaged_base_is_none_of_those_that_are_kept(chain: Path) -> None:
    """It blocks no compaction, and steps that need another base keep it."""
    add_base(chain)
    write(chain, jumping_states(2, 1), 9)
    before = all_steps(chain)
    flip(chain / "00000080.base.safetensors")
    with pytest.warns(errors.SkippedRecordWarning, match="another way: 00000080.base"):
        codec.compact(chain, 2)
    assert names(chain) == ["90b", "100d"]
    assert all_steps(chain) == {step: before[step] for step in (90, 100)}


def test_compact_checks_what_it_keeps(chain: Path) -> None:
    """Every step that is kept must restore."""
    add_base(chain)
    flip(chain / "00000020.delta.safetensors")  # before the base: it may go
    codec.compact(chain)
    assert codec.verify(chain).ok
    write(chain, jumping_states(3, 1), 9)
    flip(chain / "00000100.delta.safetensors")
    before = records_in(chain)
    with pytest.raises(errors.DigestError, match=r"^00000100\.delta"):
        codec.compact(chain, 3)
    assert records_in(chain) == before


def test_compact_says_what_is_in_the_way(chain: Path) -> None:
    """A delta that came late, to what is not the record before it any more: no step needs it."""
    other = chain.parent / "other.lcc"
    shutil.copytree(chain, other)
    write(other, jumping_states(1, 1), 19, 5)
    write(chain, jumping_states(3, 2), 9)
    late = chain / "00000095.delta.safetensors"
    shutil.copy(other / late.name, late)
    with pytest.raises(errors.ParentError, match=r"^00000095.*; nothing was removed: .*rename"):
        codec.compact(chain, 4)
    late.rename(f"{late}.late")
    codec.compact(chain, 4)
    assert codec.verify(chain).steps == (80, 90, 100, 110)
    flip(chain / "00000110.delta.safetensors")
    with pytest.raises(errors.DigestError, match="; a Checkpointer with resume=True sets aside"):
        codec.compact(chain)


def test_no_directory_of_records(chain: Path, written: Path, tmp_path: Path) -> None:
    """Or one that is written to."""
    with (
        codec.Checkpointer(chain, resume=True),
        pytest.raises(errors.LockedError, match="another writer is at work here"),
    ):
        codec.compact(chain)
    assert records_in(chain) == records_in(written)
    with pytest.raises(errors.ChainNotFoundError, match="there is no chain directory"):
        codec.compact(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.ChainNotFoundError, match="holds no records"):
        codec.compact(tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []
    archive = tmp_path / "run.lcc.zip"
    codec.Chain(chain).pack(archive)
    content = archive.read_bytes()
    with pytest.raises(codec.WriteError, match=r"run\.lcc\.zip: is no directory"):
        codec.compact(archive)
    assert archive.read_bytes() == content


def test_settings(chain: Path, written: Path) -> None:
    for n in (0, -2, 2.0, True, "8", None):
        with pytest.raises(codec.SettingsError, match="keep_steps is an integer from 1 on"):
            codec.compact(chain, n)  # type: ignore[arg-type]
    assert records_in(chain) == records_in(written)
