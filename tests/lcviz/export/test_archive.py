"""A run's archive: checked from its bytes, refused if anything is wrong."""

import io
import shutil
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors.numpy import load

import codec
from codec.errors import StepNotFoundError
from lcviz.export import archive as archives
from lcviz.export import page as export_page
from lcviz.export.archive import pack, restore, safe_name
from lcviz.run.run import Run, RunError
from tests.bits import same
from tests.lcviz.common import Calls, MakeRun, Patch, finished, flip, stepped


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    """A finished run of four steps, to be damaged."""
    return finished(make_run(stop_after=4))


@pytest.fixture
def shared(finished_runs: MakeRun) -> Run:
    """The same, to be looked at."""
    return finished_runs(stop_after=4)


def test_the_archive_is_the_chain(shared: Run) -> None:
    before = sorted(p.name for p in shared.path.parent.iterdir())
    package = pack(shared, progress := Calls())
    with zipfile.ZipFile(io.BytesIO(package.data)) as archive:
        packed = {info.filename: archive.read(info) for info in archive.infolist()}
    assert packed == {p.name: p.read_bytes() for p in shared.path.glob("*.safetensors")}
    assert package.steps == (0, 1, 2, 3, 4)
    assert [e.name for e in package.entries] == sorted(packed)
    assert [e.nbytes for e in package.entries] == [len(packed[n]) for n in sorted(packed)]
    assert package.name == "logistic-regression-digits-bits2-model-runlength-seed0"
    assert package.tracks == tuple(c.track for c in shared.snapshot().checkpoints)
    assert (package.full_nbytes, progress) == (5 * 4 * 7850, [(i, 5) for i in range(1, 6)])
    assert codec.verify(io.BytesIO(package.data)).ok
    assert pack(shared).data == package.data
    assert sorted(p.name for p in shared.path.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("changes", "kept"), [({"bits": None}, "bitsall"), ({"budget": 0.125}, "budget12.5")]
)
def test_the_name_tells_the_settings(make_run: MakeRun, changes: dict[str, Any], kept: str) -> None:
    run = make_run(scope="tensor", coder="huffman", seed=3, stop_after=1, **changes)
    assert pack(run).coding is None  # it has only its base
    package = pack(finished(run))
    assert package.name == f"logistic-regression-digits-{kept}-tensor-huffman-seed3"
    assert package.coding == run.settings.coding


def test_a_track_that_changed_in_memory_is_refused(shared: Run, monkeypatch: Patch) -> None:
    """Values are compared, not the digests that were followed from change to change."""
    every_step = codec.Chain.every_step

    def touched(self: codec.Chain) -> Any:
        for position in every_step(self):
            if position.entry.step == 3:
                next(iter(position.track.arrays.values())).reshape(-1)[0] += 1
            yield position

    monkeypatch.setattr(codec.Chain, "every_step", touched)
    with pytest.raises(RunError, match="Step 3 of the packed chain is not the track"):
        pack(shared)


def test_two_pages_may_pack_the_same_run(shared: Run, monkeypatch: Patch) -> None:
    """Everybody shares the example run: two visitors may ask for it at the same moment."""
    both_packed, pack_chain = threading.Barrier(2), codec.Chain.pack

    def meet(self: codec.Chain, path: str | Path) -> int:
        nbytes = pack_chain(self, path)
        both_packed.wait(30)
        return nbytes

    monkeypatch.setattr(codec.Chain, "pack", meet)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: pack(shared), range(2))
    assert replace(first, at=second.at) == second


def test_packing_while_the_run_goes_on(make_run: MakeRun) -> None:
    """The archive holds the steps saved so far, and is none the worse for later ones."""
    run = make_run(stop_after=400)
    stepped(run)
    run.play()
    for _ in range(3):
        package = pack(run)
        assert package.steps == tuple(range(len(package.steps)))
        assert len(package.steps) >= 2
    run.pause()
    run.wait(60)


RESTORES_NOT = "The packed chain does not restore"


@pytest.mark.parametrize(
    ("damage", "step", "told"),
    [
        (flip, 0, RESTORES_NOT),
        (Path.unlink, 2, RESTORES_NOT),
        (Path.unlink, 4, "lacks the steps"),  # the rest restores, but the run saved more
    ],
)
def test_a_damaged_or_missing_record(run: Run, damage: Any, step: int, told: str) -> None:
    damage(sorted(run.path.glob("*.safetensors"))[step])
    with pytest.raises(RunError, match=told):
        pack(run)


def test_records_of_another_run_are_refused(run: Run, finished_runs: MakeRun) -> None:
    other, name = finished_runs(stop_after=4, seed=5), "00000002.delta.safetensors"
    shutil.copy(other.path / name, run.path / name)
    with pytest.raises(RunError, match=RESTORES_NOT):
        pack(run)
    shutil.rmtree(run.path)
    shutil.copytree(other.path, run.path)  # it restores without a flaw
    assert codec.verify(run.path).ok
    with pytest.raises(RunError):
        pack(run)


def test_a_run_that_is_reset_while_it_is_packed(run: Run, monkeypatch: Patch) -> None:
    """In another tab; a sentence, for the page has nothing else to show."""
    folder = archives.tempfile.TemporaryDirectory

    def reset(**how: Any) -> Any:
        run.close()
        shutil.rmtree(run.path.parent)
        return folder(**how)

    monkeypatch.setattr(archives.tempfile, "TemporaryDirectory", reset)
    with pytest.raises(RunError, match="cannot be packed"):
        pack(run)


def test_a_restored_step_is_the_chain_s(shared: Run, monkeypatch: Patch) -> None:
    package = pack(shared)
    for step in (0, 4):
        restored = restore(package, step, shared.task)
        expected = codec.restore(shared.path, step)
        found = load(restored.data)
        assert found.keys() == expected.keys()
        assert same(dict(sorted(found.items())), {n: expected[n].numpy() for n in sorted(found)})
        assert (restored.name, restored.step) == (f"{package.name}-step{step}", step)
        checkpoint = shared.snapshot().at(step)
        assert restored.loss == checkpoint.losses.restored == shared.task.probe_loss(expected)
    with pytest.raises(StepNotFoundError):
        restore(package, 5)
    write = archives.to_safetensors

    def wrong(state: dict[str, Any]) -> bytes:
        data = bytearray(write(state))
        data[-1] ^= 0x80  # a sign
        return bytes(data)

    monkeypatch.setattr(archives, "to_safetensors", wrong)
    with pytest.raises(RunError, match="differs from the restored state"):
        restore(package, 1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("my_run-2.1", "my_run-2.1"),
        ('x"; rm -rf ~ #', "x-rm--rf"),
        ("--help", "help"),
        ("![a](http://b)", "a-http-b"),
        ("../..", "chain"),
        ("é" * 300, "chain"),
        ("a" * 300, "a" * 100),
    ],
)
def test_a_name_that_any_disk_and_shell_takes(given: str, expected: str) -> None:
    assert safe_name(given) == expected


def test_with_an_optimizer(finished_runs: MakeRun, tmp_path: Path, monkeypatch: Patch) -> None:
    """And the code that loads it."""
    run = finished_runs("lenet5", optimizer="adam", optimizer_state=True, stop_after=4)
    package, saved = pack(run), run.snapshot().at(3)
    assert "-optimizer-" in package.name
    restored = restore(package, 3, run.task)
    assert restored.loss == saved.losses.restored
    assert restored.left_out > 0
    tensors = safetensors.torch.load(restored.data)
    assert {"model/c1.weight", "optimizer/state/0/exp_avg"} <= tensors.keys()
    monkeypatch.chdir(tmp_path)
    Path(package.file).write_bytes(package.data)
    found: dict[str, Any] = {}
    exec(export_page._loading(run, package, 3), found)
    assert found["task"].probe_loss() == saved.losses.restored
    loaded = found["training"].state()["optimizer"]["state"][0]["exp_avg"]
    assert torch.equal(loaded, tensors["optimizer/state/0/exp_avg"])
