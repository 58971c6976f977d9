"""Records by their first bytes, against what reading all of them finds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from lcviz.inspect import heads as module
from lcviz.inspect.heads import Account, Head, account, heads
from lcviz.lab.records import Catalogue, Keep, overview, read_on, stamps

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
BAD = GOLDEN / "bad"


def write(path: Path, first: int, last: int, **settings: Any) -> Path:
    """Steps of a chain, three apart; continued if it is there."""
    rng = np.random.default_rng(first)
    state = (
        codec.restore(path)
        if first
        else {
            "w": rng.normal(size=(40, 50)).astype(np.float32),
            "b": np.zeros(30, np.float32),
            "n": np.array(0),
            "h": np.zeros((3, 9), np.float16),
        }
    )
    with codec.Checkpointer(path, resume=first > 0, **settings) as chain:
        for i in range(first, last + 1):
            chain.save(3 * i, state)
            state["w"] = state["w"] + 0.1 * rng.normal(size=(40, 50)).astype(np.float32) ** 3
            state["n"] = np.array(state["n"] + 1)
    return path


def look(source: Path) -> tuple[Account, tuple[Head, ...]]:
    folder = source if source.is_dir() else None
    every = tuple(heads(codec.Chain(source), folder, {}).values())
    return account(every), every


def check(source: Path) -> Account:
    """The account is what reading and checking every byte says."""
    found, _ = look(source)
    chain = codec.Chain(source)
    *_, whole = read_on(chain, stamps(chain, source if source.is_dir() else None), Catalogue())
    seen = overview(whole)
    assert (found.steps, found.newest) == (len(seen.steps), seen.steps[-1])
    assert (found.nbytes, found.full_nbytes) == (seen.nbytes, seen.full_nbytes)
    assert found.records == sum(seen.kinds.values())
    assert found.step_nbytes == (seen.step_nbytes or None)
    assert found.keeps == seen.keeps
    assert found.problems == seen.problems == ()
    assert (found.points[-1].nbytes, found.points[-1].step) == (found.nbytes, found.newest)
    return found


def test_the_account_is_that_of_all_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 0, 12, base_every=5)
    write(path, 13, 15, bits=4, coder="huffman", scope="tensor")
    write(path, 16, 17)
    found = check(path)
    assert found.keeps == (Keep(4, None, "tensor", "huffman"), Keep(2, None, "model", "runlength"))
    full = 4 * (2000 + 30 + 27) + 8
    assert found.full_nbytes == 18 * full
    assert found.times == 18 * full / found.nbytes
    assert found.share == found.delta_nbytes / (found.delta_steps * full)
    bases = [p.step for p in found.points if p.share is None]
    assert bases == [e.step for e in codec.Chain(path).entries if e.kind == "base"]
    assert found.stamp == max(f.stat().st_ctime_ns for f in path.glob("*.safetensors"))
    codec.Chain(path).pack(tmp_path / "run.lcc.zip")
    packed = check(tmp_path / "run.lcc.zip")
    assert (packed.points, packed.stamp) == (found.points, 0)
    assert check(GOLDEN / "run.lcc").problems == ()


def test_merged_and_overlapping_records(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 0, 8)
    shutil.copytree(path, tmp_path / "kept")
    codec.merge(path, 7)
    assert check(path).steps == 9
    for delta in (tmp_path / "kept").glob("*.delta.*"):
        shutil.copy(delta, path)
    found = check(path)
    assert (found.steps, found.delta_steps) == (9, 8)  # no step twice


def test_only_what_is_new_is_read_and_only_its_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "run.lcc", 0, 5)
    seen: list[str] = []
    peek: Callable[..., Any] = module.peek
    monkeypatch.setattr(
        module, "peek", lambda file, n, name: (seen.append(name), peek(file, n, name))[1]
    )
    known = heads(codec.Chain(path), path, {})
    assert len(seen) == 6
    (base,) = path.glob("*.base.*")
    with base.open("r+b") as file:  # content is not read, so nothing is noticed
        file.seek(-5, 2)
        file.write(b"xxxxx")
    seen.clear()
    now = heads(codec.Chain(path), path, known)
    assert seen == [base.name]  # that file has changed
    assert account(tuple(now.values())).problems == ()
    assert heads(codec.Chain(path), path, now) == now
    assert seen == [base.name]


def test_a_record_that_vanishes_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 0, 3)
    chain = codec.Chain(path)
    next(path.glob("00000009.*")).unlink()
    assert [head.entry.step for head in heads(chain, path, {}).values()] == [0, 3, 6]


@pytest.mark.parametrize("file", sorted(BAD.glob("*.safetensors")), ids=lambda p: p.stem)
def test_broken_beginnings_make_sentences(tmp_path: Path, file: Path) -> None:
    """Nothing is wrong that is not; what is cut off or newer is told as by one who reads all."""
    for good in (GOLDEN / "run.lcc").iterdir():
        shutil.copy(good, tmp_path)
    for name in ("00000000.base.safetensors", "00000001.delta.safetensors"):
        shutil.copy(file, tmp_path / name)
        found, every = look(tmp_path)
        chain = codec.Chain(tmp_path)
        for head, entry in zip(every, chain.entries):
            wrong: Exception | None = None
            try:
                chain.read(entry)
            except codec.RecordError as exc:
                wrong = exc
            if wrong is None:
                assert head.problem == ""
            if isinstance(wrong, codec.TruncatedRecordError | codec.VersionError):
                assert head.problem == str(wrong)
        assert found.problems == tuple(h.problem for h in every if h.problem)
        shutil.copy(GOLDEN / "run.lcc" / name, tmp_path)


def test_cut_off_named_for_another_step_or_no_file(tmp_path: Path) -> None:
    path = write(tmp_path / "run.lcc", 0, 2)
    shutil.copy(path / "00000003.delta.safetensors", path / "00000009.delta.safetensors")
    (path / "00000012.delta.safetensors").mkdir()
    os.mkfifo(path / "00000015.delta.safetensors")  # nobody writes there: opening it never ends
    with (path / "00000006.delta.safetensors").open("r+b") as file:
        file.truncate(n := file.seek(-1, 2))
    found, _ = look(path)
    cut, wrong, none, pipe = found.problems
    assert cut == f"00000006.delta.safetensors: expected {n + 1} bytes, found {n}"
    assert wrong.endswith("expected delta of step 9, found delta of step 3")
    assert none.startswith("00000012.delta.safetensors: cannot be read: ")
    assert pipe.startswith("00000015.delta.safetensors: cannot be read: ")
    assert pipe.endswith("is no regular file")
    assert (found.steps, found.newest) == (2, 3)


def test_what_a_disk_did_not_give_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive and a URL keep no time by which a record would be another one."""
    path = write(tmp_path / "run.lcc", 0, 2)
    codec.Chain(path).pack(packed := tmp_path / "run.lcc.zip")
    with monkeypatch.context() as patch:

        def fails(*_: Any) -> Any:
            raise codec.ChainError("cannot be read: timed out")

        patch.setattr(codec.Chain, "read", fails)
        patch.setattr(module, "peek", lambda *_: (_ for _ in ()).throw(OSError("timed out")))
        chains = (codec.Chain(path), path), (codec.Chain(packed), None)
        known = [heads(chain, folder, {}) for chain, folder in chains]
    for (chain, folder), failed in zip(chains, known):
        assert all("cannot be read: timed out" in head.problem for head in failed.values())
        found = heads(chain, folder, failed)
        assert [head.problem for head in found.values()] == 3 * [""]
        assert list(found) == list(failed)
