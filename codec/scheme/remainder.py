"""What a step leaves for the next one, and how much of the training that is.

The *distance* of a step is ||u - track after it|| / ||u - track before it||: a step of distance 0
leaves nothing, one of distance 1 has moved nothing. Divided by what was trained since the base, the
same rest says how far a restart would be *behind* (see `origin`). Norms are Euclidean, over all
elements together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Remainder:
    """Sums of squares over the elements of one or more alphabets.

    changed: of u - track before the step. left: of u - track after it.
    """

    changed: float = 0.0
    left: float = 0.0

    def __add__(self, other: Remainder) -> Remainder:
        return Remainder(self.changed + other.changed, self.left + other.left)

    @property
    def distance(self) -> float:
        """||u - track after|| / ||u - track before||; 0.0 where nothing had changed."""
        return ratio_of(self.left, self.changed)


NOTHING = Remainder()


class Rest(NamedTuple):
    """What a step leaves, as shares.

    distance: Of the change that it was to save. behind: Of what was trained since the base.
    """

    distance: float
    behind: float


def ratio_of(left: float, whole: float) -> float:
    """sqrt(left / whole); 0.0 where nothing is left, inf for a share of nothing."""
    if not left > 0:
        return 0.0
    return math.sqrt(left / whole) if whole > 0 else math.inf
