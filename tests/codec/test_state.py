"""States of numpy and torch to flat arrays and back, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import codec
from codec import state as states

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
@pytest.mark.parametrize("shape", SHAPES)
def test_numpy(dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    value = np.asarray(rng.normal(size=shape) * 50).astype(dtype if dtype[0] != "u" else "int64")
    value = value.astype(dtype)
    back = there_and_back({"x": value})["x"]
    assert isinstance(back, np.ndarray)
    assert (back.dtype, back.shape, back.tobytes()) == (value.dtype, shape, value.tobytes())
    assert not np.shares_memory(back, value)
    (spec,) = states.layout_of({"x": value}).tensors
    assert spec.lossy == (dtype in ("float16", "float32") and value.size >= 8)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", TORCH.split())
@pytest.mark.parametrize("shape", SHAPES)
def test_torch(dtype: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
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


def test_half_beyond_its_range_is_infinite_without_a_warning() -> None:
    layout = states.layout_of({"x": np.zeros(8, np.float16)})
    back = states.from_arrays({"x": np.full(8, 65530, np.float32)}, layout)
    assert np.isposinf(back["x"]).all()


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ({"x": [1.0]}, codec.DTypeError, "tensor 'x' is a list; a state maps names to"),
        ({"x": 3}, codec.DTypeError, "tensor 'x' is a int"),
        ({"x": {"y": np.zeros(1)}}, codec.DTypeError, "tensor 'x' is a dict"),
        ({"x": np.zeros(1, np.longdouble)}, codec.DTypeError, "float128, which is not supported"),
        ({"x": np.array(["a"])}, codec.DTypeError, "dtype <U1, which is not supported"),
        ({"x": np.zeros(1, object)}, codec.DTypeError, "dtype object"),
        ({"x": np.ma.masked_array([1.0], [True])}, codec.DTypeError, "'x' is a MaskedArray"),
        ({"x": np.ones((1, 1)).view(np.matrix)}, codec.DTypeError, "'x' is a matrix"),
        ({"x": np.zeros(1, "i4,f4")}, codec.DTypeError, "which is not supported"),
        ({"x": torch.zeros(1, dtype=torch.float4_e2m1fn_x2)}, codec.DTypeError, "torch.float4"),
        ({"x": torch.zeros(9).to_sparse()}, codec.DTypeError, "'x' is sparse or has no data"),
        ({"x": torch.zeros(9, device="meta")}, codec.DTypeError, "'x' is sparse or has no data"),
        (
            {1: np.zeros(1)},
            codec.StateMismatchError,
            "names of tensors are strings of Unicode; got 1",
        ),
        ({"\ud800": np.zeros(1)}, codec.StateMismatchError, r"got '\\ud800'"),
    ],
)
def test_what_is_no_state(state: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        states.layout_of(state)


def test_layout() -> None:
    layout = states.layout_of({"w": np.zeros((2, 4), np.float16), "n": np.zeros((), np.int64)})
    assert [t.library for t in layout.tensors] == ["numpy", "numpy"]
    assert layout.nbytes == 8 * 4 + 8
    assert states.layout_of({}) == states.Layout(())
    both = states.layout_of({"a": np.zeros(1), "b": torch.zeros(1)})
    assert [t.library for t in both.tensors] == ["numpy", "torch"]


def test_is_storable() -> None:
    def storable(dtype: str, lossy: bool, library: str, family: str = "") -> bool:
        return states.is_storable(states.TensorSpec("x", dtype, (8,), lossy, library, family))

    assert storable("BF16", True, "torch")
    assert not storable("BF16", True, "numpy")
    assert not storable("F8_E4M3", False, "numpy")
    assert storable("I64", False, "numpy")
    assert not storable("I64", True, "torch")
    assert not storable("F128", False, "torch")
    assert not storable("F32", True, "jax")
    assert storable("F32", True, "torch", "exp_avg")
    assert not storable("F32", False, "torch", "exp_avg")
