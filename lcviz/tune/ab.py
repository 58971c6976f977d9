"""A against B: two choices of the codec on the same states of one run, side by side.

Each has a track of its own, as if the run had been saved that way: both begin with an exact base
at the same checkpoint and save every one after it. What a choice leaves out of one checkpoint is
part of its next delta, and its code tables are reused, as in a chain of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from codec import Coding, Delta
from codec.inspect import Arrays, Layout, copy_arrays
from lcviz.lab.anatomy import changes, dissect
from lcviz.lab.dry_run import DryRun, record_nbytes
from lcviz.lab.measures import distance
from lcviz.lab.series import LossOf
from lcviz.run.snapshot import Checkpoint

MOST_CHECKPOINTS = 60  # that a choice is replayed on: one more shows at once
MOST_REPLAYS = 6  # choices whose replay is kept


@dataclass(frozen=True)
class RunState:
    """One checkpoint of the run. moved: ||u_t - u_0||, the denominator of distances."""

    step: int
    arrays: Arrays
    moved: float


@dataclass(frozen=True)
class TrialSave:
    """One checkpoint as a choice would save it.

    nbytes: of its record, on disk. table_nbytes: of the new code tables among them. tables,
    reused: how many tables its code needs, and how many of these were sent before. kept: buckets.
    distance: ||restored - u_t|| / ||u_t - u_0||. seconds: to encode it.
    """

    step: int
    nbytes: int
    table_nbytes: int
    tables: int
    reused: int
    kept: int
    distance: float
    seconds: float


@dataclass(frozen=True)
class Side:
    """A choice, and what it has made of the run so far.

    saves: its checkpoints without the base, the newest last. buckets: of the newest delta, kept or
    not. loss: of the model restored from the newest. full_nbytes, n: float32 bytes of a state, and
    its values.
    """

    choice: Coding
    saves: tuple[TrialSave, ...]
    buckets: int
    loss: float
    full_nbytes: int
    n: int

    @property
    def newest(self) -> TrialSave:
        """The newest checkpoint."""
        return self.saves[-1]

    @property
    def mean_nbytes(self) -> float:
        """Bytes of a checkpoint on average, without the base."""
        return float(np.mean([s.nbytes for s in self.saves]))

    @property
    def bits(self) -> float:
        """Bits per parameter of the newest record."""
        return 8 * self.newest.nbytes / self.n

    @property
    def seconds(self) -> float:
        """The median over all checkpoints."""
        return float(np.median([s.seconds for s in self.saves]))


def as_saved(side: Side, saved: Sequence[Checkpoint]) -> Side:
    """A side that has the run's own setting, with the sizes and distances that the run measured.

    So a step has one size on all pages. The replay alone would differ: its base may be younger than
    the run's, and so its track and tables are others. Seconds stay those of the replay.

    saved: the run's checkpoints, one for each save of the side.
    """
    saves = [
        replace(s, nbytes=c.nbytes, distance=c.distance)
        for s, c in zip(side.saves, saved, strict=True)
    ]
    newest = saved[-1]
    saves[-1] = replace(
        saves[-1],
        table_nbytes=sum(a.table_nbytes for a in newest.alphabets),
        tables=len(newest.alphabets),
        reused=sum(a.cached for a in newest.alphabets),
        kept=sum(a.kept for a in newest.alphabets),
    )
    loss = side.loss if newest.restored_loss is None else newest.restored_loss
    buckets = sum(len(a.buckets) for a in newest.alphabets)
    return replace(side, saves=tuple(saves), buckets=buckets, loss=loss)


class TrialChain:
    """A choice on its way through the states of a run.

    first: the state that is stored as the base, name -> array; it is copied.
    """

    def __init__(self, choice: Coding, layout: Layout, first: Arrays) -> None:
        self.choice = choice
        self._chain = DryRun(choice, layout, first)
        self._last: tuple[Arrays, Arrays, Delta] | None = None
        self._side: Side | None = None
        self.saves: list[TrialSave] = []

    @property
    def track(self) -> Arrays:
        """What a restart would load; it changes with the next save."""
        return self._chain.track

    def save(self, state: RunState) -> TrialSave:
        """One more checkpoint. Raises codec.LccError."""
        before, step = copy_arrays(self.track), state.step
        started = time.perf_counter()
        delta = self._chain.prepare(step, state.arrays)
        nbytes = record_nbytes(step, delta, self._chain.layout)
        seconds = time.perf_counter() - started
        self._chain.commit(delta)
        self._last, self._side = (before, state.arrays, delta), None
        coded = [group.encoded for group in delta.groups]
        cached = [e.cached for e in coded if e.table is not None]
        off = distance(self.track, state.arrays)
        saved = TrialSave(
            step,
            nbytes,
            sum(e.table_nbytes for e in coded),
            len(cached),
            sum(cached),
            sum(e.n_levels for e in coded),
            off / state.moved if state.moved else 0.0,
            seconds,
        )
        self.saves.append(saved)
        return saved

    def side(self, loss_of: LossOf) -> Side:
        """The outcome so far, measured once a checkpoint; something has to be saved before."""
        if self._side is None:
            assert self._last is not None, "something was saved"
            before, arrays, delta = self._last
            alphabets, _ = dissect(changes(arrays, before, delta), delta)
            buckets, layout = sum(len(a.buckets) for a in alphabets), self._chain.layout
            n, loss = sum(t.size for t in layout.tensors), loss_of(self.track)
            self._side = Side(self.choice, tuple(self.saves), buckets, loss, layout.nbytes, n)
            self._last = None  # three times the model, for each choice that is kept
        return self._side


class TrialChains:
    """Choices replayed from the same checkpoint on. The last few are kept, so that going back to
    one takes no time."""

    def __init__(self) -> None:
        self._start = -1
        self._kept: dict[Coding, TrialChain] = {}  # the one used last is the last

    def replay(self, choice: Coding, layout: Layout, states: Sequence[RunState]) -> TrialChain:
        """Up to the newest of the states, of which the first is the base. Raises codec.LccError.

        states: those of the last call, perhaps with more at the end; or others from another base.
        """
        first = states[0]
        if first.step != self._start:
            self._start, self._kept = first.step, {}
        found = self._kept.pop(choice, None) or TrialChain(choice, layout, first.arrays)
        self._kept[choice] = found
        while len(self._kept) > MOST_REPLAYS:
            del self._kept[next(iter(self._kept))]
        seen = found.saves[-1].step if found.saves else first.step
        for state in states:
            if state.step > seen:
                found.save(state)
        return found


def replayed_steps(held: Sequence[int], interval: int) -> tuple[int, ...]:
    """The steps that choices are replayed on: of those that are kept, the base first.

    held: rising. Returns between half of MOST_CHECKPOINTS and all of them, if there are so many.
    The base moves on by leaps, so that most new checkpoints take only one more save.
    """
    newest = held[-MOST_CHECKPOINTS:]
    leap = max(len(newest) // 2, 1) * interval
    base = next((s for s in newest if s % leap == 0), newest[0])
    return tuple(s for s in newest if s >= base)
