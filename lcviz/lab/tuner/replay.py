"""Every setting tried out on the states of one run, which do not depend on the setting.

A failure at iteration T costs the iterations since the checkpoint. The saved state is not exactly
the trained one, so the restored loss has an excess. Rework is those iterations, and those after T
in which the run's own loss, on its trend, falls by the excess. This predicts the protocol of
`recovery`, which measures the excess of a restored training over the undisturbed one at every
iteration; here it stays as it is at the checkpoint. A failure comes just before the next
checkpoint.

Sizes are those of the deltas that `codec.Checkpointer` writes of the same states. Only
`Candidate.with_bases` counts bases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

import codec
from codec.errors import BudgetError, SettingsError
from codec.inspect import (
    MOST_PLAIN,
    Arrays,
    DryRun,
    History,
    Layout,
    copy_arrays,
    record_nbytes,
)
from lcviz.lab.intervals import mean, upper_bound
from lcviz.lab.measures import crossing, distance, smoothed
from lcviz.lab.progress import Progress, unreported
from lcviz.lab.series import Series, SeriesState, check_alike, moved_since

from .candidates import Candidate, Setting

FAILURES = 10  # for every setting, of a training
SMOOTH = 5  # iterations on either side, as in recovery
MOST_TRACK_NBYTES = 2**30  # of all tracks that are followed at once
LEAST_STATES = 3  # of a series without a loss: a base, and two failures after it


def try_out(
    series: Series, candidate_settings: Sequence[Setting], progress: Progress = unreported
) -> tuple[Candidate, ...]:
    """Replay every setting on a series.

    Leaves out settings whose budget is too small for one of the checkpoints, and intervals that are
    too long for the series. Waits until the codec's kernels are loaded, unless the state is small.

    Raises:
        SettingsError: The series is too short for every interval, or not finite at a failure.
        BudgetError: Every budget is too small.
        LccError: A state cannot be encoded.
    """
    first = next(iter(series))
    if first.layout.nbytes > 4 * MOST_PLAIN:
        codec.warm_up()  # a training has kernels; numpy alone codes so many values otherwise
    return tuple(_candidates(series, first, candidate_settings, progress))


def failure_points(n: int) -> list[int]:
    """The iterations, of n, at which a run fails: after some training, and with enough left."""
    return sorted({round(n / 4 + i * n * 3 / 8 / (FAILURES - 1)) for i in range(FAILURES)})


def just_before_a_checkpoint(step: int, interval: int) -> int:
    """The last iteration up to ``step`` that comes just before a checkpoint."""
    return (step + 1) // interval * interval - 1


def _failures(n: int, interval: int) -> set[int]:
    """The numbers of the states, of n, after which a run fails to measure its rework.

    Empty if n is too small.
    """
    numbers = {just_before_a_checkpoint(t, interval) for t in failure_points(n - 1)}
    trend_after = n - SMOOTH - max(numbers)  # values of the trend from the last failure on
    return numbers if min(numbers) >= 1 and trend_after >= 2 else set()


def _failures_without_loss(n: int, interval: int) -> set[int]:
    """`_failures` where only distances are measured: before every save, and at the end.

    There are at least two, or none: one would not say how much they differ.
    """
    possible = range(2 * interval - 1, n, interval)
    return {*possible} if len(possible) > 1 else set()


def _failures_by_interval(n: int, intervals: set[int], knows_loss: bool) -> dict[int, set[int]]:
    """The failures of each interval; intervals that are too long for n states are left out.

    Raises SettingsError if all intervals are too long.
    """
    failures_of = _failures if knows_loss else _failures_without_loss
    failures = {interval: failures_of(n, interval) for interval in sorted(intervals, reverse=True)}
    if not any(failures.values()):
        shortest = min(intervals)
        least = 8 * max(shortest, SMOOTH) if knows_loss else LEAST_STATES * shortest
        saves = "" if shortest == 1 else f" and saves at every {shortest} of them"
        raise SettingsError(
            f"a series of {n} checkpoints{saves} is too short to compare failures: {least} or more "
            "are needed"
        )
    return {interval: points for interval, points in failures.items() if points}


class _Trial:
    """One setting on its way through a series."""

    def __init__(self, setting: Setting, begin: SeriesState, first: Arrays) -> None:
        self.setting = setting
        self._chain = DryRun(setting.coding, begin.layout, first, begin.values)
        self.sizes: list[int] = []
        self.exact_sizes: list[int] = []
        self.work: list[int] = []  # of each delta, see `codec.inspect.History`
        self.distances: list[float] = []
        self.excesses: dict[int, float] = {}  # by the iteration of the failure
        self.budget_error: BudgetError | None = None

    def save(self, state: SeriesState) -> None:
        try:
            delta = self._chain.prepare(state.step, state.arrays, state.values)
        except BudgetError as exc:
            self.budget_error = exc
            return
        self._chain.commit(delta)
        self.sizes.append(record_nbytes(state.step, delta, self._chain.layout))
        self.exact_sizes.append(delta.exact_nbytes)
        self.work.append(delta.work)

    def restored(self, state: SeriesState) -> tuple[float, float | None]:
        """The distance of the track, which a failure restores, from the state; the track's loss."""
        off = distance(self._chain.track, state.arrays, state.weights)
        off = math.inf if math.isnan(off) else off  # the track holds NaN
        return off, state.loss_of(self._chain.track) if state.loss_of else None


def _candidates(
    series: Series, first: SeriesState, candidate_settings: Sequence[Setting], progress: Progress
) -> Iterator[Candidate]:
    """Replay every setting; a few at a time where tracks are large."""
    n = len(series)
    intervals = {setting.interval for setting in candidate_settings}
    failures = _failures_by_interval(n, intervals, knows_loss=first.loss_of is not None)
    candidate_settings = [setting for setting in candidate_settings if setting.interval in failures]
    failure_numbers = set().union(*failures.values())
    done, budget_errors = 0, list[BudgetError]()
    n_at_once = max(1, MOST_TRACK_NBYTES // max(first.layout.nbytes, 1))
    total = n * -(-len(candidate_settings) // n_at_once)
    for begin in range(0, len(candidate_settings), n_at_once):
        trials: list[_Trial] = []
        start: Arrays = {}
        losses: list[float] = []
        for number, state in enumerate(series):
            if not trials:
                start = copy_arrays(state.arrays)
                batch = candidate_settings[begin : begin + n_at_once]
                trials = [_Trial(s, state, start) for s in batch]
            check_alike(first, state)
            if state.loss_of is not None:
                losses.append(state.loss_of(state.arrays))
            moved = moved_since(start, state) if number in failure_numbers else math.nan
            restored: dict[Setting, tuple[float, float | None]] = {}
            for trial in (t for t in trials if t.budget_error is None):
                setting = trial.setting
                if number and number % setting.interval == 0:
                    trial.save(state)
                if number in failures[setting.interval]:
                    if setting.restores not in restored:
                        restored[setting.restores] = trial.restored(state)
                    off, loss = restored[setting.restores]
                    trial.distances.append(off / moved)
                    if loss is not None:
                        trial.excesses[number] = loss - losses[number - number % setting.interval]
            done += 1
            progress(done, total)
        budget_errors += [t.budget_error for t in trials if t.budget_error]
        if len(budget_errors) == len(candidate_settings):
            raise budget_errors[0]
        yield from (_candidate(t, first.layout, losses) for t in trials if t.budget_error is None)


def _candidate(trial: _Trial, layout: Layout, losses: Sequence[float]) -> Candidate:
    trend = smoothed(losses, SMOOTH)
    reworks = []
    for number, excess in trial.excesses.items():
        after = trend[number:]
        crossed = crossing(after, [excess] * len(after))
        since = number % trial.setting.interval
        reworks.append(math.inf if crossed is None else since + crossed)
    bound = upper_bound if losses else max
    share, share_bound = (f(trial.sizes) / layout.nbytes for f in (np.mean, bound))
    if (budget := trial.setting.coding.budget) is not None:
        share_bound = min(share_bound, max(budget, share))
    return Candidate(
        trial.setting,
        float(share),
        float(share_bound),
        float(np.mean(trial.exact_sizes)) / layout.nbytes,
        mean(trial.distances),
        bound(trial.distances),
        mean(reworks) if reworks else None,
        upper_bound(reworks) if reworks else None,
        layout.nbytes,
        # The track has float32 of what a base stores in 16 bits.
        sum(t.track_nbytes // (2 if t.lossy and t.dtype != "F32" else 1) for t in layout.tensors),
        math.ceil(History().most_work(layout) / np.mean(trial.work)),
    )
