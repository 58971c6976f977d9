"""A against B: two choices of the codec follow the same states of one run, side by side.

Each has a track of its own, as if the run had been saved that way: both begin with an exact base
at the same checkpoint, and save every one after it. So what a choice drops in one checkpoint is
part of its next delta, and its code tables are used again, as in a chain of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codec.scheme.track import Step
from codec.state.tensors import Arrays, Layout, copy_arrays
from lcviz.lab.anatomy import changes, dissect
from lcviz.lab.dry_run import Unwritten, record_nbytes
from lcviz.lab.measures import distance
from lcviz.lab.series import LossOf

MOST = 60  # checkpoints that a choice is replayed on: one more shows at once
KEPT = 6  # variants


@dataclass(frozen=True)
class Variant:
    """What can be chosen of the codec: see `codec.Tracker`. With a budget bits is None."""

    bits: int | None = 2
    scope: str = "model"
    coder: str = "runlength"
    budget: float | None = None

    @property
    def text(self) -> str:
        """In words."""
        if self.budget is not None:
            keeps = f"a budget of {100 * self.budget:.3g} %,"
        elif self.bits is None:
            keeps = "all"
        else:
            keeps = f"{self.bits} bit{'s' if self.bits > 1 else ''},"
        over = "the whole model" if self.scope == "model" else "each tensor"
        coder = "run-length" if self.coder == "runlength" else "Huffman"
        return f"{keeps} buckets over {over}, {coder}"


@dataclass(frozen=True)
class Moment:
    """One checkpoint of the run. moved: ||u_t - u_0||, the denominator of distances."""

    step: int
    arrays: Arrays
    moved: float


@dataclass(frozen=True)
class Saved:
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

    every: its checkpoints, the base left out, the newest last. buckets: of the newest delta, kept
    or not. loss: of the model restored from the newest. full_nbytes, n: float32 bytes of a state
    and its values.
    """

    variant: Variant
    every: tuple[Saved, ...]
    buckets: int
    loss: float
    full_nbytes: int
    n: int

    @property
    def newest(self) -> Saved:
        """The newest checkpoint."""
        return self.every[-1]

    @property
    def mean_nbytes(self) -> float:
        """Bytes of a checkpoint on average, the base left out."""
        return float(np.mean([s.nbytes for s in self.every]))

    @property
    def bits(self) -> float:
        """Bits a parameter of the newest record."""
        return 8 * self.newest.nbytes / self.n

    @property
    def seconds(self) -> float:
        """The median over all checkpoints."""
        return float(np.median([s.seconds for s in self.every]))


class Follower:
    """A variant on its way through the states of a run.

    first: the state that is stored as the base, name -> array; it is copied.
    """

    def __init__(self, variant: Variant, layout: Layout, first: Arrays) -> None:
        self.variant = variant
        self._chain = Unwritten(variant, layout, first)
        self._last: tuple[Arrays, Arrays, Step] | None = None
        self._side: Side | None = None
        self.every: list[Saved] = []

    @property
    def state(self) -> Arrays:
        """What a restart would have now; it changes with the next save."""
        return self._chain.track

    def save(self, moment: Moment) -> Saved:
        """One more checkpoint. Raises codec.LccError."""
        before = copy_arrays(self.state)
        step, arrays = moment.step, moment.arrays
        started = time.perf_counter()
        delta = self._chain.prepare(step, arrays)
        nbytes = record_nbytes(step, delta)
        seconds = time.perf_counter() - started
        self._chain.commit(delta)
        self._last = before, arrays, delta
        coded = [group.encoded for group in delta.groups]
        cached = [e.cached for e in coded if e.table is not None]
        off = distance(self.state, arrays)
        saved = Saved(
            step,
            nbytes,
            sum(e.table_nbytes for e in coded),
            len(cached),
            sum(cached),
            sum(e.levels.size - 1 for e in coded),
            off / moment.moved if moment.moved else 0.0,
            seconds,
        )
        self.every.append(saved)
        self._side = None
        return saved

    def side(self, loss_of: LossOf) -> Side:
        """What has become of it; measured once a checkpoint, and none has been saved before."""
        if self._side is None:
            assert self._last is not None, "something was saved"
            before, arrays, delta = self._last
            alphabets, _ = dissect(changes(arrays, before, delta), delta)
            layout = self._chain.layout
            self._side = Side(
                self.variant,
                tuple(self.every),
                sum(len(a.buckets) for a in alphabets),
                loss_of(self.state),
                layout.nbytes,
                sum(t.size for t in layout.tensors),
            )
            self._last = None  # three times the model, for each variant that is kept
        return self._side


class Followers:
    """Variants that follow one run from the same checkpoint on; the last few are kept, so that who
    goes back to one sees it at once."""

    def __init__(self) -> None:
        self._start = -1
        self._kept: dict[Variant, Follower] = {}  # the one used last is the last

    def follow(self, variant: Variant, layout: Layout, moments: Sequence[Moment]) -> Follower:
        """Up to the newest of the moments, of which the first is the base. Raises codec.LccError.

        They are those of the last call or begin where these did, and may have become more.
        """
        first = moments[0]
        if first.step != self._start:
            self._start, self._kept = first.step, {}
        follower = self._kept.pop(variant, None) or Follower(variant, layout, first.arrays)
        self._kept[variant] = follower
        while len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        seen = follower.every[-1].step if follower.every else first.step
        for moment in moments:
            if moment.step > seen:
                follower.save(moment)
        return follower


def replayed(held: Sequence[int], interval: int) -> tuple[int, ...]:
    """The steps that variants follow: of those that are held, the base first.

    held: rising. From half of MOST to MOST of them, as far as there are so many. The base is the
    same for a while: it moves on by leaps, so that most checkpoints take one more save only.
    """
    newest = held[-MOST:]
    leap = max(len(newest) // 2, 1) * interval
    base = next((s for s in newest if s % leap == 0), newest[0])
    return tuple(s for s in newest if s >= base)
