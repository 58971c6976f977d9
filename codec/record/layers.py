"""Joins neighbouring deltas to layers, in which an element has one code for several steps.

Most levels are zero, so two steps have few combinations of levels: one code stands for both, and
the runs of zeros are stored once. A delta joins the layer before it unless that takes more bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from codec.scheme.delta import Delta, Group, alphabet_name
from codec.scheme.payload import ROW_NBYTES, matrices_of
from codec.scheme.quantize import Codes, empty_codes
from codec.scheme.stream import MAX_BATCH_LEVELS, MAX_LEVELS, Encoded, LosslessStage, code, decode
from codec.scheme.survivors import packed
from codec.scheme.tables import CodeTable

from .merged import Layer, MergedStep

BLOCK = 2**20  # elements in one pass
MAX_PAIRS = 2**22  # of levels: with more, a layer could hardly hold the pairs that occur
# Bytes that another layer takes: `]},{"steps":[` instead of a comma, and a row for each alphabet.
LAYER_NBYTES = 12


@dataclass(frozen=True)
class _Alphabet:
    """One alphabet of a layer that still grows.

    group: that of its first delta. codes: uint8 or uint16 (n,). levels: float32 (k, m), or
    (k, m, tensors) of a batch. encoded: the encoding of codes and levels.
    """

    group: Group
    codes: Codes
    levels: NDArray[np.float32]
    encoded: Encoded


def layers_of(
    deltas: Sequence[tuple[MergedStep, Delta]], coder: str | None = None
) -> tuple[Layer, ...]:
    """Layers that stand for these deltas of one layout and of equal settings.

    coder: The coder's name; None for that of the deltas. Raises PayloadError for deltas that cannot
    be decoded.
    """
    layers: list[Layer] = []
    growing = _Growing()
    tables: dict[str, CodeTable] = {}  # in use before the growing layer
    for step, delta in deltas:
        tables_after = tables | growing.tables
        groups = _named_groups(delta, coder)
        names = tuple(name for name, _ in groups)
        alphabets = tuple(_first(group, tables_after.get(name)) for name, group in groups)
        joint = None
        if growing.steps and not growing.non_finite and not delta.non_finite:
            joint = _joint(growing.alphabets, alphabets, [tables.get(name) for name in names])
        if joint is not None:
            growing = replace(growing, alphabets=joint, steps=(*growing.steps, step))
            continue
        layers += growing.layers
        growing, tables = _Growing(alphabets, names, (step,), delta.non_finite), tables_after
    return (*layers, *growing.layers)


@dataclass(frozen=True)
class _Growing:
    """A layer that more deltas may join. names: the alphabets' names."""

    alphabets: tuple[_Alphabet, ...] = ()
    names: tuple[str, ...] = ()
    steps: tuple[MergedStep, ...] = ()
    non_finite: tuple[str, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The finished layer alone; () if it has no steps."""
        groups = tuple(Group(a.group.tensors, a.encoded) for a in self.alphabets)
        return (Layer(groups, self.steps, self.non_finite),) if self.steps else ()

    @property
    def tables(self) -> dict[str, CodeTable]:
        """Alphabet -> its code table."""
        tables = zip(self.names, (a.encoded.table for a in self.alphabets))
        return {name: table for name, table in tables if table is not None}


def _named_groups(delta: Delta, coder: str | None) -> list[tuple[str, Group]]:
    """The groups of a delta, each after the name of its alphabet, to be coded by a coder."""
    groups = delta.groups
    if coder is not None:
        groups = tuple(replace(g, encoded=replace(g.encoded, coder=coder)) for g in groups)
    return [(alphabet_name(delta.coding.scope, group.tensors), group) for group in groups]


def _first(group: Group, previous: CodeTable | None) -> _Alphabet:
    """An alphabet of the first delta of a layer. previous: the last code table."""
    q = decode(group.encoded)
    codes = q.codes.reshape(-1)
    levels = q.levels if group.encoded.is_batch else q.levels.reshape(-1, 1)
    counts = np.bincount(codes, minlength=len(levels)).astype(np.int64)
    return _Alphabet(group, codes, levels, _coded(codes, levels, counts, group, previous))


def _joint(
    growing: Sequence[_Alphabet], added: Sequence[_Alphabet], previous: Sequence[CodeTable | None]
) -> tuple[_Alphabet, ...] | None:
    """The alphabets of a layer with one more delta; None if they take fewer bytes apart, or if no
    layer can hold them together.

    previous: the code tables in use before the layer.
    """
    joint: list[_Alphabet] = []
    for old, new, table in zip(growing, added, previous, strict=True):
        alphabet = _combined(old, new, table)
        if alphabet is None:
            return None
        joint.append(alphabet)
    separate_nbytes = sum(a.encoded.nbytes for a in (*growing, *added))
    separate_nbytes += LAYER_NBYTES + ROW_NBYTES * len(joint)
    return tuple(joint) if sum(a.encoded.nbytes for a in joint) <= separate_nbytes else None


def _combined(old: _Alphabet, new: _Alphabet, previous: CodeTable | None) -> _Alphabet | None:
    """An alphabet whose codes stand for pairs of old and new codes; None if there are too many."""
    k = len(new.levels)
    if len(old.levels) * k > MAX_PAIRS:
        return None
    counts = np.zeros(len(old.levels) * k, np.int64)  # of each pair
    for block in _blocks(old.codes.size):
        counts += np.bincount(_pairs(old, new, block), minlength=counts.size)
    symbols = np.flatnonzero(counts[1:]) + 1  # pairs that occur, without two zeros
    columns = old.levels[0].size + new.levels[0].size  # of all tensors of a batch
    if symbols.size >= MAX_LEVELS or (symbols.size + 1) * columns > MAX_BATCH_LEVELS:
        return None
    symbols = symbols[np.argsort(-counts[symbols], kind="stable")]
    code_of = np.zeros(counts.size, np.uint16)
    code_of[symbols] = np.arange(1, symbols.size + 1)
    codes = empty_codes(old.codes.size, symbols.size + 1)
    for block in _blocks(codes.size):
        codes[block] = code_of[_pairs(old, new, block)]
    pairs = np.concatenate(([0], symbols))
    levels = np.hstack((old.levels[pairs // k], new.levels[pairs % k]))
    encoded = _coded(codes, levels, counts[pairs], old.group, previous)
    return _Alphabet(old.group, codes, levels, encoded)


def _pairs(old: _Alphabet, new: _Alphabet, block: slice) -> NDArray[np.int64]:
    """int64: each element's pair of codes as one number."""
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
    """Encode codes and levels with the settings of a group. counts: of each code."""
    e = group.encoded
    single = levels.size == len(levels)  # of one step, and no batch
    matrices = matrices_of(group.tensors) if single else ()
    stage = LosslessStage(e.coder, e.shape, matrices, previous, e.bits)
    with packed(codes) as survivors:
        uniform = e.uniform and single
        return code(stage.message(survivors, counts, levels, uniform=uniform))[0]
