"""One delta of a run with every setting: in all, and tensor by tensor.

All begin at the track that the run itself had before, without code tables that were sent before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

import codec
from codec.scheme.stream import CODERS
from codec.scheme.track import SCOPES, Group, difference
from codec.state.tensors import Arrays, Layout
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.lab.dry_run import Unwritten
from lcviz.lab.step_tensors import word_bits

from .ab import Follower, Moment, Saved, Variant

MEASURES = ("bits", "error", "zeros")


@dataclass(frozen=True)
class Cell:
    """One tensor with one setting.

    bits: a parameter: of the code words that end in it, and its share of levels, code table and
    sizes of streams, which tensors of one alphabet share by their values. error: ||delta -
    quantized|| / ||delta||, 0 for a tensor that has not changed. zeros: share of its values that
    keep what the track has: those whose change is dropped, and those without any.
    """

    bits: float
    error: float
    zeros: float


@dataclass(frozen=True)
class ByTensor:
    """Every tensor of a delta with some settings.

    variants: one a column. rows: name -> a cell for each of them, None where the tensor is stored
    whole. sizes: name -> values.
    """

    step: int
    variants: tuple[Variant, ...]
    rows: dict[str, tuple[Cell | None, ...]]
    sizes: dict[str, int]


def every_variant() -> tuple[Variant, ...]:
    """All bits, scopes and coders."""
    return tuple(
        Variant(bits, scope, coder) for scope, coder, bits in product(SCOPES, CODERS, EVERY_BITS)
    )


def tried(layout: Layout, before: Arrays, moment: Moment) -> dict[Variant, Saved]:
    """The delta from a track to a state, with every variant. Raises codec.LccError."""
    return {v: Follower(v, layout, before).save(moment) for v in every_variant()}


def columns(variant: Variant) -> tuple[Variant, ...]:
    """A variant with every number of bits, and as it is if a budget takes their place."""
    every = tuple(replace(variant, bits=x, budget=None) for x in EVERY_BITS)
    return every if variant.budget is None else (*every, variant)


def by_tensor(
    layout: Layout, before: Arrays, moment: Moment, variants: Sequence[Variant]
) -> ByTensor:
    """The delta from a track to a state, tensor by tensor. Raises codec.LccError."""
    lossy = [t for t in layout.tensors if t.lossy]
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is stored whole
        deltas = {
            t.name: difference(moment.arrays[t.name], before[t.name]).reshape(-1) for t in lossy
        }
    norms = {name: _norm(delta) for name, delta in deltas.items()}
    found: dict[str, list[Cell | None]] = {t.name: [] for t in lossy}
    for v in variants:
        step = Unwritten(v, layout, before).prepare(moment.step, moment.arrays)
        cells = dict(c for group in step.groups for c in _cells(group, deltas, norms))
        for name, row in found.items():
            row.append(cells.get(name))
    rows = {name: tuple(row) for name, row in found.items()}
    return ByTensor(moment.step, tuple(variants), rows, {t.name: t.size for t in lossy})


def _cells(group: Group, deltas: Arrays, norms: Mapping[str, float]) -> Iterator[tuple[str, Cell]]:
    """By name. deltas: flat, of every tensor; norms: theirs."""
    e = group.encoded
    codes = codec.decode(e).codes
    words = word_bits(e, codes, [t.size for t in group.tensors])
    shared = (8 * e.nbytes - int(words.sum())) / group.n
    begin = 0
    for t, own in zip(group.tensors, words.tolist(), strict=True):
        mine = e.levels[codes.reshape(-1)[begin : begin + t.size]]
        begin += t.size
        whole = norms[t.name]
        error = _norm(deltas[t.name] - mine) / whole if whole else 0.0
        zeros = float(np.count_nonzero(mine == 0)) / t.size
        yield t.name, Cell(own / t.size + shared, error, zeros)


def _norm(values: NDArray[np.float32]) -> float:
    """Squares are summed in float64, and here: threads of BLAS wait for each other, and add in
    another order every time."""
    return math.sqrt(float(np.einsum("i,i->", values, values, dtype=np.float64)))
