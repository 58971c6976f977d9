"""Means and their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t as student


@dataclass(frozen=True)
class Mean:
    """A mean of n values. half: of its 95 % interval; infinite for a single value."""

    value: float
    half: float
    n: int

    @property
    def low(self) -> float:
        """The interval's lower end."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """The interval's upper end."""
        return self.value + self.half


def mean(values: Sequence[float]) -> Mean:
    """Mean and 95 % interval by Student's t: half = t(0.975, n - 1) · s / √n, with s the sample's
    standard deviation. Raises ValueError without values."""
    n = len(values)
    if not n:
        raise ValueError("there is no mean of nothing")
    centre = math.fsum(values) / n
    if n == 1 or not math.isfinite(centre):
        return Mean(centre, math.inf, n)
    variance = math.fsum((v - centre) ** 2 for v in values) / (n - 1)
    return Mean(centre, float(student.ppf(0.975, n - 1)) * math.sqrt(variance / n), n)


def upper_bound(values: Sequence[float]) -> float:
    """Prediction bound: another value stays below it in 95 of 100 cases, if all are normal:
    mean + t(0.95, n - 1) · s · √(1 + 1/n). Infinite for a single value.

    Raises ValueError without values.
    """
    found = mean(values)
    if not math.isfinite(found.half):
        return found.half if found.n == 1 else found.value
    deviation = found.half * math.sqrt(found.n) / float(student.ppf(0.975, found.n - 1))
    return found.value + float(student.ppf(0.95, found.n - 1)) * deviation * math.sqrt(
        1 + 1 / found.n
    )
