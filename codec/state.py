"""A training state as flat float32 and exact arrays, and back.

The codec works on numpy arrays. This module alone knows torch, and imports it only when a
state holds its tensors, so a numpy-only installation can read and write chains.

A tensor is *lossy* (delta-coded) if it is a float16, bfloat16 or float32 of at least
TINY_ELEMENTS elements; its track is kept in float32 whatever its own dtype. Everything else
is *exact*: integers, booleans, float64, complex, 0-d, empty and tiny tensors.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DTypeError, StateMismatchError

TINY_ELEMENTS = 8  # below it, levels and table cost more than the raw values

Arrays = dict[str, NDArray[Any]]

# Name in a record -> dtype of the array that carries its bits.
CARRIER = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16,
    "F8_E4M3": np.uint8, "F8_E5M2": np.uint8, "C64": np.complex64, "BOOL": np.bool_,
    "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
}  # fmt: skip
_NAME_OF_NUMPY: dict[np.dtype[Any], str] = {
    np.dtype(v): k for k, v in CARRIER.items() if k not in ("BF16", "F8_E4M3", "F8_E5M2")
}
_NAME_OF_TORCH = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "complex64": "C64", "bool": "BOOL",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip
LOSSY_DTYPES = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a state: its name, dtype (safetensors' name), shape, and whether lossy."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    lossy: bool

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def track_dtype(self) -> np.dtype[Any]:
        """dtype of its array in the track: float32 if lossy, else the carrier of its bits."""
        return np.dtype(np.float32 if self.lossy else CARRIER[self.dtype])

    @property
    def track_nbytes(self) -> int:
        """Bytes of its array in the track."""
        return self.size * self.track_dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """What a state looks like: its tensors in order, and which library they came from."""

    tensors: tuple[TensorSpec, ...]
    framework: str  # "numpy" or "torch"

    @property
    def nbytes(self) -> int:
        """Bytes of the whole track, the denominator of every ratio: float32 where lossy."""
        return sum(t.track_nbytes for t in self.tensors)


def layout_of(state: Mapping[str, Any]) -> Layout:
    """Describe a flat mapping from names to numpy arrays or torch tensors.

    Raises DTypeError for values that are neither, for unknown dtypes, for sparse and meta
    tensors and for a mixture of both libraries; StateMismatchError for names that are no
    strings or not Unicode (lone surrogates, which no file can hold).
    """
    specs = []
    frameworks = set()
    for name, value in state.items():
        if not isinstance(name, str) or not _is_unicode(name):
            raise StateMismatchError(f"names of tensors are strings of Unicode; got {name!r}")
        if _is_torch(value):
            frameworks.add("torch")
            if str(value.layout) != "torch.strided" or value.is_meta:
                raise DTypeError(f"tensor {name!r} is sparse or has no data")
            dtype = _NAME_OF_TORCH.get(str(value.dtype).removeprefix("torch."))
        elif isinstance(value, np.ndarray | np.generic):
            frameworks.add("numpy")
            dtype = _NAME_OF_NUMPY.get(value.dtype.newbyteorder("="))
        else:
            raise DTypeError(
                f"tensor {name!r} is a {type(value).__name__}; a state maps names to numpy "
                "arrays or torch tensors"
            )
        if dtype is None:
            raise DTypeError(f"tensor {name!r} has dtype {value.dtype}, which is not supported")
        shape = tuple(int(d) for d in value.shape)
        lossy = dtype in LOSSY_DTYPES and math.prod(shape) >= TINY_ELEMENTS
        specs.append(TensorSpec(name, dtype, shape, lossy))
    if len(frameworks) > 1:
        raise DTypeError("a state holds numpy arrays or torch tensors, not both")
    return Layout(tuple(specs), frameworks.pop() if frameworks else "numpy")


def to_arrays(state: Mapping[str, Any], layout: Layout) -> Arrays:
    """The state's values as C-contiguous arrays of their track dtypes.

    Values that need no conversion share memory with the state: copy before keeping them.
    """
    return {t.name: _to_array(state[t.name], t) for t in layout.tensors}


def from_arrays(arrays: Arrays, layout: Layout) -> dict[str, Any]:
    """A state of the original library, dtypes and shapes; always freshly allocated.

    Raises DTypeError if the state came from torch and torch is not installed.
    """
    return {t.name: _from_array(arrays[t.name], t, layout.framework) for t in layout.tensors}


def to_safetensors(state: Mapping[str, Any]) -> bytes:
    """A restored state as the bytes of a plain .safetensors file.

    state: name -> numpy array or torch tensor. Raises DTypeError for names or dtypes that
    the file format cannot hold.
    """
    if "__metadata__" in state:  # safetensors would write it, and not read it again
        raise DTypeError("a .safetensors file cannot hold a tensor named '__metadata__'")
    try:
        if layout_of(state).framework == "torch":
            from safetensors.torch import save as save_torch

            return bytes(save_torch(dict(state)))
        from safetensors.numpy import save

        return bytes(save(dict(state)))
    except ValueError as exc:
        raise DTypeError(f"a .safetensors file cannot hold this state: {exc}") from exc


def is_storable(spec: TensorSpec, framework: str) -> bool:
    """Whether a tensor of this description can come from a state of that library."""
    names = _NAME_OF_NUMPY if framework == "numpy" else _NAME_OF_TORCH
    return spec.dtype in names.values() and (not spec.lossy or spec.dtype in LOSSY_DTYPES)


def copy_arrays(arrays: Arrays) -> Arrays:
    """A deep copy."""
    return {name: array.copy() for name, array in arrays.items()}


def _is_unicode(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= c <= "\udfff" for c in name)


def _is_torch(value: object) -> bool:
    torch = sys.modules.get("torch")  # a tensor exists only if its library was imported
    return torch is not None and isinstance(value, torch.Tensor)


def _to_array(value: Any, spec: TensorSpec) -> NDArray[Any]:
    if _is_torch(value):
        import torch

        value = value.detach()
        if spec.lossy:
            value = value.to(torch.float32)
        elif spec.dtype == "BF16":
            value = value.contiguous().view(torch.int16)
        elif spec.dtype.startswith("F8"):
            value = value.contiguous().view(torch.uint8)
        value = value.contiguous().numpy(force=True)  # from any device, conjugate bits resolved
    array = np.asarray(value)
    if spec.lossy:
        return np.ascontiguousarray(array, np.float32)
    array = np.ascontiguousarray(array).reshape(spec.shape)  # ascontiguousarray makes 0-d 1-d
    if spec.dtype == "BF16":
        return array.view(np.uint16)
    return array.astype(spec.track_dtype, copy=False)


def _from_array(array: NDArray[Any], spec: TensorSpec, framework: str) -> Any:
    if framework == "numpy":
        with np.errstate(over="ignore"):  # a float16 track beyond 65504 becomes infinite
            return array.astype(CARRIER[spec.dtype] if spec.lossy else array.dtype, copy=True)
    try:
        import torch
    except ImportError as exc:
        raise DTypeError("this state holds torch tensors; install torch to restore it") from exc
    dtype = getattr(torch, next(k for k, v in _NAME_OF_TORCH.items() if v == spec.dtype))
    tensor = torch.from_numpy(array.copy())
    return tensor.to(dtype) if spec.lossy or tensor.dtype == dtype else tensor.view(dtype)
