"""How many values of each step got a level of which exponent: from decoded codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import codec
from codec.record.merged import merged_of
from codec.record.record import delta_of
from codec.scheme.stream import Encoded
from lcviz.lab.lesson import BIAS
from lcviz.lab.records import Read


@dataclass(frozen=True)
class Moved:
    """One step. counts: exponent -> values that got a level of it, of either sign; -127 are
    subnormal levels. zeros: values that got none. n: all values with a code."""

    step: int
    counts: Mapping[int, int]
    zeros: int
    n: int


def moved(chain: codec.Chain, read: Read) -> tuple[Moved, ...]:
    """The steps of one delta or merged record; none of a base.

    Raises RecordError or PayloadError if the record does not decode, and what `Chain.read` does.
    """
    layout = read.before.layout
    if layout is None or read.facts.entry.kind == "base":
        return ()
    record = chain.read(read.facts.entry)
    if record.kind == "delta":
        delta = delta_of(record, layout, dict(read.before.tables))
        return _counted([g.encoded for g in delta.groups], [record.step])
    return tuple(
        one
        for layer in merged_of(record, layout).layers
        for one in _counted([g.encoded for g in layer.groups], [m.step for m in layer.moments])
    )


def _counted(encoded: list[Encoded], steps: list[int]) -> tuple[Moved, ...]:
    """One each of these steps, coded together."""
    every: list[dict[int, int]] = [{} for _ in steps]
    zeros, n = [0] * len(steps), 0
    for e in encoded:
        counts = np.bincount(codec.decode(e).codes, minlength=e.k)
        n += int(counts.sum())
        levels = e.levels.reshape(e.k, -1)
        exponents = (levels.view(np.uint32) >> 23 & 0xFF).astype(np.int64) - BIAS
        for i, own in enumerate(every):
            still = levels[:, i] == 0
            zeros[i] += int(counts[still].sum())
            for exponent in np.unique(exponents[~still, i]).tolist():
                here = (exponents[:, i] == exponent) & ~still
                own[exponent] = own.get(exponent, 0) + int(counts[here].sum())
    return tuple(
        Moved(step, {e: c for e, c in sorted(own.items()) if c}, still_zero, n)
        for step, own, still_zero in zip(steps, every, zeros)
    )
