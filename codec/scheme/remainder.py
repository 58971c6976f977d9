"""What a step leaves for the next one, as a share of its change and of what was trained.

The *distance* of a step is ||u - track after it|| / ||u - track before it||. A step of distance 0
leaves nothing. A step of distance 1 comes no closer to u. How far a restart would be *behind* is
||u - track after it|| / ||u - u at the base|| (see `origin`). Norms are Euclidean and cover all
elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .coding import Coding

MOST_BEHIND = 9.999  # the most that a record's header says; it stands for more, and for infinity
WARNED_BEHIND = 0.35  # behind; from further away a restart is of little use. The default leaves 0.3


@dataclass(frozen=True)
class Remainder:
    """Sums of squares before and after a step, over the elements of one or more alphabets.

    changed: the sum for u - track before the step. left: the sum for u - track after the step.
    """

    changed: float = 0.0
    left: float = 0.0

    def __add__(self, other: Remainder) -> Remainder:
        return Remainder(self.changed + other.changed, self.left + other.left)

    @property
    def distance(self) -> float:
        """||u - track after|| / ||u - track before||; 0.0 if nothing had changed."""
        return ratio_of(self.left, self.changed)


NOTHING = Remainder()


class Rest(NamedTuple):
    """What a step leaves, as shares.

    distance: Share of the step's change. behind: Share of what was trained since the base.
    """

    distance: float
    behind: float


class DeltaRest(NamedTuple):
    """A step, the settings of its delta, and what it leaves."""

    step: int
    coding: Coding
    rest: Rest


def describe_behind(behind: float) -> str:
    """A restart would be "behind by 12.3% of what was trained since the base", or so."""
    if math.isinf(behind):
        return "behind, and the saved weights are where they were at the base"
    if behind >= MOST_BEHIND:
        return f"behind by {MOST_BEHIND:.0f} times what was trained since the base, or more"
    return f"behind by {behind:.1%} of what was trained since the base"


def restart_warning(deltas: Iterable[DeltaRest]) -> str:
    """Which steps are too far behind for a restart, and the setting that helps; "" if none is."""
    far = [delta for delta in deltas if delta.rest.behind > WARNED_BEHIND]
    if not far:
        return ""
    step, coding, rest = max(far, key=lambda delta: delta.rest.behind)
    more = f" ({len(far)} steps by more than {WARNED_BEHIND:.0%})" if len(far) > 1 else ""
    return (
        f"Too far for a restart: step {step} is {describe_behind(rest.behind)}{more}; "
        f"save with distance={coding.closer_distance(rest.distance):.2g} instead."
    )


def ratio_of(left: float, whole: float) -> float:
    """sqrt(left / whole); 0.0 if nothing is left, inf if only ``whole`` is 0."""
    if not left > 0:
        return 0.0
    return math.sqrt(left / whole) if whole > 0 else math.inf
