"""The weight that all pictures of Live follow: what one step does to it, and its values so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from codec.inspect import Codes
from lcviz.lab.anatomy import Alphabet, BucketKey
from lcviz.lab.follow_weight import Followed, Weight, follow
from lcviz.lab.removed_bucket import among
from lcviz.run.run import Run
from lcviz.run.whole_run import Replay

from .step_record import StepRecord

MOST_STAIRS = 100  # steps that the picture draws: the eye cannot separate more


@dataclass(frozen=True)
class Stair:
    """One weight at one step: its trained value u, and its restored value ũ just before the step.

    Over the steps, ũ makes a staircase.
    """

    u: float
    track: float


@dataclass(frozen=True)
class WeightHistory:
    """The followed weight.

    Attributes:
        followed: What the step on the page does to the weight.
        stairs: Step, rising -> the weight's values.
    """

    followed: Followed
    stairs: Mapping[int, Stair] = field(default_factory=dict)

    @property
    def bucket(self) -> BucketKey | None:
        """The bucket of the weight's change in the step on the page; None if it has none."""
        bucket = self.followed.bucket
        return None if bucket is None else (bucket.exponent, bucket.sign)


def history_of(
    run: Run,
    record: StepRecord,
    weight: Weight,
    replay: Replay | None = None,
    cached_stairs: Mapping[int, Stair] | None = None,
) -> WeightHistory:
    """Follow a weight.

    Args:
        run: The run that trains the weight.
        record: Of the step on the page, with states and codes.
        weight: The weight.
        replay: The run saved once more, if the page shows a trial.
        cached_stairs: Stairs of the same weight from an earlier call.
    """
    assert record.states is not None
    assert record.codes is not None
    before, live = record.states.before, record.states.live
    followed = follow(weight, record.step, before, live, record.alphabets, record.codes)
    return WeightHistory(followed, _stairs(run, weight, replay, cached_stairs or {}))


def first_weight(record: StepRecord) -> Weight:
    """The weight to follow first: the smallest kept change in the largest tensor.

    A change that small has waited in earlier steps.
    """
    assert record.states is not None
    live, before = record.states.live, record.states.before
    tensor = max(live, key=lambda name: live[name].size)
    changes = np.abs(live[tensor] - before[tensor]).reshape(-1)
    weight = Weight(tensor, int(changes.argmax()))
    if (coded := codes_in(record, tensor)) is not None:
        alphabet, codes = coded
        survivors = np.flatnonzero((codes > 0) & (codes <= alphabet.n_kept))
        if survivors.size:
            weight = Weight(tensor, int(survivors[changes[survivors].argmin()]))
    return weight


def largest_in_bucket(record: StepRecord, key: BucketKey, tensor: str) -> Weight | None:
    """The weight with the largest change of a bucket; None if the bucket is empty.

    A change in the given tensor goes before larger ones elsewhere.
    """
    return largest_among(record, lambda alphabet: among(alphabet, {key}), tensor)


def largest_among(
    record: StepRecord, select: Callable[[Alphabet], NDArray[np.bool_]], tensor: str
) -> Weight | None:
    """The weight with the largest change in some buckets.

    Args:
        record: Of a step.
        select: An alphabet -> bool (b,), which of its buckets.
        tensor: A name. A change in this tensor goes before larger ones elsewhere.

    Returns:
        None if the buckets are empty, or the record has no states or codes.
    """
    if record.states is None or record.codes is None:
        return None
    best: tuple[bool, float, Weight] | None = None
    for alphabet, codes in zip(record.alphabets, record.codes):
        bucket_codes = np.flatnonzero(select(alphabet)) + 1
        parts = alphabet.parts(codes) if bucket_codes.size else {}
        for name, tensor_codes in parts.items():
            members = np.flatnonzero(np.isin(tensor_codes, bucket_codes))
            if members.size:
                changes = np.abs(record.states.live[name] - record.states.before[name]).reshape(-1)
                i = int(members[changes[members].argmax()])
                candidate = name == tensor, float(changes[i]), Weight(name, i)
                best = candidate if best is None or candidate[:2] > best[:2] else best
    return best[2] if best else None


def codes_in(record: StepRecord, tensor: str) -> tuple[Alphabet, Codes] | None:
    """The alphabet of a tensor and the tensor's codes of the exponent stage, (n,).

    None if the tensor is stored exactly, or the record has no codes.
    """
    for alphabet, codes in zip(record.alphabets, record.codes or ()):
        if tensor in alphabet.sizes:
            return alphabet, alphabet.parts(codes)[tensor]
    return None


def _stairs(
    run: Run, weight: Weight, replay: Replay | None, cached_stairs: Mapping[int, Stair]
) -> dict[int, Stair]:
    """The stairs of at most MOST_STAIRS of the steps whose states the run still has."""
    steps = run.saved.with_states()
    stride = -(-len(steps) // MOST_STAIRS)
    stairs = {
        step: cached_stairs.get(step) or _stair(run, weight, step, replay)
        for step in sorted({*steps[::stride], *steps[-1:]})
    }
    return {step: stair for step, stair in stairs.items() if stair}


def _stair(run: Run, weight: Weight, step: int, replay: Replay | None) -> Stair | None:
    states = run.saved.states(step)
    if states is None or not states.before or not weight.is_in(states.live):
        return None
    before = states.before
    if replay is not None:
        retried = replay.delta(step)
        if retried is None:
            return None
        before = retried.states.before
    return Stair(weight.of(states.live), weight.of(before))
