"""Merging and compacting chains: every step that is kept restores as before, whatever happens."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import codec
from codec.chain import upkeep
from codec.chain.upkeep import superseded
from codec.errors import (
    ChainNotFoundError,
    DigestError,
    ForeignRecordError,
    LockedError,
    MalformedRecordError,
    ParentError,
    SkippedRecordWarning,
    StepNotFoundError,
    TrackDigestError,
    VersionError,
)
from codec.record import container, merged
from codec.record import record as records
from codec.scheme.coding import Coding
from codec.scheme.context import ContextCode
from codec.storage import directory as storage
from codec.storage.source import Entry

Patch = pytest.MonkeyPatch

Arrays = dict[str, np.ndarray]
Forge = Callable[[Any, Arrays], bytes]
Parts = Callable[[bytes], Any]
States = Callable[..., list[Arrays]]
Look = Callable[[Path], dict[int, tuple[Any, ...]]]


def names(path: Path) -> list[str]:
    """Records as step and first letter of the kind: ["0b", "10d", "20-60m"]."""
    files = sorted(p.name for p in path.iterdir() if p.name != ".lock")
    return [re.sub(r"0*(\d+)(?:-0*(\d+))?\.(\w)\w*\.safetensors", short, name) for name in files]


def short(got: re.Match[str]) -> str:
    return "-".join(filter(None, got.group(1, 2))) + got[3]


def files(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(path.iterdir()) if p.name != ".lock"}


def damage(path: Path) -> None:
    """Flip a bit of the last byte."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def write(
    path: Path, states: Iterable[Any], first: int = 0, stride: int = 10, **settings: Any
) -> None:
    """Save these states at steps 0, 10, 20…, or go on with them; with 2 bits by default."""
    if not {"budget", "tolerance"} & settings.keys():
        settings = {"bits": 2} | settings
    with codec.Checkpointer(path, resume=True, **settings) as checkpoints:
        for i, state in enumerate(states, first):
            checkpoints.save(stride * i, state)


def parts(path: Path, step: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What a delta record holds, but for the digests of records."""
    record = codec.Chain(path).at(step).record
    fields = vars(record.header) | record.more
    return fields | {"parent": None}, {
        name: array.tobytes() for name, array in record.arrays.items()
    }


def tables(path: Path) -> dict[str, tuple[int, list[int]]]:
    """The code tables sent last."""
    return {
        k: (t.classes, t.lengths.tolist()) for k, t in codec.Chain(path).at().track.tables.items()
    }


def left_names(steps: Iterable[int]) -> list[str]:
    return [f"{s}{'d' if s % 60 else 'b'}" for s in steps]


def one_step(path: Path, step: int) -> tuple[Any, ...]:
    """As `all_steps` tells it."""
    at = codec.Chain(path).at(step)
    tensors = {name: array.tobytes() for name, array in at.track.arrays.items()}
    return tensors, dict(at.track.sums), at.track.values, at.track.layout


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, jumping_states: States) -> Path:
    """A base and eight deltas, steps 0, 10 … 80; nobody changes it."""
    path = tmp_path_factory.mktemp("written") / "run.lcc"
    write(path, jumping_states(9))
    return path


@pytest.fixture(scope="module")
def before(written: Path, all_steps: Look) -> dict[int, tuple[Any, ...]]:
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

    with Patch.context() as patch:
        patch.setattr(os, "unlink", kill)
        yield


# Merging

SETTINGS: list[dict[str, Any]] = [
    {"bits": None, "coder": "runlength", "scope": "model"},
    {"bits": 1, "coder": "huffman", "scope": "tensor"},
    {"bits": 8, "coder": "runlength", "scope": "tensor"},
    {"budget": 0.3, "quantizer": "exponent", "coder": "huffman", "scope": "model"},
    {"budget": 0.3, "quantizer": "uniform", "coder": "runlength", "scope": "tensor"},
    {"tolerance": 0.1, "coder": "huffman", "scope": "model"},
    {"tolerance": 1e-5, "coder": "runlength", "scope": "model"},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_every_step_restores_after_merging(
    tmp_path: Path,
    setting: dict[str, Any],
    jumping_states: States,
    random_states: States,
    all_steps: Look,
) -> None:
    """Dense and alike; with NaN and infinity inside of what is merged and at its ends."""
    for i, states in enumerate((jumping_states(5), random_states(5, rows=300))):
        path = tmp_path / str(i)
        for step, name in ((1, "w"), (3, "w"), (4, next(k for k in states[0] if k != "w"))):
            broken = states[step][name].copy()
            if broken.dtype.kind == "f":
                broken.reshape(-1)[:3] = np.nan, np.inf, -0.0
            states[step] = states[step] | {name: broken}
        write(path, states, **setting)
        before = all_steps(path)
        nbytes = codec.Chain(path).nbytes
        change = codec.merge(path, 4)
        assert names(path) == ["0b", "10-40m"]
        assert all_steps(path) == before
        assert (change.records, change.nbytes) == ((5, 2), (nbytes, codec.Chain(path).nbytes))
        report = codec.verify(path)
        assert (report.problems, report.steps) == ((), tuple(before))


@settings(max_examples=8, phases=[Phase.generate])  # to shrink it would take minutes
@given(st.data())
def test_any_chain(
    tmp_path_factory: pytest.TempPathFactory,
    jumping_states: States,
    random_states: States,
    sparse_states: States,
    all_steps: Look,
    data: st.DataObject,
) -> None:
    """Merged and compacted and resumed in any order: the newest state and the steps are those of a
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
        what = draw(st.sampled_from(["nothing", "merge", "compact"]))
        if what == "merge":
            codec.merge(path / "kept", draw(st.integers(2, 6)))
        elif what == "compact":
            codec.compact(path / "kept", draw(st.integers(2, 3)), base=draw(st.booleans()))
        assert tables(path / "kept") == tables(path / "plain")
    plain, old = all_steps(path / "plain"), all_steps(path / "kept")
    report = codec.verify(path / "kept")
    assert (report.problems, report.steps) == ((), tuple(old))
    assert list(plain)[-1] == list(old)[-1]
    assert old.items() <= plain.items()


def test_training_states(tmp_path: Path, all_steps: Look) -> None:
    """Model, optimizer, values that change, ties; second moments that are families of their own."""
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 9)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, scope="tensor") as checkpoints:
        for step in range(5):
            optimizer.zero_grad()
            model(torch.randn(4, 20)).square().sum().backward()
            optimizer.step()
            weights = model.state_dict() | {"again": model.weight.T.T}
            state = {"model": weights, "optimizer": optimizer.state_dict(), "step": f"{step // 2}"}
            checkpoints.save(step, state)
    before = all_steps(path)
    codec.merge(path, 2)
    assert names(path) == ["0b", "1-2m", "3-4m"]
    assert all_steps(path) == before
    back = codec.restore(path, 3)
    assert back["step"] == "1"
    assert back["model"]["again"].data_ptr() == back["model"]["weight"].data_ptr()


def test_fewer_than_steps_stay(chain: Path, before: Any, all_steps: Look) -> None:
    first = files(chain)
    codec.merge(chain, 3)
    assert names(chain) == ["0b", "10-30m", "40-60m", "70d", "80d"]
    for step in (70, 80):
        name = f"000000{step}.delta.safetensors"
        assert files(chain)[name] == first[name]
    again = files(chain)
    change = codec.merge(chain, 3)  # what is merged is not merged again
    assert files(chain) == again
    assert change.records == (5, 5)
    codec.merge(chain, 2)
    assert names(chain)[-1] == "70-80m"
    assert all_steps(chain) == before
    assert codec.verify(chain).ok


@pytest.mark.parametrize("n", [9, 2, 1])
def test_nothing_to_merge(chain: Path, n: int) -> None:
    for step in range(10 * n, 90, 10):
        (chain / f"{step:08d}.delta.safetensors").unlink()
    content = files(chain)
    codec.merge(chain, 9)
    assert files(chain) == content


def test_progress_is_told(chain: Path) -> None:
    seen: list[tuple[int, int]] = []
    codec.merge(chain, 4, lambda *at: seen.append(at))
    assert seen == [(i, 9) for i in range(1, 10)]
    seen.clear()
    codec.compact(chain, progress=lambda *at: seen.append(at), base=True)
    assert seen == [(i, 4) for i in range(1, 5)]


def test_bases_in_the_middle(tmp_path: Path, jumping_states: States, all_steps: Look) -> None:
    """By a policy, by tensors that are new, by compacting: none is merged across."""
    path = tmp_path / "run.lcc"
    states = jumping_states(10)
    write(path, states[:6], base_every=3)
    states[7:] = [state | {"more": np.ones(100_000)} for state in states[7:]]
    write(path, states[6:], 6)
    codec.compact(path, 3, base=True)
    write(path, [states[-1]] * 2, 10)
    assert names(path) == ["40b", "50d", "60d", "70b", "80d", "90b", "90d", "100d", "110d"]
    before = all_steps(path)
    codec.merge(path, 2)
    assert names(path) == ["40b", "50-60m", "70b", "80-90m", "90b", "100-110m"]
    assert all_steps(path) == before
    assert codec.verify(path).ok
    damage(path / "00000090.base.safetensors")
    with pytest.warns(SkippedRecordWarning, match=r"step \d+ by another way: 00000090"):
        assert all_steps(path)[110] == before[110]


def test_records_of_other_settings(tmp_path: Path, jumping_states: States, all_steps: Look) -> None:
    """Only deltas of equal settings are merged; a merged record says which they are."""
    path = tmp_path / "run.lcc"
    states = jumping_states(14)
    ways: list[dict[str, Any]] = [
        {"bits": 2},
        {"bits": 2, "scope": "tensor"},
        {"budget": 0.5},
        {"budget": 0.5, "quantizer": "exponent"},
        {"tolerance": 0.1},
        {"tolerance": 0.2},
        {"tolerance": 0.2, "coder": "huffman"},
    ]
    for i, way in enumerate(ways):
        write(path, states[2 * i : 2 * i + 2], 2 * i, **{"scope": "model"} | way)
    write(path, states[:1], 14, bits=1)
    before = all_steps(path)
    codec.merge(path, 8)
    merged = [f"{10 * i}-{10 * i + 10}m" for i in range(2, 14, 2)]
    assert names(path) == ["0b", "10d", *merged, "140d"]
    assert all_steps(path) == before
    one = codec.Chain(path)
    got = [one.read(e).coding for e in one.entries if e.kind == "merged"]
    assert got == [Coding(**way) for way in ways[1:]]


@pytest.mark.parametrize(
    ("setting", "how"),
    [
        ({"bits": 2}, "both"),
        ({"bits": 3, "scope": "tensor"}, "merge"),
        ({"tolerance": 5e-4}, "compact"),
    ],
)
def test_resume_goes_on_with_the_same_bytes(
    tmp_path: Path, sparse_states: States, setting: dict[str, Any], how: str, monkeypatch: Patch
) -> None:
    """As if nothing had been merged: same parent, same track, and the tables that were sent."""
    states = sparse_states(9)
    write(tmp_path / "plain", states, **setting)
    write(tmp_path / "kept", states[:6], **setting)
    before = tables(tmp_path / "kept")
    assert before
    if how != "compact":
        codec.merge(tmp_path / "kept", 5)
    if how != "merge":
        codec.compact(tmp_path / "kept", base=True)
    assert tables(tmp_path / "kept") == before
    write(tmp_path / "kept", states[6:], 6, **setting)
    for step in (60, 70, 80):
        plain, old = (parts(tmp_path / name, step) for name in ("plain", "kept"))
        if how != "merge":  # what was trained is counted from the base, and this one is new
            for metadata, _ in (plain, old):
                metadata["rest"] = metadata["rest"].distance
        assert old == plain
    cached = [
        group.encoded.cached
        for position in codec.Chain(tmp_path / "kept").replay()
        if position.delta
        for group in position.delta.groups
    ]
    assert any(cached)
    assert codec.verify(tmp_path / "kept").ok


# Compacting


def test_compact(chain: Path, before: Any, all_steps: Look, jumping_states: States) -> None:
    assert codec.compact(chain, base=True).records == (9, 10)
    assert names(chain)[0] == "0b"  # the only other base
    assert names(chain)[-2:] == ["80b", "80d"]
    assert all_steps(chain) == before
    assert [p.entry.kind for p in codec.Chain(chain).replay()] == ["base"]
    after = files(chain)
    assert codec.compact(chain, base=True).records == (10, 10)  # there is nothing to do
    assert files(chain) == after
    write(chain, jumping_states(3, 1), 9)
    now = all_steps(chain)
    change = codec.compact(chain, base=True)
    assert names(chain) == ["80b", "90d", "100d", "110b", "110d"]
    assert change.records == (13, 5)
    assert min(change.restore_seconds) > 0
    assert all_steps(chain) == {step: now[step] for step in (80, 90, 100, 110)}
    with pytest.raises(StepNotFoundError, match="no record of step 70; it has 4"):
        codec.restore(chain, 70)
    report = codec.verify(chain)
    assert (report.problems, report.steps) == ((), (80, 90, 100, 110))


@pytest.mark.parametrize(
    ("n", "nth", "how", "left"),
    [
        (4, None, {}, "0b 10d 20d 30d"),  # one with a single base
        (6, 3, {}, "40b 50b 50d"),  # smaller by a new one
        (7, 1, {"keep": 3, "base": True}, "20b 30d 40b 50d 60b"),
        (7, 1, {"base": True}, "40b 50d 60b"),
    ],
)
def test_what_compact_leaves(
    tmp_path: Path, jumping_states: States, all_steps: Look, n: int, nth: Any, how: Any, left: str
) -> None:
    path = tmp_path / "run.lcc"
    write(path, jumping_states(n), base_every=nth)
    before, nbytes = all_steps(path), codec.Chain(path).nbytes
    change = codec.compact(path, **how)
    assert names(path) == left.split()
    assert change.records == (n, len(names(path)))
    assert change.nbytes == (nbytes, codec.Chain(path).nbytes)
    after = all_steps(path)
    assert after == {step: before[step] for step in after}


def test_compact_makes_no_chain_larger(tmp_path: Path, jumping_states: States) -> None:
    """Not one whose newest base would take more than what goes."""
    path = tmp_path / "run.lcc"
    write(path, jumping_states(2))
    write(path, [state | {"more": np.ones(50_000)} for state in jumping_states(2)], 2)
    assert names(path) == ["0b", "10d", "20b", "30d"]
    before = files(path)
    change = codec.compact(path)
    assert files(path) == before
    assert change.nbytes[0] == change.nbytes[1]
    change = codec.compact(path, base=True)
    assert names(path) == ["20b", "30b", "30d"]
    assert change.nbytes[1] > change.nbytes[0]


@pytest.mark.parametrize("coder", ["context", "huffman"])
def test_compact_with_another_coder(
    chain: Path, before: Any, all_steps: Look, jumping_states: States, coder: str
) -> None:
    """The deltas are coded anew, the last few of them and a single one, too."""
    codec.merge(chain, 3)
    write(chain, jumping_states(10, 1), 9)
    write(chain, jumping_states(1, 2), 19, scope="tensor")
    before, old = all_steps(chain), names(chain)
    change = codec.compact(chain, coder=coder)
    assert names(chain) == ["0b", "10-30m", "40-60m", "70-140m", "150-180m", "190-190m"], old
    assert all_steps(chain) == before
    assert codec.verify(chain).ok
    assert (change.nbytes[1] < change.nbytes[0]) or coder == "huffman"
    compacted = codec.Chain(chain)
    recoded = [compacted.read(e) for e in compacted.entries[3:]]
    assert {record.coding.coder for record in recoded if record.coding} == {coder}
    assert {record.header.format for record in recoded} == {2 if coder == "context" else 1}
    again = files(chain)
    codec.compact(chain, coder=coder)
    assert files(chain) == again
    write(chain, jumping_states(1, 3), 20, coder=coder)
    assert codec.verify(chain).steps[-1] == 200


@pytest.mark.parametrize("change", [codec.compact, codec.merge])
def test_a_coder_that_is_not_there(chain: Path, change: Any) -> None:
    before = files(chain)
    with pytest.raises(codec.SettingsError, match=r"coder must be one of .*; got 'zip'"):
        change(chain, coder="zip")
    assert files(chain) == before


def kinds_of_payloads(path: Path) -> list[set[type]]:
    """Of each merged record."""
    chain = codec.Chain(path)
    layout = chain.at(0).track.layout
    all_records = [chain.read(e) for e in chain.entries if e.kind == "merged"]
    contents = [merged.merged_of(record, layout) for record in all_records]
    return [
        {type(group.encoded.payload) for layer in content.layers for group in layer.groups}
        for content in contents
    ]


def test_merge_with_another_coder(chain: Path, before: Any, all_steps: Look) -> None:
    codec.merge(chain, 3, coder="context")
    assert names(chain) == ["0b", "10-30m", "40-60m", "70d", "80d"]
    assert all(ContextCode in kinds for kinds in kinds_of_payloads(chain))
    assert all_steps(chain) == before


def test_compact_of_a_merged_chain(
    chain: Path, before: Any, all_steps: Look, jumping_states: States
) -> None:
    codec.merge(chain, 4)
    codec.compact(chain, base=True)
    assert names(chain)[-2:] == ["50-80m", "80b"]
    assert all_steps(chain) == before
    *_, last, base = map(codec.Chain(chain).read, codec.Chain(chain).entries)
    assert base.replaces == last.identity
    write(chain, jumping_states(2, 1), 9)
    codec.compact(chain, base=True)
    assert names(chain)[0] == "80b"
    assert codec.verify(chain).ok


def test_compact_where_the_newest_base_is_damaged(chain: Path) -> None:
    """No other can take its name: the error is that of the base."""
    codec.compact(chain, base=True)
    damage(chain / "00000080.base.safetensors")
    before = files(chain)
    with (
        pytest.warns(SkippedRecordWarning, match="another way: 00000080.base"),
        pytest.raises(DigestError, match=r"^00000080\.base\.safetensors"),
    ):
        codec.compact(chain, base=True)
    assert files(chain) == before


def test_a_base_that_is_another_state(chain: Path, forge: Forge, parts_of: Parts) -> None:
    """Sealed and sound, but not what the record in whose place it stands led to."""
    codec.compact(chain, base=True)
    path = chain / "00000080.base.safetensors"
    metadata, arrays = parts_of(path.read_bytes())
    record = records.load(path.read_bytes(), path.name)
    metadata["track"] = parts_of((chain / "00000070.delta.safetensors").read_bytes())[0]["track"]
    arrays["t/n"] = np.array(7)
    path.write_bytes(forge(metadata, arrays))
    assert not codec.verify(chain).ok
    chain_of = codec.Chain(chain)
    position = chain_of.at(70)
    header, replaces = record.header, record.replaces
    place = records.Place(80, header.run, header.parent, replaces)
    path.write_bytes(records.dump_base(place, position.track))
    report = codec.verify(chain)
    assert len(report.problems) == 1
    assert "00000080.base.safetensors: expected a track of digest" in report.problems[0]


# Being killed, and failing


@pytest.mark.parametrize("removed", [0, 3])
def test_killed_between_publishing_and_removing(
    chain: Path, before: Any, all_steps: Look, removed: int, jumping_states: States
) -> None:
    """Both are there: every step restores, a writer goes on, the next merge cleans up."""
    clean = shutil.copytree(chain, chain.parent / "clean")
    codec.merge(clean, 4)
    with killed_after_removing(removed), pytest.raises(Killed):
        codec.merge(chain, 4)
    assert names(chain)[1] == "10-40m"
    assert len(names(chain)) == 10 - removed
    assert all_steps(chain) == before
    assert codec.Chain(chain).steps == tuple(before)
    report = codec.verify(chain)
    assert (report.problems, report.steps) == ((), tuple(before))
    write(chain, jumping_states(1, 3), 9)
    assert codec.verify(chain).steps == (*before, 90)
    codec.merge(chain, 4)
    assert names(chain) == [*names(clean), "90d"]
    assert {k: v for k, v in files(chain).items() if "90.delta" not in k} == files(clean)


@pytest.mark.parametrize("removed", [0, 2])
def test_a_damaged_merged_record(chain: Path, before: Any, all_steps: Look, removed: int) -> None:
    """As long as its deltas are there they lead to its steps, and verify tells of it."""
    with killed_after_removing(removed), pytest.raises(Killed):
        codec.merge(chain, 8)
    damage(chain / "00000010-00000080.merged.safetensors")
    if removed:
        with pytest.warns(SkippedRecordWarning, match="step 0 instead of 80: 00000010-00000"):
            assert codec.restore(chain)["n"] == 0
        with pytest.raises(DigestError, match=r"00000010-00000080\.merged"):
            codec.restore(chain, 80)
        with pytest.raises(DigestError, match=r"00000010-00000080\.merged"):
            codec.merge(chain, 8)
        return
    with pytest.warns(SkippedRecordWarning, match="another way: 00000010-00000080.merged"):
        assert all_steps(chain) == before
    report = codec.verify(chain)
    assert report.steps == tuple(before)
    assert len(report.problems) == 1
    assert report.problems[0].startswith("00000010-00000080.merged.safetensors: expected content")
    with (
        pytest.warns(SkippedRecordWarning, match="another way"),
        pytest.warns(SkippedRecordWarning, match=r"1 records stay as .*: 00000010-00000080"),
    ):
        codec.merge(chain, 8)
    assert names(chain) == ["0b", "10-80m", "10-80m.unusable"]
    assert all_steps(chain) == before
    assert codec.verify(chain).ok


@pytest.fixture(scope="module")
def compacted(
    written: Path, jumping_states: States, all_steps: Look
) -> tuple[Path, dict[int, tuple[Any, ...]]]:
    """Merged and compacted, and gone on; and all steps. The next compaction removes six."""
    path = shutil.copytree(written, written.parent / "compacted.lcc")
    codec.merge(path, 3)
    codec.compact(path, base=True)
    write(path, jumping_states(2, 1), 9)
    return path, all_steps(path)


@pytest.mark.parametrize("removed", range(7))
def test_killed_while_compacting(
    compacted: Any, tmp_path: Path, all_steps: Look, removed: int
) -> None:
    """Whatever has gone by then, what is left restores; the next one finishes it."""
    chain = shutil.copytree(compacted[0], tmp_path / "run.lcc")
    with killed_after_removing(removed), warnings.catch_warnings(action="error"):
        try:
            codec.compact(chain, base=True)
        except Killed:
            assert removed < 6
    report = codec.verify(chain)
    assert report.problems == ()
    after = all_steps(chain)
    assert after.items() <= compacted[1].items()
    assert set(after) >= {80, 90, 100}
    assert report.steps == tuple(after)
    codec.compact(chain, base=True)
    assert names(chain) == ["80b", "90d", "100b", "100d"]


@given(st.data())
@settings(max_examples=60)
def test_superseded(data: st.DataObject) -> None:
    """What is removed, and in which order: never a record before all that need it."""
    draw = data.draw
    entries: list[Entry] = []
    step, needs = 0, {}
    for number in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["base", "delta", "merged", "both"])) if number else "base"
        first, step = step + 1, step + (3 if kind == "merged" else 1)
        mine = [
            Entry(step, k, f"{step}.{k}", 1, first if k == "merged" else step)
            for k in {"both": ["base", "delta"]}.get(kind, [kind])
        ]
        for e in mine:
            needs[e] = [p for p in entries if p.step == first - 1] if e.kind != "base" else []
        entries += mine
    keep = draw(st.integers(2, 4))
    gone = superseded(draw(st.permutations(entries)), keep)
    bases = [e for e in entries if e.kind == "base"]
    left = [e for e in entries if e not in gone]
    if len(bases) < keep:
        assert gone == []
        return
    assert [e for e in left if e.kind == "base"] == bases[-keep:]
    assert {e.step for e in left} == {e.step for e in entries if e.step >= bases[-keep].step}
    assert left[0].kind == "base" or left[1].step == left[0].step
    rest = list(entries)
    for e in gone:
        rest.remove(e)
        for other in rest:
            assert not needs[other] or any(p in rest for p in needs[other])


@pytest.mark.parametrize("what", [codec.merge, partial(codec.compact, base=True)])
def test_a_full_disk_changes_nothing(
    chain: Path, before: Any, what: Any, monkeypatch: Patch, all_steps: Look
) -> None:
    content = files(chain)

    def refuse(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(codec.WriteError, match="could not be written, nothing was changed"):
            what(chain)
    assert files(chain) == content
    what(chain)  # and nothing is locked
    assert all_steps(chain) == before


def test_what_cannot_be_removed_stays(
    chain: Path, before: Any, monkeypatch: Patch, all_steps: Look
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "unlink", refuse)
        with pytest.raises(codec.WriteError, match="records could not be removed"):
            codec.merge(chain, 8)
    for leftover in chain.glob(".lcc-*"):
        leftover.unlink()
    assert len(names(chain)) == 10
    assert all_steps(chain) == before
    codec.merge(chain, 8)
    assert names(chain) == ["0b", "10-80m"]


def one_level_off(place: Any, content: merged.Merged, *layout: Any) -> bytes:
    levels = content.layers[0].groups[0].encoded.levels
    levels[1, 0] = np.nextafter(levels[1, 0], np.float32(np.inf))
    return DUMP(place, content, *layout)


def one_more(place: Any, track: Any) -> bytes:
    return DUMP_BASE(place, replace(track, arrays=track.arrays | {"n": track.arrays["n"] + 1}))


DUMP, DUMP_BASE = merged.dump, records.dump_base
WRONG = [
    (merged, "dump", one_level_off, partial(codec.merge, steps=8), "00000010-00000080.merged"),
    (records, "dump_base", one_more, partial(codec.compact, base=True), "00000080.base"),
]


@pytest.mark.parametrize(("module", "name", "wrong", "what", "record"), WRONG)
def test_a_wrong_record_is_never_published(
    chain: Path, written: Path, module: Any, name: str, wrong: Any, what: Any, record: str
) -> None:
    """Every step is rebuilt from the bytes before they get a name."""
    with Patch.context() as patch:
        patch.setattr(module, name, wrong)
        with pytest.raises(TrackDigestError, match=rf"^{record}.* a track of digest"):
            what(chain)
    assert files(chain) == files(written)


def test_a_merge_too_large_for_a_header(
    written: Path, chain: Path, before: Any, monkeypatch: Patch, all_steps: Look
) -> None:
    """What could not be read again is never published: there are more records, of fewer steps."""
    monkeypatch.setattr(container, "MAX_TENSORS", 7)  # 4 of any merged record, and one a step
    codec.merge(chain, 7)
    assert names(chain) == ["0b", "10-30m", "40-50m", "60-70m", "80d"]
    assert all_steps(chain) == before
    assert codec.verify(chain).ok
    shutil.rmtree(chain)
    shutil.copytree(written, chain)
    load = records.load

    def refusing(data: bytes, where: str) -> Any:
        record = load(data, where)
        if record.kind == "merged":  # not even two steps
            raise ForeignRecordError(where, "less", "more")
        return record

    monkeypatch.setattr(records, "load", refusing)
    change = codec.merge(chain, 8)
    assert files(chain) == files(written)
    assert change.restore_seconds[0] == change.restore_seconds[1]


def test_tables_that_no_merged_record_can_tell(
    tmp_path: Path, sparse_states: States, monkeypatch: Patch, all_steps: Look
) -> None:
    """Nothing is published that could not be read: where only the last deltas send too many, the
    others are merged."""
    path = tmp_path / "run.lcc"
    states = sparse_states(9)
    write(path, states[:5])
    n = sum(t.lengths.size for t in codec.Chain(path).at().track.tables.values())
    write(path, states[5:], 5, scope="tensor")
    before, steps = files(path), all_steps(path)
    monkeypatch.setattr(records, "MAX_LENGTHS", n)
    with pytest.raises(MalformedRecordError, match=rf"^00000080\.base.*more than {n} code"):
        codec.compact(path, base=True)
    assert files(path) == before
    codec.merge(path, 4)
    assert names(path)[:2] == ["0b", "10-40m"]
    assert [name for name in names(path) if "d" in name] == [f"{s}0d" for s in (5, 6, 7, 8)]
    assert all_steps(path) == steps


@pytest.mark.parametrize("what", [codec.merge, codec.compact])
@pytest.mark.parametrize("step", [0, 30, 80, -30])
def test_a_damaged_chain_is_left_alone(chain: Path, what: Any, step: int) -> None:
    """Or one without a record: the error names the record that cannot be applied."""
    (path,) = chain.glob(f"{abs(step):08d}.*")
    path.unlink() if step < 0 else damage(path)
    error, name = (ParentError, "00000040") if step < 0 else (DigestError, path.name)
    before = files(chain)
    with pytest.raises(error, match=f"^{name}"):
        what(chain, 4)
    assert files(chain) == before


@pytest.mark.parametrize("step", [0, 20, 60])
def test_merging_goes_on_around_damage(
    tmp_path: Path, jumping_states: States, all_steps: Look, step: int
) -> None:
    """What is healthy is merged, up to a base and after one; what is not, stays as it is."""
    path = tmp_path / "run.lcc"
    write(path, jumping_states(13), base_every=5)
    before = all_steps(path)
    (broken,) = path.glob(f"{step:08d}.*")
    damage(broken)
    left = {0: range(0, 60, 10), 20: range(20, 60, 10), 60: range(60, 120, 10)}[step]
    rest = {s: state for s, state in before.items() if s not in left}
    bytes_before = files(path)
    with pytest.warns(
        SkippedRecordWarning,
        match=rf"{len(left)} records stay as they are.*rename it.*: {broken.name}: expected",
    ):
        change = codec.merge(path, 5)
    before_60 = {0: [], 20: ["0b", "10d"], 60: ["0b", "10-50m"]}[step]
    after_60 = ["60b", "70-110m"] if step < 60 else []
    assert names(path) == [*before_60, *left_names(left), *after_60, "120b"]
    assert change.records == (13, len(names(path)))
    for s, state in rest.items():
        assert one_step(path, s) == state
    assert files(path)[broken.name] == bytes_before[broken.name]


def test_what_a_newer_version_wrote_is_not_damaged(
    tmp_path: Path, jumping_states: States, refield: Any
) -> None:
    path = tmp_path / "run.lcc"
    write(path, jumping_states(8), base_every=5)
    refield(path / "00000020.delta.safetensors", format=3)
    before = files(path)
    with pytest.raises(VersionError, match=r"^00000020\.delta"):
        codec.merge(path, 2)
    assert files(path) == before


def test_a_damaged_base_is_none_of_those_that_are_kept(
    chain: Path, all_steps: Look, jumping_states: States
) -> None:
    """It blocks no compaction: what is removed lies before bases that restore."""
    write(chain, jumping_states(2, 1), 9)
    codec.compact(chain, base=True)
    before = all_steps(chain)
    write(chain, jumping_states(2, 2), 11)
    damage(chain / "00000100.base.safetensors")
    with pytest.warns(SkippedRecordWarning, match="another way: 00000100.base"):
        codec.compact(chain, base=True)
    with pytest.warns(SkippedRecordWarning, match="another way: 00000100.base"):
        after = all_steps(chain)
    assert {k: v for k, v in after.items() if k in before} == before
    write(chain, jumping_states(1, 3), 13)
    codec.compact(chain, base=True)
    assert names(chain) == ["120b", "130b", "130d"]


def test_how_often_a_restore_is_measured(chain: Path, monkeypatch: Patch) -> None:
    """A few times before and after; once where it takes long, or if quick; not where nothing
    changed. The time to load the kernels does not count."""
    monkeypatch.setattr(upkeep, "MEASURED_TIMES", 3)
    restored: list[None] = []
    loaded: list[None] = []
    monkeypatch.setattr(upkeep, "warm_up", lambda: loaded.append(None))
    real = codec.Chain.at
    monkeypatch.setattr(codec.Chain, "at", lambda *a: restored.append(None) or real(*a))
    for seconds, what, expected in (
        (0, lambda: codec.merge(chain, 9), 1),
        (0, lambda: codec.merge(chain, 3), 2),
        (0, lambda: codec.merge(chain, 3), 1),
        (3600, lambda: codec.merge(chain, 2), 2 * 3),
        (3600, lambda: codec.merge(chain, 2, quick=True), 1),
        (0, lambda: codec.compact(chain, base=True), 2),
    ):
        monkeypatch.setattr(upkeep, "MEASURED_SECONDS", seconds)
        restored.clear()
        loaded.clear()
        what()
        assert len(restored) == expected
        assert bool(loaded) == (expected != 1 or seconds == 0)


def test_leftovers_that_tell_more_stay(
    chain: Path, jumping_states: States, all_steps: Look
) -> None:
    """What a merged record leads past is removed only if it tells of nothing else: here the last
    one goes further, and needs the others."""
    other = chain.parent / "other"
    shutil.copytree(chain, other)
    codec.merge(other, 8)
    write(chain, jumping_states(1, 1), 9)
    codec.merge(chain, 3)
    shutil.copy(other / "00000010-00000080.merged.safetensors", chain)
    with pytest.warns(SkippedRecordWarning, match="step 90 by another way"):
        write(chain, jumping_states(2, 2), 10, base_every=1)
    assert names(chain)[-2:] == ["100b", "110d"]
    with pytest.warns(SkippedRecordWarning, match="step 90 by another way"):
        before = all_steps(chain)
    codec.merge(chain, 2)
    with pytest.warns(SkippedRecordWarning, match="step 90 by another way"):
        assert all_steps(chain) == before
    (chain / "00000070-00000090.merged.safetensors").unlink()
    codec.merge(chain, 2)
    assert names(chain) == ["0b", "10-80m", "100b", "110d"]


def test_a_leftover_of_another_state_stays(chain: Path, refield: Any) -> None:
    path = chain / "00000030.delta.safetensors"
    content = path.read_bytes()
    codec.merge(chain, 8)
    path.write_bytes(content)
    refield(path, track="A" * 22)
    before = files(chain)
    codec.merge(chain, 8)
    assert files(chain) == before


def test_compact_checks_what_it_keeps(chain: Path, jumping_states: States) -> None:
    """What lies between the bases that are kept must restore, though the newest step does."""
    codec.compact(chain, base=True)
    write(chain, jumping_states(3, 1), 9)
    damage(chain / "00000020.delta.safetensors")  # before the base: it may go
    codec.compact(chain, base=True)
    assert codec.verify(chain).ok
    write(chain, jumping_states(1, 2), 12)
    damage(chain / "00000100.delta.safetensors")
    before = files(chain)
    with pytest.raises(DigestError, match=r"^00000100\.delta"):
        codec.compact(chain, 3, base=True)
    assert {k: v for k, v in files(chain).items() if k in before} == before


def test_compact_says_what_is_in_the_way(chain: Path, jumping_states: States) -> None:
    """A delta that came late, to what is not the record before it any more: no step needs it."""
    other = chain.parent / "other.lcc"
    shutil.copytree(chain, other)
    write(other, jumping_states(1, 1), 19, 5)
    codec.compact(chain, base=True)
    write(chain, jumping_states(3, 2), 9)
    late = chain / "00000095.delta.safetensors"
    shutil.copy(other / late.name, late)
    with (
        pytest.warns(SkippedRecordWarning, match="another way: 00000095"),
        pytest.raises(ParentError, match=r"^00000095.*; nothing was removed: .*rename"),
    ):
        codec.compact(chain, base=True)
    late.rename(f"{late}.late")
    codec.compact(chain, base=True)
    assert codec.verify(chain).steps == (80, 90, 100, 110)
    damage(chain / "00000110.base.safetensors")
    damage(chain / "00000110.delta.safetensors")
    for what in (codec.merge, codec.compact):
        with pytest.raises(DigestError, match="; a Checkpointer with resume=True sets aside"):
            what(chain)


@pytest.mark.parametrize("what", [codec.merge, codec.compact])
def test_no_directory_of_records(chain: Path, written: Path, tmp_path: Path, what: Any) -> None:
    """Or one that is written to."""
    with (
        codec.Checkpointer(chain, resume=True),
        pytest.raises(LockedError, match="another writer is at work here"),
    ):
        what(chain)
    assert files(chain) == files(written)
    with pytest.raises(ChainNotFoundError, match="there is no chain directory"):
        what(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ChainNotFoundError, match="holds no records"):
        what(tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []
    archive = tmp_path / "run.lcc.zip"
    codec.Chain(chain).pack(archive)
    content = archive.read_bytes()
    with pytest.raises(codec.WriteError, match=r"run\.lcc\.zip: is no directory"):
        what(archive)
    assert archive.read_bytes() == content


def test_settings(chain: Path, written: Path) -> None:
    for n in (1, 0, -2, 4097, 2.0, True, "8", None):
        with pytest.raises(codec.SettingsError, match=r"2 to 4096 deltas can be merged; got"):
            codec.merge(chain, n)  # type: ignore[arg-type]
        if n != 4097:
            with pytest.raises(codec.SettingsError, match="at least 2 bases are kept; got"):
                codec.compact(chain, n, base=True)  # type: ignore[arg-type]
    assert files(chain) == files(written)
