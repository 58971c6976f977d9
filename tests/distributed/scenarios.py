"""What four ranks do, see test_ranks.py. Run by torch.distributed.run; the folder is the argument.

Every rank keeps a codec.Tracker of each of its chunks beside the writer: what is loaded, whole,
must be what these are when they are put together, to the last bit.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
import types
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import codec
from codec.dcp import ChainReader, ChainWriter, needed
from codec.errors import StepOrderError
from codec.storage import directory as storage

TIMEOUT = timedelta(seconds=600)
SHAPES = {"even": (16, 6), "uneven": (10, 7), "few": (3, 20), "wide": (6, 33), "grid": (9, 10)}
Tensors = dict[str, torch.Tensor]


def values(step: int) -> Tensors:
    """Whole tensors, the same on every rank: a random walk."""
    made = {}
    for i, (name, shape) in enumerate({**SHAPES, **{f"r{i}": (40,) for i in range(4)}}.items()):
        rng = torch.Generator().manual_seed(i)
        made[name] = torch.randn(shape, generator=rng)
        for _ in range(step):
            made[name] += 0.01 * torch.randn(shape, generator=rng)
    return made


class Reference:
    """Tracks of chunks, each by itself."""

    def __init__(self) -> None:
        self.trackers: dict[str, codec.Tracker] = {}

    def step(self, tensors: Tensors) -> Tensors:
        """The tracks of this rank's parts, as tensors of the same kind."""
        return {name: self._moved(name, tensor) for name, tensor in tensors.items()}

    def _moved(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        local = local.detach().clone()
        if name in self.trackers:
            self.trackers[name].step({"w": local})
        else:
            self.trackers[name] = codec.Tracker({"w": local}, 2, "tensor")
        moved = torch.from_numpy(self.trackers[name].state["w"].copy())
        if not isinstance(tensor, DTensor):
            return moved
        return DTensor.from_local(
            moved, tensor.device_mesh, tensor.placements, shape=tensor.shape, stride=tensor.stride()
        )


def whole(tensors: Tensors) -> Tensors:
    """From shards; all ranks of their mesh."""
    return {n: t.full_tensor() if isinstance(t, DTensor) else t for n, t in tensors.items()}


def mesh_of(n: int) -> DeviceMesh:
    """The first n ranks; all ranks call it."""
    return DeviceMesh("cpu", list(range(n)))


def sharded(tensors: Tensors, mesh: DeviceMesh, grid: DeviceMesh | None = None) -> Tensors:
    """By rows, "wide" by columns, "grid" by both where there is a mesh of two dimensions."""
    made: Tensors = {}
    for name, tensor in tensors.items():
        if name not in SHAPES:
            made[name] = tensor.clone()
        elif name == "grid" and grid is not None:
            made[name] = distribute_tensor(tensor, grid, [Shard(0), Shard(1)])
        else:
            made[name] = distribute_tensor(tensor, mesh, [Shard(int(name == "wide"))])
    return made


def zeros(tensors: Tensors) -> Tensors:
    return {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}


def same(found: Tensors, expected: Tensors, what: object = "") -> None:
    """To the last bit."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), (what, name)


def placed(tensors: Tensors, mesh: DeviceMesh, dim: int) -> Tensors:
    """Shards of this rank; without collectives, which not all dtypes take."""
    n, rank, made = mesh.size(), dist.get_rank(), {}
    for name, tensor in tensors.items():
        local = tensor.chunk(n, dim)[rank].contiguous()
        shape = {"shape": tensor.shape, "stride": tensor.stride()}
        made[name] = DTensor.from_local(local, mesh, [Shard(dim)], run_check=False, **shape)
    return made


def typed(mesh: DeviceMesh, dim: int) -> Tensors:
    """What is exact, of other dtypes."""
    whole_of = values(0)["even"]
    dtypes = (torch.bfloat16, torch.float8_e5m2, torch.complex128, torch.bool)
    return placed({str(dtype): whole_of.to(dtype) for dtype in dtypes}, mesh, dim)


def bits_of(tensor: DTensor) -> torch.Tensor:
    """Of its local part."""
    return tensor.to_local().contiguous().view(torch.uint8)


def loaded(path: Path, state: Tensors) -> Tensors:
    """What a step holds of these tensors."""
    found = zeros(state)
    dcp.load(found, storage_reader=ChainReader(path))
    return whole(found)


def owners(step: Path) -> dict[str, int]:
    """Name -> rank whose record it is in."""
    data = ChainReader(step).read_metadata().storage_data
    return {index.fqn: int(of["of"]["file"].split("_")[2]) for index, of in data.items()}


def resharding(folder: Path, n: int, groups: dict[int, Any]) -> None:
    """Saved on n ranks, loaded on 1, 2 and 4, with other shards."""
    rank = dist.get_rank()
    mesh, grid = mesh_of(n), DeviceMesh("cpu", [[0, 1], [2, 3]])
    expected: list[Any] = [None]
    if rank < n:
        writer, reference = ChainWriter(bits=2), Reference()
        for step in range(3):
            state = sharded(values(step), mesh, grid if n == 4 else None)
            expected = [whole(reference.step(state))]
            dcp.save(
                {"model": state, "step": step, "typed": typed(mesh, 0)},
                storage_writer=writer,
                checkpoint_id=folder / f"{step}",
                process_group=groups[n],
            )
    dist.broadcast_object_list(expected)
    assert not torch.equal(expected[0]["even"], values(2)["even"])
    reader = ChainReader(folder / "2")
    if rank == 0:
        found = zeros(values(0))
        dcp.load({"model": found}, storage_reader=reader, no_dist=True)
        same(found, expected[0], "on 1")
    for m in (2, 4):
        mesh = mesh_of(m)
        for dim in (0, 1):
            if rank < m:
                found = {
                    name: distribute_tensor(torch.zeros(shape), mesh, [Shard(dim)])
                    for name, shape in SHAPES.items()
                }
                state = {"model": found, "step": 0}
                dcp.load(state, storage_reader=reader, process_group=groups[m])
                same(whole(found), {name: expected[0][name] for name in SHAPES}, (m, dim))
                assert state["step"] == 2
        if rank < m == 2:
            expected_of, found = typed(mesh, 1), typed(mesh, 1)
            for tensor in found.values():
                tensor.to_local().view(torch.uint8).zero_()
            dcp.load({"typed": found}, storage_reader=reader, process_group=groups[m])
            for name, tensor in expected_of.items():
                assert torch.equal(found[name].to_local().view(torch.uint8), bits_of(tensor)), name
    placements = [Replicate(), Shard(1)]
    found = {"grid": distribute_tensor(torch.zeros(SHAPES["grid"]), grid, placements)}
    dcp.load({"model": found}, storage_reader=reader)
    same(whole(found), {"grid": expected[0]["grid"]})


def exact_values(step: int) -> Tensors:
    """Whole tensors of which some elements change a little at each step, NaNs with payloads and
    negative zeros among them."""
    rng = torch.Generator().manual_seed(0)
    floats, halves = torch.randn((50, 84), generator=rng), torch.randn((50, 84), generator=rng)
    for _ in range(step):
        floats *= 1 + 0.001 * (torch.rand((50, 84), generator=rng) < 0.2)
        halves *= 1 + 0.02 * (torch.rand((50, 84), generator=rng) < 0.05)
    numbers = (1000 * floats).long()
    special = torch.tensor([0x7FC00001 + step, -0x7FFFFFFF - 1, 1, -0x3EDCBB - step])
    for row in (0, 49):
        floats.view(torch.int32)[row, :4] = special.int()
    half = halves.bfloat16()
    half.view(torch.int16)[20, :3] = torch.tensor([0x7FC1 + step, -0x8000, -0x3F]).short()
    return {"floats": floats, "half": half, "numbers": numbers}


def exact(folder: Path, groups: dict[int, Any]) -> None:
    """Exact tensors are residuals on 1, 2 and 4 ranks, also after a restart, and come back to the
    last bit on any of these numbers with other shards."""
    rank = dist.get_rank()
    meshes = {n: mesh_of(n) for n in (1, 2, 4)}
    for n, mesh in meshes.items():
        writer = ChainWriter(bits=2)
        for step in range(4) if rank < n else ():
            path = folder / f"{n}" / f"{step}"
            if step == 3:
                writer = ChainWriter(bits=2, resume=path.with_name("2"))
            state = {"ema": placed(exact_values(step), mesh, 0)}
            dcp.save(state, storage_writer=writer, checkpoint_id=path, process_group=groups[n])
            assert needed(path) == [path.with_name(f"{i}") for i in range(step + 1)]
            records = list(path.glob(f"__{rank}_*"))
            nbytes = sum(t.to_local().nbytes for t in state["ema"].values())
            assert len(records) == 1
            assert records[0].stat().st_size * (3 if step else 1) < nbytes + 3000, (n, step)
        dist.barrier()
        for m, other in meshes.items():
            for dim in (0, 1) if rank < m else ():
                expected, found = (placed(exact_values(3), other, dim) for _ in range(2))
                for tensor in found.values():
                    bits_of(tensor).zero_()
                reader = ChainReader(folder / f"{n}" / "3")
                dcp.load({"ema": found}, storage_reader=reader, process_group=groups[m])
                for name, tensor in expected.items():
                    assert torch.equal(bits_of(found[name]), bits_of(tensor)), (n, m, dim, name)


def owner(folder: Path) -> None:
    """Replicated tensors change their owner, and get it back: its bundle has gone on meanwhile."""
    writer, reference, mesh = ChainWriter(bits=2), Reference(), mesh_of(4)
    planners = {2: DefaultSavePlanner(dedup_save_to_lowest_rank=True)}
    names = [f"r{i}" for i in range(4)]
    first: dict[str, int] = {}
    for step in range(4):
        all_of_them = values(step)
        state = sharded({name: all_of_them[name] for name in ("even", *names)}, mesh)
        path = folder / f"{step}"
        dcp.save(state, storage_writer=writer, planner=planners.get(step), checkpoint_id=path)
        now = {name: rank for name, rank in owners(path).items() if name in names}
        first = first or now
        stays = {name for name in state if name == "even" or now[name] == first[name]}
        assert set(now.values()) == ({0} if step == 2 else {1, 2, 3})
        assert len(stays) == (1 if step == 2 else 5)
        expected = {**state, **reference.step({n: t for n, t in state.items() if n in stays})}
        same(loaded(path, state), whole(expected), step)


class Net(torch.nn.Module):
    """Layers whose rows four ranks cannot share evenly."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(10, 27), torch.nn.BatchNorm1d(27), torch.nn.Linear(27, 5)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, 10) to (n, 5)."""
        found: torch.Tensor = self.layers(x)
        return found


def fsdp(folder: Path, groups: dict[int, Any]) -> None:
    """FSDP2 and AdamW, by get_state_dict: trained on 4 ranks, loaded on 4 and on 2, with moments
    that are exact, and with those of the default."""

    def made(seed: int, mesh: DeviceMesh) -> tuple[Net, torch.optim.AdamW]:
        torch.manual_seed(seed)
        net = Net()
        fully_shard(net, mesh=mesh)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        net(torch.randn(8, 10)).square().mean().backward()  # the optimizer gets its state
        optimizer.step()
        return net, optimizer

    mesh4, mesh2 = mesh_of(4), mesh_of(2)
    net, optimizer = made(0, mesh4)
    writer, reference = ChainWriter(bits=2, policy={"optim.*": "exact"}), Reference()
    default = ChainWriter(bits=2)
    for step in range(3):
        model, optim = get_state_dict(net, optimizer)
        lossy = {n: t for n, t in model.items() if "running" not in n and "tracked" not in n}
        tracks = reference.step(lossy)
        state = {"model": model, "optim": optim}
        path = folder / f"{step}"
        dcp.save(state, storage_writer=writer, checkpoint_id=path)
        dcp.save(state, storage_writer=default, checkpoint_id=folder / f"default-{step}")
        live = {name: tensor.clone() for name, tensor in model.items()}
        saved = whole({**live, **tracks}), moments_of(optim)
        optimizer.zero_grad()
        net(torch.randn(8, 10)).square().mean().backward()
        optimizer.step()
    for mesh, n in ((mesh4, 4), (mesh2, 2)):
        if dist.get_rank() >= n:
            continue
        other, its = made(1, mesh)
        model, optim = get_state_dict(other, its)
        state = {"model": model, "optim": optim}
        dcp.load(state, storage_reader=ChainReader(path), process_group=groups[n])
        set_state_dict(other, its, model_state_dict=state["model"], optim_state_dict=state["optim"])
        model, optim = get_state_dict(other, its)
        same(whole(model), saved[0], n)
        same(moments_of(optim), saved[1], n)
        last = folder / f"default-{step}"
        dcp.load(state, storage_reader=ChainReader(last), process_group=groups[n])
        same(whole(state["model"]), saved[0], n)
        near(moments_of(state["optim"]), saved[1])
    assert any(not torch.equal(saved[0][n], t.full_tensor()) for n, t in lossy.items())


def near(found: Tensors, expected: Tensors) -> None:
    """As lossy moments are: the matrices' not the same, and none of the squares is negative."""
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        off = float((found[name] - tensor).norm() / tensor.norm())
        assert off < 0.5, (name, off)
        assert off > 0 or tensor.ndim < 2, name
        assert "exp_avg_sq" not in name or float(found[name].min()) >= 0


def moments_of(optim: dict[str, Any]) -> Tensors:
    """Of the optimizer's state, whole."""
    found = {f"{n}.{k}": t for n, each in optim["state"].items() for k, t in each.items()}
    return {name: tensor.clone() for name, tensor in whole(found).items()}


def full(folder: Path) -> None:
    """One rank's disk is full, then the coordinator's, for `.metadata`: nobody's track moves, and
    the same step can be saved again."""
    writer, reference, mesh = ChainWriter(bits=2), Reference(), mesh_of(4)
    system = types.SimpleNamespace(**vars(os))
    system.fsync = refuse
    for step in range(4):
        path, state = folder / f"{step}", sharded(values(step), mesh)
        if step in (1, 2):
            failing, place = ((1, storage), (0, dcp.filesystem))[step - 1]
            if dist.get_rank() == failing:
                place.os = system
            with pytest.raises(CheckpointException) as error:
                dcp.save(state, storage_writer=writer, checkpoint_id=path)
            failures = error.value.failures
            assert {r: type(exc[0]) for r, exc in failures.items()} == {failing: codec.WriteError}
            place.os = os
            assert not (path / ".metadata").exists()
            dist.barrier()
            state = sharded(values(step + 1), mesh)  # of another step, into what the first has left
        expected = whole(reference.step(state))
        dcp.save(state, storage_writer=writer, checkpoint_id=path)
        same(loaded(path, state), expected, step)


def budgets(folder: Path, groups: dict[int, Any]) -> None:
    """Of two ranks each is within its share, also of replicated tensors that only one of them
    saves; together they are within the budget, and near it."""
    rank, mesh, share = dist.get_rank(), mesh_of(2), 0.05
    if rank >= 2:
        return
    shapes = {"rows": (200, 80), "columns": (40, 300), "replicated": (3000,), "bias": (50,)}
    writer = ChainWriter(budget=share)
    for step in range(4):
        state: Tensors = {}
        for i, (name, shape) in enumerate(shapes.items()):
            rng = torch.Generator().manual_seed(10 * step + i)
            tensor = 0.01 * step * torch.randn(shape, generator=rng)
            sharded_by = {"rows": 0, "columns": 1}.get(name)
            if sharded_by is not None:
                tensor = distribute_tensor(tensor, mesh, [Shard(sharded_by)])
            state[name] = tensor
        path = folder / f"{step}"
        dcp.save(state, storage_writer=writer, checkpoint_id=path, process_group=groups[2])
        if not step:
            continue
        sizes = [
            sum(f.stat().st_size for f in path.glob(f"__{r}_*.delta.safetensors")) for r in (0, 1)
        ]
        owner_of = owners(path)
        for r in (0, 1):
            own = [n for n in ("replicated", "bias") if owner_of[n] == r]
            n = (200 * 80 + 40 * 300) // 2 + sum(shapes[name][0] for name in own)
            assert 0.9 * share * 4 * n < sizes[r] <= share * 4 * n, (step, r)
        found = zeros(state)
        dcp.load(found, storage_reader=ChainReader(path), process_group=groups[2])
        restored, live = whole(found), whole(state)
        for name, tensor in live.items():
            off = float((restored[name] - tensor).norm() / tensor.norm())
            assert 0 < off < 0.9, (name, off)


def refuse(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def mixed(folder: Path, groups: dict[int, Any]) -> None:
    """With and without collectives into one run: one chain, also for those who resume; the one
    kind of save leaves alone what the other has made whole. Rank 3 has no element of the tensor,
    and yet its bases are due when those of the others are."""
    writer, reference = ChainWriter(bits=2, base_every=4), Reference()
    mesh, half = mesh_of(4), mesh_of(2)
    for step, shared in enumerate((True, False, True, False, True, True)):
        path = folder / f"{step}"
        if step in (2, 3):
            writer = ChainWriter(bits=2, resume=folder / f"{step - 1}", base_every=4)
        reference = Reference() if step == 5 else reference
        state = sharded({"few": values(step)["few"]}, mesh)
        expected = whole(reference.step(state))
        dcp.save(state, storage_writer=writer, checkpoint_id=path, use_collectives=shared)
        same(loaded(path, state), expected, step)
        chain = [path] if step == 5 else [folder / f"{i}" for i in range(step + 1)]
        assert needed(path) == chain, step
        if step == 1 and dist.get_rank() < 2:  # each has a row of its own, and is to have two
            wider = {"few": distribute_tensor(torch.zeros(SHAPES["few"]), half, [Shard(0)])}
            with pytest.raises(codec.ChainError, match=r"\['few'\]; load on as many ranks"):
                dcp.load(wider, storage_reader=ChainReader(path), process_group=groups[2])
        dist.barrier()
        for other in (True, False):
            with pytest.raises((CheckpointException, StepOrderError), match="overwritten"):
                dcp.save(
                    state,
                    storage_writer=ChainWriter(bits=2),
                    checkpoint_id=path,
                    use_collectives=other,
                )
            dist.barrier()
        same(loaded(path, state), expected, "still there")


def contested(folder: Path) -> None:
    """Another job removes what all ranks have written, when all but `.metadata` is; a third one
    then makes the step whole. Nobody's track moves."""
    writer, reference, mesh = ChainWriter(bits=2), Reference(), mesh_of(4)
    finish = ChainWriter.finish

    def intruded(self: ChainWriter, **given: Any) -> None:
        """Of the coordinator alone."""
        ChainWriter.finish = lambda *_, **__: 1 / 0  # type: ignore[method-assign, assignment]
        with pytest.raises(CheckpointException, match="division"):
            dcp.save(
                {}, storage_writer=ChainWriter(bits=2), checkpoint_id=folder / "1", no_dist=True
            )
        finish(self, **given)

    for step in range(3):
        path, state = folder / f"{step}", sharded(values(step), mesh)
        if step == 1:
            ChainWriter.finish = intruded  # type: ignore[method-assign]
            with pytest.raises(CheckpointException, match="another job saving") as error:
                dcp.save(state, storage_writer=writer, checkpoint_id=path)
            ChainWriter.finish = finish  # type: ignore[method-assign]
            assert list(error.value.failures) == [0]
            assert not (path / ".metadata").exists()
            dist.barrier()
            dcp.save(state, storage_writer=ChainWriter(bits=8), checkpoint_id=path)
            continue
        expected = whole(reference.step(state))
        dcp.save(state, storage_writer=writer, checkpoint_id=path)
        same(loaded(path, state), expected, step)
    assert needed(path) == [folder / "0", folder / "2"]


def overlap(folder: Path, group: Any) -> None:
    """Asynchronous saves that nobody waits for, while the state goes on; in a group of their own,
    for the training has collectives too."""
    writer, reference, mesh = ChainWriter(bits=2), Reference(), mesh_of(4)
    state = sharded(values(0), mesh)
    expected, saves = [], []
    for step in range(3):
        for name, tensor in sharded(values(step), mesh).items():
            state[name].copy_(tensor)
        expected.append(reference.step(state))
        path = folder / f"{step}"
        save = dcp.async_save(state, storage_writer=writer, checkpoint_id=path, process_group=group)
        saves.append(save)
    for save in saves:
        save.result()
    for step, tracks in enumerate(expected):
        same(loaded(folder / f"{step}", state), whole(tracks), step)


def alone(folder: Path) -> None:
    """Without collectives every rank has metadata of its own."""
    writer, reference, rank = ChainWriter(bits=2), Reference(), dist.get_rank()
    for step in range(2):
        state = {"w": values(step)["wide"] + rank}
        expected = reference.step(state)
        path = folder / f"{step}"
        dcp.save(state, storage_writer=writer, checkpoint_id=path, use_collectives=False)
        same(loaded(path, state), expected, step)
    writer = ChainWriter(bits=2, resume=path)
    state = {"w": values(2)["wide"] + rank}
    expected = reference.step(state)
    dcp.save(state, storage_writer=writer, checkpoint_id=folder / "2", use_collectives=False)
    same(loaded(folder / "2", state), expected, "resumed")


def patterns(folder: Path) -> None:
    """A pattern may match what another rank has; one that matches nothing is refused on all ranks,
    but without collectives, where no rank knows what the others have."""
    rank = dist.get_rank()
    state = {f"rank{rank}": torch.ones(40) * rank}
    own = {f"rank{i}": "exact" for i in range(4)}
    dcp.save(state, storage_writer=ChainWriter(folder / "each", policy=own))
    wrong = ChainWriter(folder / "wrong", policy={**own, "ramk*": "exact"})
    with pytest.raises(CheckpointException, match="matches nothing") as error:
        dcp.save(state, storage_writer=wrong)
    assert {type(exc[0]) for exc in error.value.failures.values()} == {codec.SettingsError}
    dist.barrier()
    assert not list((folder / "wrong").iterdir())
    alone = ChainWriter(folder / "alone", policy=own)
    dcp.save(state, storage_writer=alone, use_collectives=False)


def keeping(folder: Path) -> None:
    """The newest two that all ranks can load stay, with what they build on, though saves of one
    rank fail; then with metadata of each rank's own, where the others are behind the coordinator:
    it removes steps before they begin to write, and before they have read what to resume from."""
    writer, mesh, rank = ChainWriter(bits=2, keep=2, base_every=1), mesh_of(4), dist.get_rank()
    system = types.SimpleNamespace(**vars(os))
    system.fsync = refuse
    whole_ones: list[int] = []
    write_data, finish = ChainWriter.write_data, ChainWriter.finish

    def after_the_coordinator(self: ChainWriter, *given: Any) -> Any:
        dist.recv(torch.empty(1), src=0)
        return write_data(self, *given)

    def before_the_others(self: ChainWriter, **given: Any) -> None:
        finish(self, **given)
        for other in range(1, 4):
            dist.send(torch.empty(1), dst=other)

    def save(step: int, fails: bool, shared: bool) -> None:
        state = sharded({"even": values(step)["even"]}, mesh)
        if fails and rank == 1:
            storage.os = system  # type: ignore[assignment]
        try:
            path = folder / f"{step}"
            dcp.save(state, storage_writer=writer, checkpoint_id=path, use_collectives=shared)
        except (CheckpointException, codec.WriteError):
            assert fails
            if not shared:
                dist.barrier()  # as DCP's at the end of a save
        storage.os = os
        if not fails:
            whole_ones.append(step)
        dist.barrier()
        for kept in whole_ones[-2:]:  # whatever was removed
            dcp.load(zeros(state), storage_reader=ChainReader(folder / f"{kept}"))
        dist.barrier()

    def left() -> set[int]:
        found = {int(path.name) for path in folder.iterdir()}
        dist.barrier()
        return found

    for step in range(10):
        save(step, step in (4, 5, 7), shared=True)
    assert left() == {6, 8, 9}, "8 builds on 6"
    if rank == 0:
        ChainWriter.finish = before_the_others  # type: ignore[method-assign]
    else:
        ChainWriter.write_data = after_the_coordinator  # type: ignore[method-assign]
    for step in range(10, 26):
        if step in (18, 19):
            writer = ChainWriter(bits=2, keep=2, base_every=1, resume=folder / f"{step - 1}")
        save(step, step in (13, 14, 15), shared=False)
    ChainWriter.write_data, ChainWriter.finish = write_data, finish  # type: ignore[method-assign]
    # 23 builds on 22. Of 25, the coordinator could see its own part only.
    assert left() == {22, 23, 24, 25}


def main(folder: Path, *names: str) -> None:
    """Those named, or all; rank 0 notes what has been done."""
    dist.init_process_group("gloo", timeout=TIMEOUT)
    torch.set_num_threads(1)
    codec.set_threads(1)
    warnings.simplefilter("ignore")  # torch's own
    # DCP's, with a traceback for each load of what was saved without collectives.
    logging.getLogger().addFilter(lambda record: "Falling back to rank local" not in record.msg)
    groups = {n: dist.new_group(list(range(n)), timeout=TIMEOUT) for n in (1, 2, 4)}
    scenarios: dict[str, Callable[[Path], None]] = {
        "from 2": lambda path: resharding(path, 2, groups),
        "from 4": lambda path: resharding(path, 4, groups),
        "exact": lambda path: exact(path, groups),
        "owner": owner,
        "fsdp": lambda path: fsdp(path, groups),
        "full": full,
        "mixed": lambda path: mixed(path, groups),
        "contested": contested,
        "overlap": lambda path: overlap(path, groups[4]),
        "alone": alone,
        "patterns": patterns,
        "keeping": keeping,
        "budgets": lambda path: budgets(path, groups),
    }
    for name in names or scenarios:
        scenarios[name](folder / name)
        dist.barrier()
        if dist.get_rank() == 0:
            with open(folder / "done", "a") as file:
                file.write(f"{name}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
    # DTensor's caches keep a process group alive, with threads that may still hold a tensor. One
    # that lets it go while the interpreter ends aborts the process, so the interpreter does not.
    os._exit(0)
