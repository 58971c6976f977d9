"""A chain of a visitor's own: measured, verified, made again by its script, gone when stopped."""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save_file

import codec
from codec import Coding
from codec.errors import SourceError
from lcviz.export import compress as compressing
from lcviz.export import receipt as receipts
from lcviz.export.archive import restore
from lcviz.export.compress import Compression, compress
from lcviz.server.own_files import OwnFiles, list_files, open_files
from lcviz.server.quota import FullError, Shelf, VisitorFolder
from tests.lcviz.common import Calls, MakePath, Patch


def quiet(*_: Any) -> None:
    """Nobody looks."""


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five checkpoints of several dtypes; the second one in a .pt."""
    folder, generator = tmp_path_factory.mktemp("series"), torch.Generator().manual_seed(0)
    w, half = torch.randn(60, 50, generator=generator), torch.ones(90, dtype=torch.bfloat16)
    for i in range(5):
        w = w + 0.01 * torch.randn(60, 50, generator=generator) ** 3
        half = half + torch.randn(90, generator=generator).bfloat16() / 8
        state = {"w": w, "half": half, "n": torch.tensor(i)}
        if i == 1:
            torch.save(state, folder / f"e{10 * i}.pt")
        else:
            save_file(state, folder / f"e{10 * i}.safetensors")
    return folder


@pytest.fixture(scope="module")
def own(nested: Path) -> OwnFiles:
    return open_files(list_files(nested), Shelf().place(), quiet)


def test_every_step_is_measured(
    own: OwnFiles, shelf: Shelf, place: VisitorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codec.saving.history.RESTORE_WORK", 3)
    monkeypatch.setattr("codec.saving.history.FREE_WORK", 0)
    made = compress(own, Compression(Coding(3)), place, calls := Calls())
    assert calls == [(i, 10) for i in range(5)] + [(i, 10) for i in range(6, 11)]
    assert [c.kind for c in made.steps] == ["base", "delta", "delta", "delta", "base"]
    data, first = made.load().data, dict(own.states())[0]
    for c, (step, state) in zip(made.steps, own.states()):
        back = codec.restore(io.BytesIO(data), step)
        track = codec.Chain(io.BytesIO(data)).at(step).track.arrays
        each = {t.name: t for t in c.tensors}
        for names, told in ((("half", "w"), c), (("half",), each["half"]), (("w",), each["w"])):
            live = np.concatenate([state[n].double().numpy().ravel() for n in names])
            off = np.concatenate([track[n].astype(np.float64).ravel() for n in names]) - live
            moved = live - np.concatenate([first[n].double().numpy().ravel() for n in names])
            distance = np.linalg.norm(off) / np.linalg.norm(moved) if step else 0.0
            largest = np.abs(off).max()
            assert (told.distance, told.largest) == pytest.approx((distance, largest), rel=1e-5)
        stored = {"half": "lossy", "n": "exactly", "w": "lossy"}
        assert {t.name: t.stored for t in c.tensors} == stored
        assert c.full_nbytes == 4 * 3090 + 8
        assert c.file_nbytes == (own.files[step // 10].source).stat().st_size
        assert (back["half"].dtype, int(back["n"])) == (torch.bfloat16, step // 10)
        assert c.kind == "delta" or c.distance == 0.0
    assert made.sha256 == hashlib.sha256(made.archive.read_bytes()).hexdigest()
    assert [p.name for p in place.path.iterdir()] == ["run.lcc.zip"]
    assert shelf.nbytes == pytest.approx(len(data), abs=2000)  # its records are accounted for
    place.close()
    assert shelf.nbytes == 0
    with pytest.raises(SourceError, match="compress again"):
        made.load()


def test_who_stops_leaves_nothing(own: OwnFiles, place: VisitorFolder) -> None:
    class StoppedError(Exception):
        """No one watches."""

    def tell(done: int, total: int) -> None:
        if done >= 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        compress(own, Compression(), place, tell)
    assert list(place.path.iterdir()) == []


def test_a_chain_that_is_too_large(own: OwnFiles, place: VisitorFolder, monkeypatch: Patch) -> None:
    monkeypatch.setattr(compressing, "MOST_ARCHIVE", 14_000)
    with pytest.raises(FullError, match=r"archives of at most 14\.0 kB"):
        compress(own, Compression(), place, quiet)
    small = Shelf(most_bytes=13_000).place()
    with pytest.raises(FullError, match="do not fit in"):
        compress(own, Compression(), small, quiet)
    assert [*place.path.iterdir(), *small.path.iterdir()] == []


def test_a_wrong_archive(own: OwnFiles, place: VisitorFolder, monkeypatch: Patch) -> None:
    """A writer that packs something else is found out."""
    pack = codec.Chain.pack

    def other(_: codec.Chain, path: Path) -> int:
        with codec.Checkpointer(place.path / "other.lcc") as chain:
            for step, state in own.states():
                chain.save(step, {n: t + 1 for n, t in state.items()})
        return pack(codec.Chain(place.path / "other.lcc"), path)

    def shorter(self: codec.Chain, path: Path) -> int:
        (place.path / "run.lcc" / self.entries[-1].name).unlink()
        return pack(codec.Chain(place.path / "run.lcc"), path)

    cases = ((other, "Step 0 of the packed chain"), (shorter, r"lacks the steps \[40\]"))
    for wrong, sentence in cases:
        monkeypatch.setattr(codec.Chain, "pack", wrong)
        with pytest.raises(codec.ChainError, match=sentence):
            compress(own, Compression(), place, quiet)
        assert not (place.path / "run.lcc.zip").exists()


def test_a_chain(place: VisitorFolder, own: OwnFiles, make_chain: MakePath) -> None:
    """Also one of a nested state, with values that are no tensors."""
    more = {"optimizer": {"m": torch.ones(20)}}
    chain = make_chain(*(more | {"model": state, "epoch": n} for n, state in own.states()))
    again = open_files(list_files(chain), Shelf().place(), quiet)
    made = compress(again, Compression(Coding(None)), place, quiet)
    package = made.load()
    assert package.steps == (0, 1, 2, 3, 4)
    assert codec.restore(io.BytesIO(package.data), 2)["epoch"] == 20
    restored = restore(package, 2)
    assert set(load(restored.data)) == {"model/w", "model/half", "model/n", "optimizer/m"}
    assert restored.left_out == 1
    assert all(c.file_nbytes is None for c in made.steps)


def test_a_chain_of_no_values(place: VisitorFolder, make_chain: MakePath) -> None:
    empty = open_files(list_files(make_chain({"w": torch.empty(0, 3)})), Shelf().place(), quiet)
    with pytest.raises(SourceError, match="Step 0 holds no values"):
        compress(empty, Compression(), place, quiet)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> OwnFiles:
    """Four checkpoints of a training: weights, moments of Adam, a step, losses, and a dtype."""
    torch.manual_seed(0)
    model = torch.nn.Linear(30, 20)
    optimizer = torch.optim.Adam(model.parameters())
    folder = tmp_path_factory.mktemp("trained")
    losses: list[float] = []
    for epoch in range(4):
        loss = model(torch.randn(8, 30)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses = [*losses, loss.item()]
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state |= {"epoch": epoch, "losses": losses, "config": {"dtype": torch.float32}}
        torch.save(state, folder / f"e{epoch}.pt")
    return open_files(list_files(folder), Shelf().place(), quiet)


def test_all_is_kept(trained: OwnFiles, place: VisitorFolder) -> None:
    """Moments as in training; and the files are compared without what the chain lacks."""
    assert trained.parts.keys() == {"model", "optimizer", "epoch", "losses"}
    (reasons,) = {tuple(file.left_out.items()) for file in trained.files}
    assert reasons[0][0] == "config"
    assert "'config/dtype' is a dtype" in reasons[0][1]
    made = compress(trained, Compression(), place, quiet)
    assert [c.kind for c in made.steps] == ["base", "delta", "delta", "delta"]
    state = torch.load(trained.files[3].source, weights_only=True)
    back = codec.restore(io.BytesIO(made.load().data), 3)
    assert list(back) == ["model", "optimizer", "epoch", "losses"]
    assert (back["epoch"], back["losses"]) == (3, state["losses"])
    assert back["optimizer"]["param_groups"] == state["optimizer"]["param_groups"]
    assert back["optimizer"]["state"][0]["step"] == 4
    stored = {t.name: t.stored for t in made.steps[3].tensors}
    expected = {"exp_avg": "roots=0.5", "exp_avg_sq": "octaves=0.25", "step": "exactly"}
    assert {f"optimizer/state/0/{k}": v for k, v in expected.items()}.items() <= stored.items()
    del state["config"]
    file = io.BytesIO()
    torch.save(state, file)
    assert made.steps[3].file_nbytes == pytest.approx(file.tell(), abs=200)


def test_left_out_on_both_sides(trained: OwnFiles, place: VisitorFolder) -> None:
    settings = Compression(left_out=frozenset({"optimizer", "losses"}))
    made = compress(trained, settings, place, quiet)
    assert list(codec.restore(io.BytesIO(made.load().data), 3)) == ["model", "epoch"]
    weights = 4 * (30 * 20 + 20)
    for c in made.steps:
        assert c.full_nbytes == weights
        assert c.file_nbytes is not None
        assert weights < c.file_nbytes < weights + 2500  # without moments, twice as much
        assert {t.name for t in c.tensors} == {"model/weight", "model/bias"}
    left_out = ["config", "losses", "optimizer"]
    assert [f["left_out"] for f in made.receipt["files"]] == [left_out] * 4
    assert receipts.describe(made.receipt)["Left out"] == ", ".join(left_out)
