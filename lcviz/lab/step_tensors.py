"""One step of a chain, tensor by tensor: what its record changes, and what is restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codec
from codec import Encoded
from codec.errors import StepNotFoundError
from codec.inspect import Arrays, Group, Position, TensorSpec, element_bits, merged_of

from .batches import by_levels
from .codewords import tokens_of

_AS_NUMBERS = ("F64", "F32", "F16", "BF16", "BOOL")


@dataclass(frozen=True)
class TensorFacts:
    """One tensor at one step.

    dtype: safetensors' name. stored: how the record has it: "base", "codes", "whole", "residual" or
    "unchanged". changed: values whose level is not 0; None without codes. bits: per parameter, of
    the code words that end in it (an equal share of them where they stand for several steps), of
    the values stored whole or of the residual; None if it has no values. largest: magnitude of its
    largest level that occurs. low, high, mean, std: of the finite values a restart gets; None if
    there are none or they are not real numbers. odd: how many values are not finite.
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
    odd: int


@dataclass(frozen=True, eq=False)
class StepFacts:
    """A restored step.

    name: file name of its record. together: how many steps the code words stand for at once, 1
    except in a merged record. groups: its alphabets; of a merged record those of the layer with
    this step. column: which column of their levels is this step's, None for a plain delta. state:
    the restored track. needs_rerun: whether the record holds gradients, so that a restart gets
    other parameters than the track has.
    """

    step: int
    name: str
    kind: str
    together: int
    tensors: tuple[TensorFacts, ...]
    groups: tuple[Group, ...]
    column: int | None
    state: Arrays
    needs_rerun: bool = False


def rebuild_step(
    chain: codec.Chain, step: int, progress: Callable[[int], None] | None = None
) -> StepFacts:
    """Rebuild a step from the last base before it, and describe all of its tensors.

    progress(step just rebuilt) is called on the way. Raises what `Chain.replay` does.
    """
    position: Position | None = None
    for position in chain.replay(step):
        if progress:
            progress(position.step)
    if position is None or position.step != step:
        raise StepNotFoundError(f"{chain.where}: no record leads to step {step}")
    record, delta, column, together = position.record, position.delta, None, 1
    groups: tuple[Group, ...] = ()
    whole: Arrays = {}
    residuals: Mapping[str, int] = {}  # name -> bytes
    if delta is not None:
        groups, whole = delta.groups, _given(delta) | delta.exact
        residuals = {name: sum(r.nbytes for r in own) for name, own in delta.residuals.items()}
    elif record.kind == "merged":
        for layer in merged_of(record, position.track.layout).layers:
            for i, moment in enumerate(layer.moments):
                if moment.step == step:
                    groups, whole, column = layer.groups, moment.exact, i
                    residuals = {name: r.nbytes for name, r in moment.residuals.items()}
                    together = len(layer.moments)
    coded = {name: found for group in groups for name, found in _of_group(group, column).items()}
    tensors = []
    for spec in position.track.layout.tensors:
        array = position.track.arrays[spec.name]
        stored: tuple[Any, ...] = ("unchanged", 0, 0.0, None)
        if record.kind == "base" or spec.name in whole:
            how = "base" if record.kind == "base" else "whole"
            nbytes = array.nbytes if record.kind == "base" else whole[spec.name].nbytes
            stored = (how, None, 8 * nbytes / spec.size if spec.size else None, None)
        elif spec.name in residuals:
            stored = ("residual", None, 8 * residuals[spec.name] / spec.size, None)
        elif spec.name in coded:
            stored = ("codes", *coded[spec.name])
        stored += _summary(array, spec)
        tensors.append(TensorFacts(spec.name, spec.shape, spec.dtype, spec.size, *stored))
    state = {name: array.copy() for name, array in position.track.arrays.items()}
    name, kind = position.entry.name, record.kind
    own = (step, name, kind, together, tuple(tensors), groups, column, state)
    return StepFacts(*own, needs_rerun=position.needs_rerun)


def _given(delta: codec.Delta) -> Arrays:
    """The arrays that a step's transition stores, without the new rows of tensors with codes."""
    if delta.transition is None:
        return {}
    given, layout = delta.transition.arrays, delta.transition.layout
    return {
        t.name: given[t.name]
        for t in layout.tensors
        if t.name in given and (not t.lossy or given[t.name].shape == t.shape)
    }


def _of_group(group: Group, column: int | None) -> dict[str, tuple[int, float, float | None]]:
    """Name -> values changed, bits per parameter, largest magnitude, of tensors with codes."""
    e = group.encoded
    sizes = [t.size for t in group.tensors]
    bits = iter(word_bits(e, codec.decode(e).codes.reshape(-1), sizes) / max(e.columns, 1))
    found = {}
    for tensors, codes, levels in by_levels(group, column):
        begin = 0
        for spec in tensors:
            counts = np.bincount(codes[begin : begin + spec.size], minlength=e.k)
            present = np.abs(levels[(counts > 0) & (levels != 0)])
            found[spec.name] = (
                int(counts[levels != 0].sum()),
                float(next(bits)) / spec.size,
                float(present.max()) if present.size else None,
            )
            begin += spec.size
    return found


def word_bits(
    e: Encoded, codes: NDArray[np.unsignedinteger], sizes: Sequence[int]
) -> NDArray[np.int64]:
    """Bits of the code words that end in each of the tensors: int64, as many as ``sizes``.

    codes: (n,), decoded. A run of zeros counts where the value after it is; of an arithmetic code
    every element has its share. They add up to ``e.payload_bits``.
    """
    borders = np.cumsum([0, *sizes])
    if e.arithmetic:
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
    """The values a restart gets, as an array of real numbers; None for complex and float8.

    array: of the track. What is lossy is rounded to its own dtype, to nearest, ties to even.
    """
    if spec.dtype not in _AS_NUMBERS and spec.dtype[0] not in "IU":
        return None
    if spec.dtype == "F16":
        with np.errstate(over="ignore"):  # beyond 65504 it becomes infinite
            return array.astype(np.float16)
    if spec.dtype == "BF16" and spec.lossy:
        return _rounded(array.astype(np.float32))
    if spec.dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def _rounded(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """float32 to the nearest bfloat16, ties to even."""
    bits = array.reshape(-1).view(np.uint32)
    kept = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    kept = np.where(np.isnan(array.reshape(-1)), bits, kept).astype(np.uint32)
    return kept.view(np.float32).reshape(array.shape)


def _summary(
    array: NDArray[np.generic], spec: TensorSpec
) -> tuple[float | None, float | None, float | None, float | None, int]:
    """Minimum, maximum, mean and standard deviation of the finite values; how many are not."""
    values = numbers(array, spec)
    if values is None or not values.size:
        return None, None, None, None, 0
    finite = values.astype(np.float64)
    here = np.isfinite(finite)
    odd = int(finite.size - np.count_nonzero(here))
    finite = finite[here]
    if not finite.size:
        return None, None, None, None, odd
    with np.errstate(over="ignore"):  # float64 tensors may hold anything
        low, high, mean, std = (f(finite) for f in (np.min, np.max, np.mean, np.std))
    return float(low), float(high), float(mean), float(std), odd
