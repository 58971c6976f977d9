"""The buckets of a restored step: how many weights each has, and how far it moves the step."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import codec
from lcviz.lab.lesson import fields
from lcviz.lab.measures import distance
from lcviz.lab.step_tensors import StepFacts


@dataclass(frozen=True)
class KeptBucket:
    """One bucket of a step.

    count: number of its weights. moved: ‖step − step without it‖ / ‖step − the base before it‖,
    over the weights that step and base share; None if the denominator is 0 or not finite.
    """

    exponent: int
    sign: int
    count: int
    moved: float | None


@dataclass(frozen=True)
class StepBuckets:
    """All buckets of one step.

    base: step of the base before it. zeros: number of weights in no bucket. n: number of all coded
    weights. buckets: by falling exponent, positive first.
    """

    step: int
    base: int
    zeros: int
    n: int
    buckets: tuple[KeptBucket, ...]


def kept_buckets(chain: codec.Chain, facts: StepFacts) -> StepBuckets:
    """Count the buckets of a step that is not a base. Raises what `Chain.replay` raises."""
    base = max(e.step for e in chain.entries if e.kind == "base" and e.step <= facts.step)
    *_, position = chain.replay(base)
    base_tensors = position.track.layout.tensors
    lossy = {t.name: t.shape for t in base_tensors if t.lossy and not t.measure}
    names = [n for n, a in facts.state.items() if a.shape == lossy.get(n)]
    trained = distance(facts.state, position.track.arrays, names)
    counts: dict[tuple[int, int], int] = defaultdict(int)
    energy: dict[tuple[int, int], float] = defaultdict(float)
    zeros = n = 0
    for encoded in (g.encoded for g in facts.groups if not g.encoded.measure):
        for level, count in zip(encoded.levels.tolist(), codec.decode(encoded).counts.tolist()):
            n += count
            if not level:
                zeros += count
            elif count:
                parts = fields(level)
                counts[-parts.exponent, parts.sign] += count
                energy[-parts.exponent, parts.sign] += count * level**2
    buckets = (
        KeptBucket(-key[0], key[1], counts[key], _share(energy[key], trained))
        for key in sorted(counts)
    )
    return StepBuckets(facts.step, base, zeros, n, tuple(buckets))


def _share(energy: float, trained: float) -> float | None:
    return math.sqrt(energy) / trained if trained and math.isfinite(trained) else None
