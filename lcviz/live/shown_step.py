"""The step that Live shows, as the run saved it or as a visitor tries it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

import codec
from codec import Coding
from codec.inspect import Arrays, Codes
from lcviz.lab.anatomy import Alphabet, changes, dissect, new_sizes, record_sizes
from lcviz.lab.codewords import CodeWord, first_words
from lcviz.lab.cut import cut
from lcviz.lab.progress import Progress
from lcviz.lab.removed_bucket import RemovedBuckets, rebuilt, removed_buckets
from lcviz.lab.sizes import Sizes, runlength_nbytes
from lcviz.run.run import Run
from lcviz.run.snapshot import Checkpoint, Moment, States
from lcviz.run.whole_run import RetriedDelta, Trial
from lcviz.run.whole_state import delta_of_weights, moments_of

WORDS = 24  # code words shown


@dataclass(frozen=True)
class ShownStep:
    """One delta, and a record of it.

    alphabets, codes: of the exponent stage; codes are None if they are no longer kept. All of these
    are the weights'. header_nbytes, table_nbytes, word_nbytes, exact_nbytes: of the record; the
    table's with the levels. moments: an optimizer's that the record holds. sizes: of the same
    symbols with each coder. worded: the index of the first alphabet that needs bits. words: the
    first code words of its payload. states: before it and live; None if no longer kept. trial:
    whether the record is only tried. carries: whether what it leaves out stays in the next δ.
    """

    checkpoint: Checkpoint
    alphabets: tuple[Alphabet, ...]
    codes: Sequence[Codes] | None
    header_nbytes: int
    table_nbytes: int
    word_nbytes: int
    exact_nbytes: int
    moments: tuple[Moment, ...]
    sizes: Sizes
    coder: str
    words: tuple[CodeWord, ...]
    worded: int
    states: States | None
    trial: bool = False
    carries: bool = True

    @property
    def step(self) -> int:
        """Its number."""
        return self.checkpoint.step

    @property
    def kept(self) -> tuple[int, ...]:
        """How many buckets of each alphabet are kept."""
        return tuple(a.kept for a in self.alphabets)

    def left_out(self, verb: str = "stay") -> str:
        """What becomes of what it leaves out. verb: "stay", or "stays" for one thing."""
        lost = {"stay": "are", "stays": "is"}[verb]
        return f"{verb} in the next δ" if self.carries else f"{lost} lost"

    @property
    def nbytes(self) -> int:
        """Of the whole record."""
        others = self.header_nbytes + self.exact_nbytes + sum(m.nbytes for m in self.moments)
        return self.weights_nbytes + others

    @property
    def weights_nbytes(self) -> int:
        """Of code words, tables and levels of the weights."""
        return self.table_nbytes + self.word_nbytes

    @property
    def values(self) -> int:
        """How many values it changes."""
        return sum(int(a.buckets.count[:k].sum()) for a, k in zip(self.alphabets, self.kept))

    @property
    def n(self) -> int:
        """How many values it covers."""
        return sum(a.n for a in self.alphabets)

    @property
    def plain_nbytes(self) -> int:
        """Of the number of each value's bucket, 0 if none, in the fewest bits for all of them."""
        return math.ceil(sum(a.n * k.bit_length() for a, k in zip(self.alphabets, self.kept)) / 8)

    @cached_property
    def restored(self) -> Arrays | None:
        """What a restart would load after it; None if its states are no longer kept."""
        if self.states is None or self.codes is None:
            return None
        kept = [np.arange(len(a.buckets)) < a.kept for a in self.alphabets]
        return rebuilt(self._before(self.states), self.alphabets, self.codes, kept)

    def removed_buckets(
        self, loss_of: Callable[[Arrays], float], progress: Progress | None = None
    ) -> RemovedBuckets:
        """What the loss becomes without each bucket; the states and codes must be kept."""
        assert self.states is not None
        assert self.codes is not None
        before, moved = self._before(self.states), self.checkpoint.moved
        return removed_buckets(
            self.step, before, self.alphabets, self.codes, moved, loss_of, progress
        )

    def _before(self, states: States) -> Arrays:
        """The track before it, with the exact tensors of this step."""
        lossy = {name for a in self.alphabets for name in a.names}
        return states.live | {name: states.before[name] for name in lossy}


def as_saved(run: Run, viewed: Checkpoint) -> ShownStep:
    """A delta as its record on disk has it."""
    states, codes = run.states(viewed.step), run.codes(viewed.step)
    coding, moments = run.settings.coding, viewed.moments
    return _of_record(viewed, viewed.alphabets, codes, moments, viewed.nbytes, coding, states)


def retried(viewed: Checkpoint, trial: Trial, own: RetriedDelta) -> ShownStep:
    """The delta of a step of a run that is saved once more. own: of that step."""
    states, delta = own.states, own.delta
    weights, moments = delta_of_weights(delta), moments_of(delta, list(states.live))
    alphabets, codes = dissect(changes(states.live, states.before, weights), weights)
    found = _of_record(viewed, alphabets, codes, moments, own.nbytes, trial.coding, states)
    found = replace(found, trial=True, carries=trial.carries)
    return found if trial.most is None else _cut(found, trial.most)


def _cut(shown: ShownStep, most: int) -> ShownStep:
    """The same delta with the largest buckets alone, so many of each alphabet.

    Uniform steps are not cut.
    """
    assert shown.codes is not None, "a delta that is made now has them"
    if any(a.uniform for a in shown.alphabets):
        return shown
    left = cut(shown.alphabets, shown.codes, most, shown.coder)
    words = sum((e.payload_bits + 7) // 8 for e in left.encoded)
    alphabets = []
    for a, own, k, encoded in zip(shown.alphabets, shown.codes, left.kept, left.encoded):
        buckets = a.buckets.keeping(k)
        runlength = runlength_nbytes(own, buckets)
        alphabets.append(replace(a, buckets=buckets, encoded=encoded, runlength_nbytes=runlength))
    worded, first = _first_words(left.encoded)
    return replace(
        shown,
        alphabets=tuple(alphabets),
        table_nbytes=left.nbytes - words,
        word_nbytes=words,
        sizes=new_sizes(alphabets, left.kept, sum(a.runlength_nbytes for a in alphabets)),
        words=first,
        worded=worded,
    )


def _of_record(
    viewed: Checkpoint,
    alphabets: Sequence[Alphabet],
    codes: Sequence[Codes] | None,
    moments: tuple[Moment, ...],
    nbytes: int,
    coding: Coding,
    states: States | None,
) -> ShownStep:
    coded = sum(a.nbytes for a in alphabets)
    words = sum((a.encoded.payload_bits + 7) // 8 for a in alphabets)
    worded, first = _first_words([a.encoded for a in alphabets])
    return ShownStep(
        viewed,
        tuple(alphabets),
        codes,
        nbytes - viewed.exact_nbytes - coded - sum(m.nbytes for m in moments),
        coded - words,
        words,
        viewed.exact_nbytes,
        moments,
        record_sizes(alphabets, coding.coder),
        coding.coder,
        first,
        worded,
        states,
    )


def _first_words(every: Sequence[codec.Encoded]) -> tuple[int, tuple[CodeWord, ...]]:
    """The index of the first alphabet that needs bits, and its first code words."""
    for i, e in enumerate(every):
        if words := first_words(e, WORDS):
            return i, words
    return 0, ()
