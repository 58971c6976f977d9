"""Saves and loads of several ranks, which are forks of this process, by gloo.

Besides the writer, each rank keeps a codec.Tracker for each of its chunks. A loaded tensor must
equal the joined tracks of its chunks, to the last bit.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import codec
from codec.dcp import ChainReader, ChainWriter, needed, newest_step
from codec.dcp.files import step_at
from codec.dcp.rank_writer import RankWriter, read_item
from codec.storage import directory as storage
from codec.storage.folder import Disk
from tests import s3
from tests.codec.storage.way import Way

TIMEOUT = timedelta(seconds=600)
SHAPES = {"even": (16, 6), "uneven": (10, 7), "few": (3, 20), "wide": (6, 33), "grid": (9, 10)}
GROUPS: dict[int, Any] = {}  # of the first 1, 2 and 4 ranks
Tensors = dict[str, torch.Tensor]


def ranks(n: int, what: Callable[[Path], None], folder: Path) -> list[int]:
    """Run what in n forked ranks. Return each rank's exit code: 0, 1 after an exception, -N if
    signal N ended it. After one fails, the others are killed."""
    pids, ends = list[int](), dict[int, int]()
    for rank in range(n):
        pid = os.fork()
        if pid == 0:
            as_rank(rank, n, what, folder)
        pids.append(pid)
    while len(ends) < n:
        time.sleep(0.01)
        for pid in [pid for pid in pids if pid not in ends]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                ends[pid] = os.waitstatus_to_exitcode(status)
            elif any(ends.values()):
                os.kill(pid, signal.SIGKILL)
    return [ends[pid] for pid in pids]


def as_rank(rank: int, n: int, what: Callable[[Path], None], folder: Path) -> NoReturn:
    """All that a fork does."""
    code = 1
    try:
        warnings.simplefilter("ignore")  # torch's own
        codec.set_threads(1)
        if sys.platform == "linux":
            # The loopback, even if this host's name resolves to another address.
            os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        store = dist.FileStore(f"{folder}.{what.__name__}", n)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=n, timeout=TIMEOUT)
        for size in (1, 2, 4):
            if size <= n:
                GROUPS[size] = dist.new_group(list(range(size)), timeout=TIMEOUT)
        what(folder)
        dist.barrier()
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def walk(shape: tuple[int, ...], seed: int, step: int) -> torch.Tensor:
    """A random walk, the same on every rank."""
    rng = torch.Generator().manual_seed(seed)
    tensor = torch.randn(shape, generator=rng)
    for _ in range(step):
        tensor += 0.01 * torch.randn(shape, generator=rng)
    return tensor


def values(step: int) -> Tensors:
    """Whole tensors."""
    shapes = {**SHAPES, **{f"r{i}": (40,) for i in range(4)}}
    return {name: walk(shape, i, step) for i, (name, shape) in enumerate(shapes.items())}


class Reference:
    """Tracks each chunk with a Tracker of its own, to compare with what is loaded."""

    def __init__(self) -> None:
        self.trackers: dict[str, codec.Tracker] = {}

    def step(self, tensors: Tensors) -> Tensors:
        """The tracks of this rank's parts, as tensors of the same kind."""
        return {name: self._moved(name, tensor) for name, tensor in tensors.items()}

    def _moved(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        state = {"w": local.detach().clone()}
        if name in self.trackers:
            self.trackers[name].step(state)
        else:
            self.trackers[name] = codec.Tracker(state, 2, "tensor")
        moved = torch.from_numpy(self.trackers[name].state["w"].copy())
        if not isinstance(tensor, DTensor):
            return moved
        shape = {"shape": tensor.shape, "stride": tensor.stride()}
        return DTensor.from_local(moved, tensor.device_mesh, tensor.placements, **shape)


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


def same(back: Tensors, expected: Tensors, what: object = "") -> None:
    """To the last bit."""
    assert back.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(back[name], tensor), (what, name)


def placed(tensors: Tensors, mesh: DeviceMesh, dim: int) -> Tensors:
    """Shards of this rank; without collectives, which not all dtypes take."""
    n, rank, made = mesh.size(), dist.get_rank(), {}
    for name, tensor in tensors.items():
        local = tensor.chunk(n, dim)[rank].contiguous()
        shape = {"shape": tensor.shape, "stride": tensor.stride()}
        made[name] = DTensor.from_local(local, mesh, [Shard(dim)], run_check=False, **shape)
    return made


def bits_of(tensor: DTensor) -> torch.Tensor:
    """Of its local part."""
    return tensor.to_local().contiguous().view(torch.uint8)


def loads_bits(path: Path | str, key: str, tensors: Tensors, mesh: DeviceMesh, dim: int) -> None:
    """These shards come back to the last bit, whatever their dtype."""
    expected, back = (placed(tensors, mesh, dim) for _ in range(2))
    for tensor in back.values():
        tensor.to_local().view(torch.uint8).zero_()
    dcp.load({key: back}, storage_reader=ChainReader(path), process_group=GROUPS[mesh.size()])
    for name, tensor in expected.items():
        assert torch.equal(bits_of(back[name]), bits_of(tensor)), (mesh.size(), dim, name)


def loaded(path: Path | str, state: Tensors) -> Tensors:
    """What a step holds of these tensors."""
    back = zeros(state)
    dcp.load(back, storage_reader=ChainReader(path))
    return whole(back)


def owners(step: Path) -> dict[str, int]:
    """Name -> rank whose record it is in."""
    data = ChainReader(step).read_metadata().storage_data
    return {index.fqn: of["of"]["rank"] for index, of in data.items()}


def resharding(n: int, folder: Path) -> None:
    """Saved on n ranks, loaded on 1, 2 and 4, with other shards."""
    rank = dist.get_rank()
    mesh, grid = mesh_of(n), DeviceMesh("cpu", [[0, 1], [2, 3]])
    dtypes = (torch.bfloat16, torch.float8_e5m2, torch.complex128, torch.bool)
    typed = {str(dtype): values(0)["even"].to(dtype) for dtype in dtypes}  # exact
    expected: list[Any] = [None]
    if rank < n:
        writer, reference = ChainWriter(bits=2), Reference()
        for step in range(3):
            model = sharded(values(step), mesh, grid if n == 4 else None)
            expected = [whole(reference.step(model))]
            state = {"model": model, "step": step, "typed": placed(typed, mesh, 0)}
            path = f"{folder}/{step}"
            dcp.save(state, storage_writer=writer, checkpoint_id=path, process_group=GROUPS[n])
    dist.broadcast_object_list(expected)
    assert not torch.equal(expected[0]["even"], values(2)["even"])
    reader = ChainReader(f"{folder}/2")
    if rank == 0:
        back = zeros(values(0))
        dcp.load({"model": back}, storage_reader=reader, no_dist=True)
        same(back, expected[0], "on 1")
    for m in (2, 4):
        mesh = mesh_of(m)
        for dim in (0, 1) if rank < m else ():
            back = {
                name: distribute_tensor(torch.zeros(shape), mesh, [Shard(dim)])
                for name, shape in SHAPES.items()
            }
            state = {"model": back, "step": 0}
            dcp.load(state, storage_reader=reader, process_group=GROUPS[m])
            same(whole(back), {name: expected[0][name] for name in SHAPES}, (m, dim))
            assert state["step"] == 2
        if rank < m == 2:
            loads_bits(f"{folder}/2", "typed", typed, mesh, 1)
    placements = [Replicate(), Shard(1)]
    back = {"grid": distribute_tensor(torch.zeros(SHAPES["grid"]), grid, placements)}
    dcp.load({"model": back}, storage_reader=reader)
    same(whole(back), {"grid": expected[0]["grid"]})


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


def exact(folder: Path) -> None:
    """Exact tensors are residuals on 1, 2 and 4 ranks, also after a restart, and come back to the
    last bit on another of these numbers with other shards."""
    rank, meshes = dist.get_rank(), {n: mesh_of(n) for n in (1, 2, 4)}
    for n, m in ((1, 4), (2, 1), (4, 2)):
        writer = ChainWriter(bits=2)
        for step in range(3) if rank < n else ():
            path = folder / f"{n}" / f"{step}"
            if step == 2:
                writer = ChainWriter(bits=2, resume=path.with_name("1"))
            state = {"ema": placed(exact_values(step), meshes[n], 0)}
            dcp.save(state, storage_writer=writer, checkpoint_id=path, process_group=GROUPS[n])
            assert needed(path) == [path.with_name(f"{i}") for i in range(step + 1)]
            (record,) = path.glob(f"__{rank}_*")
            nbytes = sum(t.to_local().nbytes for t in state["ema"].values())
            assert record.stat().st_size * (3 if step else 1) < nbytes + 3000, (n, step)
        dist.barrier()
        for dim in (0, 1) if rank < m else ():
            loads_bits(folder / f"{n}" / "2", "ema", exact_values(2), meshes[m], dim)


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


def fsdp(folder: Path) -> None:
    """FSDP2 and AdamW, by get_state_dict: trained on 4 ranks, loaded on 4 and on 2, with moments
    that are exact, and with those of the default."""
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.fsdp import fully_shard

    def made(seed: int, mesh: DeviceMesh) -> tuple[Any, torch.optim.AdamW]:
        torch.manual_seed(seed)
        net = torch.nn.Sequential(  # layers whose rows four ranks cannot share evenly
            torch.nn.Linear(10, 27), torch.nn.BatchNorm1d(27), torch.nn.Linear(27, 5)
        )
        fully_shard(net, mesh=mesh)
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        train(net, optimizer)  # the optimizer gets its state
        return net, optimizer

    def train(net: Any, optimizer: torch.optim.AdamW) -> None:
        optimizer.zero_grad()
        net(torch.randn(8, 10)).square().mean().backward()
        optimizer.step()

    mesh4, mesh2 = mesh_of(4), mesh_of(2)
    net, optimizer = made(0, mesh4)
    writer, reference = ChainWriter(bits=2, policy={"optim.*": "exact"}), Reference()
    default = ChainWriter(bits=2)
    for step in range(3):
        model, optim = get_state_dict(net, optimizer)
        lossy = {n: t for n, t in model.items() if "running" not in n and "tracked" not in n}
        tracks = reference.step(lossy)
        state = {"model": model, "optim": optim}
        path, last = folder / f"{step}", folder / f"default-{step}"
        dcp.save(state, storage_writer=writer, checkpoint_id=path)
        dcp.save(state, storage_writer=default, checkpoint_id=last)
        live = {name: tensor.clone() for name, tensor in model.items()}
        saved = whole({**live, **tracks}), moments_of(optim)
        train(net, optimizer)
    for mesh, n in ((mesh4, 4), (mesh2, 2)):
        if dist.get_rank() >= n:
            continue
        other, its = made(1, mesh)
        model, optim = get_state_dict(other, its)
        state = {"model": model, "optim": optim}
        dcp.load(state, storage_reader=ChainReader(path), process_group=GROUPS[n])
        set_state_dict(other, its, model_state_dict=state["model"], optim_state_dict=state["optim"])
        model, optim = get_state_dict(other, its)
        same(whole(model), saved[0], n)
        same(moments_of(optim), saved[1], n)
        dcp.load(state, storage_reader=ChainReader(last), process_group=GROUPS[n])
        same(whole(state["model"]), saved[0], n)
        near(moments_of(state["optim"]), saved[1])
    assert any(not torch.equal(saved[0][n], t.full_tensor()) for n, t in lossy.items())


def pairs(folder: Path) -> None:
    """Moments of replicated parameters: DCP gives each tensor to one rank, and both of a parameter
    come to the same. Also where planners keep plans, and the plan of one rank changes."""
    for planner in (DefaultSavePlanner(), DefaultSavePlanner(enable_plan_caching=True)):
        writer = ChainWriter()
        for step in range(5):
            of = {n: {"exp_avg": t, "exp_avg_sq": t**2} for n, t in values(step).items()}
            state: dict[str, Any] = {"optim": {"state": of}}
            if dist.get_rank() == 1 and step > 1:
                state["mine"] = torch.ones(1000)
            path = folder / f"{len(list(folder.glob('*')))}"
            dist.barrier()
            dcp.save(state, storage_writer=writer, planner=planner, checkpoint_id=path)
            ranks = owners(path)
            its = [{ranks[f"optim.state.{n}.{key}"] for key in of[n]} for n in of]
            assert all(len(both) == 1 for both in its)
            assert len(set.union(*its)) > 1
            back = {n: zeros(moments) for n, moments in of.items()}
            dcp.load({"optim": {"state": back}}, storage_reader=ChainReader(path))
            for name, loaded in back.items():
                off = (loaded["exp_avg"] - of[name]["exp_avg"]).abs()
                assert (off <= 0.2501 * loaded["exp_avg_sq"].sqrt()).all(), (step, name)


def near(back: Tensors, expected: Tensors) -> None:
    """As lossy moments are: the matrices' not the same, and none of the squares is negative."""
    assert back.keys() == expected.keys()
    for name, tensor in expected.items():
        off = float((back[name] - tensor).norm() / tensor.norm())
        assert off < 0.5, (name, off)
        assert off > 0 or tensor.ndim < 2, name
        assert "exp_avg_sq" not in name or float(back[name].min()) >= 0


def moments_of(optim: dict[str, Any]) -> Tensors:
    """Of the optimizer's state, whole."""
    back = {f"{n}.{k}": t for n, each in optim["state"].items() for k, t in each.items()}
    return {name: tensor.clone() for name, tensor in whole(back).items()}


def refuse(descriptor: int) -> None:
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise OSError(errno.ENOSPC, "No space left on device")


FULL = types.SimpleNamespace(**vars(os) | {"fsync": refuse})  # os, of a full disk


def full(folder: Path) -> None:
    """One rank's disk is full, then the coordinator's, for `.metadata`: nobody's track moves, and
    the same step can be saved again."""
    writer, reference, mesh = ChainWriter(bits=2), Reference(), mesh_of(4)
    put_new = Disk.put_new

    def on_a_full_disk(*given: Any) -> None:
        storage.os = FULL  # type: ignore[assignment]
        put_new(*given)

    for step in range(4):
        path, state = folder / f"{step}", sharded(values(step), mesh)
        if step in (1, 2):
            failing = 2 - step
            if dist.get_rank() == failing == 1:
                storage.os = FULL  # type: ignore[assignment]
            elif dist.get_rank() == failing:
                Disk.put_new = on_a_full_disk  # type: ignore[method-assign]
            with pytest.raises(CheckpointException) as error:
                dcp.save(state, storage_writer=writer, checkpoint_id=path)
            failures = error.value.failures
            assert {r: type(exc[0]) for r, exc in failures.items()} == {failing: codec.WriteError}
            storage.os, Disk.put_new = os, put_new  # type: ignore[method-assign]
            assert not (path / ".metadata").exists()
            dist.barrier()
            state = sharded(values(step + 1), mesh)  # of another step, into what the first has left
        expected = whole(reference.step(state))
        dcp.save(state, storage_writer=writer, checkpoint_id=path)
        same(loaded(path, state), expected, step)


def budgets(folder: Path) -> None:
    """Of two ranks each is within its share, also of replicated tensors that only one of them
    saves; together they are within the budget, and near it."""
    mesh, share = mesh_of(2), 0.05
    if dist.get_rank() >= 2:
        return
    shapes = {"rows": (200, 80), "columns": (40, 300), "replicated": (3000,), "bias": (50,)}
    by = {"rows": [Shard(0)], "columns": [Shard(1)]}
    writer = ChainWriter(budget=share)
    for step in range(3):
        state: Tensors = {}
        for i, (name, shape) in enumerate(shapes.items()):
            rng = torch.Generator().manual_seed(10 * step + i)
            tensor = 0.01 * step * torch.randn(shape, generator=rng)
            state[name] = distribute_tensor(tensor, mesh, by[name]) if name in by else tensor
        path = folder / f"{step}"
        dcp.save(state, storage_writer=writer, checkpoint_id=path, process_group=GROUPS[2])
        if not step:
            continue
        owner_of = owners(path)
        for r in (0, 1):
            size = sum(f.stat().st_size for f in path.glob(f"__{r}_*.delta.safetensors"))
            mine = [n for n in ("replicated", "bias") if owner_of[n] == r]
            n = (200 * 80 + 40 * 300) // 2 + sum(shapes[name][0] for name in mine)
            assert 0.9 * share * 4 * n < size <= share * 4 * n, (step, r)
        back = zeros(state)
        dcp.load(back, storage_reader=ChainReader(path), process_group=GROUPS[2])
        restored, live = whole(back), whole(state)
        for name, tensor in live.items():
            off = float((restored[name] - tensor).norm() / tensor.norm())
            assert 0 < off < 0.9, (name, off)


def deltas(folder: Path) -> None:
    """One chain, also for those who resume. Rank 3 has no element of the tensor, and yet its bases
    are due when those of the others are. What is whole is left alone."""
    writer, reference, mesh = ChainWriter(bits=2, base_every=4), Reference(), mesh_of(4)
    for step in range(6):
        path = folder / f"{step}"
        if step in (2, 3):
            writer = ChainWriter(bits=2, resume=folder / f"{step - 1}", base_every=4)
        reference = Reference() if step == 5 else reference
        state = sharded({"few": values(step)["few"]}, mesh)
        expected = whole(reference.step(state))
        dcp.save(state, storage_writer=writer, checkpoint_id=path)
        same(loaded(path, state), expected, step)
        chain = [path] if step == 5 else [folder / f"{i}" for i in range(step + 1)]
        assert needed(path) == chain, step
        dist.barrier()
        if step < 2:
            with pytest.raises(CheckpointException, match="overwritten"):
                dcp.save(state, checkpoint_id=path, storage_writer=ChainWriter(bits=2))
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
        other, path = ChainWriter(bits=2), folder / "1"
        with pytest.raises(CheckpointException, match="division"):
            dcp.save({}, storage_writer=other, checkpoint_id=path, no_dist=True)
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


def overlap(folder: Path) -> None:
    """Asynchronous saves that nobody waits for, while the state goes on; in a group of their own,
    for the training has collectives too."""
    reference, mesh = Reference(), mesh_of(4)
    state, expected, saves = sharded(values(0), mesh), [], []
    given = {"storage_writer": ChainWriter(bits=2), "process_group": GROUPS[4]}
    for step in range(3):
        for name, tensor in sharded(values(step), mesh).items():
            state[name].copy_(tensor)
        expected.append(reference.step(state))
        saves.append(dcp.async_save(state, checkpoint_id=folder / f"{step}", **given))
    for save in saves:
        save.result()
    for step, tracks in enumerate(expected):
        same(loaded(folder / f"{step}", state), whole(tracks), step)


def patterns(folder: Path) -> None:
    """A pattern may match what another rank has; one that matches nothing is refused on all."""
    rank = dist.get_rank()
    state = {f"rank{rank}": torch.ones(40) * rank}
    each = {f"rank{i}": "exact" for i in range(4)}
    dcp.save(state, storage_writer=ChainWriter(folder / "each", policy=each))
    wrong = ChainWriter(folder / "wrong", policy={**each, "ramk*": "exact"})
    with pytest.raises(CheckpointException, match="matches nothing") as error:
        dcp.save(state, storage_writer=wrong)
    assert {type(exc[0]) for exc in error.value.failures.values()} == {codec.SettingsError}
    dist.barrier()
    assert not list((folder / "wrong").iterdir())


def keeping(folder: Path) -> None:
    """The newest two that all ranks can load stay, with what they build on, though saves of one
    rank fail."""
    mesh, rank = mesh_of(4), dist.get_rank()
    writer, whole_ones = ChainWriter(bits=2, keep_steps=2, base_every=1), list[int]()
    for step in range(8):
        state, path = sharded({"even": values(step)["even"]}, mesh), folder / f"{step}"
        fails = step in (2, 3, 5)
        if fails and rank == 1:
            storage.os = FULL  # type: ignore[assignment]
        try:
            dcp.save(state, storage_writer=writer, checkpoint_id=path)
        except CheckpointException:
            assert fails
        storage.os = os
        if not fails:
            whole_ones.append(step)
        dist.barrier()
        for there in whole_ones[-2:]:  # whatever was removed
            dcp.load(zeros(state), storage_reader=ChainReader(folder / f"{there}"))
        dist.barrier()
    assert {int(path.name) for path in folder.iterdir()} == {4, 6, 7}, "6 builds on 4"
    dist.barrier()


from_2, from_4 = partial(resharding, 2), partial(resharding, 4)
from_2.__name__, from_4.__name__ = "from_2", "from_4"  # type: ignore[attr-defined]
SCENARIOS = [from_2, from_4, exact, owner, fsdp, full, budgets, deltas, contested, overlap]
SCENARIOS += [patterns, keeping, pairs]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_on_four_ranks(scenario: Callable[[Path], None], tmp_path: Path) -> None:
    """See there what each of them shows."""
    assert ranks(4, scenario, tmp_path / "run") == [0] * 4


KILLED = 2  # the step that rank 1 does not end


def begins(run: Path) -> None:
    """Rank 1 is killed once its records of that step are on disk."""
    trains(run, None)


def begins_again(run: Path) -> None:
    """The newest whole step is the one before: from there, and the step is saved anew."""
    assert list((run / f"{KILLED}").glob("__1_*")), "rank 1 had written its part"
    assert not (run / f"{KILLED}" / ".metadata").exists()
    goes_on(run)


def goes_on(run: Path | str) -> None:
    """From the step before the one that was not whole."""
    newest = newest_step(run)
    assert newest == f"{run}/{KILLED - 1}"
    dist.barrier()  # before the next step is whole
    trains(run, newest)
    last = f"{run}/{KILLED + 1}"
    before = [f"{step}" for step in range(KILLED + 1)]
    assert [str(path) for path in needed(last)] == [f"{run}/{b}" for b in before] + [last]
    data = ChainReader(last).read_metadata().storage_data
    (item,) = (item for index, item in data.items() if index.fqn == "ema.x")
    needs, _ = read_item(item, step_at(last))
    assert [at.step for at in needs[:-1]] == before, "residuals go on in a new process"


def trains(run: Path | str, resume: Path | str | None) -> None:
    """Of two ranks."""
    run_writer = RankWriter.run

    def killing(self: RankWriter, *given: Any) -> Any:
        """What writes a rank's part, and is not heard of again."""
        run_writer(self, *given)
        os.kill(os.getpid(), signal.SIGKILL)

    mesh, reference = mesh_of(2), Reference()
    writer = ChainWriter(bits=2, resume=resume)
    for step in range(KILLED + 2):
        w = {"w": distribute_tensor(walk((10, 13), 0, step), mesh, [Shard(0)])}
        expected = reference.step(w)
        state = w | {"ema": {"x": torch.arange(2000) + step}}  # x is exact
        if resume is None or step >= KILLED:
            if step == KILLED and resume is None and dist.get_rank() == 1:
                RankWriter.run = killing  # type: ignore[method-assign]
            dcp.save(state, storage_writer=writer, checkpoint_id=f"{run}/{step}")
        elif step < KILLED - 1:
            continue
        back = zeros(w) | {"ema": {"x": torch.zeros(2000, dtype=torch.int64)}}
        dcp.load(back, storage_reader=ChainReader(f"{run}/{step}"))
        assert torch.equal(back["w"].to_local(), expected["w"].to_local())
        assert torch.equal(back["ema"]["x"], state["ema"]["x"])


def kill_and_go_on(first: Callable[[Path], None], then: Callable[[Path], None], run: Path) -> None:
    """Rank 1 is killed, and the training is started again."""
    ends = ranks(2, first, run)
    assert ends[1] == -signal.SIGKILL
    assert ends[0] != 0
    assert ranks(2, then, run) == [0, 0]


def test_a_rank_is_killed(tmp_path: Path) -> None:
    """Only the steps before are whole."""
    kill_and_go_on(begins, begins_again, tmp_path / "run")


# The same in an object store.

BUCKET = "s3://bucket"
# A cut line ends each connection at once; a busy machine may take long to open one.
PATIENT: dict[str, Any] = {"connect_timeout": 300, "read_timeout": 300}
WITHOUT_RETRIES = {"config_kwargs": {"retries": {"max_attempts": 0}} | PATIENT}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An S3 server in a process of its own, with a bucket; the environment leads there.

    While the file CUT exists, nobody answers.
    """
    with s3.server() as port, pytest.MonkeyPatch.context() as patch:
        cut, way = tmp_path_factory.mktemp("s3") / "cut", Way(port)
        way.at_request = way.at_answer = lambda _method, _path: cut.exists()
        for name, value in {"CUT": str(cut), **s3.environment(way.port)}.items():
            patch.setenv(name, value)
        make = "import fsspec; fsspec.filesystem('s3').mkdir('bucket')"
        subprocess.run([sys.executable, "-c", make], check=True)  # not here: forks come
        yield
        way.cut()


def silent(folder: Path) -> None:
    """Nobody answers any more while ranks write: the step is not whole, and the same writers go on
    once the store is back."""
    run, rank, cut = f"{BUCKET}/{folder.name}/silent", dist.get_rank(), Path(os.environ["CUT"])
    writer, reference = ChainWriter(bits=2, storage_options=WITHOUT_RETRIES), Reference()
    run_writer = RankWriter.run

    def cutting(self: RankWriter, *given: Any) -> Any:
        """What writes a rank's part when the line is cut."""
        cut.touch()
        return run_writer(self, *given)

    for step in range(5):
        w = {"w": distribute_tensor(walk((10, 13), 0, step), mesh_of(4), [Shard(0)])}
        if step == 2:
            if rank == 1:
                RankWriter.run = cutting  # type: ignore[method-assign]
            with pytest.raises(CheckpointException, match=r"cannot be (reached|written)"):
                dcp.save(w, storage_writer=writer, checkpoint_id=f"{run}/{step}")
            RankWriter.run = run_writer  # type: ignore[method-assign]
            dist.barrier()
            cut.unlink(missing_ok=True)
            dist.barrier()
            with pytest.raises(CheckpointException, match=r"holds no whole checkpoint|no such"):
                loaded(f"{run}/{step}", w)
            continue
        expected = reference.step(w)
        dcp.save(w, storage_writer=writer, checkpoint_id=f"{run}/{step}")
        same(loaded(f"{run}/{step}", w), whole(expected), step)
    assert [str(path) for path in needed(f"{run}/4")] == [f"{run}/{s}" for s in (0, 1, 3, 4)]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("store")
def test_in_an_object_store(tmp_path: Path) -> None:
    assert ranks(4, silent, tmp_path / "run") == [0] * 4


def begins_in_store(folder: Path) -> None:
    """Rank 1 is killed once its records of a step are in the store."""
    trains(f"{BUCKET}/{folder.name}/killed", None)


def goes_on_in_store(folder: Path) -> None:
    """With two new ranks."""
    goes_on(f"{BUCKET}/{folder.name}/killed")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("store")
def test_a_rank_is_killed_beside_a_store(tmp_path: Path) -> None:
    """And the training is started again."""
    kill_and_go_on(begins_in_store, goes_on_in_store, tmp_path / "run")
