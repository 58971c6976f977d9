"""A mean and how far it can be trusted."""

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
