"""One delta of a run tensor by tensor, with several settings.

All begin at the track that the run itself had before, without older code tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import codec
from codec import Coding
from codec.inspect import Arrays, Group, Layout, difference
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.lab.batches import by_levels
from lcviz.lab.dry_run import DryRun
from lcviz.lab.step_tensors import word_bits

from .ab import RunState


@dataclass(frozen=True)
class Cell:
    """One tensor with one setting.

    bits: per parameter: of the code words that end in it, and its share of levels, code table and
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

    choices: one a column. rows: name -> a cell for each of them, None where the tensor is stored
    whole. sizes: name -> values.
    """

    step: int
    choices: tuple[Coding, ...]
    rows: dict[str, tuple[Cell | None, ...]]
    sizes: dict[str, int]


def choices_in_columns(choice: Coding) -> tuple[Coding, ...]:
    """A choice with every number of bits, and itself if bits do not decide."""
    columns = tuple(choice.keeping(x) for x in EVERY_BITS)
    return columns if choice.by_bits else (*columns, choice)


def by_tensor(
    layout: Layout, before: Arrays, state: RunState, choices: Sequence[Coding]
) -> ByTensor:
    """The delta from a track to a state, tensor by tensor. Raises codec.LccError."""
    lossy = [t for t in layout.tensors if t.lossy]
    with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is stored whole
        deltas = {
            t.name: difference(state.arrays[t.name], before[t.name]).reshape(-1) for t in lossy
        }
    norms = {name: _norm(delta) for name, delta in deltas.items()}
    found: dict[str, list[Cell | None]] = {t.name: [] for t in lossy}
    for v in choices:
        step = DryRun(v, layout, before).prepare(state.step, state.arrays)
        cells = dict(c for group in step.groups for c in _cells(group, deltas, norms))
        for name, row in found.items():
            row.append(cells.get(name))
    rows = {name: tuple(row) for name, row in found.items()}
    return ByTensor(state.step, tuple(choices), rows, {t.name: t.size for t in lossy})


def _cells(group: Group, deltas: Arrays, norms: Mapping[str, float]) -> Iterator[tuple[str, Cell]]:
    """By name. deltas: flat, of every tensor; norms: theirs."""
    e = group.encoded
    codes = codec.decode(e).codes
    words = word_bits(e, codes, [t.size for t in group.tensors])
    shared = (8 * e.nbytes - int(words.sum())) / group.n
    moves = np.concatenate([levels[codes] for _, codes, levels in by_levels(group)])
    begin = 0
    for t, own in zip(group.tensors, words.tolist(), strict=True):
        mine = moves[begin : begin + t.size]
        begin += t.size
        whole = norms[t.name]
        error = _norm(deltas[t.name] - mine) / whole if whole else 0.0
        zeros = float(np.count_nonzero(mine == 0)) / t.size
        yield t.name, Cell(own / t.size + shared, error, zeros)


def _norm(values: NDArray[np.float32]) -> float:
    """Squares are summed in float64, without BLAS, whose threads add in another order each time."""
    return math.sqrt(float(np.einsum("i,i->", values, values, dtype=np.float64)))
