"""One step of a chain, tensor by tensor: what its record changes, and what is restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import codec
from codec import Encoded
from codec.errors import StepNotFoundError
from codec.inspect import (
    Arrays,
    Group,
    Layout,
    Position,
    TensorSpec,
    element_bits,
    from_arrays,
)

from .codewords import tokens_of

T = TypeVar("T", bound=np.generic)
MOST_COMPARED = 64 * 2**20  # bytes of a state that is compared with its base
_AS_NUMBERS = ("F64", "F32", "F16", "BF16", "BOOL")


@dataclass(frozen=True)
class TensorFacts:
    """One tensor at one step.

    dtype: safetensors' name. stored: how the record holds it: "base", "codes", "whole", "residual"
    or "unchanged". changed: number of values whose level is not 0; None without codes. bits: per
    parameter, of the code words that end in the tensor, of the values stored whole or of the
    residual; None if it has no values. largest: magnitude of the largest level that occurs. low,
    high, mean, std: of the finite values that a restart loads; None if there are none or they are
    not real numbers. n_not_finite: number of values that are not finite. target: of an optimizer's
    moment, as "octaves=0.25", whose levels are in this measure; "" for others.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    n: int
    stored: str
    changed: int | None
    bits: float | None
    largest: float | None
    low: float | None
    high: float | None
    mean: float | None
    std: float | None
    n_not_finite: int
    target: str = ""


@dataclass(frozen=True, eq=False)
class StepFacts:
    """A restored step.

    name: file name of its record. groups: its alphabets. state: the restored track. farthest:
    float32 tensor -> the value that has moved farthest since the base, by its place in C order, and
    how far; empty for gradients, and for a state of more than MOST_COMPARED bytes. needs_rerun:
    whether the record holds gradients: a restart computes other parameters than the track's.
    """

    step: int
    name: str
    kind: str
    tensors: tuple[TensorFacts, ...]
    groups: tuple[Group, ...]
    state: Arrays
    farthest: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    needs_rerun: bool = False


def rebuild_step(
    chain: codec.Chain, step: int, progress: Callable[[int], None] | None = None
) -> StepFacts:
    """Rebuild a step from the last base before it, and describe all of its tensors.

    progress: called with each step that is rebuilt on the way. Raises what `Chain.replay` does.
    """
    position: Position | None = None
    base: Arrays = {}
    for position in chain.replay(step):
        if not base and position.track.layout.nbytes <= MOST_COMPARED:
            base = {name: array.copy() for name, array in position.track.arrays.items()}
        if progress:
            progress(position.step)
    if position is None or position.step != step:
        raise StepNotFoundError(f"{chain.where}: no record leads to step {step}")
    record, delta = position.record, position.delta
    groups: tuple[Group, ...] = ()
    whole: Arrays = {}
    residuals: Mapping[str, int] = {}  # name -> bytes
    if delta is not None:
        groups, whole = delta.groups, _transition_arrays(delta) | delta.exact
        residuals = {name: residual.nbytes for name, residual in delta.residuals.items()}
    coded: dict[str, tuple[int, float, float | None]] = {}
    for group in groups:
        coded |= _of_group(group)
    if record.kind == "base":
        whole = position.track.arrays
    tensors = []
    for spec in position.track.layout.tensors:
        stored: tuple[Any, ...] = ("unchanged", 0, 0.0, None)
        if spec.name in whole:
            bits = 8 * whole[spec.name].nbytes / spec.size if spec.size else None
            stored = ("base" if record.kind == "base" else "whole", None, bits, None)
        elif spec.name in residuals:
            stored = ("residual", None, 8 * residuals[spec.name] / spec.size, None)
        elif spec.name in coded:
            stored = ("codes", *coded[spec.name])
        target = str(spec.family.target) if spec.measure else ""
        stored = *stored, *_summary(position.track.arrays[spec.name], spec), target
        tensors.append(TensorFacts(spec.name, spec.shape, spec.dtype, spec.size, *stored))
    state = {name: array.copy() for name, array in position.track.arrays.items()}
    name, kind, rerun = position.entry.name, record.kind, position.needs_rerun
    farthest = {} if rerun else _farthest(base, state)
    return StepFacts(step, name, kind, tuple(tensors), groups, state, farthest, rerun)


def _farthest(base: Arrays, state: Arrays) -> dict[str, tuple[int, float]]:
    """The values that have moved farthest, see `StepFacts`."""
    moved = {}
    for name, array in state.items():
        before = base.get(name)
        if before is None or array.dtype != np.float32 or before.shape != array.shape:
            continue
        with np.errstate(invalid="ignore", over="ignore"):  # values may be anything
            distances = np.nan_to_num(np.abs(array - before), posinf=0.0).reshape(-1)
        if distances.size:
            moved[name] = int(distances.argmax()), float(distances.max())
    return moved


def _transition_arrays(delta: codec.Delta) -> Arrays:
    """The arrays that a step's transition stores, without the new rows of tensors with codes."""
    if delta.transition is None:
        return {}
    arrays, layout = delta.transition.arrays, delta.transition.layout
    return {
        t.name: arrays[t.name]
        for t in layout.tensors
        if t.name in arrays and (not t.lossy or arrays[t.name].shape == t.shape)
    }


def _of_group(group: Group) -> dict[str, tuple[int, float, float | None]]:
    """Tensor name -> number of values changed, bits per parameter, largest magnitude."""
    e = group.encoded
    codes = codec.decode(e).codes
    bits = word_bits(e, codes, [t.size for t in group.tensors])
    coded = {}
    for spec, own, nbits in zip(group.tensors, by_tensor(group, codes), bits.tolist()):
        counts = np.bincount(own, minlength=e.k)
        present = np.abs(e.levels[(counts > 0) & (e.levels != 0)])
        coded[spec.name] = (
            int(counts[e.levels != 0].sum()),
            nbits / spec.size,
            float(present.max()) if present.size else None,
        )
    return coded


def by_tensor(group: Group, values: NDArray[T]) -> list[NDArray[T]]:
    """Values (n,), one for each element of an alphabet, apart by tensor: views."""
    return np.split(values, np.cumsum([t.size for t in group.tensors[:-1]]))


def alphabet_text(group: Group) -> str:
    """An alphabet's name on pages: its tensor, or how many tensors, and their family."""
    first, *more = group.tensors
    kind = str(first.family)
    return f"{1 + len(more):,} tensors{kind and f', {kind}'}" if more else first.name


def word_bits(
    e: Encoded, codes: NDArray[np.unsignedinteger], sizes: Sequence[int]
) -> NDArray[np.int64]:
    """Bits of the code words that end in each tensor: int64, as many as ``sizes``.

    codes: (n,), decoded. A run of zeros counts where the value after it is; where values share
    the bits, every element has its share. The sum is ``e.payload_bits``.
    """
    borders = np.cumsum([0, *sizes])
    if e.payload.SHARED:
        each = np.concatenate(([0], np.cumsum(element_bits(e))))
        share = each[borders] * (e.payload_bits / each[-1])
        return np.diff(np.round(share).astype(np.int64))
    if e.table is None:
        return np.zeros(len(sizes), np.int64)
    if e.table.classes == 1:
        each = np.concatenate(([0], np.cumsum(e.table.lengths[codes], dtype=np.int64)))
        return np.diff(each[borders])
    at, _, words = tokens_of(e, codes)
    each = np.concatenate(([0], np.cumsum(words)))
    return np.diff(each[np.searchsorted(at, borders)])


def numbers(array: NDArray[np.generic], spec: TensorSpec) -> NDArray[np.generic] | None:
    """The values that a restart loads, as real numbers; None for complex and float8.

    array: of the track. Lossy tensors are rounded to their dtype, to nearest, ties to even.
    """
    if spec.dtype not in _AS_NUMBERS and spec.dtype[0] not in "IU":
        return None
    if spec.dtype not in ("F16", "BF16"):
        return array
    loaded = from_arrays({spec.name: array}, Layout((spec,)))[spec.name]
    return loaded if isinstance(loaded, np.ndarray) else loaded.float().numpy()


def _summary(
    array: NDArray[np.generic], spec: TensorSpec
) -> tuple[float | None, float | None, float | None, float | None, int]:
    """Minimum, maximum, mean and standard deviation of the finite values; number of others."""
    values = numbers(array, spec)
    if values is None:
        return None, None, None, None, 0
    everything = values.astype(np.float64)
    finite = everything[np.isfinite(everything)]
    n_not_finite = everything.size - finite.size
    if not finite.size:
        return None, None, None, None, n_not_finite
    with np.errstate(over="ignore"):  # float64 tensors may hold anything
        low, high, mean, std = (f(finite) for f in (np.min, np.max, np.mean, np.std))
    return float(low), float(high), float(mean), float(std), n_not_finite
