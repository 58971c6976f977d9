"""A whole run saved once more: what every checkpoint so far would be with another setting.

Another setting at one step changes little. Used from the beginning, it decides what a restart would
load, because each delta starts from the track that the one before it led to. The recorded states of
the run go through the codec again, without a disk; no training is repeated.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from codec import Coding, Delta
from codec.errors import BudgetError
from codec.inspect import Arrays, DryRun, copy_arrays, record_nbytes
from lcviz.lab.anatomy import cut
from lcviz.lab.removed_bucket import Dissection

from .run import Run
from .snapshot import RunError
from .whole_state import States, dissect_weights, is_weight, own_name, weights_of

STATES_BUDGET = 8 * 2**20  # bytes of states that one replay stores


@dataclass(frozen=True)
class Trial:
    """How a whole run is saved once more.

    Attributes:
        coding: The codec's settings.
        most_buckets: Number of buckets that are kept of each alphabet, whatever the bits; None for
            all that the coding keeps.
        carries: Whether the part of δ that a checkpoint leaves out stays in the next δ, as in the
            paper. If not, each δ is the change since the last checkpoint, and that part is lost.
    """

    coding: Coding
    most_buckets: int | None = None
    carries: bool = True


@dataclass(frozen=True)
class RetriedStep:
    """One checkpoint of a run that is saved once more.

    Attributes:
        step: Its number.
        nbytes: Of its record.
        loss, metric: Of the restored model on the probe, see `Task.probe_metric`; None if not
            measured.
    """

    step: int
    nbytes: int
    loss: float | None
    metric: float | None


@dataclass(frozen=True)
class RetriedDelta:
    """The delta of a checkpoint that is saved once more.

    Attributes:
        states: The track before it, and the state that it encodes: the model that was saved or, if
            the trial carries nothing over, the track plus the change since the last checkpoint.
        delta: As it would be written, before any cut.
        nbytes: Of its record, before any cut.
    """

    states: States
    delta: Delta
    nbytes: int


class Replay:
    """The checkpoints of a run, saved once more one after another. Thread-safe.

    Args:
        run: The run whose states are saved.
        trial: How they are saved.

    Attributes:
        trial: The trial.
        pinned_step: A step whose delta is never dropped; -1 for none.
        advised_budget: What the codec advises, once the trial's was too small; else None.
    """

    def __init__(self, run: Run, trial: Trial) -> None:
        self.trial, self.pinned_step = trial, -1
        self.advised_budget: float | None = None
        self._run = run
        self._lock = threading.Lock()
        self._done: list[int] = []
        self._dry: DryRun | None = None
        self._last: Arrays = {}  # the state that was saved last, name -> array
        self._deltas: dict[int, RetriedDelta] = {}

    def steps(self) -> list[int]:
        """The run's steps that are done or can be saved, rising.

        If the run has dropped the states of its first steps, the others begin at its own track.
        """
        with self._lock:
            last = self._done[-1] if self._done else 0
            return [*self._done, *(step for step in self._run.saved.with_states() if step > last)]

    def delta(self, step: int) -> RetriedDelta | None:
        """A step's delta; None if the step is not done yet, or its delta was dropped."""
        with self._lock:
            return self._deltas.get(step)

    def save(self, step: int, *, measured: bool) -> RetriedStep:
        """Save the step that comes after the last one that is done.

        Args:
            step: Its number.
            measured: Whether to measure its loss.

        Raises:
            codec.LccError: The setting cannot save it.
            RunError: The run has dropped its states, or the step is done already.
        """
        saved = self._run.saved.states(step)
        if saved is None or not saved.before:
            raise RunError(f"The weights of step {step} are no longer kept.")
        with self._lock:
            if self._done and step <= self._done[-1]:
                raise RunError(f"Step {step} is done already.")
            if self._dry is None:
                before = saved.whole_before
                self._dry = DryRun(self.trial.coding, saved.layout, before, saved.values[0])
                self._last = before
            try:
                nbytes = self._save(saved, self._dry)
            except BudgetError as exc:
                self.advised_budget = exc.budget
                raise
            restored = copy_arrays(weights_of(self._dry.track))
        loss, metric = self._run.task.probe_metric(restored) if measured else (None, None)
        return RetriedStep(step, nbytes, loss, metric)

    def _save(self, saved: States, dry: DryRun) -> int:
        """Advance the track by one step; returns the bytes of its record."""
        step, before = saved.step, copy_arrays(dry.track)
        live = saved.whole_live if self.trial.carries else self._since_last(saved, before)
        states = replace(saved, whole_before=before, whole_live=live)
        delta = dry.prepare(step, live, saved.values[1])
        nbytes = record_nbytes(step, delta, saved.layout)
        self._keep(step, RetriedDelta(states, delta, nbytes))
        dry.commit(delta)
        self._last = saved.whole_live
        self._done.append(step)
        if self.trial.most_buckets is None:
            return nbytes
        alphabets, codes = dissect_weights(states, delta)
        if any(a.uniform for a in alphabets):
            return nbytes
        most, coder = self.trial.most_buckets, self.trial.coding.coder
        shorter = [
            cut(a, exponent_codes, most, coder) for a, exponent_codes in zip(alphabets, codes)
        ]
        weights_after = Dissection(states.before_delta(alphabets), shorter, codes).rebuilt()
        after = {
            name: weights_after[own_name(name)] if is_weight(name) else array
            for name, array in dry.track.items()
        }
        self._dry = DryRun(self.trial.coding, saved.layout, after, saved.values[1])
        return nbytes - sum(a.nbytes for a in alphabets) + sum(a.nbytes for a in shorter)

    def _since_last(self, saved: States, track: Arrays) -> Arrays:
        """The track plus the change since the last checkpoint; exact tensors as they are."""
        lossy = {t.name for t in saved.layout.tensors if t.lossy}
        return {
            name: track[name] + (array - self._last[name]) if name in lossy else array
            for name, array in saved.whole_live.items()
        }

    def _keep(self, step: int, delta: RetriedDelta) -> None:
        self._deltas[step] = delta
        total = sum(d.states.nbytes for d in self._deltas.values())
        for old in [s for s in self._deltas if s not in (step, self.pinned_step)]:
            if total <= STATES_BUDGET:
                break
            total -= self._deltas.pop(old).states.nbytes
