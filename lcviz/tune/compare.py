"""One delta of a run, saved with one setting or with all: bytes, distance, and each tensor.

Every trial begins at the track that the run itself had before, without older code tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

import codec
from codec import Coding
from codec.inspect import CODERS, SCOPES, Arrays, DryRun, Group, Layout, difference, record_nbytes
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.lab.measures import distance
from lcviz.lab.series import LossOf
from lcviz.lab.step_tensors import by_tensor, word_bits


@dataclass(frozen=True)
class OneDelta:
    """A checkpoint of a run.

    before: the track before it, name -> array. after: the state that was saved. moved: ||after -
    u_0||, the denominator of distances.
    """

    run_id: str
    step: int
    layout: Layout
    before: Arrays
    after: Arrays
    moved: float


@dataclass(frozen=True)
class TensorTrial:
    """One tensor of a delta with one setting.

    bits: per parameter: of the code words that end in it, and its share of levels, code table and
    sizes of streams, which tensors of one alphabet share by their values. error: ||delta -
    quantized|| / ||delta||, 0 for a tensor that has not changed. zeros: share of its values that
    keep what the track has: those whose change is dropped, and those without any.
    """

    bits: float
    error: float
    zeros: float


@dataclass(frozen=True)
class Trial:
    """A delta with one setting.

    nbytes: of its record, on disk. buckets: how many are kept. distance: ||restored - after|| /
    ||after - u_0||. loss: of the restored model, and tensors: name -> one tensor, None where it is
    stored whole; NaN and {} where only sizes were asked for.
    """

    nbytes: int
    buckets: int
    distance: float
    loss: float = math.nan
    tensors: Mapping[str, TensorTrial | None] = field(default_factory=dict)


def all_settings() -> tuple[Coding, ...]:
    """Every number of bits with both scopes and coders."""
    return tuple(
        Coding(bits, scope, coder) for scope, coder, bits in product(SCOPES, CODERS, EVERY_BITS)
    )


def try_all(delta: OneDelta) -> dict[Coding, Trial]:
    """The delta with every setting: sizes and distances. Raises codec.LccError."""
    return {coding: try_one(delta, coding) for coding in all_settings()}


def try_one(delta: OneDelta, coding: Coding, loss_of: LossOf | None = None) -> Trial:
    """The delta with one setting; with a loss_of also the restored loss and every tensor.

    Raises codec.LccError.
    """
    chain = DryRun(coding, delta.layout, delta.before)
    step = chain.prepare(delta.step, delta.after)
    nbytes = record_nbytes(delta.step, step, delta.layout)
    buckets = sum(group.encoded.n_levels for group in step.groups)
    tensors = {} if loss_of is None else _tensors(delta, step.groups)
    chain.commit(step)
    off = distance(chain.track, delta.after)
    off = off / delta.moved if delta.moved else 0.0
    loss = math.nan if loss_of is None else loss_of(chain.track)
    return Trial(nbytes, buckets, off, loss, tensors)


def _tensors(delta: OneDelta, groups: tuple[Group, ...]) -> dict[str, TensorTrial | None]:
    trials: dict[str, TensorTrial | None] = {t.name: None for t in delta.layout.tensors if t.lossy}
    for group in groups:
        trials.update(_of_group(group, delta))
    return trials


def _of_group(group: Group, delta: OneDelta) -> Iterator[tuple[str, TensorTrial]]:
    """The tensors that are coded together, by name."""
    e = group.encoded
    codes = codec.decode(e).codes
    words = word_bits(e, codes, [t.size for t in group.tensors])
    shared = (8 * e.nbytes - int(words.sum())) / group.n
    moves = by_tensor(group, e.levels[codes])
    for t, mine, nbits in zip(group.tensors, moves, words.tolist(), strict=True):
        changes = difference(delta.after[t.name], delta.before[t.name]).reshape(-1)
        whole = _norm(changes)
        error = _norm(changes - mine) / whole if whole else 0.0
        zeros = float(np.count_nonzero(mine == 0)) / t.size
        yield t.name, TensorTrial(nbits / t.size + shared, error, zeros)


def _norm(values: NDArray[np.float32]) -> float:
    """Squares are summed in float64, without BLAS, whose threads add in another order each time."""
    return math.sqrt(float(np.einsum("i,i->", values, values, dtype=np.float64)))
