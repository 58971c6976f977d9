"""What is timed: the codec's steps, and copying the same memory.

encode           Tracker.step (subtract, quantize, code, move the track with its digests), and the
                 BLAKE3 digest of the record's contents
decode           check that BLAKE3 digest, move a new copy of the track, check its digests
decode in place  the same without the copy
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from codec.scheme.delta import Delta, apply
from codec.scheme.digest import digest
from codec.scheme.tracker import Tracker
from codec.scheme.workers import threads

from .samples import Floats, Sample

COPY_1, COPY = "copy, 1 thread", "copy, all threads"
ENCODE, DECODE, IN_PLACE = ACTIONS = ("encode", "decode", "decode in place")


class RoundTripError(AssertionError):
    """A task gave back something else than it was given, so its speed means nothing."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class TimedTask:
    """Something to time.

    tool: a coder, a peer or a copy. action: one of ACTIONS, or "copy". check: called with the
    result of a run; raises RoundTripError. reset: called before each run.
    """

    tool: str
    action: str
    run: Callable[[], Any]
    check: Callable[[Any], None]
    reset: Callable[[], None] = _nothing


@dataclass
class Tools:
    """Tasks to time in turn.

    bits: tool -> a function that returns its bits per parameter once its tasks have run. notes:
    sentences for the report.
    """

    tasks: list[TimedTask] = field(default_factory=list)
    bits: dict[str, Callable[[], float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def check_same(decoded: NDArray[Any], expected: NDArray[Any], tool: str) -> None:
    """Raise RoundTripError unless both arrays hold the same bits."""
    if not np.array_equal(decoded.view(np.uint8), expected.view(np.uint8)):
        raise RoundTripError(f"{tool} did not give back what it was given")


class Copier:
    """np.copyto with as many threads as the codec uses. Use it in a with statement."""

    PIECE = 2**16  # elements: no other size was faster, and no thread waits long for a slow one

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max(1, threads() - 1))

    def __enter__(self) -> Copier:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def __call__(self, target: Floats, source: Floats) -> None:
        """Copy one flat array into another of the same size."""
        begins = itertools.count(step=self.PIECE)

        def work() -> None:
            while (begin := next(begins)) < source.size:
                part = slice(begin, begin + self.PIECE)
                np.copyto(target[part], source[part])

        helpers = [self._pool.submit(work) for _ in range(threads() - 1)]
        work()
        for helper in helpers:
            helper.result()


def copies(sample: Sample, out: Floats, copy: Copier) -> Tools:
    """Copying the state into `out`: the fastest that memory can be read and written once."""
    kinds = ((COPY, copy), (COPY_1, np.copyto))
    return Tools(
        [
            TimedTask(
                name,
                "copy",
                partial(move, out, sample.state),
                partial(lambda _, name: check_same(out, sample.state, name), name=name),
            )
            for name, move in kinds
        ]
    )


def ours(
    sample: Sample, bits: int, coder: str, out: Floats, copy: Copier, expected: Floats | None = None
) -> Tools:
    """Encode and decode with one of our coders.

    out: memory for a track. expected: the track after the step, computed in another way; None
    skips the comparison.
    """
    state, track = sample.tensors(sample.state), sample.tensors(sample.track)
    outs = sample.tensors(out)
    tracker = Tracker(track, bits, coder=coder)
    moved = tracker.track
    before = dict(moved.sums)
    delta = tracker.step(state)  # for the decoder; every other run must make the same
    after, record = dict(moved.sums), fingerprint(delta)

    def restart() -> None:
        for name, array in tracker.state.items():
            copy(array.reshape(-1), track[name].reshape(-1))
        moved.sums, moved.tables = dict(before), {}

    def run_encode() -> tuple[Delta, bytes]:
        made = tracker.step(state)
        return made, fingerprint(made)

    def run_decode() -> None:
        check_record()
        apply(delta, track, outs)

    def run_in_place() -> None:
        check_record()
        moved.apply(delta)
        if moved.sums != after:
            raise RoundTripError(f"{coder}: another digest after decoding")

    def check_record() -> None:
        if fingerprint(delta) != record:
            raise RoundTripError(f"the bytes of {coder} have changed")

    def check(target: Mapping[str, Floats]) -> None:
        for name, array in target.items():
            if digest(array) != after[name]:
                raise RoundTripError(f"{coder}: values and digest contradict each other")
            if expected is not None:
                check_same(array, sample.tensors(expected)[name], coder)

    def check_encode(encoded: tuple[Delta, bytes]) -> None:
        if encoded[1] != record or moved.sums != after:
            raise RoundTripError(f"{coder} encodes the same delta in two ways")
        check(tracker.state)

    tracked = dict(tracker.state)
    tasks = [
        TimedTask(coder, ENCODE, run_encode, check_encode, restart),
        TimedTask(coder, DECODE, run_decode, lambda _: check(outs), lambda: out.fill(0)),
        TimedTask(coder, IN_PLACE, run_in_place, lambda _: check(tracked), restart),
    ]
    return Tools(tasks, {coder: lambda: 8 * delta.nbytes / sample.n})


def fingerprint(delta: Delta) -> bytes:
    """BLAKE3 of a delta's bytes in a record."""
    h = blake3()
    parts = list(delta.exact.values())
    contexts = (c for residual in delta.residuals.values() for c in residual.contexts)
    for context in contexts:
        parts += [context.code.head, context.code.data] if context.code else []
    for group in delta.groups:
        e = group.encoded
        parts += [e.levels[1:], e.payload.head, e.payload.data]
    for part in parts:
        h.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return h.digest()
