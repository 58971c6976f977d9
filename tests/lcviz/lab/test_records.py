"""What records say before they are decoded, from their heads and from all their bytes."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.errors import TruncatedRecordError, VersionError
from codec.inspect import is_tensor, leaves
from codec.scheme.coding import Coding
from lcviz.lab import records as module
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.lab.records import Catalogue, RecordFacts, list_records, read_contents, read_heads
from tests.compaction import add_base
from tests.lcviz.common import Patch

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
BAD = GOLDEN / "bad"
BASE, DELTA = "00000000.base.safetensors", "00000001.delta.safetensors"
FULL = 4 * (2000 + 30 + 27) + 8  # bytes of a state, float32 where lossy
# These faults show when the streams are decoded, or the track is rebuilt.
ONLY_DECODED = {
    *("stream-early", "stream-late", "steps-symbol"),
    *("token-class", "token-late", "token-symbol", "track"),
    *(f"residual-{x}" for x in ("class", "early", "late", "run", "symbol", "track")),
    *("context-late", "context-other", "context-same", "context-symbol"),
}


def write(path: Path, steps: int, first: int = 0, seed: int = 0, **settings: Any) -> Path:
    """A chain of steps three apart; continued from the ``first`` if it is there."""
    rng = np.random.default_rng(seed)
    state = {
        "w": rng.normal(size=(40, 50)).astype(np.float32),
        "b": rng.normal(size=30).astype(np.float32),
        "n": np.array(0),
        "h": np.zeros((3, 9), np.float16),
    }
    with codec.Checkpointer(path, resume=first > 0, **{"bits": 2} | settings) as chain:
        for i in range(steps):
            if i >= first:
                chain.save(3 * i, state)
            change = rng.normal(size=(40, 50)) * np.exp(2 * rng.normal(size=(40, 50)))
            state["w"] = (state["w"] + 0.01 * change).astype(np.float32)
            state["n"] = np.array(state["n"] + 1)
    return path


def contents(path: Path, known: Catalogue | None = None) -> Catalogue:
    chain = codec.Chain(path)
    listed = list_records(chain, path if path.is_dir() else None)
    *_, found = read_contents(chain, listed, known or Catalogue())
    return found


def heads(path: Path) -> list[RecordFacts]:
    return list(read_heads(codec.Chain(path), path if path.is_dir() else None, {}).values())


def summary_of(path: Path) -> Summary:
    """From contents; from heads it is the same, where nothing is damaged."""
    found = summarize(contents(path).records)
    shallow = summarize(heads(path))
    both = "steps stamp gap nbytes full_nbytes codings points kinds share step_nbytes problems"
    for name in both.split():
        assert getattr(shallow, name) == getattr(found, name), name
    assert (found.problems, found.reached) == ((), found.steps)
    assert found.steps == codec.verify(path).steps
    return found


@pytest.fixture
def reads(monkeypatch: Patch) -> list[int]:
    """The steps of the records that are read whole."""
    read: list[int] = []
    whole = codec.Chain.read
    monkeypatch.setattr(codec.Chain, "read", lambda c, e: (read.append(e.step), whole(c, e))[1])
    return read


@pytest.mark.parametrize(("scope", "coder"), [("model", "runlength"), ("tensor", "huffman")])
def test_facts_are_those_of_a_replay(tmp_path: Path, scope: str, coder: str) -> None:
    path = write(tmp_path / "run.lcc", 12, scope=scope, coder=coder, base_every=5)
    positions = {p.step: p for p in codec.Chain(path).every_step()}
    for facts in contents(path).records:
        position = positions[facts.entry.step]
        assert (facts.full_nbytes, facts.reached) == (FULL, True)
        assert facts.parent == position.record.parent
        if position.delta is not None:
            encoded = [g.encoded for g in position.delta.groups]
            assert facts.levels == sum(len(e.levels) - 1 for e in encoded)
            assert facts.tables == sum(e.table is not None for e in encoded)
            assert facts.tables_reused == sum(e.cached for e in encoded)
    found = summary_of(path)
    entries = codec.Chain(path).entries
    deltas = [e.nbytes for e in entries if e.kind == "delta"]
    assert found.codings == (Coding(2, scope, coder),)
    assert (found.nbytes, found.full_nbytes) == (sum(e.nbytes for e in entries), 12 * FULL)
    assert found.share == pytest.approx(sum(deltas) / len(deltas) / FULL)
    assert found.stamp == max(f.stat().st_ctime_ns for f in path.glob("*.safetensors"))
    bases = [e.step for e in entries if e.kind == "base"]
    assert [p.step for p in found.points if p.share is None] == bases != [0]
    write(path, 14, 12, bits=4)
    assert summary_of(path).codings[-1] == Coding(4, scope, coder)
    codec.Chain(path).pack(tmp_path / "run.lcc.zip")
    packed = summary_of(tmp_path / "run.lcc.zip")
    assert (packed.points, packed.stamp) == (summary_of(path).points, 0)
    summary_of(GOLDEN / "run.lcc")


def test_a_layout_that_changes(tmp_path: Path) -> None:
    """Each record is read by the layout that the one before it leads to, and a state counts as what
    it takes; heads say only what the base takes."""
    path, rng = tmp_path / "run.lcc", np.random.default_rng(0)
    w, sizes = rng.normal(size=(40, 50)).astype(np.float32), []
    with codec.Checkpointer(path, scope="tensor") as chain:
        for i in range(12):
            w = w + np.float32(0.01) * rng.normal(size=w.shape).astype(np.float32)
            state = {"w": w, "window": np.arange(10 + i // 3), "rows": w[: 3 + i // 4].copy()}
            state |= {"new": w[:3] * 2} if 5 < i < 9 else {}
            sizes.append(chain.save(3 * i, state).full_nbytes)
    found = contents(path).records
    for facts in found:
        nbytes = sizes[facts.entry.step // 3]
        assert (facts.problem, facts.full_nbytes, facts.reached) == ("", nbytes, True)
        assert facts.levels is None or facts.levels > 0
    summary = summarize(found)
    assert summary.full_nbytes == sum(sizes)
    assert summarize(heads(path)).full_nbytes == 12 * sizes[0]
    assert summary.problems == ()


def test_only_new_records_are_read(tmp_path: Path, reads: list[int]) -> None:
    path = write(tmp_path / "run.lcc", 25)
    chain = codec.Chain(path)
    part, found = read_contents(chain, list_records(chain, path), Catalogue())
    assert (len(part.records), part.listed, len(found.records)) == (20, 25, 25)
    reads.clear()
    assert contents(path, part) == found  # it was interrupted
    assert contents(path, found) == found
    write(path, 27, 25)
    reads.clear()
    longer = contents(path, found)
    assert reads == [75, 78]
    assert longer == contents(path)
    shutil.rmtree(path)
    write(path, 2, seed=1)
    after = contents(path, found)
    assert after.records[0].entry == found.records[0].entry  # same name and size
    assert after.records[0].digest != found.records[0].digest
    assert summarize(after.records).problems == ()


def test_of_new_heads_only_the_beginning_is_read(tmp_path: Path, monkeypatch: Patch) -> None:
    path = write(tmp_path / "run.lcc", 6)
    seen: list[str] = []
    peek: Callable[..., Any] = module.peek
    monkeypatch.setattr(module, "peek", lambda *of: (seen.append(of[2]), peek(*of))[1])
    known = read_heads(codec.Chain(path), path, {})
    assert len(seen) == 6
    (base,) = path.glob("*.base.*")
    with base.open("r+b") as file:  # content is not read, so nothing is noticed
        file.seek(-5, 2)
        file.write(b"xxxxx")
    seen.clear()
    now = read_heads(codec.Chain(path), path, known)
    assert summarize(list(now.values())).problems == ()
    chain = codec.Chain(path)
    assert read_heads(chain, path, now) == now
    assert seen == [base.name]  # that file has changed
    next(path.glob("00000015.*")).unlink()  # a record that vanishes is left out
    assert [h.entry.step for h in read_heads(chain, path, {}).values()] == [0, 3, 6, 9, 12]


def test_missing_and_foreign_records(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 10)
    shutil.copytree(path, tmp_path / "foreign.lcc")
    whole = contents(path)
    next(path.glob("00000012.*")).unlink()
    found = summarize(contents(path, whole).records)
    (problem,) = found.problems
    assert problem.startswith("00000015.delta.safetensors: its parent")
    assert str(whole.records[4].digest) in problem
    assert found.reached == (0, 3, 6, 9)

    other = write(tmp_path / "other.lcc", 11, seed=9)
    shutil.copy(next(other.glob("00000030.*")), tmp_path / "foreign.lcc")
    (problem,) = summarize(contents(tmp_path / "foreign.lcc").records).problems
    assert problem.startswith("00000030.delta.safetensors: its parent, digest ")


def test_a_compacted_chain(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 14)
    before = contents(path)
    add_base(path)
    write(path, 18, 14)
    for file in path.glob("*.safetensors"):
        if int(file.name[:8]) < 39 or file.name.startswith("00000039.delta"):
            file.unlink()  # older history, as a later compaction removes it
    records = contents(path, before).records
    assert summarize(records).steps == summary_of(path).steps == tuple(range(39, 54, 3))
    (first,) = (f for f in records if f.entry.step == 42)
    assert (first.entry.kind, first.tables_reused) == ("delta", 1)  # a table that the base holds


FILES = [(DELTA, file) for file in sorted(BAD.glob("*.safetensors"))]
FILES += [(BASE, file) for _, file in FILES if re.search("base|^trunc|^version|^res.*0", file.stem)]


@pytest.mark.parametrize(("name", "file"), FILES, ids=[f"{n[9:10]}-{p.stem}" for n, p in FILES])
def test_broken_files_make_sentences(tmp_path: Path, name: str, file: Path) -> None:
    """As a reader of all bytes says; heads say it of what is cut off or newer."""
    shutil.copytree(GOLDEN / "run.lcc", path := tmp_path / "run.lcc")
    shutil.copy(file, path / name)
    found, report = summarize(contents(path).records), codec.verify(path)
    assert not report.ok
    if name == DELTA and file.stem in ONLY_DECODED:
        assert (found.problems, found.reached) == ((), (0, 1))
    else:
        assert (found.problems[0], found.reached) == (report.problems[0], report.steps)
    chain = codec.Chain(path)
    for head, entry in zip(heads(path), chain.entries):
        wrong: Exception | None = None
        try:
            chain.read(entry)
        except codec.RecordError as exc:
            wrong = exc
        if wrong is None:
            assert head.problem == "" or "settings within their range" in head.problem
        if isinstance(wrong, TruncatedRecordError | VersionError):
            assert head.problem == str(wrong)


def test_what_is_cut_off_misnamed_or_no_file(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 3)
    shutil.copy(path / "00000003.delta.safetensors", path / "00000009.delta.safetensors")
    (path / "00000012.delta.safetensors").mkdir()
    os.mkfifo(path / "00000015.delta.safetensors")  # nobody writes there: opening it never ends
    with (path / "00000006.delta.safetensors").open("r+b") as file:
        file.truncate(n := file.seek(-1, 2))
    for found in (summarize(heads(path)), summarize(contents(path).records)):
        cut, wrong, none, pipe = found.problems
        assert cut == f"00000006.delta.safetensors: expected {n + 1} bytes, found {n}"
        assert "delta of step 9, found delta of step 3" in wrong
        assert "00000012.delta.safetensors: cannot be read: " in none
        assert pipe.endswith("is not a regular file")
        assert found.steps == (0, 3, 6, 9, 12, 15)  # by the names of the files


@pytest.mark.parametrize("packed", [False, True])
def test_what_a_disk_did_not_give(tmp_path: Path, monkeypatch: Patch, packed: bool) -> None:
    """An archive and a URL keep no time that would tell that a record changed."""
    path = write(tmp_path / "run.lcc", 6)
    if packed:
        codec.Chain(path).pack(path := tmp_path / "run.lcc.zip")
    folder = None if packed else path
    failing, read, whole, peek = {3, 9}, list[int](), codec.Chain.read, module.peek

    def flaky(chain: codec.Chain, entry: Any) -> Any:
        read.append(entry.step)
        if entry.step in failing:
            raise codec.ChainError(f"{entry.name}: cannot be read")
        return whole(chain, entry)

    def flaky_peek(file: Any, nbytes: int, name: str) -> Any:
        if int(name[:8]) in failing:
            raise OSError("timed out")
        return peek(file, nbytes, name)

    def again(known: Catalogue) -> tuple[Catalogue, tuple[int, ...]]:
        read.clear()
        found = contents(path, known)
        return found, summarize(found.records).reached

    monkeypatch.setattr(codec.Chain, "read", flaky)
    monkeypatch.setattr(module, "peek", flaky_peek)
    shallow = read_heads(codec.Chain(path), folder, {})
    wrong = [h.entry.step for h in shallow.values() if "cannot be read" in h.problem]
    assert wrong == [3, 9]
    found, reached = again(Catalogue())
    assert [f.entry.step for f in found.records if f.passing] == [3, 9]
    assert (again(found), read, reached) == ((found, (0,)), [3, 9], (0,))
    failing.remove(9)
    found, reached = again(found)
    assert (reached, read) == ((0,), [3, 9, 9, 12, 15])
    failing.remove(3)
    found, reached = again(found)
    assert (summarize(found.records).problems, reached) == ((), tuple(range(0, 18, 3)))
    assert (again(found)[0], read) == (found, [])
    after = read_heads(codec.Chain(path), folder, shallow)
    assert ([h.problem for h in after.values()], list(after)) == (6 * [""], list(shallow))


def test_gradients_are_not_part_of_the_full_size() -> None:
    path = GOLDEN / "gradients.lcc"
    state = leaves(codec.restore(path, 0))
    full = sum(value.nbytes for _, value in state if is_tensor(value))
    assert heads(path)[0].full_nbytes == full
    assert [facts.full_nbytes for facts in contents(path).records] == 5 * [full]
