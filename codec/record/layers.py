"""From neighbouring deltas to layers: the codes of several steps as one code for each element.

Most levels are zero, so two steps have few combinations of levels: one code stands for both, and
the runs of zeros are stored once. Deltas join a layer as long as a new one would not be smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from codec.scheme.arithmetic import matrices_of
from codec.scheme.coders import coder_of
from codec.scheme.delta import Delta, Group, alphabet_name
from codec.scheme.quantize import Codes, empty_codes
from codec.scheme.stream import MAX_BATCH_LEVELS, MAX_LEVELS, Encoded, Message, code, decode
from codec.scheme.survivors import packed
from codec.scheme.tables import CodeTable, Counts

from .merged import Layer, Moment

BLOCK = 2**20  # elements in one pass
MAX_PAIRS = 2**22  # of levels: more have more combinations than a layer can hold
# Bytes of one layer more: `]},{"steps":[` instead of a comma, and a padded row for each alphabet.
LAYER_NBYTES, ROW_NBYTES = 12, 8


@dataclass(frozen=True)
class _Alphabet:
    """The codes of one alphabet in a layer that still grows.

    codes: uint8 or uint16 (n,). levels: float32 (k, m), or (k, m, tensors) of a batch. encoded:
    both, coded.
    """

    group: Group
    codes: Codes
    levels: NDArray[np.float32]
    encoded: Encoded


def layers_of(deltas: Sequence[tuple[Moment, Delta]]) -> tuple[Layer, ...]:
    """Layers that stand for these deltas of one layout and of equal settings.

    Raises PayloadError for deltas that cannot be decoded.
    """
    layers: list[Layer] = []
    growing = _Growing()
    tables: dict[str, CodeTable] = {}
    for moment, delta in deltas:
        after = tables | growing.tables
        alone = tuple(_alone(group, after.get(name)) for group, name in _named(delta))
        both = None
        if growing.moments and not growing.non_finite and not delta.non_finite:
            both = _both(growing.alphabets, alone, [tables.get(name) for _, name in _named(delta)])
        if both is not None:
            growing = replace(growing, alphabets=both, moments=(*growing.moments, moment))
            continue
        layers += growing.layers
        names = tuple(name for _, name in _named(delta))
        growing, tables = _Growing(alone, names, (moment,), delta.non_finite), after
    return (*layers, *growing.layers)


@dataclass(frozen=True)
class _Growing:
    """A layer that more deltas may join. names: those of the alphabets."""

    alphabets: tuple[_Alphabet, ...] = ()
    names: tuple[str, ...] = ()
    moments: tuple[Moment, ...] = ()
    non_finite: tuple[str, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The finished layer; none if it has no moments."""
        groups = tuple(Group(a.group.tensors, a.encoded, None) for a in self.alphabets)
        return (Layer(groups, self.moments, self.non_finite),) if self.moments else ()

    @property
    def tables(self) -> dict[str, CodeTable]:
        """Alphabet -> its code table."""
        found = zip(self.names, (a.encoded.table for a in self.alphabets))
        return {name: table for name, table in found if table is not None}


def _named(delta: Delta) -> list[tuple[Group, str]]:
    return [(group, alphabet_name(delta.coding.scope, group.tensors)) for group in delta.groups]


def _alone(group: Group, previous: CodeTable | None) -> _Alphabet:
    """A delta as the first of a layer. previous: the code table used last."""
    q = decode(group.encoded)
    codes = q.codes.reshape(-1)
    levels = q.levels if group.encoded.is_batch else q.levels.reshape(-1, 1)
    counts = np.bincount(codes, minlength=len(levels)).astype(np.int64)
    return _Alphabet(group, codes, levels, _coded(codes, levels, counts, group, previous))


def _both(
    growing: Sequence[_Alphabet], alone: Sequence[_Alphabet], previous: Sequence[CodeTable | None]
) -> tuple[_Alphabet, ...] | None:
    """A layer and one more delta; None if that is larger or has too many combinations.

    previous: the code tables in use before the layer.
    """
    both: list[_Alphabet] = []
    for old, new, table in zip(growing, alone, previous, strict=True):
        joint = _combined(old, new, table)
        if joint is None:
            return None
        both.append(joint)
    apart = sum(a.encoded.nbytes for a in (*growing, *alone))
    apart += LAYER_NBYTES + ROW_NBYTES * len(both)
    return tuple(both) if sum(a.encoded.nbytes for a in both) <= apart else None


def _combined(old: _Alphabet, new: _Alphabet, previous: CodeTable | None) -> _Alphabet | None:
    k = len(new.levels)
    if len(old.levels) * k > MAX_PAIRS:
        return None
    pairs = np.zeros(len(old.levels) * k, np.int64)
    for block in _blocks(old.codes.size):
        pairs += np.bincount(_pairs(old, new, block), minlength=pairs.size)
    found = np.flatnonzero(pairs[1:]) + 1
    columns = old.levels[0].size + new.levels[0].size  # of all tensors of a batch
    if found.size >= MAX_LEVELS or (found.size + 1) * columns > MAX_BATCH_LEVELS:
        return None
    found = found[np.argsort(-pairs[found], kind="stable")]
    code_of = np.zeros(pairs.size, np.uint16)
    code_of[found] = np.arange(1, found.size + 1)
    codes = empty_codes(old.codes.size, found.size + 1)
    for block in _blocks(codes.size):
        codes[block] = code_of[_pairs(old, new, block)]
    rows = np.concatenate(([0], found))
    levels = np.hstack((old.levels[rows // k], new.levels[rows % k]))
    encoded = _coded(codes, levels, pairs[rows], old.group, previous)
    return _Alphabet(old.group, codes, levels, encoded)


def _pairs(old: _Alphabet, new: _Alphabet, block: slice) -> NDArray[np.int64]:
    return old.codes[block].astype(np.int64) * len(new.levels) + new.codes[block]


def _blocks(n: int) -> list[slice]:
    return [slice(begin, min(begin + BLOCK, n)) for begin in range(0, n, BLOCK)]


def _coded(
    codes: Codes,
    levels: NDArray[np.float32],
    counts: NDArray[np.int64],
    group: Group,
    previous: CodeTable | None,
) -> Encoded:
    e = group.encoded
    with packed(codes) as survivors:
        units, tokens = coder_of(e.coder).settle(survivors, None, counts)
        by_steps = e.uniform and levels.shape[1] == 1
        every = Counts(counts, tokens, by_steps)
        message = Message(survivors, units, every, levels, e.shape, e.bits, by_steps)
        if by_steps:
            message = message.with_arithmetic(matrices_of(group.tensors), e.coder)
        return code(message, e.coder, previous)[0]
