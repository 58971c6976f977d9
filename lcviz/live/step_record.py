"""The record of the step that Live shows: as the run saved it, or as a visitor tries it."""

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

WORDS = 24  # code words that the page shows


@dataclass(frozen=True)
class StepRecord:
    """One delta and its record, taken apart.

    checkpoint: the step as the run saved it. alphabets, codes: the weights', from the exponent
    stage; codes are None once the run has dropped them. header_nbytes, table_nbytes, word_nbytes,
    exact_nbytes: the parts of the record; table_nbytes includes the levels. moments: the
    optimizer's, if the record holds them. sizes: of the same symbols with each coder. coder: the
    record's. words: the first code words of the payload. words_alphabet: the index of their
    alphabet, the first that needs bits. states: the track before the step and the live model; None
    once the run has dropped them. is_trial: whether a visitor only tries this record. carries:
    whether the changes that it leaves out stay in the next δ.
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
    words_alphabet: int
    states: States | None
    is_trial: bool = False
    carries: bool = True

    @property
    def step(self) -> int:
        """The number of the step."""
        return self.checkpoint.step

    @property
    def n_kept(self) -> tuple[int, ...]:
        """The number of kept buckets in each alphabet."""
        return tuple(a.n_kept for a in self.alphabets)

    def left_out_text(self, verb: str = "stay") -> str:
        """What happens to the changes that the record leaves out: "stay in the next δ", "are lost".

        verb: "stay", or "stays" after a singular.
        """
        be = {"stay": "are", "stays": "is"}[verb]
        return f"{verb} in the next δ" if self.carries else f"{be} lost"

    @property
    def nbytes(self) -> int:
        """Bytes of the whole record."""
        moment_nbytes = sum(m.nbytes for m in self.moments)
        return self.header_nbytes + self.weights_nbytes + moment_nbytes + self.exact_nbytes

    @property
    def weights_nbytes(self) -> int:
        """Bytes of the weights' code words, tables and levels."""
        return self.table_nbytes + self.word_nbytes

    @property
    def n_changed(self) -> int:
        """How many values the record changes."""
        return sum(int(a.buckets.count[:k].sum()) for a, k in zip(self.alphabets, self.n_kept))

    @property
    def n(self) -> int:
        """How many values the delta has."""
        return sum(a.n for a in self.alphabets)

    @property
    def plain_nbytes(self) -> int:
        """Bytes without a code: for each value its bucket's number, or 0, in the same few bits."""
        return math.ceil(sum(a.n * k.bit_length() for a, k in zip(self.alphabets, self.n_kept)) / 8)

    @cached_property
    def restored(self) -> Arrays | None:
        """What a restart would load after the step; None without states or codes."""
        if self.states is None or self.codes is None:
            return None
        masks = [np.arange(len(a.buckets)) < a.n_kept for a in self.alphabets]
        return rebuilt(self._before(self.states), self.alphabets, self.codes, masks)

    def removed_buckets(
        self, loss_of: Callable[[Arrays], float], progress: Progress | None = None
    ) -> RemovedBuckets:
        """The loss without each bucket in turn. The record must have its states and codes."""
        assert self.states is not None
        assert self.codes is not None
        before, moved = self._before(self.states), self.checkpoint.moved
        return removed_buckets(
            self.step, before, self.alphabets, self.codes, moved, loss_of, progress
        )

    def _before(self, states: States) -> Arrays:
        """The track before the step, with the exact tensors of the step itself."""
        lossy = {name for a in self.alphabets for name in a.names}
        return states.live | {name: states.before[name] for name in lossy}


def saved_record(run: Run, checkpoint: Checkpoint) -> StepRecord:
    """The record of a checkpoint as it is on disk."""
    states, codes = run.states(checkpoint.step), run.codes(checkpoint.step)
    coding, moments = run.settings.coding, checkpoint.moments
    alphabets = checkpoint.alphabets
    return _dissected(checkpoint, alphabets, codes, moments, checkpoint.nbytes, coding, states)


def trial_record(checkpoint: Checkpoint, trial: Trial, retried: RetriedDelta) -> StepRecord:
    """The record that a checkpoint would have if the whole run were saved as in a trial.

    retried: the delta of this step in the trial.
    """
    states, delta = retried.states, retried.delta
    weights, moments = delta_of_weights(delta), moments_of(delta, list(states.live))
    alphabets, codes = dissect(changes(states.live, states.before, weights), weights)
    record = _dissected(checkpoint, alphabets, codes, moments, retried.nbytes, trial.coding, states)
    record = replace(record, is_trial=True, carries=trial.carries)
    return record if trial.most_buckets is None else _cut(record, trial.most_buckets)


def _cut(record: StepRecord, most: int) -> StepRecord:
    """The same delta with only the ``most`` largest buckets of each alphabet.

    A record in uniform steps stays whole.
    """
    assert record.codes is not None, "a retried delta has codes"
    if any(a.uniform for a in record.alphabets):
        return record
    shorter = cut(record.alphabets, record.codes, most, record.coder)
    word_nbytes = sum((e.payload_bits + 7) // 8 for e in shorter.encoded)
    alphabets = []
    n_kept = shorter.bucket_counts
    for a, codes, k, encoded in zip(record.alphabets, record.codes, n_kept, shorter.encoded):
        buckets = a.buckets.keeping(k)
        runlength = runlength_nbytes(codes, buckets)
        alphabets.append(replace(a, buckets=buckets, encoded=encoded, runlength_nbytes=runlength))
    words_alphabet, words = _first_words(shorter.encoded)
    return replace(
        record,
        alphabets=tuple(alphabets),
        table_nbytes=shorter.nbytes - word_nbytes,
        word_nbytes=word_nbytes,
        sizes=new_sizes(alphabets, n_kept, sum(a.runlength_nbytes for a in alphabets)),
        words=words,
        words_alphabet=words_alphabet,
    )


def _dissected(
    checkpoint: Checkpoint,
    alphabets: Sequence[Alphabet],
    codes: Sequence[Codes] | None,
    moments: tuple[Moment, ...],
    nbytes: int,
    coding: Coding,
    states: States | None,
) -> StepRecord:
    coded_nbytes = sum(a.nbytes for a in alphabets)
    word_nbytes = sum((a.encoded.payload_bits + 7) // 8 for a in alphabets)
    moment_nbytes = sum(m.nbytes for m in moments)
    words_alphabet, words = _first_words([a.encoded for a in alphabets])
    return StepRecord(
        checkpoint=checkpoint,
        alphabets=tuple(alphabets),
        codes=codes,
        header_nbytes=nbytes - coded_nbytes - moment_nbytes - checkpoint.exact_nbytes,
        table_nbytes=coded_nbytes - word_nbytes,
        word_nbytes=word_nbytes,
        exact_nbytes=checkpoint.exact_nbytes,
        moments=moments,
        sizes=record_sizes(alphabets, coding.coder),
        coder=coding.coder,
        words=words,
        words_alphabet=words_alphabet,
        states=states,
    )


def _first_words(alphabets: Sequence[codec.Encoded]) -> tuple[int, tuple[CodeWord, ...]]:
    """The index of the first alphabet that needs bits, and its first code words."""
    for i, e in enumerate(alphabets):
        if words := first_words(e, WORDS):
            return i, words
    return 0, ()
