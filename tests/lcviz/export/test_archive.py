"""What is taken along: checked from its bytes, refused if anything is wrong."""

from __future__ import annotations

import io
import shutil
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load

import codec
from codec.record.record import track_digest
from codec.scheme.track import digest_sums
from lcviz.export import archive as export
from lcviz.lab.anatomy import tables
from lcviz.run.run import Run, RunError

MakeRun = Callable[..., Run]


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    """A finished run of four steps."""
    made = make_run(stop_after=4)
    made.play()
    assert made.wait(60).status == "finished"
    return made


def test_the_archive_is_the_chain(run: Run) -> None:
    progress: list[tuple[int, int]] = []
    package = export.pack(run, lambda *done: progress.append(done))
    with zipfile.ZipFile(io.BytesIO(package.data)) as archive:
        packed = {info.filename: archive.read(info) for info in archive.infolist()}
    assert packed == {p.name: p.read_bytes() for p in run.path.glob("*.safetensors")}
    assert package.steps == (0, 1, 2, 3, 4)
    assert [e.name for e in package.entries] == sorted(packed)
    assert [e.nbytes for e in package.entries] == [len(packed[n]) for n in sorted(packed)]
    assert package.name == "logistic-regression-digits-bits2-model-runlength-seed0"
    assert progress == [(i, 5) for i in range(1, 6)]
    assert codec.verify(io.BytesIO(package.data)).ok


def test_the_digest_shown_is_that_of_the_encoder_s_track(run: Run) -> None:
    assert run._live is not None
    tracker = run._live.checkpointer.tracker
    assert tracker is not None
    digest = track_digest(tracker.layout, tracker.state, digest_sums(tracker.layout, tracker.state))
    assert export.pack(run).track == digest


@pytest.mark.parametrize(
    ("changes", "kept"), [({"bits": None}, "bitsall"), ({"budget": 0.125}, "budget12.5")]
)
def test_the_name_tells_the_settings(make_run: MakeRun, changes: dict[str, Any], kept: str) -> None:
    run = make_run(scope="tensor", coder="huffman", seed=3, **changes)
    expected = f"logistic-regression-digits-{kept}-tensor-huffman-seed3"
    assert export.pack(run).name == expected


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_which_tables_are_new_is_read_from_the_records(make_run: MakeRun, scope: str) -> None:
    run = make_run("lenet5", scope=scope, stop_after=6)
    run.play()
    every = run.wait(60).checkpoints
    package = export.pack(run)
    n = 1 if scope == "model" else len(every[1].alphabets)
    assert package.tables[0] == (0, 0)
    assert package.tables[1] == (n, 0)  # nothing was sent before
    found = [tables(c.alphabets) for c in every]
    assert list(package.tables) == [(t.n, t.reused) for t in found]
    assert sum(again for _, again in package.tables) > 0


def test_a_track_that_changed_in_memory_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values are compared, not the digests that were followed from change to change."""
    every_step = codec.Chain.every_step

    def touched(self: codec.Chain) -> Any:
        for position in every_step(self):
            if position.entry.step == 3:
                next(iter(position.state.values())).reshape(-1)[0] += 1
            yield position

    monkeypatch.setattr(codec.Chain, "every_step", touched)
    with pytest.raises(RunError, match="Step 3 of the packed chain is not the track"):
        export.pack(run)


def test_packing_leaves_only_the_chain(run: Run) -> None:
    before = sorted(p.name for p in run.path.parent.iterdir())
    export.pack(run)
    assert sorted(p.name for p in run.path.parent.iterdir()) == before


def test_the_same_chain_gives_the_same_bytes(run: Run) -> None:
    assert export.pack(run).data == export.pack(run).data


def test_two_pages_may_pack_the_same_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody shares the example run: two visitors may ask for it at the same moment."""
    both_packed = threading.Barrier(2)
    pack = codec.Chain.pack

    def meet(self: codec.Chain, path: str | Path) -> int:
        nbytes = pack(self, path)
        both_packed.wait(30)
        return nbytes

    monkeypatch.setattr(codec.Chain, "pack", meet)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: export.pack(run), range(2))
    assert replace(first, at=second.at) == second


def test_packing_while_the_run_goes_on(make_run: MakeRun) -> None:
    """The archive holds the steps saved so far, and is none the worse for later ones."""
    run = make_run(stop_after=400)
    run.step()
    run.wait(60)
    run.play()
    for _ in range(5):
        package = export.pack(run)
        assert package.steps == tuple(range(len(package.steps)))
        assert len(package.steps) >= 2
    run.pause()
    run.wait(60)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("step", [0, 2, 4])
def test_a_flipped_bit_is_refused(run: Run, step: int) -> None:
    (record,) = run.path.glob(f"{step:08d}.*")
    flip(record)
    with pytest.raises(RunError, match="The packed chain does not restore"):
        export.pack(run)


@pytest.mark.parametrize("step", [1, 3])
def test_a_missing_record_is_refused(run: Run, step: int) -> None:
    (record,) = run.path.glob(f"{step:08d}.*")
    record.unlink()
    with pytest.raises(RunError, match="does not restore"):
        export.pack(run)


def test_a_missing_newest_record_is_refused(run: Run) -> None:
    """The rest would restore, but it is not what the run saved."""
    next(run.path.glob("00000004.*")).unlink()
    with pytest.raises(RunError):
        export.pack(run)


def test_a_record_of_another_run_is_refused(run: Run, make_run: MakeRun) -> None:
    other = make_run(stop_after=4, seed=5)
    other.play()
    other.wait(60)
    name = "00000002.delta.safetensors"
    shutil.copy(other.path / name, run.path / name)
    with pytest.raises(RunError, match="does not restore"):
        export.pack(run)


def test_a_whole_chain_of_another_run_is_refused(run: Run, make_run: MakeRun) -> None:
    """It restores without a flaw, but it is not what this run saved."""
    other = make_run(stop_after=4, seed=5)
    other.play()
    other.wait(60)
    shutil.rmtree(run.path)
    shutil.copytree(other.path, run.path)
    assert codec.verify(run.path).ok
    with pytest.raises(RunError):
        export.pack(run)


def test_a_chain_that_is_gone_is_an_error_of_the_codec(run: Run) -> None:
    shutil.rmtree(run.path)
    with pytest.raises(codec.LccError):
        export.pack(run)


def test_a_run_that_is_reset_while_it_is_packed(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another tab; a sentence, for the page has nothing else to show."""
    run = make_run(stop_after=2)
    run.play()
    run.wait(60)
    steps = export._snapshot_with

    def reset(run: Run, step: int) -> Any:
        found = steps(run, step)
        run.close()
        shutil.rmtree(run.path.parent)
        return found

    monkeypatch.setattr(export, "_snapshot_with", reset)
    with pytest.raises(RunError, match="cannot be packed"):
        export.pack(run)


@pytest.mark.parametrize("step", [0, 1, 4])
def test_a_restored_step_is_the_chain_s(run: Run, step: int) -> None:
    package = export.pack(run)
    restored = export.restore(run, package, step)
    expected = codec.restore(run.path, step)
    found = load(restored.data)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        array = tensor.numpy()
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()
    assert restored.name == f"{package.name}-step{step}"
    assert restored.step == step
    checkpoint = run.snapshot().at(step)
    assert restored.loss == checkpoint.restored_loss == run.task.probe_loss(expected)


def test_a_step_that_was_never_saved(run: Run) -> None:
    with pytest.raises(codec.StepNotFoundError):
        export.restore(run, export.pack(run), 5)


def test_a_file_that_differs_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read back is compared: a writer that changes one bit is found out."""
    write = export.to_safetensors

    def wrong(state: dict[str, Any]) -> bytes:
        data = bytearray(write(state))
        data[-1] ^= 1
        return bytes(data)

    package = export.pack(run)
    monkeypatch.setattr(export, "to_safetensors", wrong)
    with pytest.raises(RunError, match="differs from the restored state"):
        export.restore(run, package, 1)


def test_signed_zeros_and_nans_are_compared_as_bits() -> None:
    zero, nan = np.array([0.0], np.float32), np.array([np.nan], np.float32)
    assert not np.array_equal(export._bits(zero), export._bits(-zero))
    assert np.array_equal(export._bits(nan), export._bits(nan.copy()))
