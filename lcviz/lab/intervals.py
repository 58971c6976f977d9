"""Means and their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit


@dataclass(frozen=True)
class Mean:
    """A mean of n values. half: half the width of its 95 % interval; infinite for one value."""

    value: float
    half: float
    n: int


def mean(values: Sequence[float]) -> Mean:
    """Mean and 95 % interval by Student's t: half = t(0.975, n - 1) · s / √n, with s the sample's
    standard deviation. Raises ValueError without values."""
    n = len(values)
    if not n:
        raise ValueError("no values: there is no mean")
    centre = math.fsum(values) / n
    if n == 1 or not math.isfinite(centre):
        return Mean(centre, math.inf, n)
    variance = math.fsum((v - centre) ** 2 for v in values) / (n - 1)
    return Mean(centre, _student(0.975, n - 1) * math.sqrt(variance / n), n)


def ratio(above: Sequence[float], below: Sequence[float]) -> Mean:
    """Mean of ``above`` divided by that of ``below``; their values are pairs.

    half = t(0.975, n - 1) · s / (√n · mean of below), with s the standard deviation of above minus
    ratio times below (Cochran, "Sampling Techniques", 1977, section 6.4). Not finite if the mean of
    below is 0. Raises ValueError without values.
    """
    numerator, denominator = mean(above), mean(below)
    if not denominator.value:
        return Mean(math.nan, math.inf, numerator.n)
    value = numerator.value / denominator.value
    residual = mean([a - value * b for a, b in zip(above, below, strict=True)])
    return Mean(value, residual.half / abs(denominator.value), numerator.n)


def upper_bound(values: Sequence[float]) -> float:
    """Prediction bound: another value stays below it in 95 of 100 cases, if values are normal.

    mean + t(0.95, n - 1) · s · √(1 + 1/n); infinite for a single value.

    Raises ValueError without values.
    """
    average = mean(values)
    if not math.isfinite(average.half):
        return average.half if average.n == 1 else average.value
    deviation = average.half * math.sqrt(average.n) / _student(0.975, average.n - 1)
    return average.value + _student(0.95, average.n - 1) * deviation * math.sqrt(1 + 1 / average.n)


def _student(p: float, degrees: int) -> float:
    """Quantile p of Student's t distribution."""
    # scipy.stats has it too, but takes a second to import.
    return float(stdtrit(degrees, p))
