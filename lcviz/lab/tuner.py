"""Which bits should I use? Every setting is tried on the states of one run, and the cheapest that
meets a target is recommended.

A setting's checkpoints are replayed, not trained again: the states that it is given do not depend
on it. A failure at iteration T costs what was not saved yet, and what was saved is not quite what
was trained: the restored loss is above that before the failure. Rework is how long the run itself,
on its trend, took to fall by as much (see recovery, whose protocol this predicts: there, what a
restored training is above the undisturbed one is measured at every iteration, here it is taken to
stay as it is at the failure). A failure is taken to come just before the next checkpoint.

Sizes are of deltas, as `codec.Checkpointer` writes them of the same states; its bases are
counted nowhere: the first one, and those that it writes once deltas have outgrown the last, which
is the sooner the larger they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from codec import record as records
from codec.errors import SettingsError
from codec.metadata import DIGEST
from codec.record import RUN, Place
from codec.state import Arrays, Layout, copy_arrays
from codec.track import Step, Tracker

from .intervals import Mean, mean, upper_bound
from .measures import crossing, distance, smoothed
from .methods import SHARES, Method
from .progress import Progress
from .series import Moment, Series

TARGETS = ("size", "distance", "rework")
BITS = (1, 2, 3, 4, 5, 6, 7, 8, None)
INTERVALS = (1, 2, 5, 10)
FAILURES = 10  # that every setting is tried on
SMOOTH = 5  # iterations on either side, as in recovery
ROOM = 2**30  # bytes of tracks that are followed at once


@dataclass(frozen=True)
class Setting:
    """What can be chosen. bits or budget: see `codec.Tracker`. interval: between checkpoints."""

    bits: int | None
    budget: float | None
    scope: str
    coder: str
    interval: int

    def text(self, unit: str = "iteration") -> str:
        """In words. unit: what intervals are counted in."""
        if self.budget is not None:
            keeps = f"a budget of {100 * self.budget:.3g} % of float32"
        elif self.bits is None:
            keeps = "all buckets"
        else:
            keeps = f"{self.bits} bit{'s' if self.bits > 1 else ''}"
        every = f"every {unit}" if self.interval == 1 else f"every {self.interval} {unit}s"
        coder = "run-length" if self.coder == "runlength" else "Huffman"
        return f"{keeps}, one alphabet a {self.scope}, {coder}, saved {every}"

    @property
    def restores(self) -> Setting:
        """Settings with the same one here restore the same: the coder only decides about bytes,
        unless it is a budget's."""
        return self if self.budget is not None else replace(self, coder="")

    @property
    def method(self) -> Method:
        """The same, for `recovery`."""
        return Method("lc", self.budget, self.bits, self.scope, self.coder)


@dataclass(frozen=True)
class Candidate:
    """A setting, and what it made of one run.

    share: of the float32 bytes, of a delta on disk, the mean; share_bound: what another one stays
    below in 95 of 100 cases, and with a budget always. exact_share: what of it are tensors
    that are stored exactly, an optimizer's, say. rate: share for every iteration (checkpoint of the
    series, where it comes without a training). distance: ||restored - u_T|| / ||u_T - u_0||,
    rework: iterations; both over the failures that were tried, with a bound that another failure
    stays below in 95 of 100 cases. rework and its bound are None where no loss is known.
    """

    setting: Setting
    share: float
    share_bound: float
    exact_share: float
    distance: Mean
    distance_bound: float
    rework: Mean | None
    rework_bound: float | None

    @property
    def rate(self) -> float:
        """Share of the float32 bytes written for every iteration, or checkpoint of the series."""
        return self.share / self.setting.interval

    def meets(self, target: str, most: float) -> bool:
        """Whether a target is met with near certainty."""
        return self.reached(target) <= most

    def reached(self, target: str) -> float:
        """What a target's number is compared with."""
        if target == "rework":
            assert self.rework_bound is not None, "a series without a loss is refused before"
            return self.rework_bound
        return self.share_bound if target == "size" else self.distance_bound

    @property
    def costs(self) -> tuple[float, float, float]:
        """What there should be little of: rate, distance, rework."""
        return self.rate, self.distance.value, self.rework.value if self.rework else 0.0


@dataclass(frozen=True)
class Tuned:
    """The answer. frontier: candidates that no other one beats in size, distance and rework at
    once, by rising rate, one of those that are alike in all three. recommended: None if no setting
    meets the target. because: a sentence, or two."""

    candidates: tuple[Candidate, ...]
    frontier: tuple[Candidate, ...]
    recommended: Candidate | None
    because: str


def settings(
    bits: Sequence[int | None] = BITS,
    budgets: Sequence[float] = SHARES,
    scopes: Sequence[str] = ("model", "tensor"),
    coders: Sequence[str] = ("runlength", "huffman"),
    intervals: Sequence[int] = INTERVALS,
) -> list[Setting]:
    """Every combination; a budget stands instead of bits."""
    keeps = [(x, None) for x in bits] + [(None, share) for share in budgets]
    return [
        Setting(x, share, scope, coder, interval)
        for (x, share), scope, coder, interval in product(keeps, scopes, coders, intervals)
    ]


def tune(
    series: Series,
    target: str,
    most: float,
    tried: Sequence[Setting] | None = None,
    progress: Progress = lambda _done, _total: None,
) -> Tuned:
    """Try every setting on a series, and recommend one: `try_out`, then `choose`.

    Raises what they raise, SettingsError before anything is tried.
    """
    _check_target(target, most, knows_loss=next(iter(series)).loss_of is not None)
    return choose(try_out(series, settings() if tried is None else tried, progress), target, most)


def try_out(
    series: Series,
    tried: Sequence[Setting],
    progress: Progress = lambda _done, _total: None,
) -> tuple[Candidate, ...]:
    """Replay every setting on a series.

    progress(done, total) is called on the way. Raises SettingsError for a series too short to fail
    in or not finite where it fails; codec.LccError.
    """
    return tuple(_tried(series, next(iter(series)), tried, progress))


def choose(candidates: Sequence[Candidate], target: str, most: float) -> Tuned:
    """The best of what was tried out.

    target: one of TARGETS. most: for "size" the share of the float32 bytes that a checkpoint may
    take on disk, nearly always; then the setting with the least rework (distance, where no loss is
    known) is recommended. For "distance" and "rework" what `Candidate` says, at most; then the one
    with the fewest bytes an iteration is. Raises SettingsError for a target that is none, or rework
    without a loss.
    """
    knows_loss = candidates[0].rework is not None
    _check_target(target, most, knows_loss=knows_loss)
    alike: dict[tuple[float, float, float], Candidate] = {}
    for c in candidates:
        if not any(_beats(o, c) for o in candidates):
            alike.setdefault(c.costs, c)
    frontier = tuple(alike[costs] for costs in sorted(alike))
    unit = "iteration" if knows_loss else "checkpoint"
    meeting = [c for c in candidates if c.meets(target, most)]
    if not meeting:
        nearest = min(candidates, key=lambda c: (c.reached(target), c.distance.value))
        because = (
            f"No setting of {len(candidates)} keeps {_words(target)} within {most:g}; the nearest "
            f"is {nearest.setting.text(unit)}, with {nearest.reached(target):.3g}."
        )
        return Tuned(tuple(candidates), frontier, None, because + _exact(nearest))
    if target == "size":
        best = min(meeting, key=lambda c: (c.rework_bound or 0.0, c.distance.value, c.rate))
        why = "has the least rework" if best.rework else "comes nearest to what was trained"
    else:
        best = min(meeting, key=lambda c: (c.rate, *c.costs))
        why = f"writes the fewest bytes for every {unit}"
    rework = f", rework {best.rework.value:.2f} iterations" if best.rework else ""
    words = best.setting.text(unit)
    meet = "1 setting keeps" if len(meeting) == 1 else f"{len(meeting)} settings keep"
    because = (
        f"{words[0].upper()}{words[1:]}: {meet} {_words(target)} within {most:g}, and of them this "
        f"one {why}: {best.rate:.2%} of float32, distance {best.distance.value:.3f}{rework}."
    )
    return Tuned(tuple(candidates), frontier, best, because + _exact(best))


def _check_target(target: str, most: float, *, knows_loss: bool) -> None:
    if target not in TARGETS or not most > 0:
        raise SettingsError(
            f"a target is one of {', '.join(TARGETS)}, and a number above 0; got {target!r}, {most}"
        )
    if target == "rework" and not knows_loss:
        raise SettingsError(
            "these checkpoints come without a training: their loss is not known, and rework "
            "neither; choose a target of size or distance"
        )


def failure_points(n: int) -> list[int]:
    """Where a run of n iterations is made to fail: late enough to have moved, early enough to see
    what comes after."""
    return sorted({round(n / 4 + i * n * 3 / 8 / (FAILURES - 1)) for i in range(FAILURES)})


def just_before_a_checkpoint(step: int, interval: int) -> int:
    """The last iteration up to ``step`` after which the next one would be saved."""
    return (step + 1) // interval * interval - 1


class _Try:
    """One setting, on the way through a series."""

    def __init__(self, setting: Setting, begin: Moment, first: Arrays) -> None:
        s = self.setting = setting
        self._values = begin.values
        self._tracker = Tracker.resume(
            begin.layout, copy_arrays(first), {}, s.bits, s.scope, s.coder, s.budget
        )
        self.sizes: list[int] = []
        self.exact_sizes: list[int] = []
        self.distances: list[float] = []
        self.excesses: dict[int, float] = {}  # by the iteration of the failure

    def save(self, moment: Moment) -> None:
        pairs = zip(moment.values, self._values, strict=True)
        values = {i: new for i, (new, old) in enumerate(pairs) if new != old}
        step = self._tracker.prepare_arrays(
            moment.arrays, lambda exact: self._overhead(moment.step, exact, values)
        )
        self._tracker.commit(step)
        self._values = moment.values
        self.sizes.append(_nbytes(moment.step, replace(step, values=values)))
        self.exact_sizes.append(sum(array.nbytes for array in step.exact.values()))

    def restored(self, moment: Moment) -> tuple[float, float | None]:
        """How far what a failure now restores is from the state, and its loss."""
        lossy = [t.name for t in moment.layout.tensors if t.lossy]
        off = distance(self._tracker.state, moment.arrays, lossy)
        off = math.inf if math.isnan(off) else off  # what was saved holds NaN
        return off, moment.loss_of(self._tracker.state) if moment.loss_of else None

    def _overhead(self, step: int, exact: Arrays, values: Mapping[int, str]) -> int:
        """What a budget pays for besides a step's own bytes, as `codec.recorder` counts it."""
        s = self.setting
        if s.budget is None:
            return 0
        known = records.overhead(
            len(str(step)), self._tracker.layout, exact, s.scope, s.coder, s.budget, bool(values)
        )
        return known + sum(len(text) + 12 for text in values.values())


def _tried(
    series: Series, first: Moment, tried: Sequence[Setting], progress: Progress
) -> Iterator[Candidate]:
    """Every setting replayed; a few at a time where tracks are large."""
    n = len(series)
    points = failure_points(n - 1)
    fails = {s.interval: {just_before_a_checkpoint(t, s.interval) for t in points} for s in tried}
    every = sorted(set().union(*fails.values()))
    seen = n - SMOOTH - every[-1] if first.loss_of else n  # of the trend, from the failure on
    if every[0] < 1 or seen < 2:
        raise SettingsError(
            f"a series of {n} checkpoints is too short to fail in with an interval of "
            f"{max(fails)}: give it {8 * max(max(fails), SMOOTH)} or more, or try shorter intervals"
        )
    done = 0
    together = max(1, ROOM // max(first.layout.nbytes, 1))
    total = n * -(-len(tried) // together)
    for begin in range(0, len(tried), together):
        tries: list[_Try] = []
        start: Arrays = {}
        losses: list[float] = []
        for number, moment in enumerate(series):
            if not tries:
                start = copy_arrays(moment.arrays)
                own = tried[begin : begin + together]
                tries = [_Try(s, moment, start) for s in own]
            elif moment.layout != first.layout:
                raise SettingsError(
                    f"the tensors of checkpoint {moment.step} are not those of the first one; "
                    "name a series without that change"
                )
            if moment.loss_of is not None:
                losses.append(moment.loss_of(moment.arrays))
            lossy = [t.name for t in moment.layout.tensors if t.lossy]
            moved = distance(start, moment.arrays, lossy) or 1.0
            if number in every and not math.isfinite(moved):
                raise SettingsError(
                    f"checkpoint {moment.step} holds NaN, infinity or values so large that "
                    "nothing is near to it; name a series without it"
                )
            restored: dict[Setting, tuple[float, float | None]] = {}
            for one in tries:
                setting = one.setting
                if number and number % setting.interval == 0:
                    one.save(moment)
                if number in fails[setting.interval]:
                    if setting.restores not in restored:
                        restored[setting.restores] = one.restored(moment)
                    off, loss = restored[setting.restores]
                    one.distances.append(off / moved)
                    if loss is not None:
                        one.excesses[number] = loss - losses[-1]
            done += 1
            progress(done, total)
        yield from (_candidate(one, first.layout, losses) for one in tries)


def _candidate(one: _Try, layout: Layout, losses: Sequence[float]) -> Candidate:
    trend = smoothed(losses, SMOOTH)
    reworks = []
    for number, excess in one.excesses.items():
        after = trend[number:]
        found = crossing(after, [excess] * len(after))
        reworks.append(math.inf if found is None else found)
    share, share_bound = (f(one.sizes) / layout.nbytes for f in (np.mean, upper_bound))
    if one.setting.budget is not None:
        share_bound = min(share_bound, max(one.setting.budget, share))
    return Candidate(
        one.setting, float(share), float(share_bound),
        float(np.mean(one.exact_sizes)) / layout.nbytes,
        mean(one.distances), upper_bound(one.distances),
        mean(reworks) if reworks else None, upper_bound(reworks) if reworks else None,
    )  # fmt: skip


def _nbytes(number: int, step: Step) -> int:
    """On disk, as `codec.Checkpointer` writes it."""
    return len(records.dump_delta(Place(number, "0" * RUN, "0" * DIGEST), "0" * 32, step))


def _beats(one: Candidate, other: Candidate) -> bool:
    """Whether one is better somewhere, and nowhere worse."""
    pairs = list(zip(one.costs, other.costs, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _exact(candidate: Candidate) -> str:
    """A second sentence, where most of a checkpoint is none of the codec's choice."""
    if 2 * candidate.exact_share < candidate.share:
        return ""
    return (
        f" Of {candidate.share:.1%} of float32 in a checkpoint, {candidate.exact_share:.1%} are "
        "tensors stored exactly, as an optimizer's are unless a policy says otherwise."
    )


def _words(target: str) -> str:
    return {
        "size": "a checkpoint's share of the float32 bytes, in 95 of 100 cases,",
        "distance": "the relative distance, in 95 of 100 cases,",
        "rework": "rework, in iterations and in 95 of 100 cases,",
    }[target]
