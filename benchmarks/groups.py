"""Codes of groups against runs of zeros: speed, bytes, and from which density they pay.

    PYTHONPATH=. python benchmarks/groups.py [--size 16M] [--rounds 9]

Normally distributed deltas of which more and more values are kept, with 3 bits (groups of four
values) and with 4 bits (groups of two). Both codes are timed in turn, as whole steps of a tracker
and as decoding in place. The speed of runs is 1: medians of the ratios within a round.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

import codec
from benchmarks.codec_speed import samples
from codec.scheme import grouped, stream
from codec.scheme.payload import CHANGE
from codec.scheme.survivors import Segments
from codec.scheme.warmup import warm_up
from codec.scheme.workers import threads

# `samples.SMALLEST` in standard deviations, and the bits.
CASES = ((1.7, 3), (1.22, 3), (1.0, 3), (0.85, 3), (0.7, 3), (0.5, 3), (1.22, 4))


@contextmanager
def only(groups: bool) -> Iterator[None]:
    """Code every alphabet in groups, or none."""
    limits: dict[str, Any] = {"LEAST": math.inf}
    if groups:
        limits = {"LEAST_CHANGED": 0.0, "are_cheap": lambda *_: True}
    with mock.patch.multiple(grouped, **limits):
        yield


def measured(sample: samples.Sample, bits: int, groups: bool) -> tuple[float, float, int]:
    """Seconds of a whole step and of decoding in place, and bytes."""
    tracker = codec.Tracker(sample.tensors(sample.track.copy()), bits=bits)
    state = sample.tensors(sample.state)
    with only(groups):
        begin = time.perf_counter()
        step = tracker.step(state)
        whole_step = time.perf_counter() - begin
    (group,) = step.groups
    assert isinstance(group.encoded.payload, grouped.GroupedCode) == groups
    segments = Segments(list(sample.tensors(sample.track.copy()).values()))
    begin = time.perf_counter()
    stream.advance(group.encoded, segments, CHANGE)
    return whole_step, time.perf_counter() - begin, group.encoded.nbytes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="16M")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    (n,) = samples.parse_sizes(arguments.size)
    warm_up()
    print(f"{n:,} parameters, {threads()} threads, medians of {arguments.rounds} rounds\n")
    print("| values kept | bits | whole step | decode in place | bytes |\n|---|---|---|---|---|")
    for below, bits in CASES:
        with mock.patch.dict(samples.BELOW, gauss=below):
            sample = samples.make("gauss", n)
        rounds = []
        for i in range(arguments.rounds + 1):
            first = bool(i % 2)
            by_code = {groups: measured(sample, bits, groups) for groups in (first, not first)}
            runs, groups = by_code[False], by_code[True]
            rounds.append((runs[0] / groups[0], runs[1] / groups[1], groups[2] / runs[2]))
        encode, decode, nbytes = map(statistics.median, zip(*rounds[1:]))
        q = codec.quantize(sample.state - sample.track, bits)
        kept = np.count_nonzero(q.codes) / n
        print(f"| {100 * kept:.0f} % | {bits} | {encode:.2f} | {decode:.2f} | {nbytes:.3f} |")


if __name__ == "__main__":
    main()
