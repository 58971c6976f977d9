"""Every setting tried out on the states of one run, which do not depend on the setting.

A failure at iteration T costs the iterations since the checkpoint. What was saved is not exactly
what was trained, so the restored loss is above the trained one. Rework is those iterations, and
those after them in which the run itself, on its trend, fell by as much. This predicts the protocol
of `recovery`: there the excess of a restored training over the undisturbed one is measured at every
iteration, here it stays as it is at the checkpoint. A failure comes just before the next one.

Sizes are of deltas, as `codec.Checkpointer` writes them of the same states. Bases are not counted:
neither the first one nor those that follow once deltas have outgrown the last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from codec.errors import BudgetError, SettingsError
from codec.inspect import Arrays, Layout, copy_arrays
from lcviz.lab.dry_run import DryRun, record_nbytes
from lcviz.lab.intervals import mean, upper_bound
from lcviz.lab.measures import crossing, distance, smoothed
from lcviz.lab.progress import Progress
from lcviz.lab.series import Series, SeriesState, check_alike, moved_since

from .candidates import Candidate, Setting

FAILURES = 10  # that every setting is tried on
SMOOTH = 5  # iterations on either side, as in recovery
ROOM = 2**30  # bytes of tracks that are followed at once
LEAST_STATES = 3  # of a series without a loss: a base, and two failures after it


def try_out(
    series: Series, tried: Sequence[Setting], progress: Progress = lambda _done, _total: None
) -> tuple[Candidate, ...]:
    """Replay every setting on a series.

    Settings whose budget is too small for one of the checkpoints are left out. So are intervals
    that are too long for the series.

    Raises:
        SettingsError: the series is too short for every interval, or not finite at a failure.
        BudgetError: every budget is too small.
        LccError: a state cannot be encoded.
    """
    return tuple(_candidates(series, next(iter(series)), tried, progress))


def failure_points(n: int) -> list[int]:
    """Where a run of n iterations fails: late enough to have moved, and with enough iterations
    after it."""
    return sorted({round(n / 4 + i * n * 3 / 8 / (FAILURES - 1)) for i in range(FAILURES)})


def just_before_a_checkpoint(step: int, interval: int) -> int:
    """The last iteration up to ``step`` after which the next one would be saved."""
    return (step + 1) // interval * interval - 1


def _failures(n: int, interval: int) -> set[int]:
    """The states, of n, after which a run is made to fail, to measure how long it takes to recover.

    None if n is too small.
    """
    fails = {just_before_a_checkpoint(t, interval) for t in failure_points(n - 1)}
    enough = min(fails) >= 1 and n - SMOOTH - max(fails) >= 2  # of the trend, from the failure on
    return fails if enough else set()


def _failures_without_loss(n: int, interval: int) -> set[int]:
    """The same where only distances are measured, so that nothing has to come after a failure.

    Two failures after something was saved are needed: without a second one, nobody knows what
    another one costs. In a short series, they may also be at its beginning and its end.
    """
    possible = range(2 * interval - 1, n, interval)
    if len(possible) < 2:
        return set()
    usual = {just_before_a_checkpoint(t, interval) for t in failure_points(n - 1)} & {*possible}
    return usual if len(usual) > 1 else {*possible[:FAILURES]}


def _failures_by_interval(n: int, intervals: set[int], knows_loss: bool) -> dict[int, set[int]]:
    """The failures of each interval, without intervals that are too long for n states.

    Raises SettingsError if all intervals are too long.
    """
    find = _failures if knows_loss else _failures_without_loss
    fails = {interval: find(n, interval) for interval in sorted(intervals, reverse=True)}
    if not any(fails.values()):
        shortest = min(intervals)
        least = 8 * max(shortest, SMOOTH) if knows_loss else LEAST_STATES * shortest
        saves = "" if shortest == 1 else f" and saves at every {shortest} of them"
        raise SettingsError(
            f"a series of {n} checkpoints{saves} is too short to fail in and compare: {least} or "
            "more are needed"
        )
    return {interval: points for interval, points in fails.items() if points}


class _Trial:
    """One setting, on the way through a series."""

    def __init__(self, setting: Setting, begin: SeriesState, first: Arrays) -> None:
        self.setting = setting
        self._chain = DryRun(setting.coding, begin.layout, first, begin.values)
        self.sizes: list[int] = []
        self.exact_sizes: list[int] = []
        self.distances: list[float] = []
        self.excesses: dict[int, float] = {}  # by the iteration of the failure
        self.refused: BudgetError | None = None

    def save(self, moment: SeriesState) -> None:
        try:
            delta = self._chain.prepare(moment.step, moment.arrays, moment.values)
        except BudgetError as exc:
            self.refused = exc
            return
        self._chain.commit(delta)
        self.sizes.append(record_nbytes(moment.step, delta, self._chain.layout))
        self.exact_sizes.append(delta.exact_nbytes)

    def restored(self, moment: SeriesState) -> tuple[float, float | None]:
        """How far what a failure now restores is from the state, and its loss."""
        off = distance(self._chain.track, moment.arrays, moment.weights)
        off = math.inf if math.isnan(off) else off  # what was saved holds NaN
        return off, moment.loss_of(self._chain.track) if moment.loss_of else None


def _candidates(
    series: Series, first: SeriesState, tried: Sequence[Setting], progress: Progress
) -> Iterator[Candidate]:
    """Every setting replayed; a few at a time where tracks are large."""
    n = len(series)
    intervals = {setting.interval for setting in tried}
    fails = _failures_by_interval(n, intervals, knows_loss=first.loss_of is not None)
    tried = [setting for setting in tried if setting.interval in fails]
    every = set().union(*fails.values())
    done, refused = 0, list[BudgetError]()
    together = max(1, ROOM // max(first.layout.nbytes, 1))
    total = n * -(-len(tried) // together)
    for begin in range(0, len(tried), together):
        tries: list[_Trial] = []
        start: Arrays = {}
        losses: list[float] = []
        for number, moment in enumerate(series):
            if not tries:
                start = copy_arrays(moment.arrays)
                own = tried[begin : begin + together]
                tries = [_Trial(s, moment, start) for s in own]
            check_alike(first, moment)
            if moment.loss_of is not None:
                losses.append(moment.loss_of(moment.arrays))
            moved = moved_since(start, moment) if number in every else math.nan
            restored: dict[Setting, tuple[float, float | None]] = {}
            for one in (t for t in tries if t.refused is None):
                setting = one.setting
                if number and number % setting.interval == 0:
                    one.save(moment)
                if number in fails[setting.interval]:
                    if setting.restores not in restored:
                        restored[setting.restores] = one.restored(moment)
                    off, loss = restored[setting.restores]
                    one.distances.append(off / moved)
                    if loss is not None:
                        one.excesses[number] = loss - losses[number - number % setting.interval]
            done += 1
            progress(done, total)
        refused += [t.refused for t in tries if t.refused]
        if len(refused) == len(tried):
            raise refused[0]
        yield from (_candidate(t, first.layout, losses) for t in tries if t.refused is None)


def _candidate(one: _Trial, layout: Layout, losses: Sequence[float]) -> Candidate:
    trend = smoothed(losses, SMOOTH)
    reworks = []
    for number, excess in one.excesses.items():
        after = trend[number:]
        found = crossing(after, [excess] * len(after))
        since = number % one.setting.interval
        reworks.append(math.inf if found is None else since + found)
    share, share_bound = (f(one.sizes) / layout.nbytes for f in (np.mean, upper_bound))
    if (budget := one.setting.coding.budget) is not None:
        share_bound = min(share_bound, max(budget, share))
    return Candidate(
        one.setting,
        float(share),
        float(share_bound),
        float(np.mean(one.exact_sizes)) / layout.nbytes,
        mean(one.distances),
        upper_bound(one.distances),
        mean(reworks) if reworks else None,
        upper_bound(reworks) if reworks else None,
    )
