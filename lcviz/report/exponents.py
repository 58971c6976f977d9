"""Histograms of each step's levels by exponent, counted from decoded codes of weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import codec
from codec.inspect import Track, delta_of
from lcviz.lab.lesson import BIAS
from lcviz.lab.records import RecordFacts


@dataclass(frozen=True)
class StepExponents:
    """Histogram of one step's levels by exponent.

    counts: exponent -> number of weights whose level has it, with either sign; -127 stands for
    subnormal levels. zeros: number of weights with level 0. n: number of all coded weights.
    """

    step: int
    counts: Mapping[int, int]
    zeros: int
    n: int


def count_exponents(chain: codec.Chain, facts: RecordFacts) -> StepExponents | None:
    """How many levels of a delta have each exponent; None for a base.

    Raises RecordError or PayloadError if the record does not decode, and what `Chain.read` raises.
    """
    layout = facts.before.layout
    if layout is None or facts.entry.kind == "base":
        return None
    # Decoding needs the layout and the last code tables only.
    track = Track(layout, {}, {}, dict(facts.before.tables))
    delta = delta_of(chain.read(facts.entry), track)
    counter: Counter[int] = Counter()
    zeros = 0
    weights = [group.encoded for group in delta.groups if not group.encoded.measure]
    n = 0
    for encoded in weights:
        counts, levels = codec.decode(encoded).counts, encoded.levels
        n += int(counts.sum())
        exponents = (levels.view(np.uint32) >> 23 & 0xFF).astype(np.int64) - BIAS
        is_zero = levels == 0
        zeros += int(counts[is_zero].sum())
        for exponent in np.unique(exponents[~is_zero]).tolist():
            counter[exponent] += int(counts[(exponents == exponent) & ~is_zero].sum())
    by_exponent = {e: c for e, c in sorted(counter.items()) if c}
    return StepExponents(facts.entry.step, by_exponent, zeros, n)
