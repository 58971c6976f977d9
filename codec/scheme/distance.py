"""Distance mode: the largest uniform steps that leave at most a given share of the change.

A target d means ||u - track after|| <= d ||u - track before||, over the elements of one alphabet:
all lossy weights together, or each tensor. The size of a delta follows from the training: where
weights hardly change, it is small.

A histogram of magnitudes estimates what each step size leaves. So the search takes two or three
passes over the delta. The first pass makes the histogram, from a sample if the delta is large. Each
other pass quantizes and adds up what is really left, including the rounding of the track.
"""

from __future__ import annotations

import math

import numpy as np

from codec.errors import SettingsError

from .budget import PASSES, BeyondError
from .uniform import LARGEST_CHANGE, SMALLEST_SIZE, Magnitudes, Steps, UniformQuantizer

AIM = 0.995  # share of the distance that the next step size should leave
USED = 0.98  # share of the distance from which on the search ends
CLOSE = 1.0005  # step sizes of a smaller ratio are not worth another pass


def fit_distance(
    quantize: UniformQuantizer, magnitudes: Magnitudes, distance: float
) -> Steps | None:
    """The largest uniform steps that leave at most the target distance.

    Args:
        quantize: The delta.
        magnitudes: Its magnitudes.
        distance: The target, above 0 and below 1.

    Returns:
        The steps; None if even the smallest size leaves more.

    Raises:
        BeyondError: A change is larger than the largest of the magnitudes, or not finite.
    """
    largest, offset = magnitudes.largest, quantize.offset
    if not largest <= LARGEST_CHANGE:
        raise BeyondError
    if not largest:  # a sample may have missed all changes
        steps = quantize.fine(SMALLEST_SIZE, largest)
        if steps.counts.size > 1 or steps.beyond:
            raise BeyondError
        return steps
    finest = float(quantize.finest(largest))
    coarsest = max(largest / (1 - offset), finest)
    fitting, too_coarse, best, newest, ratio = 0.0, 0.0, None, None, 1.0
    for _ in range(PASSES):
        low, high = fitting or finest, too_coarse or coarsest
        size = magnitudes.size_leaving((AIM * distance) ** 2 / ratio, offset, low, high)
        if fitting and too_coarse and not fitting * CLOSE < size < too_coarse / CLOSE:
            size = math.sqrt(fitting) * math.sqrt(too_coarse)
        newest = quantize.fine(size, largest)
        if newest.beyond:
            raise BeyondError
        distance_left = newest.remainder.distance
        if distance_left <= distance:
            fitting, best = size, newest
            if distance_left >= USED * distance or size >= coarsest:
                return newest
        else:
            too_coarse = size
            if size <= finest * CLOSE:
                return None
        if 0 < too_coarse <= fitting * CLOSE:
            break
        ratio = max(distance_left**2 / max(magnitudes.share_left(size, offset), 1e-30), 1e-9)
    if best is None:
        best = quantize.fine(finest, largest)
        return best if best.remainder.distance <= distance else None
    return best if best is newest else quantize.fine(fitting, largest)


def check_distance(distance: float) -> float:
    """Return the distance as a float; raise SettingsError unless it is above 0 and below 1."""
    numbers = int | float | np.integer | np.floating
    number = isinstance(distance, numbers) and not isinstance(distance, bool)
    if not number or not 0 < distance < 1:
        raise SettingsError(
            "distance is the share of a change that a save may leave for the next one, above 0 and "
            f"below 1, as 0.3; got {distance!r}"
        )
    return float(distance)
