"""The record of the step that Live shows: as the run saved it, or as a visitor tries it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from codec.inspect import Arrays, Codes
from lcviz.lab.anatomy import Alphabet, cut, record_sizes
from lcviz.lab.codewords import CodeWord, first_words
from lcviz.lab.progress import Progress
from lcviz.lab.removed_bucket import Dissection, RemovedBuckets, removed_buckets
from lcviz.lab.sizes import Sizes
from lcviz.run.run import Run
from lcviz.run.snapshot import Checkpoint
from lcviz.run.whole_run import RetriedDelta, Trial
from lcviz.run.whole_state import Moment, States, dissect_weights, moments_of

WORDS = 24  # code words that the page shows


@dataclass(frozen=True)
class StepRecord:
    """One delta and its record, taken apart.

    checkpoint: the step as the run saved it. states: the track before the step and the live model;
    None once the run has dropped them. alphabets, codes: the weights', from the exponent stage;
    codes are None once the run has dropped them. moments: the optimizer's, if the record holds
    them. nbytes: of the whole record. coder: its name. is_trial: whether a visitor only tries this
    record. carries: whether the changes that it leaves out stay in the next δ.
    """

    checkpoint: Checkpoint
    states: States | None
    alphabets: Sequence[Alphabet]
    codes: Sequence[Codes] | None
    moments: tuple[Moment, ...]
    nbytes: int
    coder: str
    is_trial: bool = False
    carries: bool = True

    @property
    def step(self) -> int:
        """The number of the step."""
        return self.checkpoint.step

    @cached_property
    def n_kept(self) -> tuple[int, ...]:
        """The number of kept buckets in each alphabet."""
        return tuple(a.n_kept for a in self.alphabets)

    @property
    def header_nbytes(self) -> int:
        """Bytes of the record that are nothing of the below."""
        moment_nbytes = sum(m.nbytes for m in self.moments)
        return self.nbytes - self.weights_nbytes - moment_nbytes - self.exact_nbytes

    @property
    def exact_nbytes(self) -> int:
        """Bytes of what is stored exactly."""
        return self.checkpoint.saved.exact_nbytes

    @property
    def weights_nbytes(self) -> int:
        """Bytes of the weights' code words, tables and levels."""
        return sum(a.nbytes for a in self.alphabets)

    @property
    def word_nbytes(self) -> int:
        """Bytes of the weights' code words."""
        return sum((a.encoded.payload_bits + 7) // 8 for a in self.alphabets)

    @property
    def table_nbytes(self) -> int:
        """Bytes of the weights' tables and levels."""
        return self.weights_nbytes - self.word_nbytes

    @cached_property
    def sizes(self) -> Sizes:
        """Of the weights' symbols with each coder."""
        return record_sizes(self.alphabets, self.coder)

    @cached_property
    def words(self) -> tuple[Alphabet | None, tuple[CodeWord, ...]]:
        """The first alphabet that needs bits, None if none does, and its first code words."""
        for alphabet in self.alphabets:
            if words := first_words(alphabet.encoded, WORDS):
                return alphabet, words
        return None, ()

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
        return None if self.states is None or self.codes is None else self._dissection.rebuilt()

    @property
    def _dissection(self) -> Dissection:
        assert self.states is not None
        assert self.codes is not None
        return Dissection(self.states.before_delta(self.alphabets), self.alphabets, self.codes)

    def removed_buckets(
        self, loss_of: Callable[[Arrays], float], progress: Progress | None = None
    ) -> RemovedBuckets:
        """The loss without each bucket in turn. The record must have its states and codes."""
        moved = self.checkpoint.moved
        return removed_buckets(self.step, self._dissection, moved, loss_of, progress)


def saved_record(run: Run, checkpoint: Checkpoint) -> StepRecord:
    """The record of a checkpoint as it is on disk."""
    return StepRecord(
        checkpoint,
        run.saved.states(checkpoint.step),
        tuple(checkpoint.alphabets),
        run.saved.codes(checkpoint.step),
        checkpoint.moments,
        checkpoint.nbytes,
        run.settings.coding.coder,
    )


def trial_record(checkpoint: Checkpoint, trial: Trial, retried: RetriedDelta) -> StepRecord:
    """The record that a checkpoint would have if the whole run were saved as in a trial.

    retried: the delta of this step in the trial. A cut leaves a record in uniform steps whole.
    """
    states, coder, nbytes = retried.states, trial.coding.coder, retried.nbytes
    alphabets, codes = dissect_weights(states, retried.delta)
    moments = moments_of(retried.delta, list(states.live))
    if trial.most_buckets is not None and not any(a.uniform for a in alphabets):
        nbytes -= sum(a.nbytes for a in alphabets)
        most = trial.most_buckets
        alphabets = tuple(cut(a, c, most, coder) for a, c in zip(alphabets, codes))
        nbytes += sum(a.nbytes for a in alphabets)
    record = StepRecord(checkpoint, states, alphabets, codes, moments, nbytes, coder)
    return replace(record, is_trial=True, carries=trial.carries)
