"""A living writer whose records are removed: the next save is a base, from which all goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import codec
from codec.record.encode import Draft
from codec.rerun import GradientCheckpointer
from codec.rerun import restore as rerun
from codec.storage import directory as storage
from codec.storage.directory import Seal

Patch = pytest.MonkeyPatch
BASE, DELTA = "{:08d}.base.safetensors", "{:08d}.delta.safetensors"


def walk(step: int) -> dict[str, Any]:
    """A state of a small random walk."""
    rng = np.random.default_rng(0)
    return {"w": sum(rng.normal(size=(step + 1, 40)) * 0.1).astype(np.float32), "step": step}


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if "a full base instead" in r.getMessage()]


def without_nameless(monkeypatch: Patch) -> None:
    """As on a disk where files cannot be made without a name."""
    monkeypatch.setattr(storage, "_directory_for_nameless", lambda _path: None)


def without_seals(monkeypatch: Patch) -> None:
    """As in a directory of somebody else."""
    monkeypatch.setattr(os, "utime", mock.Mock(side_effect=PermissionError("not the owner")))


@pytest.mark.parametrize(
    ("removed", "resume", "prepare"),
    [
        ([0], False, lambda _: None),
        ([2], True, lambda _: None),
        ([4], False, without_nameless),
        ([0, 1, 2, 3, 4], True, without_nameless),
        ([0], True, without_seals),
        ([0, 1, 2, 3, 4], False, without_seals),
    ],
)
def test_a_record_that_was_removed(
    removed: list[int],
    resume: bool,
    prepare: Callable[[Patch], None],
    tmp_path: Path,
    monkeypatch: Patch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However soon after the last save; told once, with its name. Another one is noticed, too."""
    prepare(monkeypatch)
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path) as checkpoints:
        for step in range(5):
            checkpoints.save(step, walk(step))
        if not resume:
            kinds = save_on(checkpoints, path, removed)
    if resume:
        with codec.Checkpointer(path, resume=True) as checkpoints:
            kinds = save_on(checkpoints, path, removed)
    assert kinds == ["base", "delta", "delta", "base", "delta"]
    first, second = messages(caplog)
    names = [(DELTA if step else BASE).format(step) for step in removed]
    more = "" if len(names) <= 3 else f" and {len(names) - 3} more"
    assert f"step 5: a full base instead of a delta, because '{names[0]}'" in first
    assert f"{', '.join(map(repr, names[:3]))}{more}, on which it would build, w" in first
    assert f"step 8: a full base instead of a delta, because {BASE.format(5)!r}, on" in second


def save_on(checkpoints: codec.Checkpointer, path: Path, removed: list[int]) -> list[str]:
    """The kinds of the records from step 5 on; first some are removed, then the base of step 5."""
    kinds = []
    for step in range(5, 10):
        for gone in removed if step == 5 else [5] if step == 8 else []:
            (path / (DELTA if gone % 5 else BASE).format(gone)).unlink()
        kinds.append(checkpoints.save(step, walk(step)).kind)
        back = checkpoints.restore()
        seen = codec.restore(path)
        assert back is not None
        assert (seen["step"], seen["w"].tobytes()) == (step, back["w"].tobytes())
    return kinds


def test_while_a_save_is_under_way(tmp_path: Path) -> None:
    """The look comes last: the delta that has just been written is removed again."""
    path, check = tmp_path / "run.lcc", Draft.check
    with codec.Checkpointer(path) as checkpoints:
        for step in range(3):
            checkpoints.save(step, walk(step))

        def remove(draft: Draft, track: Any) -> Any:
            (path / BASE.format(0)).unlink(missing_ok=True)
            return check(draft, track)

        with mock.patch.object(Draft, "check", remove):
            assert checkpoints.save(3, walk(3)).kind == "base"
        assert checkpoints.save(4, walk(4)).kind == "delta"
    names = sorted(entry.name for entry in path.glob("*.safetensors"))
    assert names == [DELTA.format(1), DELTA.format(2), BASE.format(3), DELTA.format(4)]
    assert codec.Chain(path).at(4).record.parent is not None
    assert codec.verify(path).steps == (3, 4)


def test_a_chain_of_gradients(tmp_path: Path) -> None:
    weights = torch.nn.Parameter(torch.zeros(40))
    optimizer = torch.optim.SGD([weights], lr=0.1)
    path = tmp_path / "run.lcc"
    kinds = []
    with GradientCheckpointer(path, optimizer) as checkpoints:
        for step in range(6):
            weights.grad = torch.full((40,), float(step + 1))
            optimizer.step()
            if step == 3:
                (path / BASE.format(0)).unlink()
            kinds.append(checkpoints.save(step, {"model": {"w": weights.detach()}}).kind)
            other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(40))], lr=0.1)
            assert torch.equal(rerun(path, other)["model"]["w"], weights)
    assert kinds == ["base", "delta", "delta", "base", "delta", "delta"]


def test_that_look_does_not_grow_with_the_chain(tmp_path: Path, monkeypatch: Patch) -> None:
    """No listing, and the same number of calls for each record, however many there are. Files that
    others put there cost a listing each."""
    path, calls = tmp_path / "run.lcc", list[str]()

    def counted(name: str) -> Callable[..., Any]:
        call = getattr(os, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return call(*args, **kwargs)

        return run

    for name in ("stat", "utime", "listdir", "scandir"):
        monkeypatch.setattr(os, name, counted(name))
    of_saves = []
    with codec.Checkpointer(path, restore_work=None) as checkpoints:
        for step in range(20):
            calls.clear()
            if step == 15:
                (path / "notes.txt").touch()
            checkpoints.save(step, walk(step))
            of_saves.append(tuple(sorted(calls)))
    assert "listdir" in of_saves[1]
    assert "listdir" in of_saves[15]
    rest = {*of_saves[2:15], *of_saves[16:]}
    assert len(rest) == 1
    assert not {"listdir", "scandir"} & set(*rest)


def test_a_directory_that_cannot_be_listed_for_a_while(tmp_path: Path) -> None:
    """What is saved stays saved, and the next look tells."""
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path) as checkpoints:
        checkpoints.save(0, walk(0))
        (path / BASE.format(0)).unlink()
        with mock.patch.object(os, "listdir", side_effect=OSError("not now")):
            assert checkpoints.save(1, walk(1)).kind == "delta"
        assert checkpoints.save(2, walk(2)).kind == "base"


def test_a_base_that_fails(tmp_path: Path) -> None:
    """The save fails, the delta is gone, and the next one is a base."""
    path, publish = tmp_path / "run.lcc", storage.publish

    def refuse(path: Path, *args: Any, **kwargs: Any) -> float:
        if ".base." in path.name:
            raise codec.WriteError("full")
        return publish(path, *args, **kwargs)

    with codec.Checkpointer(path) as checkpoints:
        checkpoints.save(0, walk(0))
        (path / BASE.format(0)).unlink()
        with (
            mock.patch.object(storage, "publish", refuse),
            pytest.raises(codec.WriteError, match="full"),
        ):
            checkpoints.save(1, walk(1))
        assert checkpoints.save(1, walk(1)).kind == "base"
    assert codec.verify(path).steps == (1,)


def test_a_seal(tmp_path: Path) -> None:
    """It breaks by whatever changes names, however soon, and stays broken through our own changes
    until it is put on anew."""
    seal, file = Seal(tmp_path), tmp_path / "file"
    assert not seal.is_whole()
    changes: list[Callable[[], object]] = [
        file.touch,
        lambda: file.rename(tmp_path / "other"),
        (tmp_path / "other").unlink,
        (tmp_path / "folder").mkdir,
        (tmp_path / "folder").rmdir,
    ]
    for change in changes:
        seal.put_on()
        with seal.opened():
            (tmp_path / "own").touch()
            (tmp_path / "own").unlink()
        assert seal.is_whole()
        change()
        assert not seal.is_whole()
        with seal.opened():
            pass
        assert not seal.is_whole()
    seal.put_on()
    with pytest.raises(ValueError, match="ours"), seal.opened():
        raise ValueError("ours")
    assert not seal.is_whole()
    assert not Seal(tmp_path / "missing").is_whole()


def test_a_change_while_the_seal_is_put_on(tmp_path: Path) -> None:
    """And a file system that sets another time than it is told."""
    seal, utime = Seal(tmp_path), os.utime

    def set_then_change(*args: Any, **kwargs: Any) -> None:
        utime(*args, **kwargs)
        (tmp_path / "file").touch()

    for careless in (set_then_change, lambda *args, **kwargs: None):
        with mock.patch.object(os, "utime", careless):
            seal.put_on()
        assert not seal.is_whole()
    seal.put_on()
    assert seal.is_whole()
