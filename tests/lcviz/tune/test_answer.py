"""The recommendation in words."""

from __future__ import annotations

import math
from dataclasses import replace

from codec import Coding
from lcviz.lab.intervals import Mean
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.tuner import choose
from lcviz.tune.answer import basis, default_of, described, headline
from lcviz.tune.recorded import recorded

BITS = Candidate(
    Setting(Coding(3), 1),
    *(0.0153, 0.02, 0.0),
    *(Mean(0.08, 0.0, 10), 0.1, Mean(0.28, 0.1, 10), 0.5),
)


def budget(share: float, rework: float, distance: float = 0.1, kept: float = 0.02) -> Candidate:
    """A setting that is not of bits. share: of its bytes; the others: the bounds of its losses."""
    setting = Setting(Coding(budget=kept), 1)
    return replace(BITS, setting=setting, share=share, rework_bound=rework, distance_bound=distance)


def test_the_recommended_one_is_the_best() -> None:
    """Whatever it keeps: bits have no precedence, and the codec's default is named beside it."""
    default = replace(budget(0.015, 0.1), setting=Setting(Coding.safe(), 1))
    cheapest = budget(0.01, 0.6)
    tuned = choose((BITS, budget(0.02, 0.1), cheapest, default), "rework", 3.0)
    assert (tuned.recommended, default_of(tuned)) == (cheapest, default)
    assert headline(tuned) == (
        "budget 2.00 % meets the limit: 1 % of float32, a crash costs at most 0.6 iterations"
    )
    assert headline(choose((BITS, budget(0.02, 0.6)), "rework", 3.0)) == (
        "x = 3 bits meets the limit: 1.5 % of float32, a crash costs at most 0.5 iterations"
    )
    none = choose((BITS,), "rework", 0.1)
    assert (headline(none), default_of(none)) == ("no tested setting meets this limit", None)


def test_of_the_example() -> None:
    """No other setting that was tried is better: neither cheaper nor, as cheap, closer."""
    tuned = choose(recorded(), "rework", 3.0)
    best = tuned.recommended
    assert best is not None
    assert all(c.rate >= best.rate for c in recorded() if c.meets("rework", 3.0))
    assert best in tuned.frontier
    assert not basis(tuned)  # ten failures


def test_of_files() -> None:
    best = replace(budget(0.01, 0, 0.3), rework=None, rework_bound=None)
    assert headline(choose((best,), "distance", 0.3)) == (
        "budget 2.00 % meets the limit: 1 % of float32, distance at most 30.00 %"
    )


def test_few_failures_are_told() -> None:
    few = replace(BITS, distance=Mean(0.08, 0.1, 2))
    for most in (3.0, 0.1):
        assert "rests on 2 failures" in basis(choose((few,), "rework", most))


def test_in_words() -> None:
    lost = "1.5 % of float32, a crash costs at most 0.5 iterations"
    every_second = replace(BITS, setting=Setting(Coding(3), 2))
    assert described(every_second) == f"x = 3 bits every 2: {lost}"
    everything = replace(BITS, setting=Setting(Coding(None), 1))
    assert described(everything) == f"all buckets: {lost}"
    in_buckets = replace(BITS, setting=Setting(Coding(budget=0.02, quantizer="exponent"), 1))
    assert described(in_buckets) == f"budget 2.00 % in buckets: {lost}"
    never = replace(BITS, rework_bound=math.inf)
    assert described(never).endswith("a crash costs more than was trained")
    alone = replace(BITS, rework=None, rework_bound=None)
    assert described(alone).endswith("distance at most 10.00 %")
