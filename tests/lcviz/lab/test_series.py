"""Series of states: of a training, of files, of a chain."""

from pathlib import Path

import numpy as np
import pytest
import torch

import codec
from codec import Coding
from codec.errors import SourceError
from codec.state.tensors import copy_arrays
from lcviz.lab.series import OwnSeries, TrainedSeries, tracked
from lcviz.lab.workload import workload
from tests.lcviz.common import Patch, files, saved


@pytest.fixture
def states() -> list[dict[str, torch.Tensor]]:
    """Five, of which the fourth has one tensor more."""
    rng = np.random.default_rng(0)
    found = []
    w = torch.zeros(20, 5)
    for i in range(5):
        w = w + torch.from_numpy(rng.normal(size=(20, 5)).astype(np.float32))
        found.append({"w": w, "n": torch.tensor(i)} | ({"b": torch.ones(9)} if i >= 3 else {}))
    return found


def test_a_training() -> None:
    series = TrainedSeries(workload("logistic-regression"), 1, iterations=7, interval=3)
    steps, losses = [], []
    for moment in series:
        steps.append(moment.step)
        assert moment.loss_of is not None
        losses.append(moment.loss_of(moment.arrays))
        assert [t.name for t in moment.layout.tensors] == ["linear.weight", "linear.bias"]
    assert (steps, len(series)) == ([0, 3, 6], 3)
    expected = []
    fresh = workload("logistic-regression").training(1)
    for step in range(7):
        if step:
            fresh.iterate(step)
        if step % 3 == 0:
            expected.append(fresh.task.probe_loss())
    assert losses == expected


@pytest.mark.parametrize("kind", ["pt", "safetensors", "folder", "chain", "zip"])
def test_found(kind: str, tmp_path: Path, states: list[dict[str, torch.Tensor]]) -> None:
    paths, chain = [], tmp_path / "run.lcc"
    if kind in ("chain", "zip"):
        with codec.Checkpointer(chain, bits=None) as checkpoints:
            for i, state in enumerate(states):
                checkpoints.save(10 * i, state)
        codec.Chain(chain).pack(tmp_path / "run.lcc.zip")
        paths = [chain if kind == "chain" else tmp_path / "run.lcc.zip"]
    else:
        for i, state in reversed([*enumerate(states)]):
            paths.append(tmp_path / f"step-{10 * i}.{'pt' if kind == 'folder' else kind}")
            if kind == "safetensors":
                paths[-1].write_bytes(codec.state.tensor_files.to_safetensors(state))
            else:
                torch.save(state, paths[-1])
        if kind == "folder":
            (tmp_path / "notes.txt").write_text("not a checkpoint")
            paths = [tmp_path]
    series = OwnSeries(paths)
    assert len(series) == 5
    found = [(m.step, copy_arrays(m.arrays), m.loss_of) for m in series]
    assert [step for step, *_ in found] == [0, 10, 20, 30, 40]
    for (step, arrays, loss_of), state in zip(found, states, strict=True):
        assert loss_of is None
        assert arrays.keys() == state.keys()
        whole = codec.restore(paths[0], step) if kind in ("chain", "zip") else state
        for name, array in arrays.items():
            assert np.array_equal(array, whole[name].numpy())


def test_a_series_is_two_at_least(tmp_path: Path, states: list[dict[str, torch.Tensor]]) -> None:
    torch.save(states[0], tmp_path / "a.pt")
    for alone in (tmp_path / "a.pt", tmp_path):
        with pytest.raises(codec.SettingsError, match="needs two checkpoints"):
            OwnSeries([alone])
    (tmp_path / "b.txt").write_text("")
    with pytest.raises(codec.SettingsError, match="must end with"):
        list(OwnSeries([tmp_path / "a.pt", tmp_path / "b.txt"]))
    for missing in (tmp_path / "c.pt", Path("a" * 300)):
        with pytest.raises(SourceError, match="not found"):
            OwnSeries([tmp_path / "a.pt", missing])


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: Patch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(SourceError, match="cannot be listed: Permission denied"):
        OwnSeries([tmp_path])


def test_a_chain_stands_alone(tmp_path: Path, states: list[dict[str, torch.Tensor]]) -> None:
    """Its records are no checkpoints of their own, even where the base is missing."""
    chain = tmp_path / "run.lcc"
    saved(chain, states[:3])
    torch.save(states[0], tmp_path / "a.pt")
    for paths in ([chain, tmp_path / "a.pt"], [tmp_path / "a.pt", chain]):
        with pytest.raises(codec.SettingsError, match=r"run\.lcc: is a chain; name it alone"):
            OwnSeries(paths)
    (chain / "00000000.base.safetensors").unlink()
    with pytest.raises(codec.ChainError, match="its parent"):
        list(OwnSeries([chain]))


@pytest.mark.parametrize("state", [{}, {"n": torch.arange(100)}, {"w": torch.ones(7)}])
def test_checkpoints_without_weights(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    files(tmp_path, [state, state])
    with pytest.raises(codec.SettingsError, match=r"checkpoint 0: none of its . tensors is"):
        list(OwnSeries([tmp_path]))


def test_tracked_begins_anew(tmp_path: Path, states: list[dict[str, torch.Tensor]]) -> None:
    steps, trackers, series = [], [], OwnSeries([files(tmp_path, states)])
    for moment, tracker in tracked(series, Coding(2, coder="huffman")):
        steps.append(moment.step)
        before = copy_arrays(tracker.state)
        tracker.commit(tracker.prepare_arrays(moment.arrays))
        off = [np.linalg.norm(track["w"] - moment.arrays["w"]) for track in (tracker.state, before)]
        assert off[0] < off[1]
        trackers.append(tracker)
    assert steps == [1, 2, 4]
    assert trackers[0] is trackers[1]
    assert trackers[2] is not trackers[1]
