"""What records say before they are decoded, against what a replay finds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from lcviz.lab.records import Catalogue, Keep, overview, read_on, stamps

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
BAD = GOLDEN / "bad"
# These faults show when the streams are decoded, or the track is rebuilt.
ONLY_DECODED = {"stream-early", "stream-late", "token-class", "token-late", "token-symbol", "track"}


def write(path: Path, steps: int, seed: int = 0, first: int = 0, **settings: Any) -> Path:
    """A chain of two tensors and a counter; continued if it is there."""
    rng = np.random.default_rng(seed)
    state = {
        "w": rng.normal(size=(40, 50)).astype(np.float32),
        "b": rng.normal(size=30).astype(np.float32),
        "n": np.array(0),
    }
    with codec.Checkpointer(path, resume=first > 0, **settings) as chain:
        for i in range(steps):
            if i >= first:
                chain.save(3 * i, state)
            change = rng.normal(size=(40, 50)) * np.exp(2 * rng.normal(size=(40, 50)))
            state["w"] = (state["w"] + 0.01 * change).astype(np.float32)
            state["b"] = (state["b"] + 0.1).astype(np.float32)
            state["n"] = np.array(state["n"] + 1)
    return path


def look(path: Path, known: Catalogue | None = None) -> Catalogue:
    chain = codec.Chain(path)
    *_, found = read_on(chain, stamps(chain, path), known or Catalogue())
    return found


def damage(path: Path, step: int) -> str:
    (record,) = path.glob(f"{step:08d}.*")
    data = bytearray(record.read_bytes())
    data[-3] ^= 8
    record.write_bytes(data)
    return record.name


@pytest.mark.parametrize("scope", ["model", "tensor"])
@pytest.mark.parametrize("coder", ["runlength", "huffman"])
def test_facts_are_those_of_a_replay(tmp_path: Path, scope: str, coder: str) -> None:
    path = write(tmp_path / "run.lcc", 12, scope=scope, coder=coder, base_every=5)
    found = look(path)
    positions = {p.step: p for p in codec.Chain(path).every_step()}
    for facts in found.facts:
        position = positions[facts.entry.step]
        if facts.entry.kind == "base":
            assert facts.full_nbytes == 4 * 2030 + 8
            continue
        assert position.delta is not None
        encoded = [g.encoded for g in position.delta.groups]
        assert facts.levels == sum(len(e.levels) - 1 for e in encoded)
        assert facts.tables == sum(e.table is not None for e in encoded)
        assert facts.again == sum(e.cached for e in encoded)
        assert (facts.parent, facts.track) == (position.record.parent, position.record.track)
        assert facts.reached
    seen = overview(found)
    assert seen.steps == seen.reached == codec.verify(path).steps
    assert seen.nbytes == sum(f.stat().st_size for f in path.glob("*.safetensors"))
    assert seen.kinds["base"] >= 2
    assert seen.keeps == (Keep(2, None, scope, coder),)
    assert seen.problems == ()
    deltas = [f.entry.nbytes for f in found.facts if f.entry.kind == "delta"]
    assert seen.step_nbytes == sum(deltas) / len(deltas)


def test_only_new_records_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "run.lcc", 50)
    read: list[int] = []
    whole = codec.Chain.read

    def counted(self: codec.Chain, entry: Any) -> Any:
        read.append(entry.step)
        return whole(self, entry)

    monkeypatch.setattr(codec.Chain, "read", counted)
    chain = codec.Chain(path)
    parts = [len(c.records) for c in read_on(chain, stamps(chain, path), Catalogue())]
    assert parts == [20, 40, 50]
    found = look(path)
    read.clear()
    assert look(path, found) == found
    assert read == []
    monkeypatch.undo()
    write(path, 53, first=50)
    monkeypatch.setattr(codec.Chain, "read", counted)
    longer = look(path, found)
    assert read == [150, 153, 156]
    assert overview(longer) == overview(look(path))
    assert overview(longer).problems == ()


def test_what_was_interrupted_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 30)
    chain = codec.Chain(path)
    part = next(read_on(chain, stamps(chain, path), Catalogue()))
    assert (len(part.records), part.listed) == (20, 30)
    assert overview(look(path, part)) == overview(look(path))


def test_another_chain_in_its_place_is_read_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 4)
    before = look(path)
    shutil.rmtree(path)
    write(path, 4, seed=1)
    after = look(path, before)
    assert after.records[0].facts.entry == before.records[0].facts.entry  # same name and size
    assert after.facts[0].digest != before.facts[0].digest
    assert overview(after).problems == ()


def test_a_damaged_record(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 10)
    name = damage(path, 12)
    found = look(path)
    seen = overview(found)
    (problem,) = seen.problems
    assert problem.startswith(f"{name}: expected content of BLAKE3")
    assert seen.reached == (0, 3, 6, 9) == codec.verify(path).steps
    assert len(seen.steps) == 10
    after = found.facts[-1]
    assert (after.reached, after.problem) == (False, "")
    assert after.levels == 3  # what can still be told is


def test_a_missing_record(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 10)
    whole = look(path)
    next(path.glob("00000012.*")).unlink()
    seen = overview(look(path, whole))
    (problem,) = seen.problems
    digest = whole.facts[4].digest
    assert (
        problem == f"00000015.delta.safetensors: the record before it, digest {digest}, is missing"
    )
    assert seen.reached == (0, 3, 6, 9)


def test_records_missing_before_a_base(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 10, base_every=6)
    bases = sorted(path.glob("*.base.*"))
    gone = int(bases[-1].name[:8]) - 3
    next(path.glob(f"{gone:08d}.*")).unlink()
    seen = overview(look(path))
    report = codec.verify(path)
    assert not report.ok
    assert report.steps == seen.reached
    assert len(seen.problems) == 1
    assert seen.problems[0].startswith(f"{bases[-1].name}: the record before it")


def test_a_record_of_another_run(tmp_path: Path) -> None:
    path, other = write(tmp_path / "a.lcc", 3), write(tmp_path / "b.lcc", 4, seed=9)
    shutil.copy(next(other.glob("00000009.*")), path)
    (problem,) = overview(look(path)).problems
    assert "is of the run" in problem


def test_merged_and_compacted(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 20)
    before = look(path)
    codec.merge(path, 6)
    seen = overview(look(path, before))
    assert seen.problems == ()
    assert seen.steps == seen.reached == tuple(range(0, 60, 3))
    assert seen.kinds["merged"] >= 2
    assert seen.reached == codec.verify(path).steps
    codec.compact(path)
    write(path, 26, first=20)
    for file in path.glob("*.safetensors"):
        if int(file.name[:8]) < 57 or file.name.startswith("00000057.delta"):
            file.unlink()  # older history, as a later compaction removes it
    found = look(path, before)
    seen = overview(found)
    assert seen.problems == ()
    assert seen.reached == codec.verify(path).steps == tuple(range(57, 78, 3))
    (first,) = (f for f in found.facts if f.entry.step == 60)
    assert (first.entry.kind, first.again) == ("delta", 1)  # a table that the base tells of


def test_records_that_overlap(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 8)
    kept = tmp_path / "kept"
    shutil.copytree(path, kept)
    codec.merge(path, 7)
    for delta in kept.glob("*.delta.*"):
        shutil.copy(delta, path)
    found = look(path)
    seen = overview(found)
    assert seen.problems == ()
    assert seen.steps == seen.reached == tuple(range(0, 24, 3))
    assert sum(f.aside for f in found.facts) == 7
    assert seen.full_nbytes == 8 * (4 * 2030 + 8)  # no step twice


@pytest.mark.parametrize("file", sorted(BAD.glob("*.safetensors")), ids=lambda p: p.stem)
@pytest.mark.parametrize("name", ["00000000.base.safetensors", "00000001.delta.safetensors"])
def test_broken_files_make_sentences(tmp_path: Path, name: str, file: Path) -> None:
    for good in (GOLDEN / "run.lcc").iterdir():
        shutil.copy(good, tmp_path)
    shutil.copy(file, tmp_path / name)
    seen = overview(look(tmp_path))
    report = codec.verify(tmp_path)
    assert not report.ok
    if name.startswith("00000001") and file.stem in ONLY_DECODED:
        assert (seen.problems, seen.reached) == ((), (0, 1))
    else:
        assert seen.problems[0] == report.problems[0]
        assert seen.reached == report.steps


def test_a_record_that_is_no_file(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 2)
    (path / "00000009.delta.safetensors").mkdir()
    (problem,) = overview(look(path)).problems
    assert "cannot be read" in problem


@pytest.mark.parametrize("packed", [False, True])
def test_what_a_disk_did_not_give_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """An archive and a URL keep no time by which a record would be another one."""
    path = write(tmp_path / "run.lcc", 6)
    folder = None if packed else path
    if packed:
        codec.Chain(path).pack(path := tmp_path / "run.lcc.zip")
    failing, read, whole = {3, 9}, [], codec.Chain.read

    def flaky(self: codec.Chain, entry: Any) -> Any:
        read.append(entry.step)
        if entry.step in failing:
            raise codec.ChainError(f"{entry.name}: cannot be read")
        return whole(self, entry)

    def again(known: Catalogue) -> Catalogue:
        read.clear()
        chain = codec.Chain(path)
        *_, found = read_on(chain, stamps(chain, folder), known)
        return found

    monkeypatch.setattr(codec.Chain, "read", flaky)
    found = again(Catalogue())
    assert [f.passing for f in found.facts] == [False, True, False, True, False, False]
    assert (overview(found).reached, again(found), read) == ((0,), found, [3, 9])
    failing.remove(9)
    found = again(found)
    assert (overview(found).reached, read) == ((0,), [3, 9, 9, 12, 15])
    failing.remove(3)
    found = again(found)
    assert (overview(found).problems, overview(found).reached) == ((), tuple(range(0, 18, 3)))
    assert (again(found), read) == (found, [])
