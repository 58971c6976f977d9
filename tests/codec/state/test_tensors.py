"""States of numpy and torch to flat arrays and back, bit by bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import codec
from codec.errors import DTypeError, StateMismatchError
from codec.state import tensors as states
from tests.codec.chains import save_all

NUMPY = "float64 float32 float16 complex128 complex64 bool "
NUMPY += "int64 int32 int16 int8 uint64 uint32 uint16 uint8"
TORCH = NUMPY + " bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
TORCH += " float8_e8m0fnu complex32"
SHAPES = [(), (0,), (0, 3), (1,), (7,), (8,), (2, 3, 4)]


def there_and_back(state: dict[str, Any]) -> dict[str, Any]:
    layout = states.layout_of(state)
    arrays = states.to_arrays(state, layout)
    for t in layout.tensors:
        a = arrays[t.name]
        assert (a.dtype, a.shape, a.nbytes) == (t.track_dtype, t.track_shape, t.track_nbytes)
        assert a.flags.c_contiguous
        assert a.dtype.isnative
    return states.from_arrays(arrays, layout)


@pytest.mark.parametrize("dtype", NUMPY.split())
def test_numpy(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        value = np.asarray(rng.normal(size=shape) * 50)
        value = value.astype(dtype if dtype[0] != "u" else "int64").astype(dtype)
        back = there_and_back({"x": value})["x"]
        assert isinstance(back, np.ndarray)
        assert (back.dtype, back.shape, back.tobytes()) == (value.dtype, shape, value.tobytes())
        assert not np.shares_memory(back, value)
        (spec,) = states.layout_of({"x": value}).tensors
        assert spec.lossy == (dtype in ("float16", "float32") and value.size >= 8)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", TORCH.split())
def test_torch(dtype: str) -> None:
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    for shape in SHAPES:
        value = (torch.randn(shape) * 50).abs().to(kind)
        back = there_and_back({"x": value})["x"]
        assert isinstance(back, torch.Tensor)
        assert (back.dtype, back.shape) == (kind, value.shape)
        if value.numel():  # torch cannot view nothing as bytes
            assert torch.equal(back.flatten().view(torch.uint8), value.flatten().view(torch.uint8))
        (spec,) = states.layout_of({"x": value}).tensors
        lossy = dtype in ("float16", "float32", "bfloat16") and value.numel() >= 8
        assert spec.lossy == lossy


def test_odd_memory_layouts() -> None:
    grid = np.arange(12, dtype=np.float32).reshape(3, 4)
    odd = {"t": grid.T, "s": grid[:, ::2], "r": grid[::-1], "i": np.arange(6)[::2]}
    odd |= {"big": grid.astype(">f4"), "bi": np.arange(3, dtype=">i8"), "scalar": np.float32(2)}
    back = there_and_back(odd)
    for name, value in odd.items():
        assert back[name].tolist() == value.tolist()
        assert back[name].dtype == value.dtype.newbyteorder("=")
    wide = torch.arange(12.0).reshape(3, 4)
    parameter = torch.nn.Parameter(wide.T)
    conjugate = torch.tensor([1 + 2j]).conj()
    there = {"t": wide.T, "e": wide[:1].expand(4, 4), "p": parameter, "c": conjugate}
    there["h"] = wide.T.to(torch.bfloat16)[:2, :2]
    back = there_and_back(there)
    for name, tensor in there.items():
        assert back[name].tolist() == tensor.tolist()
        assert not back[name].requires_grad


def test_values_that_are_only_bits() -> None:
    """NaN payloads, -0.0 and subnormals of exact tensors survive."""
    words = np.array([0x7F800001, 0xFFC12345, 0x80000000, 1], np.uint32)
    assert there_and_back({"x": words.view(np.float32)})["x"].tobytes() == words.tobytes()
    half = torch.tensor([0x7F81, 0x0001], dtype=torch.uint16).view(torch.bfloat16)
    assert there_and_back({"x": half})["x"].view(torch.uint16).tolist() == [0x7F81, 1]


def test_half_beyond_its_range_is_its_largest_number() -> None:
    layout = states.layout_of({"x": np.zeros(8, np.float16)})
    back = states.from_arrays({"x": np.full(8, 65530, np.float32)}, layout)
    assert (back["x"] == 65504).all()


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ({"x": [1.0]}, DTypeError, "tensor 'x' is a list; a state maps names to"),
        ({"x": {"y": np.zeros(1)}}, DTypeError, "tensor 'x' is a dict"),
        ({"x": np.zeros(1, "i4,f4")}, DTypeError, "which is not supported"),
        ({"x": torch.zeros(1, dtype=torch.float4_e2m1fn_x2)}, DTypeError, "torch.float4"),
        ({1: np.zeros(1)}, StateMismatchError, "must be valid Unicode strings; got 1"),
        ({"\ud800": np.zeros(1)}, StateMismatchError, r"got '\\ud800'"),
    ],
)
def test_what_is_no_state(state: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        states.layout_of(state)


class Wrapper(torch.Tensor):
    """Like those of torchao: an int8 tensor and a scale that pass for float32."""

    def __new__(cls, values: torch.Tensor) -> Wrapper:
        made = torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=torch.float32)
        made.values = values
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].values)
        raise NotImplementedError(func)


class Harmless(torch.Tensor):
    """Its values are its own memory, whatever its operations do."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} was asked")


def fake() -> torch.Tensor:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.randn(9)


def freed() -> torch.Tensor:
    tensor = torch.randn(30)[9:18]
    tensor.untyped_storage().resize_(0)
    return tensor


PARTS = [torch.ones(4), torch.ones(5)]
REFUSED: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "wrapper": (lambda: Wrapper(torch.ones(9)), "Wrapper"),
    "parameter": (lambda: torch.nn.Parameter(Wrapper(torch.ones(9))), "Wrapper"),
    "fake": (fake, "FakeTensor"),
    "masked": (lambda: torch.masked.masked_tensor(torch.ones(9), torch.ones(9) > 0), "Masked"),
    "meta": (lambda: torch.ones(9, device="meta"), "meta"),
    "nested": (lambda: torch.nested.nested_tensor(PARTS), "unbind"),
    "jagged": (lambda: torch.nested.nested_tensor(PARTS, layout=torch.jagged), "NestedTensor"),
    "per tensor": (
        lambda: torch.quantize_per_tensor(torch.ones(9), 0.1, 0, torch.qint8),
        "int_repr",
    ),
    "lazy": (torch.nn.UninitializedParameter, "lazy"),
    "coo": (lambda: torch.ones(9).to_sparse(), "to_dense"),
    "freed": (freed, "freed"),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.filterwarnings("ignore")  # torch's own, of prototypes
def test_tensors_that_cannot_be_stored(kind: str, tmp_path: Path, forks: None) -> None:
    """By name, with what to do; in the first state, and in the place of one that could be."""
    make, match = REFUSED[kind]
    apart = kind == "freed"  # saved in another process too
    fine, odd = {"model": {"odd": torch.ones(9)}}, {"model": {"odd": make()}}
    with codec.Checkpointer(tmp_path / "run.lcc", 2, asynchronous=apart) as checkpoints:
        for step in range(2):
            with pytest.raises(DTypeError, match=f"'model/odd'.*{match}"):
                checkpoints.save(step, odd)
            checkpoints.save(step, fine)
            fine["model"]["odd"] = torch.zeros(9)
    assert codec.restore(tmp_path / "run.lcc")["model"]["odd"].sum() == 0
    tracker = codec.Tracker({"model/odd": torch.ones(9)})
    for refuse in (codec.Tracker, tracker.step):
        with pytest.raises(DTypeError, match=f"'model/odd'.*{match}"):
            refuse({"model/odd": odd["model"]["odd"]})


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.grad, torch.func.functionalize])
def test_inside_a_transform(transform: Any, tmp_path: Path) -> None:
    def save(tensor: torch.Tensor) -> torch.Tensor:
        with pytest.raises(DTypeError, match=r"'w'"):
            checkpoints.save(0, {"w": tensor})
        with pytest.raises(DTypeError, match=r"'w'"):
            codec.Tracker({"w": tensor})
        return tensor.sum()

    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        transform(save)(torch.ones(3, 9) if transform is torch.vmap else torch.ones(9))


@pytest.mark.parametrize("kind", ["DTensor", "ShardedTensor"])
def test_what_is_spread_over_processes(kind: str, tmp_path: Path) -> None:
    """It leads to the writer that can save it."""
    import torch.distributed as dist

    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        with warnings.catch_warnings(action="ignore"):
            if kind == "DTensor":
                from torch.distributed.tensor import DeviceMesh, Shard, distribute_tensor

                spread = distribute_tensor(torch.ones(9), DeviceMesh("cpu", [0]), [Shard(0)])
            else:
                from torch.distributed._shard import sharded_tensor
                from torch.distributed._shard.sharding_spec import ChunkShardingSpec

                spread = sharded_tensor.ones(ChunkShardingSpec(0, ["rank:0/cpu"]), 9)
        for value in (spread, torch.nn.Parameter(spread) if kind == "DTensor" else spread):
            with (
                codec.Checkpointer(tmp_path / "run.lcc") as checkpoints,
                pytest.raises(DTypeError, match=r"'model/w'.*codec\.dcp\.ChainWriter"),
            ):
                checkpoints.save(0, {"model": {"w": value}})
            with pytest.raises(DTypeError, match=r"'w'.*codec\.dcp\.ChainWriter"):
                codec.Tracker({"w": value})
    finally:
        dist.destroy_process_group()


def test_harmless_subclasses(tmp_path: Path, forks: None) -> None:
    """They are stored as the tensors that they are, and share memory with others as these do."""
    values = torch.randn(2, 20)
    state = {
        "own": values[0].clone().as_subclass(Harmless),
        "buffer": torch.nn.Buffer(values[1]),
        "parameter": torch.nn.Parameter(values[1]),
        "half": values[0].half().as_subclass(Harmless),
        "count": torch.arange(9).as_subclass(Harmless),
    }
    path = tmp_path / "run.lcc"
    save_all(path, [state, state], asynchronous=True)
    back = codec.restore(path)
    assert {type(value) for value in back.values()} == {torch.Tensor}
    assert torch.equal(back["own"], values[0])
    assert torch.equal(back["half"], values[0].half())
    assert torch.equal(back["count"], torch.arange(9))
    assert back["buffer"] is back["parameter"]
