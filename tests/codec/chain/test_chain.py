"""Chains on disk: replay, damage, archives, and the durable write."""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import codec
from codec import errors
from codec.record import record as records
from codec.record.header import digest_word
from codec.record.reason import Reason
from codec.scheme.twins import takes_compiled
from codec.storage import directory as storage
from tests.bits import same
from tests.codec.chains import GOLDEN, flip, records_in, save_all, tracker_of
from tests.codec.forging import apart, forge, parts_of, refield, together
from tests.codec.states import jumping_states, random_states, sparse_states
from tests.compaction import add_base

Patch = pytest.MonkeyPatch

Change = Callable[[dict[str, Any]], None]


def names(path: Path) -> list[str]:
    """All files but the one that is locked by a writer."""
    return sorted(p.name for p in path.iterdir() if p.name != ".lock")


OTHER = {"other": np.zeros(9, np.float32)}  # a state of other tensors


def test_golden_chain() -> None:
    chain = codec.Chain(GOLDEN / "run.lcc")
    got = [(e.step, e.kind, e.nbytes) for e in chain.entries]
    assert got == [(0, "base", 465), (1, "delta", 265)]
    assert (chain.steps, chain.nbytes) == ((0, 1), 465 + 265)
    assert codec.restore(GOLDEN / "run.lcc")["n"] == 8
    assert codec.restore(str(GOLDEN / "run.lcc"), 0)["n"] == 7
    seen: list[tuple[int, int]] = []
    report = codec.verify(GOLDEN / "run.lcc", lambda *at: seen.append(at))
    assert (report.ok, report.steps, report.problems, report.nbytes) == (True, (0, 1), (), 730)
    assert seen == [(1, 2), (2, 2)]


def test_what_is_not_there(tmp_path: Path) -> None:
    for what in ("missing", "x" * 5000):
        with pytest.raises(errors.ChainNotFoundError, match=r"no chain directory or \.lcc\.zip"):
            codec.restore(tmp_path / what)
    with pytest.raises(errors.ChainNotFoundError, match=r"empty\.lcc: holds no records"):
        codec.verify(GOLDEN / "bad" / "empty.lcc")
    with pytest.raises(errors.StepNotFoundError, match="step 5; it has 2 steps from 0 to 1"):
        codec.restore(GOLDEN / "run.lcc", 5)


def test_unlistable_directory(run: Path) -> None:
    with (
        mock.patch.object(os, "scandir", side_effect=PermissionError(errno.EACCES, "no")),
        pytest.raises(codec.ChainError, match=r"run\.lcc: cannot be listed: .*no"),
    ):
        codec.Chain(run)


def test_base_missing(run: Path) -> None:
    """Or a record's parent."""
    message = r"^00000001\.delta.*its parent, digest 0{32}, is missing .*digest 8b3cb642\w{24}$"
    with pytest.raises(errors.ParentError, match=message):
        codec.restore(GOLDEN / "bad" / "parent.lcc", 1)
    report = codec.verify(GOLDEN / "bad" / "parent.lcc")
    assert (report.ok, report.steps) == (False, (0,))
    (run / "00000000.base.safetensors").unlink()
    with pytest.raises(errors.ParentError, match="no base record at or before step 30"):
        codec.restore(run)
    report = codec.verify(run)
    assert (report.steps, len(report.problems)) == ((), 3)
    assert "the usable record before it does not exist" in report.problems[0]


@pytest.mark.parametrize(("step", "left"), [(30, 20), (20, 10)])
def test_damaged_delta(run: Path, step: int, left: int) -> None:
    expected = codec.restore(run, left)
    flip(run / f"{step:08d}.delta.safetensors")
    with pytest.warns(
        errors.SkippedRecordWarning, match=f"step {left} instead of 30: 000000{step}"
    ):
        assert same(codec.restore(run), expected)
    with pytest.raises(errors.DigestError, match=f"^000000{step}.delta.safetensors: "):
        codec.restore(run, 30)
    report = codec.verify(run)
    assert report.steps[-1] == left
    assert len(report.problems) == (30 - left) // 10
    assert not report.ok
    (run / f"{step:08d}.delta.safetensors").unlink()
    if step < 30:
        with pytest.warns(errors.SkippedRecordWarning, match=f"step {left} .* its parent"):
            assert same(codec.restore(run), expected)


def test_many_damaged_bases(tmp_path: Path) -> None:
    """However many there are, they are passed over."""
    path = tmp_path / "run.lcc"
    save_all(path, ({f"w{i}": np.zeros(1, np.float32)} for i in range(20)))
    for step in range(1, 20):
        flip(path / f"{step:08d}.base.safetensors")
    with pytest.warns(errors.SkippedRecordWarning, match="restored step 0 instead of 19: 00000019"):
        assert codec.restore(path)["w0"].size == 1


@pytest.mark.parametrize("step", ["10", 10.0, True, [10], np.float32(10)], ids=repr)
def test_what_is_no_step(run: Path, step: Any) -> None:
    with pytest.raises(codec.SettingsError, match="a step is an integer; got"):
        codec.restore(run, step)
    assert same(codec.restore(run, np.int64(10)), codec.restore(run, 10))


def test_records_missing_before_the_newest_base(run: Path) -> None:
    """The base tells its parent: what is missing is told once, and not if damage was."""
    save_all(run, [OTHER], 40, resume=True)
    old = records_in(run)
    (run / "00000030.delta.safetensors").unlink()
    report = codec.verify(run)
    parent = records.load(old["00000030.delta.safetensors"], "r").identity
    assert report.steps == (0, 10, 20, 40)
    assert report.problems == (
        f"00000040.base.safetensors: its parent, digest {parent}, is missing or damaged; "
        "steps between 20 and 40 may be lost",
    )
    (run / "00000020.delta.safetensors").unlink()
    assert "between 10 and 40" in codec.verify(run).problems[0]
    for name, data in old.items():
        (run / name).write_bytes(data)
    assert codec.verify(run).ok
    flip(run / "00000030.delta.safetensors")
    (problem,) = codec.verify(run).problems
    assert problem.startswith("00000030.delta.safetensors: expected content")


def test_records_that_somebody_removed_on_purpose(run: Path) -> None:
    """All before a base; or some of them, by a compaction that was killed: none is a problem."""
    later = ({"other": np.full(9, step, np.float32)} for step in range(4, 9))
    save_all(run, later, 4, 10, resume=True, base_every=2)
    bases = [e.step for e in codec.Chain(run).entries if e.kind == "base"]
    assert bases == [0, 40, 70]
    (run / "00000030.delta.safetensors").unlink()
    assert codec.verify(run).ok
    for step, kind in ((0, "base"), (10, "delta"), (20, "delta")):
        (run / f"{step:08d}.{kind}.safetensors").unlink()
    assert codec.verify(run).ok


def test_a_warning_points_to_who_called(run: Path) -> None:
    """However deep in the package it is raised."""
    add_base(run)
    flip(run / "00000030.base.safetensors")
    calls: list[Callable[[], object]] = [
        lambda: codec.restore(run),
        lambda: codec.restore(run, 30),
        lambda: codec.Chain(run).at(30),
        lambda: codec.Chain(run).at(),
        lambda: codec.Chain(run).newest(),
        lambda: codec.Checkpointer(run, resume=True).close(),
    ]
    for call in calls:
        with pytest.warns(errors.SkippedRecordWarning) as seen:
            call()
        assert {(w.filename, w.lineno) for w in seen} == {
            (__file__, call.__code__.co_firstlineno)
        }, call
    (run / "00000010.delta.safetensors").unlink()
    with pytest.warns(errors.SkippedRecordWarning, match="instead of") as seen:
        codec.restore(run)
    assert seen[-1].filename == __file__


def test_damaged_first_base(run: Path) -> None:
    """What stands before the last base is not read, and so cannot be in the way."""
    save_all(run, [OTHER], 40, resume=True)
    flip(run / "00000000.base.safetensors")
    assert codec.restore(run)["other"].tolist() == [0] * 9
    assert codec.Checkpointer(run, resume=True).step == 40
    assert codec.verify(run).steps == (40,)
    (run / "00000040.base.safetensors").unlink()
    with pytest.raises(errors.DigestError, match=r"^00000000.base"):
        codec.restore(run)
    assert codec.verify(run).steps == ()


def follow(path: Path, index: int) -> None:
    """Make the chain's record of this index the parent of one."""
    chain = codec.Chain(path.parent)
    refield(path, parent=digest_word(chain.read(chain.entries[index]).digest))


# Records with the right digests whose streams do not decode: it shows while they are applied.


def forge_stream(path: Path, change: Change, streams: int = 1) -> None:
    """Change a record's only alphabet; all its digests, and that of the track, stay right."""
    fields, arrays = parts_of(path.read_bytes())
    change(alphabet := apart(arrays["c"], streams))
    path.write_bytes(forge(fields, arrays | {"c": together(alphabet)}))


def one_bit_less(alphabet: dict[str, Any]) -> None:
    """The last stream ends in the middle of its last code word."""
    last = alphabet["streams"][-1] - 1
    alphabet["streams"][-1] = last
    assert last % 32 > 0
    alphabet["payload"][-1] &= (1 << int(last % 32)) - 1


def no_table(alphabet: dict[str, Any]) -> None:
    alphabet["row"] = (*alphabet["row"][:3], 0)
    alphabet["table"] = alphabet["table"][:0]


def other_levels(alphabet: dict[str, Any]) -> None:
    """Streams that decode, to something that was not meant."""
    alphabet["levels"] *= 2


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """So many for one test."""
    before = codec.threads()
    codec.set_threads(request.param)
    yield
    codec.set_threads(before)


@pytest.mark.parametrize(
    ("threads", "coder", "change", "message"),
    [
        (3, "huffman", one_bit_less, "found bits that end before 225000 elements are decoded"),
        (1, "runlength", other_levels, "expected a track of digest"),
    ],
    indirect=["threads"],
)
def test_a_record_that_fails_half_way(
    tmp_path: Path, threads: None, coder: str, change: Change, message: str
) -> None:
    """It shows in the last of four streams. What is restored is the step before, to the bit."""
    run = tmp_path / "run.lcc"
    states = sparse_states(4, 0, 200_000, 0.3)
    tracker = codec.Tracker(states[0], coder=coder)
    for state in states[1:3]:
        tracker.step(state)
    save_all(run, states, bits=2, coder=coder)
    forge_stream(run / "00000003.delta.safetensors", change, 4)

    *_, position = codec.Chain(run).replay(2)
    record = codec.Chain(run).read(codec.Chain(run).entries[3])
    delta = records.delta_of(record, position.track)
    assert delta.groups[0].encoded.payload.streams.size == 4
    assert same(position.track.arrays, tracker.state)
    with pytest.raises(codec.RecordError, match=message):
        records.apply_checked(record, delta, position.track)
    moved = not same(position.track.arrays, tracker.state)
    assert moved or not takes_compiled()  # half of it is already there

    with pytest.raises(codec.RecordError, match=f"^00000003.delta.safetensors: .*{message}"):
        codec.restore(run, 3)
    with pytest.warns(errors.SkippedRecordWarning, match="restored step 2 instead of 3: 00000003"):
        assert same(codec.restore(run), tracker.state)
    with pytest.warns(errors.SkippedRecordWarning, match="step 2; 1 records after it .*00000003"):
        checkpoints = codec.Checkpointer(run, coder=coder, resume=True)
    assert checkpoints.step == 2


def test_nothing_follows_a_record_that_failed_half_way(run: Path) -> None:
    """The state has been moved in part: even a record that names the good one before as its
    parent is not applied to it. A base is, for it needs no parent."""
    expected = codec.restore(run, 10)
    forge_stream(run / "00000020.delta.safetensors", one_bit_less)
    follow(run / "00000030.delta.safetensors", 1)
    report = codec.verify(run)
    assert report.steps == (0, 10)
    assert "streams that decode" in report.problems[0]
    assert "the usable record before it does not exist" in report.problems[1]
    with pytest.warns(errors.SkippedRecordWarning, match="restored step 10 instead of 30"):
        assert same(codec.restore(run), expected)
    save_all(run.parent / "other", [{"x": np.ones(9, np.float32)}], 40)
    name = "00000040.base.safetensors"
    os.rename(run.parent / "other" / name, run / name)
    assert codec.restore(run)["x"].tolist() == [1] * 9
    report = codec.verify(run)
    assert report.steps == (0, 10)
    assert f"{name}: is of the run " in report.problems[-1]
    refield(run / name, run=codec.Chain(run).read(codec.Chain(run).entries[0]).run)
    assert codec.verify(run).steps == (0, 10, 40)


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    """A chain of steps 0 to 4 whose table is sent in step 1 alone."""
    path = tmp_path / "cached.lcc"
    save_all(path, sparse_states(5), bits=2)
    got = [p.delta.groups[0].encoded.cached for p in codec.Chain(path).replay() if p.delta]
    assert got == [False, True, True, True]
    return path


def test_cached_tables_live_in_the_chain(cached: Path) -> None:
    """Every step restores alone; the record that sent the table cannot be done without."""
    for step in range(5):
        *_, position = codec.Chain(cached).replay(step)
        assert list(position.track.tables) == ([""] if step else [])
        assert position.track.arrays["w"].tobytes() == codec.restore(cached, step)["w"].tobytes()
    forge_stream(cached / "00000001.delta.safetensors", no_table)
    with pytest.raises(
        errors.MalformedRecordError,
        match=r"^00000001\.delta\..*the code table sent last for '', but none of its kind$",
    ):
        codec.restore(cached, 4)
    assert codec.verify(cached).steps == (0,)


def test_a_base_forgets_all_tables(cached: Path, tmp_path: Path) -> None:
    """A delta after a base cannot use a table from before it, though its parent is right."""
    at_two = codec.restore(cached, 2)
    save_all(tmp_path / "other", [at_two], 2)
    (base,) = (tmp_path / "other").glob("*.safetensors")
    (cached / "00000002.delta.safetensors").unlink()
    run = codec.Chain(cached).read(codec.Chain(cached).entries[0]).run
    refield(base, run=run)
    shutil.copy(base, cached)
    follow(cached / "00000003.delta.safetensors", 2)
    with pytest.raises(errors.MalformedRecordError, match="sent last for '', but none of its kind"):
        codec.restore(cached, 3)
    with pytest.warns(errors.SkippedRecordWarning, match="restored step 2 instead of 4"):
        assert same(codec.restore(cached), at_two)
    report = codec.verify(cached)
    assert report.steps == (0, 1, 2)
    assert len(report.problems) == 2


def test_memory_that_changes_is_noticed(run: Path, monkeypatch: Patch) -> None:
    """Digests follow the changes; what is handed out is checked as a whole."""
    real = records.apply_checked

    def changed(record: Any, delta: Any, track: Any, *args: Any) -> None:
        real(record, delta, track, *args)
        track.arrays["b"][4] += 1  # where, say, a bit of memory has flipped

    monkeypatch.setattr(records, "apply_checked", changed)
    with pytest.raises(errors.TrackDigestError, match=r"^00000010\.delta.*: expected 'b' with"):
        codec.restore(run, 10)
    for step in (20, 30):
        (run / f"000000{step}.delta.safetensors").unlink()
    report = codec.verify(run)
    assert report.steps == (0, 10)
    assert report.problems[-1].startswith(f"{run}: expected 'b' with digest ")


def test_foreign_files_are_ignored(run: Path) -> None:
    expected = codec.restore(run)
    leftovers = [".abc.tmp", "notes.txt", "00000040.delta.safetensors.tmp"]
    leftovers += ["00000040.delta.safetensors\n", f"{'9' * 20}.delta.safetensors"]
    wrong = "40.delta 000000040.delta ٠٠٠٠٠٠٤٠.delta 00000040.full 00000040-00000050.delta"
    for name in (*leftovers, *(f"{name}.safetensors" for name in wrong.split())):
        (run / name).write_bytes(b"leftover")
    # A link to nowhere is there whenever one looks, and never has a size.
    (run / "00000040.delta.safetensors").symlink_to(run / "nowhere")
    assert codec.Chain(run).steps == (0, 10, 20, 30)
    assert same(codec.restore(run), expected)
    assert codec.verify(run).ok
    codec.compact(run)
    assert same(codec.restore(run), expected)


def test_unreadable_record(run: Path) -> None:
    """A disk that fails on the newest record: an older step is restored. Nor does a record go by
    another name."""
    os.rename(run / "00000020.delta.safetensors", run / "00000021.delta.safetensors")
    with pytest.raises(errors.MalformedRecordError, match="step 21, found delta of step 20"):
        codec.restore(run, 21)
    os.rename(run / "00000021.delta.safetensors", run / "00000020.delta.safetensors")
    (run / "00000030.delta.safetensors").unlink()
    (run / "00000030.delta.safetensors").mkdir()
    with pytest.raises(codec.ChainError, match=r"00000030\.delta\.safetensors: cannot be read: "):
        codec.restore(run, 30)
    with pytest.warns(errors.SkippedRecordWarning, match="restored step 20"):
        codec.restore(run)


# Archives


def test_pack(run: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one.lcc.zip", tmp_path / "two.lcc.zip"
    assert codec.Chain(run).pack(one) == one.stat().st_size
    assert codec.Chain(one).pack(two) == two.stat().st_size
    codec.Chain(run).pack(one)  # again, over the old one
    assert one.read_bytes() == two.read_bytes()
    for source in (one, str(one), io.BytesIO(one.read_bytes())):
        for step in (None, 0, 20):
            assert same(codec.restore(source, step), codec.restore(run, step))
        assert codec.verify(source).ok
    assert names(tmp_path) == ["one.lcc.zip", "run.lcc", "two.lcc.zip"]


def test_the_same_records_give_the_same_archive(tmp_path: Path, monkeypatch: Patch) -> None:
    """Whenever they were written, in whatever order a directory lists them, on whatever system."""
    copy, first, second = tmp_path / "run.lcc", tmp_path / "1.zip", tmp_path / "2.zip"
    copy.mkdir()
    for path in sorted((GOLDEN / "run.lcc").iterdir(), reverse=True):
        (copy / path.name).write_bytes(path.read_bytes())
        os.utime(copy / path.name, (2e9, 2e9))
        (copy / path.name).chmod(0o600)
    codec.Chain(GOLDEN / "run.lcc").pack(first)
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: nullcontext([*scandir(path)][::-1]))
    monkeypatch.setattr("sys.platform", "win32")
    codec.Chain(copy).pack(second)
    assert first.read_bytes() == second.read_bytes()
    assert hashlib.sha256(first.read_bytes()).hexdigest() == PACKED


PACKED = "a739c12c97de0f83d7529941f68d63b6dbb2f1641c24a407ada27e9adfdc4a31"


BAD = {
    "truncated": r"truncated\.lcc\.zip: ends too early, after [0-9,]+ bytes: .* copy or download",
    "foreign-member": r"member '\.\./evil\.txt' is not a stored record; a \.lcc\.zip holds only",
    "compressed": r"member '00000000\.base\.safetensors' is not a stored record",
    "duplicate": r"duplicate\.lcc\.zip: two members have the same name",
}


@pytest.mark.parametrize("name", BAD)
def test_stored_bad_archives(name: str) -> None:
    path = GOLDEN / "bad" / f"{name}.lcc.zip"
    with pytest.raises(errors.ArchiveError, match=BAD[name]):
        codec.restore(path)
    with pytest.raises(errors.ArchiveError, match="the archive: "):
        codec.verify(io.BytesIO(path.read_bytes()))


def test_archives_that_end_too_early(tmp_path: Path) -> None:
    """Cut anywhere; a foreign file, and an archive that is whole but damaged, are not."""
    path, rng = tmp_path / "run.lcc", np.random.default_rng(0)
    save_all(path, ({"w": rng.normal(size=20_000).astype(np.float32)} for _ in range(3)))
    codec.Chain(path).pack(archive := tmp_path / "run.lcc.zip")
    data = archive.read_bytes()
    assert len(data) > 2**16 + 1000  # zip readers look for the end in the last 64 KiB
    for nbytes in (*range(1, 40), *range(40, len(data) - 1000, 999), *range(len(data))[-1000::9]):
        with pytest.raises(
            errors.ArchiveError, match=f"^the archive: ends too early, after {nbytes:,} b"
        ):
            codec.Chain(io.BytesIO(data[:nbytes]))
    for other, reason in (
        (b"", "is empty; copy or download it again"),
        (b"PK", "ends too early, after 2 bytes"),
        (b"PK" + bytes(99), "is not a readable"),
        (b"a note", "is not a readable"),
        (data[:100] + data[-22:], "is not a readable"),
    ):
        archive.write_bytes(other)
        for source, where in ((archive, str(archive)), (io.BytesIO(other), "the archive")):
            with pytest.raises(errors.ArchiveError, match=f"^{re.escape(where)}: {reason}"):
                codec.Chain(source)


def test_damaged_member() -> None:
    path = GOLDEN / "bad" / "damaged-member.lcc.zip"
    message = r"damaged-member\.lcc\.zip: member 00000001\.delta\.safetensors is damaged: Bad CRC"
    with pytest.raises(errors.ArchiveError, match=message):
        codec.restore(path, 1)
    with pytest.warns(errors.SkippedRecordWarning, match="restored step 0 instead of 1: .*Bad CRC"):
        assert codec.restore(path)["n"] == 7
    assert codec.verify(path).steps == (0,)


def test_encrypted_member_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for entry in codec.Chain(GOLDEN / "run.lcc").entries:
            archive.writestr(entry.name, (GOLDEN / "run.lcc" / entry.name).read_bytes())
    data = bytearray(file.getvalue())
    for at in (data.find(b"PK\x03\x04") + 6, data.find(b"PK\x01\x02") + 8):
        data[at] |= 1  # the flag of an encrypted member
    with pytest.raises(errors.ArchiveError, match=r"is damaged: .*password"):
        codec.restore(io.BytesIO(bytes(data)), 0)


@pytest.mark.parametrize("at", [30, 32])
def test_a_member_cannot_hide_others(tmp_path: Path, at: int) -> None:
    """The length of its extra field or comment reaches to the directory's end, or beyond."""
    path = tmp_path / "run.lcc.zip"
    codec.Chain(GOLDEN / "tokens.lcc").pack(path)
    data = bytearray(path.read_bytes())
    first = data.index(b"PK\1\2")
    for bit in range(16):
        data[first + at + bit // 8] ^= 1 << bit % 8
        with pytest.raises(errors.ArchiveError):
            codec.Chain(io.BytesIO(bytes(data)))
        data[first + at + bit // 8] ^= 1 << bit % 8
    assert codec.verify(io.BytesIO(bytes(data))).ok


@pytest.mark.parametrize("name", ["00000000.base.safetensors\0", "00000000.base.safetensors\0x"])
def test_a_name_with_nul_is_refused(name: str) -> None:
    """zipfile ends it there."""
    file = io.BytesIO()
    info = zipfile.ZipInfo("x" * len(name))
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(info, (GOLDEN / "run.lcc" / "00000000.base.safetensors").read_bytes())
    data = file.getvalue().replace(info.filename.encode(), name.encode())
    with pytest.raises(errors.ArchiveError, match="is not a stored record"):
        codec.verify(io.BytesIO(data))


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("packed") / "run.lcc.zip"
    codec.Chain(GOLDEN / "run.lcc").pack(path)
    return path.read_bytes()


@settings(max_examples=100)
@given(
    edits=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3),
    near_end=st.booleans(),
    cut=st.integers(0, 3),
)
def test_any_archive(packed: bytes, edits: list[tuple[int, int]], near_end: bool, cut: int) -> None:
    """Changed bytes, often in the directory at the end: verified, or refused by name."""
    data = bytearray(packed)
    for position, byte in edits:
        at = len(data) - 1 - position % 200 if near_end else position % len(data)
        data[at] = byte
    try:
        report = codec.verify(io.BytesIO(bytes(data[: len(data) - cut])))
    except (errors.ArchiveError, errors.ChainNotFoundError):
        return
    assert set(report.steps) <= {0, 1}
    assert report.ok <= (report.steps == (0, 1))


# The durable write


class FullFile(io.BufferedWriter):
    """A file on a disk that has room for ten bytes more."""

    def write(self, data: Any) -> int:
        super().write(data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Unclosable(io.BufferedWriter):
    """A file that is written and cannot be closed."""

    def __exit__(self, *_: object) -> None:
        self.close()
        raise OSError(errno.EIO, "close")


FILES = {"write": FullFile, "close": Unclosable}
CALLS: dict[str, tuple[Any, str, int]] = {  # where they are made, and which one fails
    "mkstemp": (storage.tempfile, "mkstemp", 1),
    "open": (os, "open", 1),
    "fchmod": (os, "fchmod", 1),
    "fsync file": (os, "fsync", 1),
    "link": (os, "link", 1),
    "open directory": (os, "open", 2),  # the first one is mkstemp's
    "fsync directory": (os, "fsync", 2),
}
FAULTS = [(fault, False) for fault in (*CALLS, "write") if fault != "open"]
FAULTS += [
    (fault, True) for fault in ("open", "write", "fsync file", "link", "fsync directory", "close")
]


@pytest.fixture
def faulty(monkeypatch: Patch) -> Callable[[str], None]:
    """Make the disk refuse one step of the next write."""

    def install(fault: str) -> None:
        if fault in FILES:
            monkeypatch.setattr(os, "fdopen", lambda fd, *_: FILES[fault](io.FileIO(fd, "w")))
            return
        where, name, n = CALLS[fault]
        effects = [*[mock.DEFAULT] * (n - 1), OSError(errno.EIO, "no")]
        effects = itertools.chain(effects, itertools.repeat(mock.DEFAULT))
        call = mock.Mock(wraps=getattr(where, name), side_effect=effects)
        monkeypatch.setattr(where, name, call)

    return install


@pytest.mark.parametrize(("fault", "nameless"), FAULTS)
def test_disk_faults(
    fault: str, nameless: bool, run: Path, faulty: Callable[[str], None], monkeypatch: Patch
) -> None:
    """WriteError. From the naming call on the record may be there; the next save finds out."""
    if not nameless:  # some disks have no files without a name
        monkeypatch.setattr(storage, "_directory_for_nameless", lambda path: None)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no files without a name")
    *_, state, last = random_states(6)
    before, expected = names(run), codec.restore(run)
    checkpoints = codec.Checkpointer(run, bits=3, resume=True)
    tracker = tracker_of(checkpoints)
    track = {k: a.copy() for k, a in tracker.state.items()}
    sums, tables = dict(tracker.track.sums), dict(tracker.track.tables)
    faulty(fault)
    naming = fault in ("link", "open directory", "fsync directory", "close")
    text = "may or may not have been" if naming else "could not be written, nothing was changed"
    with pytest.raises(codec.WriteError, match=rf"00000040\.delta.*{text}"):
        checkpoints.save(40, state)
    monkeypatch.undo()
    stays = {"00000040.delta.safetensors"} if naming and fault != "link" else set()
    assert set(names(run)) == {*before, *stays}
    assert checkpoints.tracker is tracker
    assert same(tracker.state, track)
    assert (tracker.track.sums, tracker.track.tables) == (sums, tables)
    assert tables
    assert checkpoints.step == 30
    assert same(codec.restore(run, 30), expected)
    checkpoints.save(41, last)
    assert codec.verify(run).ok
    assert codec.verify(run).steps == (0, 10, 20, 30, 41)
    for name in ("d", "ids"):
        assert codec.restore(run)[name].tobytes() == last[name].tobytes()


def test_contents_that_cannot_be_made_leave_nothing(run: Path) -> None:
    before = names(run)
    with pytest.raises(RuntimeError):
        storage.publish(run / "00000040.delta.safetensors", mock.Mock(side_effect=RuntimeError))
    assert names(run) == before


def test_publish_never_overwrites(run: Path) -> None:
    path = run / "00000030.delta.safetensors"
    before, listing = path.read_bytes(), names(run)
    with pytest.raises(errors.StepOrderError, match="exists already"):
        storage.publish(path, lambda file: file.write(b"x"))
    assert path.read_bytes() == before
    assert names(run) == listing
    storage.publish(path, lambda file: file.write(b"x"), overwrite=True)
    assert path.read_bytes() == b"x"
    assert path.stat().st_mode & 0o777 == 0o644, "others can read it"
    assert names(run) == listing


@pytest.mark.parametrize("nameless", [False, True])
def test_order_of_system_calls(nameless: bool, tmp_path: Path, monkeypatch: Patch) -> None:
    """The file is durable before it has its name, the name before publish returns."""
    calls: list[str] = []
    directory = storage._directory_for_nameless(tmp_path) if nameless else None
    if nameless and directory is None:
        pytest.skip("this disk has no files without a name")

    def spied(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            of_directory = name == "fsync" and os.path.isdir(f"/proc/self/fd/{args[0]}")
            calls.append(f"{name} directory" if of_directory else name)
            return real(*args, **kwargs)

        return call

    for name in ("fsync", "link", "unlink"):
        monkeypatch.setattr(os, name, spied(name))
    storage.publish(tmp_path / "x", lambda file: file.write(b"x"), nameless=directory)
    assert calls == ["fsync", "link", "fsync directory", *([] if nameless else ["unlink"])]
    assert names(tmp_path) == ["x"]
    if directory is not None:
        os.close(directory)


def test_nothing_is_left_by_a_look_for_files_without_a_name(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    directory = storage._directory_for_nameless(tmp_path)
    assert names(tmp_path) == []
    if directory is not None:
        os.close(directory)
    assert storage._directory_for_nameless(tmp_path / "no") is None
    assert before is None or len(os.listdir("/proc/self/fd")) == before


def test_full_disk_while_packing(run: Path, tmp_path: Path, faulty: Callable[[str], None]) -> None:
    target = tmp_path / "run.lcc.zip"
    target.write_bytes(b"old")
    faulty("write")
    with pytest.raises(codec.WriteError, match=r"run\.lcc\.zip: could not be written"):
        codec.Chain(run).pack(target)
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["run.lcc", "run.lcc.zip"]


# Records that are removed while they are read


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of a base and eight deltas, steps 0, 10 … 80."""
    path = tmp_path_factory.mktemp("written") / "long.lcc"
    save_all(path, jumping_states(9), stride=10, coder="huffman")
    return path


@pytest.fixture
def long(tmp_path: Path, written: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(written, tmp_path / "long.lcc")


@pytest.fixture(scope="module")
def compacted(written: Path) -> Path:
    """The same chain, with one more step, of which nothing is left that was there before."""
    path = shutil.copytree(written, written.with_name("compacted.lcc"))
    save_all(path, [codec.restore(path)], 90, resume=True)
    codec.compact(path, 2)
    return path


def become(path: Path, other: Path) -> None:
    """Change a chain to another one."""
    for file in path.glob("*.safetensors"):
        file.unlink()
    shutil.copytree(other, path, dirs_exist_ok=True)


@pytest.mark.parametrize("begun", [False, True])
def test_what_was_listed_is_gone(long: Path, tmp_path: Path, compacted: Path, begun: bool) -> None:
    """A reader lists anew, whether it had begun to read or not."""
    expected = codec.restore(long, 80)
    copies = (shutil.copytree(long, tmp_path / str(i)) for i in range(5))

    def meanwhile() -> codec.Chain:
        path = next(copies)
        chain = codec.Chain(path)
        if begun:
            real, calls = chain._source.read, itertools.count()

            def read(name: str) -> bytes:
                if next(calls) == 1:
                    become(path, compacted)
                return real(name)

            chain._source = replace(chain._source, read=read)
        else:
            become(path, compacted)
        return chain

    assert same(meanwhile().restore(80), expected)
    newest = meanwhile()
    assert same(newest.restore(), expected)
    assert newest.at().step == newest.steps[-1] == max(e.step for e in newest.entries)
    report = meanwhile().verify()
    assert (report.problems, report.steps) == ((), codec.Chain(compacted).steps)
    packed = tmp_path / "run.lcc.zip"
    meanwhile().pack(packed)
    assert same(codec.restore(packed, 80), expected)
    assert codec.verify(packed).ok
    with pytest.raises(errors.StepNotFoundError, match="no record of step 30; it has"):
        meanwhile().restore(30)


def test_a_chain_that_never_stays(long: Path, tmp_path: Path) -> None:
    """Somebody removes whatever is listed: an error, not a loop without an end."""
    chain = codec.Chain(long)
    gone = mock.Mock(side_effect=FileNotFoundError(2, "No such file or directory"))
    chain._source = replace(chain._source, read=gone)
    for read in (chain.restore, chain.verify, lambda: chain.pack(tmp_path / "x.zip")):
        with pytest.raises(errors.VanishedError, match=r"\.safetensors: is gone"):
            read()
    assert not (tmp_path / "x.zip").exists()


@pytest.mark.parametrize("late", [False, True])
def test_compacted_while_it_is_listed(
    long: Path, compacted: Path, monkeypatch: Patch, late: bool
) -> None:
    """A listing with neither the deltas nor the new base is no shorter chain."""
    expected, scandir = codec.restore(long), os.scandir

    def listing(path: Path) -> Any:
        monkeypatch.setattr(os, "scandir", scandir)
        items = [*scandir(path)]
        if late:  # gone before the sizes are asked for
            become(long, compacted)
            return nullcontext(items)
        # The deltas are gone already, the new base is not there yet.
        return nullcontext([item for item in items if "base" in item.name])

    monkeypatch.setattr(os, "scandir", listing)
    assert same(codec.restore(long), expected)
    assert os.scandir is scandir


def test_a_step_that_was_saved_again_as_a_base(tmp_path: Path) -> None:
    """The delta of the save that failed could not be removed: the base counts."""
    path = tmp_path / "run.lcc"
    delta = path / "00000002.delta.safetensors"

    def state(step: int, n: int) -> dict[str, Any]:
        return {"w": np.full(9, step, np.float32), "n": np.array(n)}

    save_all(path, (state(step, step) for step in range(3)), bits=2)
    left = delta.read_bytes()
    delta.unlink()
    with codec.Checkpointer(path, resume=True) as checkpoints:
        checkpoints._append(2, state(77, 77), reason=Reason.ASKED)
        checkpoints._append(3, state(3, 3), reason=None)
    delta.write_bytes(left)
    assert codec.verify(path).ok
    assert codec.restore(path, 2)["n"] == 77
    history = codec.Chain(path).history("n")
    assert [(step, int(n)) for step, n in history] == [(0, 0), (1, 1), (2, 77), (3, 3)]


@pytest.mark.parametrize("step", [40, None])
def test_a_damaged_record_that_nothing_follows(run: Path, step: int | None) -> None:
    """It was set aside and came back with a backup: what goes on before it is no worse for that."""
    path = run / "00000030.delta.safetensors"
    data = path.read_bytes()
    path.unlink()
    save_all(run, [random_states(5)[4]], 40, bits=3, resume=True)
    expected = codec.restore(run)
    path.write_bytes(data)
    flip(path)
    with pytest.warns(errors.SkippedRecordWarning, match="step 40 by another way: 00000030.delta"):
        assert same(codec.restore(run, step), expected)
    assert codec.verify(run).steps == (0, 10, 20, 40)
    with pytest.raises(errors.DigestError, match=r"^00000030\.delta"):
        codec.restore(run, 30)
