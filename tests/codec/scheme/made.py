"""Codes and tables made by hand, and the ways through a training, for the scheme's tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme import tables
from codec.scheme.limits import LOOK
from codec.scheme.tables import CodeTable
from codec.scheme.track import digest_sums
from tests.bits import same

Arrays = dict[str, np.ndarray]


def lengths(*values: int) -> np.ndarray:
    """Lengths of code words in bits, uint8."""
    return np.array(values, np.uint8)


def quantized(codes: Any) -> codec.Quantized:
    """Codes as if they had been quantized, renumbered so that every level but zero occurs."""
    codes = np.asarray(codes)
    used = np.unique(codes[codes > 0])
    new = np.zeros(int(codes.max(initial=0)) + 1, np.uint16)
    new[used] = np.arange(1, used.size + 1)
    levels = np.concatenate(([0], 2.0 - np.arange(used.size) / 1024)).astype(np.float32)
    narrow = np.uint8 if levels.size <= 256 else np.uint16
    return codec.Quantized(new[codes].astype(narrow), levels, codes.shape, None, None)


def sparse(n: int, survivors: dict[int, int]) -> np.ndarray:
    """n codes, most of them 0."""
    codes = np.zeros(n, np.uint16)
    codes[list(survivors)] = list(survivors.values())
    return codes


@contextmanager
def given(table: CodeTable | None) -> Iterator[None]:
    """Within, all that is encoded has this table; None changes nothing."""

    def choose(counts: tables.Counts, *_: Any) -> tables.Choice:
        assert table is not None
        bits = table.cost(counts)
        assert bits is not None
        return tables.Choice(table, bits, False, 0)

    with pytest.MonkeyPatch.context() as patch:
        if table is not None:
            patch.setattr(tables, "choose", choose)
        yield


def copied(state: Arrays) -> Arrays:
    """A copy of each array."""
    return {name: array.copy() for name, array in state.items()}


def same_deltas(a: codec.Delta, b: codec.Delta) -> None:
    """Assert that two deltas have the same bytes, sums and sizes."""
    assert a.nbytes == b.nbytes
    assert a.sums == b.sums
    assert same(a.exact, b.exact)
    assert a.non_finite == b.non_finite
    assert list(a.tables) == list(b.tables)
    for one, other in zip(a.groups, b.groups, strict=True):
        e, f = one.encoded, other.encoded
        assert e.payload.row == f.payload.row
        assert e.payload.head == f.payload.head
        assert e.payload.data.tobytes() == f.payload.data.tobytes()
        assert e.levels.tobytes() == f.levels.tobytes()
        assert (e.cached, e.saved_bits) == (f.cached, f.saved_bits)
        assert (e.shape, e.bits, e.coder) == (f.shape, f.bits, f.coder)
        assert e.code_lengths.tolist() == f.code_lengths.tolist()


class Ways:
    """All ways through a training, side by side: each leads to the same track."""

    def __init__(self, first: Arrays, **settings: Any) -> None:
        self.stepping, self.careful = (codec.Tracker(first, **settings) for _ in range(2))
        self.followed = self.stepping.track.copy()
        self.applied = copied(self.stepping.state)
        self.into: Arrays = {k: np.full_like(a, 7) for k, a in self.applied.items()}

    def step(self, state: Arrays) -> codec.Delta:
        """Take the next step in all ways. Preparing a delta twice gives the same one."""
        before = copied(self.careful.state)
        prepared = [self.careful.prepare(state) for _ in range(2)]
        assert same(self.careful.state, before)
        assert self.careful.track.sums == digest_sums(self.careful.track.layout, before)
        step = self.stepping.step(state)
        for one in prepared:
            same_deltas(step, one)
        self.careful.commit(prepared[1])
        assert self.followed.after(step, LOOK)[0] == step.sums
        assert same(self.followed.arrays, before)
        codec.apply(step, self.applied, self.into)
        assert same(self.applied, before)
        codec.apply(step, self.applied)
        self.followed.apply(step)
        for track in (self.careful.state, self.applied, self.into, self.followed.arrays):
            assert same(track, self.stepping.state)
        assert step.sums == digest_sums(self.stepping.track.layout, self.stepping.state)
        for each in (self.followed, self.stepping.track, self.careful.track):
            assert each.sums == step.sums
        return step
