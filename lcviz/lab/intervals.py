"""Means and their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit


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
    return Mean(centre, _student(0.975, n - 1) * math.sqrt(variance / n), n)


def ratio(above: Sequence[float], below: Sequence[float]) -> Mean:
    """Mean of ``above`` as a multiple of that of ``below``, whose values belong together in pairs.

    half = t(0.975, n - 1) · s / (√n · mean of below), with s the standard deviation of above minus
    ratio times below (Cochran, "Sampling Techniques", 1977, section 6.4). Not finite if the mean of
    below is 0. Raises ValueError without values.
    """
    over, under = mean(above), mean(below)
    if not under.value:
        return Mean(math.nan, math.inf, over.n)
    value = over.value / under.value
    left = mean([a - value * b for a, b in zip(above, below, strict=True)])
    return Mean(value, left.half / abs(under.value), over.n)


def upper_bound(values: Sequence[float]) -> float:
    """Prediction bound: another value stays below it in 95 of 100 cases, if all are normal:
    mean + t(0.95, n - 1) · s · √(1 + 1/n). Infinite for a single value.

    Raises ValueError without values.
    """
    found = mean(values)
    if not math.isfinite(found.half):
        return found.half if found.n == 1 else found.value
    deviation = found.half * math.sqrt(found.n) / _student(0.975, found.n - 1)
    return found.value + _student(0.95, found.n - 1) * deviation * math.sqrt(1 + 1 / found.n)


def _student(p: float, degrees: int) -> float:
    """Student's t: the value that p of all stay below."""
    # scipy.stats has it too, but takes a second to import.
    return float(stdtrit(degrees, p))
