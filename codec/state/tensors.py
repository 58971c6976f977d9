"""Tensors to arrays that carry their bits, and back.

The codec works on numpy arrays. Only this module, modules and tensor_files know torch, and import
it only when a state holds its tensors, so an installation without torch can read and write chains.

A tensor is *lossy* (delta-coded) if it is a float16, bfloat16 or float32 of at least TINY_ELEMENTS
elements, and the policy does not make it exact; its track is float32 whatever its own dtype.
Everything else is *exact*: integers, booleans, float64, float8, complex, 0-d, empty and tiny
tensors.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import DTypeError, StateMismatchError
from codec.lazy import lazy

from .family import MODEL, Family

TINY_ELEMENTS = 8  # below it, levels and table cost more than the raw values

Arrays = dict[str, NDArray[Any]]

# Name in a record -> torch's name (numpy's too, where numpy has it), dtype that carries its bits.
_DTYPES: dict[str, tuple[str, type[np.generic]]] = {
    "F64": ("float64", np.float64),
    "F32": ("float32", np.float32),
    "F16": ("float16", np.float16),
    "BF16": ("bfloat16", np.uint16),
    "F8_E4M3": ("float8_e4m3fn", np.uint8),
    "F8_E5M2": ("float8_e5m2", np.uint8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", np.uint8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", np.uint8),
    "F8_E8M0": ("float8_e8m0fnu", np.uint8),
    "C128": ("complex128", np.float64),
    "C64": ("complex64", np.complex64),
    "C32": ("complex32", np.uint32),
    "BOOL": ("bool", np.bool_),
    "I64": ("int64", np.int64),
    "I32": ("int32", np.int32),
    "I16": ("int16", np.int16),
    "I8": ("int8", np.int8),
    "U64": ("uint64", np.uint64),
    "U32": ("uint32", np.uint32),
    "U16": ("uint16", np.uint16),
    "U8": ("uint8", np.uint8),
}
CARRIER = {name: carrier for name, (_, carrier) in _DTYPES.items()}
_BITS = {"BF16": "int16", "C32": "int32"}  # torch dtypes of the same size that numpy has
_BITS |= {name: "uint8" for name in CARRIER if name.startswith("F8")}
_SAME = {"F32", "F64"} | {name for name in CARRIER if name[0] in "IUB"} - {"BF16"}
_NAME_OF_TORCH = {torch_name: name for name, (torch_name, _) in _DTYPES.items()}
_NAME_OF_NUMPY: dict[np.dtype[Any], str] = {
    np.dtype(numpy_name): name for name, (numpy_name, _) in _DTYPES.items() if name not in _BITS
}
_NAMES: dict[str, Mapping[Any, str]] = {"numpy": _NAME_OF_NUMPY, "torch": _NAME_OF_TORCH}
_ARRAYS = (np.ndarray, np.memmap)  # other subclasses (masked arrays, matrices) are more than arrays
_SCALARS = {dtype.type: name for dtype, name in _NAME_OF_NUMPY.items()}
_PLAIN = {type(None), bool, int, float, str, bytes, dict, list, tuple}
COPIED = 256  # bytes; up to here copying an array to bytes takes less time than a view of bytes
LOSSY_DTYPES = ("F32", "F16", "BF16")
LARGEST = {"F16": 65504.0, "BF16": 2.0**128 - 2.0**120}  # a track in float32 may exceed it


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a state.

    dtype: safetensors' name of it. lossy: delta-coded. library: where it came from, "numpy" or
    "torch". family: lossy tensors of one family share an alphabet; see `Policy.spec`.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    lossy: bool
    library: str = "numpy"
    family: Family = MODEL

    @property
    def may_be_lossy(self) -> bool:
        """Whether dtype and size allow it."""
        return self.dtype in LOSSY_DTYPES and self.size >= TINY_ELEMENTS

    @lazy
    def measure(self) -> str | None:
        """That of its family, see `Family`."""
        return self.family.measure

    @lazy
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype_name(self) -> str:
        """Torch's name of the dtype, "float32"."""
        return _DTYPES[self.dtype][0]

    @lazy
    def track_dtype(self) -> np.dtype[Any]:
        """dtype of its array in the track: float32 if lossy, else the carrier of its bits."""
        return np.dtype(np.float32 if self.lossy else CARRIER[self.dtype])

    @property
    def track_shape(self) -> tuple[int, ...]:
        """Shape of its array in the track: a complex128 is two float64."""
        return (*self.shape, 2) if self.dtype == "C128" else self.shape

    @lazy
    def track_nbytes(self) -> int:
        """Bytes of its array in the track."""
        return math.prod(self.track_shape) * self.track_dtype.itemsize


@dataclass(frozen=True)
class Layout:
    """The tensors of a state, in order, and the structure of the state around them.

    structure: see `codec.state.tree`; "" for a flat mapping of their names.
    """

    tensors: tuple[TensorSpec, ...]
    structure: str = ""

    @lazy
    def numbers(self) -> Mapping[str, int]:
        """Name -> place in the layout, from 0 on."""
        return {t.name: i for i, t in enumerate(self.tensors)}

    @lazy
    def by_family(self) -> tuple[tuple[TensorSpec, ...], ...]:
        """The lossy tensors of each family, in the order of their first tensors."""
        return _grouped((t, t.family) for t in self.tensors if t.lossy)

    @lazy
    def by_tensor(self) -> tuple[tuple[TensorSpec, ...], ...]:
        """Each lossy tensor by itself; an optimizer's moments by family."""
        return _grouped(
            (t, (t.measure, t.family if t.measure else t.name)) for t in self.tensors if t.lossy
        )

    @lazy
    def digest_texts(self) -> tuple[bytes, ...]:
        """By tensor, the bytes that a track's digest covers before its content, see FORMAT.md."""
        return tuple(json.dumps([t.name, t.dtype, t.shape]).encode() for t in self.tensors)

    @lazy
    def nbytes(self) -> int:
        """Bytes of the whole track, the denominator of every ratio: float32 where lossy."""
        return sum(t.track_nbytes for t in self.tensors)

    @lazy
    def lossy_nbytes(self) -> int:
        """Bytes in float32 of the lossy tensors but moments; a budget is a share of them."""
        return sum(t.track_nbytes for t in self.tensors if t.lossy and not t.measure)


def _grouped(keyed: Iterable[tuple[TensorSpec, Hashable]]) -> tuple[tuple[TensorSpec, ...], ...]:
    """The tensors of each key."""
    groups: dict[Hashable, list[TensorSpec]] = {}
    for tensor, key in keyed:
        groups.setdefault(key, []).append(tensor)
    return tuple(map(tuple, groups.values()))


def is_tensor(value: object) -> bool:
    """Whether this is a torch tensor, a numpy array or a memory map, not another subclass."""
    kind = type(value)
    if kind in _PLAIN:  # the usual case, decided fast
        return False
    return kind in _ARRAYS or is_torch(value)


def is_number(value: object) -> bool:
    """Whether this is a numpy scalar of a dtype that a tensor can have."""
    return type(value) in _SCALARS


def fingerprint(value: Any) -> tuple[Any, ...]:
    """Address, shape, strides, dtype…: everything about a tensor but its name and content.

    Cheap to compute. Two tensors of one fingerprint are the same tensor, see `can_share`. The
    address is None for a tensor that is not dense.
    """
    if isinstance(value, np.ndarray):
        address = value.__array_interface__["data"][0]
        return (address, value.shape, value.strides, value.dtype)
    if (base := _base_tensor(value)) is None:  # spec_of says why
        return (None, object())
    try:
        address, strides, dtype = base.data_ptr(), base.stride(), base.dtype
        return (
            address,
            base.shape,
            strides,
            dtype,
            dtype.is_complex and base.is_conj(),
            base.is_neg(),
        )
    except RuntimeError:  # sparse, nested, inside a transform: spec_of says which
        return (None, object())


def can_share(mark: tuple[Any, ...]) -> bool:
    """Whether a tensor has memory that other tensors may share. mark: its `fingerprint`."""
    return bool(mark[0]) and 0 not in mark[1]


def signature(value: Any, mark: tuple[Any, ...]) -> Hashable:
    """Everything that `spec_of` depends on except the name.

    For a dense tensor these are its shape, its dtype and whether it has memory. mark: its
    `fingerprint`.
    """
    return mark[1] if len(mark) == 2 else (mark[1], mark[3], _has_memory(value))


def spec_of(
    name: str, value: Any, lossy: bool = True, family: Family = MODEL, *, swapped: bool = False
) -> TensorSpec:
    """Describe a tensor.

    lossy: make it lossy if its dtype and size allow that. swapped: accept the other byte order too;
    the description does not say which one it was. Raises DTypeError for other objects, unsupported
    dtypes, and torch tensors that are not one dense block of memory (see `refusal`).
    """
    if is_torch(value):
        library = "torch"
        if reason := refusal(value):
            raise DTypeError(f"tensor {name!r} {reason}")
        value = _base_tensor(value)
        dtype = _NAME_OF_TORCH.get(str(value.dtype).removeprefix("torch."))
    elif is_tensor(value) or isinstance(value, np.generic):
        library = "numpy"
        is_foreign = swapped and not value.dtype.isnative
        dtype = _NAME_OF_NUMPY.get(value.dtype.newbyteorder() if is_foreign else value.dtype)
    else:
        raise DTypeError(
            f"tensor {name!r} is a {type(value).__name__}; a state maps names to numpy "
            "arrays or torch tensors"
        )
    if dtype is None:
        raise DTypeError(
            f"tensor {name!r} has dtype {value.dtype}, which is not supported. To leave it out of "
            f"a checkpoint: policy={{{name!r}: 'skip'}}"
        )
    shape = tuple(value.shape)
    lossy = lossy and dtype in LOSSY_DTYPES and math.prod(shape) >= TINY_ELEMENTS
    return TensorSpec(name, dtype, shape, lossy, library, family if lossy else MODEL)


def layout_of(state: Mapping[str, Any]) -> Layout:
    """Describe a flat mapping from names to torch tensors or numpy arrays of any byte order.

    Raises DTypeError; StateMismatchError for a name that is not Unicode.
    """
    for name in state:
        if not isinstance(name, str) or not is_unicode(name):
            raise StateMismatchError(f"tensor names must be valid Unicode strings; got {name!r}")
    return Layout(tuple(spec_of(name, value, swapped=True) for name, value in state.items()))


def to_arrays(state: Mapping[str, Any], layout: Layout) -> Arrays:
    """The tensors of a state as C-contiguous arrays of their track dtypes.

    Arrays that need no conversion share memory with the state: copy them to keep them.
    """
    torch = sys.modules.get("torch")
    plain = (torch.Tensor, torch.nn.Parameter) if torch else ()
    if torch and torch.cuda.is_initialized():
        names = (t.name for t in layout.tensors if type(state[t.name]) in plain)
        state = {**state, **_in_main_memory({n: state[n] for n in names if state[n].is_cuda})}
    arrays: Arrays = {}
    for t in layout.tensors:
        value = state[t.name]
        if type(value) in plain and t.dtype in _SAME:  # the usual case, decided fast
            # force=True makes one more tensor; thousands would trigger a garbage collection
            needs_force = value.requires_grad or not value.is_cpu or value.is_neg()
            array = value.numpy(force=needs_force or value.is_conj())
            if array.flags.c_contiguous and array.dtype == t.track_dtype:
                arrays[t.name] = array
                continue
        arrays[t.name] = _to_array(value, t)
    return arrays


def _in_main_memory(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of torch tensors on GPUs.

    All copies are under way at once, into page-locked memory, which torch keeps for the next ones.
    For 1 GiB of float32 on an H200, one after the other took 37 times as long.
    """
    import torch

    copies = {}
    for name, value in tensors.items():
        try:
            copy = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
        except RuntimeError:  # no more memory may be locked: ordinary memory takes longer
            copy = torch.empty(value.shape, dtype=value.dtype)
        # Resolved on the GPU: torch would negate the copy before it has arrived.
        resolved = value.detach().resolve_conj().resolve_neg()
        copies[name] = copy.copy_(resolved, non_blocking=True)
    for device in {value.device for value in tensors.values()}:
        torch.cuda.current_stream(device).synchronize()
    return copies


def from_arrays(arrays: Arrays, layout: Layout) -> dict[str, Any]:
    """Tensors of their original library, dtype and shape, always newly allocated.

    Raises DTypeError if a tensor came from torch and torch is not installed.
    """
    return {t.name: _from_array(arrays[t.name], t) for t in layout.tensors}


def number_of(name: str, value: Any) -> tuple[str, bytes]:
    """dtype and bytes of a numpy scalar or of a 0-d tensor on any device.

    name: for messages. Raises what `spec_of` does.
    """
    if dtype := _SCALARS.get(type(value)):
        return dtype, value.tobytes()
    spec = spec_of(name, value, lossy=False)
    return spec.dtype, _to_array(value, spec).tobytes()


def tensor_of(library: str, dtype: str, data: bytes) -> Any:
    """The 0-d tensor or array with the dtype and bytes that `number_of` returned.

    Raises what `check_number` raises, and DTypeError if torch is needed and not installed.
    """
    spec = check_number(library, dtype, data)
    return _from_array(np.frombuffer(data, spec.track_dtype).reshape(spec.track_shape), spec)


def check_number(library: str, dtype: str, data: bytes) -> TensorSpec:
    """Describe a 0-d tensor without making it, since torch may not be installed.

    Raises ValueError for what `number_of` never returns.
    """
    spec = TensorSpec("", dtype, (), False, library)
    if not is_storable(spec) or len(data) != spec.track_nbytes:
        raise ValueError(f"{len(data)} bytes of a {dtype!r} of {library}")
    return spec


def is_storable(spec: TensorSpec) -> bool:
    """Whether a state can hold a tensor of this description."""
    return spec.dtype in _NAMES.get(spec.library, {}).values() and (
        spec.dtype in LOSSY_DTYPES if spec.lossy else spec.family.is_model
    )


def copy_arrays(arrays: Arrays) -> Arrays:
    """A deep copy."""
    return {name: array.copy() for name, array in arrays.items()}


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two C-contiguous arrays of one shape and dtype hold the same bits, NaN included."""
    if a.nbytes <= COPIED:
        return a is b or a.tobytes() == b.tobytes()
    return a is b or np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))


def is_unicode(text: str) -> bool:
    """Whether a file can hold a text: it has no lone surrogates."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def is_torch(value: object) -> bool:
    """Whether this is a torch tensor."""
    torch = sys.modules.get("torch")  # if it was never imported, there are no tensors of it
    return torch is not None and isinstance(value, torch.Tensor)


def refusal(value: Any) -> str:
    """Why a torch tensor cannot be stored and what to store instead; "" if it can be stored.

    One dense block of memory can be stored. A subclass is stored as the tensor below it, unless it
    implements its operations itself (__torch_dispatch__): then its values are elsewhere.
    """
    torch, kind = sys.modules["torch"], type(value)
    if issubclass(kind, (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer)):
        return "is not initialized; run its lazy module once before you save it"
    if (base := _base_tensor(value)) is None:
        distributed = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", ())
        if issubclass(kind, distributed) or hasattr(kind, "local_shards"):
            return (
                f"is a {kind.__name__}, spread over processes; save it with codec.dcp.ChainWriter, "
                "where each rank saves its own part"
            )
        return (
            f"is a {kind.__name__}, a subclass of torch.Tensor that keeps its values elsewhere; "
            "store the plain tensors that it is made of"
        )
    if base.is_nested:
        return "is a nested tensor; store the list of its parts, tensor.unbind()"
    if base.layout is not torch.strided:
        return f"is not dense (its layout is {base.layout}); store tensor.to_dense()"
    if base.is_meta:
        return "is on the meta device and has no data; move its module with to_empty() and fill it"
    if base.is_quantized:
        return (
            f"is quantized ({base.dtype}); store tensor.int_repr() with its scales and zero "
            "points, or tensor.dequantize()"
        )
    if base.device.type not in ("cpu", "cuda"):
        return ""  # other devices need not say where their memory is
    try:
        has_memory = base.numel() == 0 or _has_memory(base)
    except RuntimeError:
        return "stands for values inside torch.func or torch.vmap; save outside of the transform"
    return "" if has_memory else "has no memory of its own; save before it is freed"


def _has_memory(value: Any) -> bool:
    """Whether a tensor's memory exists: FSDP frees that of gathered parameters, numpy never."""
    base = _base_tensor(value) if is_torch(value) else None
    return base is None or bool(base.data_ptr() and base.untyped_storage().data_ptr())


def _base_tensor(value: Any) -> Any:
    """A torch tensor without its subclass, whose __torch_function__ may do anything.

    None if the subclass keeps its values elsewhere or has no values yet.
    """
    torch, kind = sys.modules["torch"], type(value)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return value
    if kind.__torch_dispatch__ != torch.Tensor.__torch_dispatch__ or issubclass(
        kind, (torch.nn.UninitializedParameter, torch.nn.UninitializedBuffer)
    ):
        return None
    return torch.Tensor.__torch_function__(torch.Tensor.as_subclass, (), (value, torch.Tensor))


def _to_array(value: Any, spec: TensorSpec) -> NDArray[Any]:
    if is_torch(value):
        import torch

        value = _base_tensor(value)
        if spec.lossy and spec.dtype != "F32":
            value = value.detach().to(torch.float32)
        elif spec.dtype in _BITS:
            value = value.detach().contiguous().view(getattr(torch, _BITS[spec.dtype]))
        # Copies from any device, detaches, and resolves conjugate bits.
        value = value.contiguous().numpy(force=True)
    array = np.asarray(value)
    if spec.lossy:
        return np.ascontiguousarray(array, np.float32)
    array = np.ascontiguousarray(array).reshape(spec.shape)  # ascontiguousarray makes 0-d 1-d
    if spec.dtype in (*_BITS, "C128"):
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        return array.reshape(-1).view(spec.track_dtype).reshape(spec.track_shape)
    return array.astype(spec.track_dtype, copy=False)


def _from_array(array: NDArray[Any], spec: TensorSpec) -> Any:
    if spec.lossy and spec.dtype in LARGEST:
        largest = LARGEST[spec.dtype]
        array = np.where(np.isfinite(array), np.clip(array, -largest, largest), array)
    if spec.library == "numpy":
        if spec.dtype == "C128":
            return array.reshape(-1).view(np.complex128).reshape(spec.shape).copy()
        return array.astype(CARRIER[spec.dtype] if spec.lossy else array.dtype, copy=True)
    try:
        import torch
    except ImportError as exc:
        raise DTypeError("this state holds torch tensors; install torch to restore it") from exc
    dtype = getattr(torch, _DTYPES[spec.dtype][0])
    if spec.dtype == "C128":
        array = array.reshape(-1).view(np.complex128).reshape(spec.shape)
    tensor = torch.from_numpy(array.copy())
    return tensor.to(dtype) if spec.lossy or tensor.dtype == dtype else tensor.view(dtype)
