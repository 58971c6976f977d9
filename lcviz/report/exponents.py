"""Histograms of each step's levels by exponent, counted from decoded codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import codec
from codec.inspect import Group, Track, delta_of, merged_of
from lcviz.lab.batches import by_levels
from lcviz.lab.lesson import BIAS
from lcviz.lab.records import RecordFacts


@dataclass(frozen=True)
class StepExponents:
    """Histogram of one step's levels by exponent.

    counts: exponent -> number of values whose level has it, with either sign; -127 stands for
    subnormal levels. zeros: number of values with level 0. n: number of all coded values.
    """

    step: int
    counts: Mapping[int, int]
    zeros: int
    n: int


def count_exponents(chain: codec.Chain, facts: RecordFacts) -> tuple[StepExponents, ...]:
    """How many levels have each exponent, for each step of a delta or merged record; () for a base.

    Raises RecordError or PayloadError if the record does not decode, and what `Chain.read` raises.
    """
    layout = facts.before.layout
    if layout is None or facts.entry.kind == "base":
        return ()
    record = chain.read(facts.entry)
    if record.kind == "delta":
        # Decoding needs the layout and the last code tables only.
        delta = delta_of(record, Track(layout, {}, {}, dict(facts.before.tables)))
        return _exponents_of_steps(delta.groups, [record.step])
    return tuple(
        exponents
        for layer in merged_of(record, layout).layers
        for exponents in _exponents_of_steps(layer.groups, [step.number for step in layer.steps])
    )


def _exponents_of_steps(groups: Sequence[Group], steps: list[int]) -> tuple[StepExponents, ...]:
    """A histogram for each of these steps, which are coded together."""
    counters: list[Counter[int]] = [Counter() for _ in steps]
    zeros = [0] * len(steps)
    n = sum(group.n for group in groups)
    for i, counter in enumerate(counters):
        column = i if len(steps) > 1 else None
        for _, codes, levels in (part for g in groups for part in by_levels(g, column)):
            counts = np.bincount(codes, minlength=levels.size)
            levels = np.ascontiguousarray(levels).reshape(-1)
            exponents = (levels.view(np.uint32) >> 23 & 0xFF).astype(np.int64) - BIAS
            is_zero = levels == 0
            zeros[i] += int(counts[is_zero].sum())
            for exponent in np.unique(exponents[~is_zero]).tolist():
                with_exponent = (exponents == exponent) & ~is_zero
                counter[exponent] += int(counts[with_exponent].sum())
    return tuple(
        StepExponents(step, {e: c for e, c in sorted(counter.items()) if c}, unchanged, n)
        for step, counter, unchanged in zip(steps, counters, zeros)
    )
