"""How many values of each step got a level of which exponent, from decoded codes."""

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
    """One step. counts: exponent -> values that got a level of it, of either sign; -127 stands for
    subnormal levels. zeros: values that got none. n: all values with a code."""

    step: int
    counts: Mapping[int, int]
    zeros: int
    n: int


def count_exponents(chain: codec.Chain, facts: RecordFacts) -> tuple[StepExponents, ...]:
    """The steps of one delta or merged record; none of a base.

    Raises RecordError or PayloadError if the record does not decode, and what `Chain.read` does.
    """
    layout = facts.before.layout
    if layout is None or facts.entry.kind == "base":
        return ()
    record = chain.read(facts.entry)
    if record.kind == "delta":
        delta = delta_of(record, Track(layout, {}, {}, (), dict(facts.before.tables)))
        return _counted(delta.groups, [record.step])
    return tuple(
        one
        for layer in merged_of(record, layout).layers
        for one in _counted(layer.groups, [m.step for m in layer.moments])
    )


def _counted(groups: Sequence[Group], steps: list[int]) -> tuple[StepExponents, ...]:
    """One for each of these steps, which are coded together."""
    found: list[Counter[int]] = [Counter() for _ in steps]
    zeros = [0] * len(steps)
    n = sum(group.n for group in groups)
    for i, of_step in enumerate(found):
        column = i if len(steps) > 1 else None
        for _, codes, levels in (part for g in groups for part in by_levels(g, column)):
            counts = np.bincount(codes, minlength=levels.size)
            levels = np.ascontiguousarray(levels).reshape(-1)
            exponents = (levels.view(np.uint32) >> 23 & 0xFF).astype(np.int64) - BIAS
            still = levels == 0
            zeros[i] += int(counts[still].sum())
            for exponent in np.unique(exponents[~still]).tolist():
                here = (exponents == exponent) & ~still
                of_step[exponent] += int(counts[here].sum())
    return tuple(
        StepExponents(step, {e: c for e, c in sorted(of_step.items()) if c}, still, n)
        for step, of_step, still in zip(steps, found, zeros)
    )
