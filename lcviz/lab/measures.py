"""How far a restored state is from the trained one: in distance, and in iterations of work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from codec.inspect import Arrays, difference

NEGLIGIBLE = 0.01  # of what an iteration gains, on average


def distance(a: Arrays, b: Arrays, names: Iterable[str] | None = None) -> float:
    """||a - b|| over the tensors with these names; None: all of a's.

    Differences are taken in float32, their squares summed in float64. Not finite where a tensor is
    not finite, unless the other one has the same bits there.
    """
    total = 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        for name in a if names is None else names:
            delta = difference(a[name], b[name]).reshape(-1)
            total += float(np.einsum("i,i->", delta, delta, dtype=np.float64))
    return math.sqrt(total)


def smoothed(losses: Sequence[float], w: int) -> list[float]:
    """The trend of a loss: its mean over 2w + 1 iterations, fewer at the start.

    losses: of iterations 0, 1, ... Returns the trend of the same iterations without the last w.
    """
    return [float(np.mean(losses[max(t - w, 0) : t + w + 1])) for t in range(len(losses) - w)]


def crossing(trend: Sequence[float], excess: Sequence[float]) -> float | None:
    """After how many iterations trend + excess is at or below the trend's first value.

    Linear between iterations. An excess of less than NEGLIGIBLE iterations of training counts as
    none: otherwise a rounding error would cost as many iterations as the trend happens to rise. A
    restart that begins at or below that value but rises above it in its first iteration, as one
    without the optimizer's state may, is not back yet.

    Args:
        trend: Loss of the undisturbed training, from the failure on.
        excess: Loss of the restored training minus that of the undisturbed one, at the same
            iterations or fewer.

    Returns:
        None if that never happens.
    """
    fall = (trend[0] - trend[-1]) / (len(trend) - 1) if len(trend) > 1 else 0.0
    above = [
        min(level + e - trend[0], 0.0 if e <= NEGLIGIBLE * fall else math.inf)
        for level, e in zip(trend, excess)
    ]
    last_gap = math.nan
    for r, gap in enumerate(above):
        rises = r == 0 and any(later > 0 for later in above[1:2])
        if gap <= 0 and not rises:
            if r == 0 or not math.isfinite(last_gap):
                return float(r)
            return r - 1 + last_gap / (last_gap - gap)
        last_gap = gap
    return None


def recent(values: Sequence[float], n: int) -> list[float]:
    """Moving mean of each value and up to n − 1 before it, finite ones only; else NaN."""
    if not len(values):
        return []
    all_values = np.asarray(values, np.float64)
    finite = np.isfinite(all_values)
    weights = np.ones(n)
    sums = np.convolve(np.where(finite, all_values, 0), weights)[: len(all_values)]
    counts = np.convolve(finite, weights)[: len(all_values)]
    means: list[float] = np.where(finite, sums / np.maximum(counts, 1), np.nan).tolist()
    return means


def iterations_behind(
    steps: Sequence[int], live_losses: Sequence[float], restored_loss: float
) -> float | None:
    """Roughly how many iterations a restored model is behind the newest of these steps.

    A restart repeats the iterations since the live curve, straight between measured steps, was last
    at the restored loss. An estimate: nothing is trained again.
    steps, live_losses: of the measured steps, rising. Returns None if the restored loss is not
    finite.
    """
    if not math.isfinite(restored_loss):
        return None
    points = [(s, loss) for s, loss in zip(steps, live_losses) if math.isfinite(loss)]
    later = None
    for step, loss in reversed(points):
        if loss >= restored_loss:
            if later is None or loss == restored_loss:
                return steps[-1] - step
            share = (loss - restored_loss) / (loss - later[1])
            return steps[-1] - step - share * (later[0] - step)
        later = (step, loss)
    return steps[-1]
