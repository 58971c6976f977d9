"""The weight that all pictures of Live follow: what a step does to it, and its way so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from codec.inspect import Codes
from lcviz.lab.anatomy import Alphabet, BucketKey
from lcviz.lab.follow_weight import Followed, Weight, follow
from lcviz.lab.removed_bucket import among
from lcviz.run.run import Run
from lcviz.run.whole_run import Replay

from .shown_step import ShownStep

MOST_STAIRS = 100  # steps of a staircase: more cannot be told apart


@dataclass(frozen=True)
class Stair:
    """One weight at one step: its trained value u, and its restored value ũ just before it."""

    u: float
    track: float


@dataclass(frozen=True)
class Thread:
    """The followed weight.

    Attributes:
        followed: What the step shown does to it.
        stairs: Step -> its values, rising.
    """

    followed: Followed
    stairs: Mapping[int, Stair] = field(default_factory=dict)

    @property
    def bucket(self) -> BucketKey | None:
        """The bucket of its change in the step shown; None if it has none."""
        bucket = self.followed.bucket
        return None if bucket is None else (bucket.exponent, bucket.sign)


def thread_of(
    run: Run,
    shown: ShownStep,
    weight: Weight,
    replay: Replay | None = None,
    known: Mapping[int, Stair] | None = None,
) -> Thread:
    """Follow a weight.

    Args:
        run: Whose weight it is.
        shown: A step whose states and codes are kept.
        weight: Which one.
        replay: The run saved once more, if that is shown.
        known: Stairs of the same weight that have been looked up before.
    """
    assert shown.states is not None
    assert shown.codes is not None
    before, live = shown.states.before, shown.states.live
    here = follow(weight, shown.step, before, live, shown.alphabets, shown.codes)
    return Thread(here, _stairs(run, weight, replay, known or {}))


def first_weight(shown: ShownStep) -> Weight:
    """Of the largest tensor, the smallest change that is kept: it has waited for that."""
    assert shown.states is not None
    live, before = shown.states.live, shown.states.before
    tensor = max(live, key=lambda name: live[name].size)
    changes = np.abs(live[tensor] - before[tensor]).reshape(-1)
    weight = Weight(tensor, int(changes.argmax()))
    if (found := codes_in(shown, tensor)) is not None:
        i, codes = found
        kept = np.flatnonzero((codes > 0) & (codes <= shown.alphabets[i].kept))
        if kept.size:
            weight = Weight(tensor, int(kept[changes[kept].argmin()]))
    return weight


def _begin(shown: ShownStep, names: tuple[str, ...], tensor: str) -> int:
    """Where a tensor begins among the elements of its alphabet."""
    assert shown.states is not None
    return sum(shown.states.live[name].size for name in names[: names.index(tensor)])


def weight_at(shown: ShownStep, alphabet: int, element: int) -> Weight:
    """The weight that is an element of an alphabet, counted in the order of its tensors."""
    assert shown.states is not None
    names = shown.alphabets[alphabet].names
    ends = np.cumsum([shown.states.live[name].size for name in names])
    i = int(np.searchsorted(ends, element, "right"))
    return Weight(names[i], element - _begin(shown, names, names[i]))


def largest_in_bucket(shown: ShownStep, key: BucketKey, tensor: str) -> Weight | None:
    """The largest change of a bucket, in this tensor if it has one there; None if it has none."""
    return largest_among(shown, [(a, among(a, {key})) for a in shown.alphabets], tensor)


def largest_among(
    shown: ShownStep, buckets: Iterable[tuple[Alphabet, NDArray[np.bool_]]], tensor: str
) -> Weight | None:
    """The largest change among some buckets, in this tensor if it has one there.

    Args:
        shown: A step.
        buckets: Of each alphabet, a bool for each of its buckets.
        tensor: Its name.

    Returns:
        None if these buckets are empty, or the step's states are no longer kept.
    """
    if shown.states is None or shown.codes is None:
        return None
    best: tuple[bool, float, Weight] | None = None
    for alphabet, wanted in buckets:
        rows = np.flatnonzero(wanted) + 1
        for name in alphabet.names if rows.size else ():
            found = codes_in(shown, name)
            assert found is not None
            at = np.flatnonzero(np.isin(found[1], rows))
            if at.size:
                changes = np.abs(shown.states.live[name] - shown.states.before[name]).reshape(-1)
                i = int(at[changes[at].argmax()])
                here = name == tensor, float(changes[i]), Weight(name, i)
                best = here if best is None or here[:2] > best[:2] else best
    return best[2] if best else None


def codes_in(shown: ShownStep, tensor: str) -> tuple[int, Codes] | None:
    """The alphabet of a tensor and its codes of the exponent stage, (n,); None without codes."""
    for i, (alphabet, codes) in enumerate(zip(shown.alphabets, shown.codes or ())):
        if tensor in alphabet.names:
            assert shown.states is not None
            begin = _begin(shown, alphabet.names, tensor)
            return i, codes[begin : begin + shown.states.live[tensor].size]
    return None


def _stairs(
    run: Run, weight: Weight, replay: Replay | None, known: Mapping[int, Stair]
) -> dict[int, Stair]:
    """Of at most MOST_STAIRS steps that are kept."""
    steps = run.steps_held()
    stride = -(-len(steps) // MOST_STAIRS)
    looked_up = {
        step: known.get(step) or _stair(run, weight, step, replay)
        for step in sorted({*steps[::stride], *steps[-1:]})
    }
    return {step: stair for step, stair in looked_up.items() if stair}


def _stair(run: Run, weight: Weight, step: int, replay: Replay | None) -> Stair | None:
    states = run.states(step)
    if states is None or not states.before or not weight.is_in(states.live):
        return None
    before = states.before
    if replay is not None:
        retried = replay.delta(step)
        if retried is None:
            return None
        before = retried.states.before
    return Stair(weight.of(states.live), weight.of(before))
