"""Bytes against distance: how close a track stays to a running training at each size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from codec import Coding
from codec.errors import BudgetError
from codec.inspect import Arrays, DryRun, copy_arrays, record_nbytes
from lcviz.lab.intervals import mean
from lcviz.lab.measures import distance
from lcviz.lab.progress import Progress, unreported
from lcviz.lab.series import TrainedSeries
from lcviz.lab.workload import Workload

WARM_UP = 0.25  # share of the saves: before, too little is trained to compare a distance with


@dataclass(frozen=True)
class Point:
    """One setting in one training: means over its saves, without the first quarter.

    share: bytes on disk over float32. distance: of the restored model from the live one, as a share
    of the distance trained. gap: loss on held-out examples, restored minus live. failed: number of
    saves that the budget did not allow. changed: share of the values that change between saves.
    """

    coding: Coding
    share: float
    distance: float
    gap: float
    failed: int
    changed: float


def points(
    workload: Workload,
    seed: int,
    codings: Sequence[Coding],
    saves: int,
    interval: int,
    progress: Progress = unreported,
) -> list[Point]:
    """Train once, save with every setting, and measure each track after each save.

    Raises demo_models.DataError, codec.LccError.
    """
    start: Arrays = {}
    tries: list[_Try] = []
    changed: list[float] = []
    for i, state in enumerate(TrainedSeries(workload, seed, saves * interval, interval)):
        if not i:
            start = before = copy_arrays(state.arrays)
            tries = [_Try(coding, DryRun(coding, state.layout, start)) for coding in codings]
            continue
        assert state.loss_of is not None, "a training has a loss"
        loss, moved = state.loss_of(state.arrays), distance(state.arrays, start)
        is_warm = i > int(WARM_UP * saves)
        if is_warm:
            n_changed = sum(int((a != before[name]).sum()) for name, a in state.arrays.items())
            changed.append(n_changed / sum(a.size for a in start.values()))
        before = copy_arrays(state.arrays)
        for one in tries:
            nbytes, track = one.save(state.step, state.arrays), one.chain.track
            if is_warm:
                one.shares.append(nbytes / state.layout.nbytes)
                one.distances.append(distance(track, state.arrays) / moved)
                one.gaps.append(state.loss_of(track) - loss)
        progress(i, saves)
    return [one.point(mean(changed).value) for one in tries]


@dataclass
class _Try:
    """One setting at work, with what it was measured at each save."""

    coding: Coding
    chain: DryRun
    failed: int = 0
    shares: list[float] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def save(self, step: int, state: Arrays) -> int:
        """Save a state; returns the bytes of its record."""
        try:
            delta = self.chain.prepare(step, state)
        except BudgetError:  # go on without this checkpoint, as a user would
            self.failed += 1
            return 0
        self.chain.commit(delta)
        return record_nbytes(step, delta, self.chain.layout)

    def point(self, changed: float) -> Point:
        """The means. changed: see `Point`."""
        share, off, gap = (mean(v).value for v in (self.shares, self.distances, self.gaps))
        return Point(self.coding, share, off, gap, self.failed, changed)
