"""How much history a chain has: when the next base is due, and when old records are needless.

Not done here: removing records (chain.upkeep).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from codec.chain.replay import Position
from codec.chain.upkeep import check_keep
from codec.errors import SettingsError
from codec.scheme.coding import UNSET
from codec.scheme.delta import RECORD_WORK, Delta
from codec.state.tensors import Layout
from codec.storage.entry import Entry

# Measured with two cores: a base loads in 7 ns a value, a dense delta is decoded in 1.7 ns.
RESTORE_WORK = 34  # such deltas take about 10 times as long as their base
FREE_WORK = 135 * 10**6  # values that are decoded in 0.3 s
# With keep_steps, a base follows once the deltas take this share of the bytes of theirs: two bases
# and the deltas then take about as much as 3 files of torch.save.
KEPT = 0.85


@dataclass(frozen=True)
class History:
    """The settings of a `Checkpointer` that decide how much history its chain has; see there.

    Raises SettingsError for one that is out of range.
    """

    base_every: int | None = None
    keep_steps: int | None = None
    restore_work: float | None = UNSET

    def __post_init__(self) -> None:
        for name in ("base_every", "keep_steps"):
            if getattr(self, name) is not None:
                check_keep(name, getattr(self, name))
        work: Any = self.restore_work
        if work is UNSET or work is None:
            return
        if isinstance(work, bool) or not isinstance(work, int | float) or not work > 0:
            raise SettingsError(f"restore_work is a number above 0, or None; got {work!r}")

    def is_base_due(self, written: Written, layout: Layout) -> bool:
        """Whether it is time for a base. layout: of the track."""
        if self.base_every is not None and written.n >= self.base_every:
            return True
        if self.keep_steps is not None and written.nbytes > KEPT * written.base_nbytes:
            return True
        return written.work >= self.most_work(layout)

    def most_work(self, layout: Layout) -> float:
        """The `Delta.work` since a base at which the next one is due; inf without `restore_work`.

        layout: of the track.
        """
        if self.restore_work is None:
            return math.inf
        is_set = self.restore_work is not UNSET
        passes = self.restore_work if is_set else RESTORE_WORK
        lossy = [t.size for t in layout.tensors if t.lossy]
        dense = RECORD_WORK + sum(lossy or (t.size for t in layout.tensors))
        return max(passes * dense, 0 if is_set else FREE_WORK)


@dataclass(frozen=True)
class Written:
    """What a chain holds.

    Attributes:
        base_nbytes: Bytes of the newest base.
        nbytes: Bytes of the deltas after it.
        n: Their number.
        work: Of all of them, see `Delta.work`.
        after_bases: Of each base, oldest first, the number of steps after it.
    """

    base_nbytes: int = 0
    nbytes: int = 0
    n: int = 0
    work: int = 0
    after_bases: tuple[int, ...] = ()

    @classmethod
    def at(cls, position: Position, entries: Sequence[Entry]) -> Written:
        """What a chain of these records holds up to a position."""
        entries = [e for e in entries if e.step <= position.step]
        bases = [e for e in entries if e.kind == "base"]
        deltas = [e for e in entries if e.kind == "delta" and e.step > bases[-1].step]
        steps = sorted({e.step for e in entries})
        return cls(
            bases[-1].nbytes,
            sum(e.nbytes for e in deltas),
            len(deltas),
            position.work,
            tuple(sum(step > base.step for step in steps) for base in bases),
        )

    def may_shorten(self, keep_steps: int) -> bool:
        """Whether the newest steps may not need all records."""
        return len(self.shortened(keep_steps).after_bases) < len(self.after_bases)

    def shortened(self, keep_steps: int) -> Written:
        """The same with only the records that the newest steps need."""
        old = [n for n in self.after_bases if n >= keep_steps - 1]
        return replace(self, after_bases=self.after_bases[max(len(old) - 1, 0) :])

    def and_then(self, nbytes: int, delta: Delta | None) -> Written:
        """The same with one more record. delta: None for a base."""
        after = tuple(n + 1 for n in self.after_bases)
        if delta is None:
            return Written(nbytes, after_bases=(*after, 0))
        n, work = self.n + 1, self.work + delta.work
        return Written(self.base_nbytes, self.nbytes + nbytes, n, work, after)
