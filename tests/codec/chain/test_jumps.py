"""Jumps: the same states from fewer bytes, never another one, and a way around damage."""

from __future__ import annotations

import logging
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

import codec
from codec.chain.route import following
from codec.errors import MalformedRecordError, RewoundWarning, SkippedRecordWarning
from codec.scheme.track import Track
from codec.storage.directory import Directory
from codec.storage.source import Entry, entry_of

Patch = pytest.MonkeyPatch
N = 130  # saves of a chain
EXACT: dict[str, Any] = {"policy": {"*": "exact"}, "base_every": None}


def states(n: int = N, seed: int = 0) -> list[dict[str, Any]]:
    """Few values change in a step, many in eight; lossy and exact ones, and a NaN."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(60, 100)).astype(np.float32) / 16
    counts = np.arange(3_000)
    following_states = []
    for step in range(n):
        moved = rng.normal(size=w.shape) * 2e-4 * (rng.random(w.shape) < 0.2)
        w, counts = w + moved.astype(np.float32), counts + (rng.random(3_000) < 0.1)
        half = torch.from_numpy(w[:30].copy()).bfloat16()
        model = {"w": w.copy(), "half": half, "counts": counts}
        if 20 < step < 23:
            model["w"][0, 0] = np.nan
        following_states.append({"model": model, "epoch": step, "log": [0.5] * step})
    return following_states


def saved(path: Path, seed: int = 0, n: int = N, **settings: Any) -> codec.Chain:
    with codec.Checkpointer(path, jumps=True, **settings) as checkpoints:
        for step, state in enumerate(states(n, seed)):
            checkpoints.save(step, state)
    return codec.Chain(path)


@pytest.fixture(scope="session")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of exact tensors, with jumps; not to be changed."""
    return Path(saved(tmp_path_factory.mktemp("exact") / "run.lcc", **EXACT).where)


@pytest.fixture
def own(exact: Path, tmp_path: Path) -> Path:
    """The same chain, to be changed."""
    shutil.copytree(exact, tmp_path / "own.lcc")
    return tmp_path / "own.lcc"


def content(track: Any) -> tuple[dict[str, bytes], Any]:
    return {name: a.tobytes() for name, a in track.arrays.items()}, track.values


def every_content(path: Path) -> dict[int, tuple[dict[str, bytes], Any]]:
    """What each step has, without jumps."""
    return {p.step: content(p.track) for p in codec.Chain(path).every_step()}


def jump_of(path: Path, first: int, last: int) -> Path:
    return path / f"{first:08d}-{last:08d}.jump.safetensors"


@pytest.mark.parametrize(
    "settings",
    [EXACT, {"bits": 2, "base_every": 50}, {"distance": 0.3}, {"scope": "tensor", "bits": 3}],
    ids=["exact", "bases", "distance", "tensors"],
)
def test_the_same_bits_from_fewer_bytes(settings: dict[str, Any], tmp_path: Path) -> None:
    chain = saved(tmp_path / "run.lcc", **settings)
    assert len(chain.jumps) > 2
    expected = every_content(tmp_path / "run.lcc")
    for step in (0, 5, 8, 17, 63, 64, 71, 100, 128, 129):
        position = chain.at(step)
        position.track.check_whole("here")
        assert content(position.track) == expected[step], step
        part = chain.part("model/counts")
        assert (
            part.at(step).track.arrays["model/counts"].tobytes()
            == (expected[step][0]["model/counts"])
        )
    chain.n_read = chain.nbytes_read = 0
    chain.at(100)
    assert chain.n_read < 60
    assert chain.nbytes_read < sum(e.nbytes for e in chain.entries if e.step <= 100)
    assert codec.verify(chain.where).ok


def test_deltas_after_a_jump_find_their_tables(tmp_path: Path) -> None:
    """They name code tables that records before the jump's end have sent."""
    chain = saved(tmp_path / "run.lcc", bits=3, coder="huffman")
    names = [e.name for e in following(chain.entries, chain.jumps, 0, 100)]
    jump = next(i for i, name in enumerate(names) if "jump" in name)
    assert any("delta" in name for name in names[jump:])
    assert content(chain.at(100).track) == every_content(tmp_path / "run.lcc")[100]


def test_no_jump_over_a_change_of_the_layout(tmp_path: Path) -> None:
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, jumps=True, **EXACT) as checkpoints:
        for step, state in enumerate(states(30)):
            if step >= 12:
                state["model"]["more"] = np.ones(2_000)
            checkpoints.save(step, state)
    assert [(j.first, j.step) for j in codec.Chain(path).jumps] == [(0, 8), (12, 20), (20, 28)]
    assert codec.verify(path).ok


def test_no_jump_that_is_not_worth_it(tmp_path: Path) -> None:
    """All bits of float32 take more than half of eight lossy deltas."""
    rng, path = np.random.default_rng(0), tmp_path / "run.lcc"
    w = rng.normal(size=9_000).astype(np.float32)
    with codec.Checkpointer(path, bits=2, jumps=True) as checkpoints:
        for step in range(20):
            w = w + (1e-3 * rng.normal(size=w.size)).astype(np.float32)
            checkpoints.save(step, {"w": w})
    assert codec.Chain(path).jumps == ()


def test_without_the_option_there_are_none(tmp_path: Path) -> None:
    with codec.Checkpointer(tmp_path / "run.lcc", **EXACT) as checkpoints:
        for step, state in enumerate(states(10)):
            checkpoints.save(step, state)
    assert codec.Chain(tmp_path / "run.lcc").jumps == ()


def test_in_the_background(tmp_path: Path) -> None:
    chain = saved(tmp_path / "run.lcc", n=20, asynchronous=True, **EXACT)
    assert [(j.first, j.step) for j in chain.jumps] == [(0, 8), (8, 16)]
    assert codec.verify(chain.where).ok


def test_in_a_store(tmp_path: Path) -> None:
    MemoryFileSystem.store.clear()
    url = "memory://bucket/run.lcc"
    with codec.Checkpointer(url, jumps=True, **EXACT) as checkpoints:
        for step, state in enumerate(states(20)):
            checkpoints.save(step, state)
    chain = codec.Chain(url)
    assert [(j.first, j.step) for j in chain.jumps] == [(0, 8), (8, 16)]
    assert codec.verify(url).ok
    assert chain.restore(17)["epoch"] == 17
    codec.compact(url, base=True)


def test_a_follower_catches_up(exact: Path, tmp_path: Path) -> None:
    """From any of a hundred steps behind: at most half of the deltas' bytes."""
    sizes = ((path.name, path.stat().st_size) for path in exact.iterdir())
    files = {name: e for name, nbytes in sizes if (e := entry_of(name, nbytes))}
    expected = every_content(exact)
    for begin in (0, 3, 10, 25, 29):
        place, end = tmp_path / f"{begin}.lcc", begin + 100
        place.mkdir()
        for name in (n for n, e in files.items() if e.step <= begin):
            shutil.copy(exact / name, place)
        follower = codec.Follower(place)
        follower.update()
        assert follower.step == begin
        for name in (n for n, e in files.items() if e.step <= end):
            shutil.copy(exact / name, place)
        update = follower.update()
        assert update is not None
        assert (update.before, update.step) == (begin, end)
        assert content(update.position.track) == expected[end]
        deltas = sum(
            e.nbytes for e in files.values() if e.kind == "delta" and begin < e.step <= end
        )
        assert update.nbytes <= 0.5 * deltas


def test_a_follower_passes_a_base(tmp_path: Path) -> None:
    """By a jump that takes fewer bytes; without one it begins at the base."""
    path, place = tmp_path / "run.lcc", tmp_path / "place.lcc"
    chain = saved(path, n=20, **{**EXACT, "base_every": 11})
    assert [e.step for e in chain.entries if e.kind == "base"] == [0, 12]
    for jumps in (True, False):
        place.mkdir()
        for file in path.glob("0000000[0-8].*"):
            shutil.copy(file, place)
        follower = codec.Follower(place)
        follower.update()
        assert follower.step == 8
        names = [e.name for e in (*chain.entries, *(chain.jumps if jumps else ()))]
        for name in names:
            shutil.copy(path / name, place)
        update = follower.update()
        assert update is not None
        assert update.step == 19
        read_base = update.nbytes > (path / "00000012.base.safetensors").stat().st_size
        assert read_base is not jumps
        assert content(update.position.track) == content(chain.at().track)
        shutil.rmtree(place)


def test_a_damaged_jump_is_passed_over(own: Path) -> None:
    """Whatever byte is flipped, and wherever it ends."""
    expected = every_content(own)[70]
    file = jump_of(own, 0, 64)
    data = file.read_bytes()
    for position in range(0, len(data), 97):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        file.write_bytes(damaged)
        with pytest.warns(SkippedRecordWarning, match="by another way"):
            assert content(codec.Chain(own).at(70).track) == expected
    file.write_bytes(data[:-1])
    with pytest.warns(SkippedRecordWarning, match="by another way"):
        assert content(codec.Chain(own).at(70).track) == expected
    problems = codec.verify(own).problems
    assert len(problems) == 1
    assert file.name in problems[0]


def test_a_jump_leads_around_a_damaged_delta(own: Path) -> None:
    expected = every_content(own)
    (own / "00000030.delta.safetensors").write_bytes(b"damaged")
    for step in (29, 32, 70, 129):
        assert content(codec.Chain(own).at(step).track) == expected[step]
    for step in (30, 31):
        with pytest.raises(codec.RecordError):
            codec.restore(own, step)
    assert codec.restore(own)["epoch"] == N - 1


@pytest.mark.parametrize("ends", [False, True])
def test_a_jump_to_another_way(ends: bool, own: Path) -> None:
    """A jump of a chain that went back, and comes late: its step was saved again."""
    jump = jump_of(own, 8, 16)
    data = jump.read_bytes()
    with pytest.warns(RewoundWarning):
        codec.rewind(own, 12)
    assert not jump.exists()
    others = states(17 if ends else 20, seed=1)
    with codec.Checkpointer(own, resume=True, **EXACT) as checkpoints:
        for step in range(13, len(others)):
            checkpoints.save(step, others[step])
    expected = every_content(own)
    jump.write_bytes(data)
    for step in range(13, len(others)):
        with warnings_or_none(step >= 16):
            assert content(codec.Chain(own).at(step).track) == expected[step], step
    assert "the identity of a record of step 16" in codec.verify(own).problems[0]


def warnings_or_none(expected: bool) -> Any:
    return pytest.warns(SkippedRecordWarning) if expected else pytest.MonkeyPatch.context()


def test_jumps_go_with_what_they_lead_to(own: Path) -> None:
    """Rewinding, resuming and compacting remove those that lead nowhere, or from nowhere."""
    with pytest.warns(RewoundWarning):
        old = codec.rewind(own, 20)
    assert [(j.first, j.step) for j in codec.Chain(own).jumps] == [(0, 8), (8, 16)]
    assert len(codec.Chain(str(old)).jumps) > 4
    (own / "00000015.delta.safetensors").write_bytes(b"damaged")
    jump_of(own, 8, 16).write_bytes(b"damaged")
    with pytest.warns(SkippedRecordWarning):
        codec.Checkpointer(own, resume=True).close()
    assert [(j.first, j.step) for j in codec.Chain(own).jumps] == [(0, 8)]


def test_compaction_removes_jumps_from_before(own: Path) -> None:
    codec.compact(own, base=True)
    assert codec.Chain(own).jumps
    with codec.Checkpointer(own, resume=True, jumps=True, **EXACT) as checkpoints:
        for step in range(N, N + 10):
            checkpoints.save(step, states(N)[N - 1])
    codec.compact(own, base=True)
    assert {e.first >= N - 1 for e in codec.Chain(own).jumps} <= {True}
    assert codec.verify(own).ok


def test_compaction_removes_jumps_over_the_oldest_base(tmp_path: Path) -> None:
    path = tmp_path / "run.lcc"
    chain = saved(path, n=52, **{**EXACT, "base_every": 11})
    assert {(24, 32), (32, 40), (40, 48)} <= {(j.first, j.step) for j in chain.jumps}
    codec.compact(path, keep=3)
    chain = codec.Chain(path)
    assert [e.step for e in chain.entries if e.kind == "base"] == [36, 48, 51]
    assert [(j.first, j.step) for j in chain.jumps] == [(40, 48)]
    assert codec.verify(path).ok


def test_resumed_jumps_begin_after(own: Path) -> None:
    before = codec.Chain(own).jumps
    with codec.Checkpointer(own, resume=True, jumps=True, **EXACT) as checkpoints:
        for step, state in enumerate(states(12), N):
            checkpoints.save(step, state)
    added = set(codec.Chain(own).jumps) - set(before)
    assert {(j.first, j.step) for j in added} == {(N, N + 8)}
    assert codec.verify(own).ok


@pytest.mark.parametrize("steps", [8, 5])
def test_after_merging(steps: int, own: Path) -> None:
    """A jump whose steps are ends of merged records is still used; the others are left alone."""
    expected = every_content(own)
    codec.merge(own, steps)
    chain = codec.Chain(own)
    assert chain.jumps
    for step in (8, 64, 70, 100, 129):
        assert content(chain.at(step).track) == expected[step]
    assert any(e.kind == "jump" for e in following(chain.entries, chain.jumps, 0, 100))
    assert codec.verify(own).ok


def test_archives_have_none(exact: Path, tmp_path: Path) -> None:
    """An archive is for reading anywhere, with older versions too."""
    archive = tmp_path / "run.lcc.zip"
    codec.Chain(exact).pack(archive)
    assert codec.Chain(archive).jumps == ()
    assert codec.restore(archive, 70)["epoch"] == 70


def test_a_jump_that_cannot_be_written(
    tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """The save stands; the log says so."""
    publish = Directory.publish

    def full(self: Directory, name: str, data: bytes) -> float:
        if "jump" in name:
            raise codec.WriteError("the disk is full")
        return publish(self, name, data)

    monkeypatch.setattr(Directory, "publish", full)
    with caplog.at_level(logging.WARNING):
        chain = saved(tmp_path / "run.lcc", n=12, **EXACT)
    assert chain.jumps == ()
    assert chain.steps == tuple(range(12))
    assert "00000000-00000008.jump.safetensors is left out: the disk is full" in caplog.text


@pytest.mark.parametrize("what", ["array", "value"])
def test_a_jump_is_compared_before_it_is_written(
    what: str, tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """As if memory had failed while it was encoded."""
    from codec.saving import jumps

    dump = jumps.dump_jump

    def wrong(place: Any, before: Any, after: Any, *rest: Any) -> bytes:
        other = after.copy()
        if what == "array":
            other.arrays["model/counts"][0] += 1
        else:
            other.values = ("7", *other.values[1:])
        return dump(place, before, other, *rest)

    monkeypatch.setattr(jumps, "dump_jump", wrong)
    chain = saved(tmp_path / "run.lcc", n=12, **EXACT)
    assert chain.jumps == ()
    assert "is left out" in caplog.text


@pytest.mark.parametrize("digest", ["own", "other"])
def test_a_jump_to_another_state(digest: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """One that says so is not confirmed; one that does not say so fails when it is applied."""
    from codec.saving import jumps

    dump = jumps.dump_jump

    def wrong(place: Any, before: Any, after: Any, *rest: Any) -> bytes:
        other, expected = after.copy(), after.digest
        other.arrays["model/counts"][0] += 1
        with pytest.MonkeyPatch.context() as patch:
            if digest == "own":
                patch.setattr(Track, "digest", property(lambda _: expected))
            return dump(place, before, other, *rest)

    monkeypatch.setattr(jumps, "dump_jump", wrong)
    monkeypatch.setattr(jumps, "check_jump", lambda *_: None)
    chain = saved(tmp_path / "run.lcc", n=12, **EXACT)
    monkeypatch.undo()
    message = "a track of digest" if digest == "own" else "the identity of a record of step 8"
    assert message in codec.verify(chain.where).problems[0]
    with pytest.warns(SkippedRecordWarning, match=message):
        position = chain.at(10)
    assert content(position.track) == every_content(tmp_path / "run.lcc")[10]


def test_a_jump_under_another_name(own: Path) -> None:
    """Its steps are compared with its name."""
    jump_of(own, 8, 16).rename(own / "00000016-00000016.merged.safetensors")
    chain = codec.Chain(own)
    (entry,) = (e for e in chain.entries if e.kind == "merged")
    with pytest.raises(MalformedRecordError, match="found jump of step 16"):
        chain.read(entry)
    shutil.copy(jump_of(own, 0, 8), jump_of(own, 1, 8))
    chain = codec.Chain(own)
    with pytest.raises(MalformedRecordError, match="expected jump of step 8"):
        chain.read(next(e for e in chain.jumps if e.first == 1))


def test_on_the_command_line(exact: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from codec.cli.main import main

    assert main(["info", str(exact)]) == 0
    text = capsys.readouterr().out
    assert "0-8  jump" in text
    assert f"{N} records and {len(codec.Chain(exact).jumps)} jumps" in text


def entry(name: str, nbytes: int = 1_000_000) -> Entry:
    made = entry_of(f"{name}.safetensors", nbytes)
    assert made is not None
    return made


def names(way: list[Entry]) -> list[str]:
    return [e.name.removesuffix(".safetensors") for e in way]


def test_the_way_of_the_fewest_bytes() -> None:
    deltas = [entry(f"{i:08d}.delta") for i in range(1, 10)]
    small, large = (
        entry("00000002-00000006.jump", 1_500_000),
        entry("00000000-00000009.jump", 10**8),
    )
    way = following(deltas, [small, large], 0, 9)
    assert names(way) == names([*deltas[:2], small, *deltas[6:]])
    assert names(following(deltas, [small, large], 3, 9)) == names(deltas[3:])
    assert names(following(deltas, [small, large], 0, 5)) == names(deltas[:5])
    assert names(following(deltas, [small], 0, 9, {small})) == names(deltas)
    assert following(deltas, [], 9, None) == []


def test_only_a_jump_passes_a_base() -> None:
    base = entry("00000004.base")
    deltas = [entry(f"{i:08d}.delta") for i in (1, 2, 3, 5, 6)]
    entries = sorted([*deltas, base], key=lambda e: e.first)
    jump = entry("00000002-00000005.jump", 10**9)
    assert names(following(entries, [], 0, None)) == names(deltas[:3])
    assert names(following(entries, [jump], 0, None)) == names([*deltas[:2], jump, deltas[4]])
    assert names(following(entries, [], 0, None, {base})) == names(deltas)
    beside = sorted([*entries, entry("00000004.delta")], key=lambda e: (e.first, e.kind == "base"))
    assert len(following(beside, [], 0, None)) == 6


def test_what_only_a_jump_leads_to_is_not_relied_on(own: Path) -> None:
    """Merging and compacting change nothing; a resumed chain goes on with a base."""
    expected = every_content(own)
    damaged = own / "00000030.delta.safetensors"
    damaged.write_bytes(b"damaged")
    before = sorted(path.name for path in own.iterdir())
    for change in (lambda: codec.merge(own, 5), lambda: codec.compact(own, base=True)):
        with pytest.raises(codec.RecordError, match="00000030"):
            change()
    assert sorted(path.name for path in own.iterdir()) == before
    report = codec.verify(own)
    assert report.steps == tuple(step for step in range(N) if step not in (30, 31))
    assert not report.ok
    with codec.Checkpointer(own, resume=True, jumps=True, **EXACT) as checkpoints:
        kinds = [checkpoints.save(step, state).kind for step, state in enumerate(states(12), N)]
    assert kinds == ["base", *11 * ["delta"]]
    for step in (step for step in range(N) if step not in (30, 31)):
        assert content(codec.Chain(own).at(step).track) == expected[step]
    assert codec.verify(own).steps == (*report.steps, *range(N, N + 12))


def test_a_resumed_chain_without_its_base(tmp_path: Path) -> None:
    """A jump leads past it, but deltas beside the gap look like a way, too: a base comes next."""
    path = tmp_path / "run.lcc"
    saved(path, n=17, **{**EXACT, "base_every": 8})
    (path / "00000009.base.safetensors").unlink()
    assert codec.restore(path)["epoch"] == 16
    with codec.Checkpointer(path, resume=True, **EXACT) as checkpoints:
        for step, state in enumerate(states(6), 17):
            checkpoints.save(step, state)
    for step, state in enumerate(states(6), 17):
        assert np.array_equal(
            codec.restore(path, step)["model"]["counts"], state["model"]["counts"]
        )


def test_a_jump_without_tables(
    tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not written; one that is there is passed over, and a problem."""
    from codec.saving import jumps

    dump, settings = jumps.dump_jump, {"bits": 3, "coder": "huffman", "base_every": None}

    def wrong(place: Any, before: Any, after: Any, *rest: Any) -> bytes:
        other = after.copy()
        other.tables = {}
        return dump(place, before, other, *rest)

    monkeypatch.setattr(jumps, "dump_jump", wrong)
    monkeypatch.setattr(jumps, "WORTH", 10)
    assert saved(tmp_path / "none.lcc", n=12, **settings).jumps == ()
    assert "expected the code tables that were encoded" in caplog.text
    monkeypatch.setattr(jumps, "check_jump", lambda *_: None)
    chain = saved(tmp_path / "run.lcc", n=12, **settings)
    assert "expected the code tables of step 8" in codec.verify(chain.where).problems[0]
    with warnings.catch_warnings(action="ignore"):  # some deltas send their tables anew
        position = chain.at(11)
    assert content(position.track) == every_content(tmp_path / "run.lcc")[11]


def test_damaged_jumps_cost_no_ways(tmp_path: Path, monkeypatch: Patch) -> None:
    """However many there are, also for a part, which notices the damage later."""
    from codec.saving import jumps

    monkeypatch.setattr(jumps, "EVERY", {2: 1})
    monkeypatch.setattr(jumps, "WORTH", 100)
    chain = saved(tmp_path / "run.lcc", n=60, bits=2, base_every=None)
    assert len(chain.jumps) > 50
    expected = every_content(tmp_path / "run.lcc")[59]
    for jump in chain.jumps:
        data = bytearray((tmp_path / "run.lcc" / jump.name).read_bytes())
        data[-9] ^= 1
        (tmp_path / "run.lcc" / jump.name).write_bytes(data)
    for reader in (chain, chain.part("model")):
        with pytest.warns(SkippedRecordWarning):
            position = reader.at(59)
        for name, array in position.track.arrays.items():
            assert array.tobytes() == expected[0][name]


def test_a_jump_that_another_record_confirms(own: Path) -> None:
    """A merged record beside its deltas is damaged; the delta of that step is not."""
    deltas = {path.name: path.read_bytes() for path in own.glob("*.delta.*")}
    codec.merge(own, 8)
    for name, data in deltas.items():
        (own / name).write_bytes(data)
    (own / "00000009-00000016.merged.safetensors").write_bytes(b"damaged")
    (own / "00000012.delta.safetensors").write_bytes(b"damaged")
    chain = codec.Chain(own)
    (jump,) = (j for j in chain.jumps if (j.first, j.step) == (8, 16))
    assert chain.read_jump(jump).step == 16


def test_a_follower_with_a_damaged_jump(own: Path, tmp_path: Path) -> None:
    """It goes on by the deltas from where it is, not from the base."""
    place = tmp_path / "place.lcc"
    place.mkdir()
    for step in range(6):
        for file in own.glob(f"0000000{step}.*"):
            shutil.copy(file, place)
    follower = codec.Follower(place)
    follower.update()
    assert follower.step == 5
    jump_of(own, 8, 16).write_bytes(b"damaged")
    for file in own.iterdir():
        if (e := entry_of(file.name, 0)) and e.step < 30:
            shutil.copy(file, place)
    update = follower.update()
    assert update is not None
    assert update.step == 29
    assert update.nbytes < (own / "00000000.base.safetensors").stat().st_size * 3
    assert content(update.position.track) == every_content(own)[29]


def test_no_memory_for_a_jump(
    tmp_path: Path, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    """The save stands."""
    from codec.saving import jumps

    def fails(*_: Any) -> bytes:
        raise MemoryError

    monkeypatch.setattr(jumps, "dump_jump", fails)
    assert saved(tmp_path / "a.lcc", n=12, **EXACT).steps == tuple(range(12))
    assert "00000000-00000008.jump.safetensors is left out: out of memory" in caplog.text
    monkeypatch.setattr(Track, "copy", fails)
    chain = saved(tmp_path / "b.lcc", n=12, **EXACT)
    assert chain.steps == tuple(range(12))
    assert chain.jumps == ()


def test_rewinding_to_the_end_removes_stale_jumps_only(own: Path) -> None:
    jump_of(own, 120, 128).rename(jump_of(own, 124, 200))
    before = len(codec.Chain(own).entries)
    assert codec.rewind(own, N - 1) is None
    assert not jump_of(own, 124, 200).exists()
    assert len(codec.Chain(own).entries) == before
