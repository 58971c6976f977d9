"""The recommendation: bits first, then what comes closer with as many bytes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from codec import Coding
from lcviz.lab.intervals import Mean
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.tuner import choose
from lcviz.tune.answer import answer, described
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


def test_bits_first_and_what_comes_closer() -> None:
    """A budget that is cheaper is not recommended; of those closer, the closest is named."""
    near, nearer = budget(0.0153, 0.4), budget(0.015, 0.3)
    others = (budget(0.01, 0.6), near, nearer, budget(0.02, 0.1))
    found = answer((*others, BITS), "rework", 3.0)
    assert found.tuned.recommended is BITS
    assert found.closer is nearer
    assert found.headline == (
        "x = 3 bits meets the limit: 1.5 % of float32, a crash costs at most 0.5 iterations"
    )
    assert found.tuned.because.startswith("In bits: 3 bits, ")
    assert answer((BITS, budget(0.01, 0.6)), "rework", 3.0).closer is None


@pytest.mark.parametrize(("target", "most"), [("distance", 0.2), ("size", 0.05)])
def test_closer_is_measured_by_what_was_asked_for(target: str, most: float) -> None:
    by_distance, by_rework = budget(0.01, 0.6, 0.05), budget(0.01, 0.3, 0.15)
    found = answer((BITS, by_distance, by_rework), target, most)
    assert found.closer is (by_distance if target == "distance" else by_rework)


def test_where_no_bits_meet_the_limit() -> None:
    other = budget(0.03, 0.2)
    found = answer((BITS, other), "rework", 0.3)
    assert found.tuned.recommended is other
    assert found.closer is None
    assert found.headline == (
        "no number of bits meets the limit, budget 2.00 % does: 3 % of float32, a crash costs "
        "at most 0.2 iterations"
    )
    assert answer((BITS, other), "rework", 0.1).headline == "no tested setting meets this limit"
    alone = answer((other,), "rework", 0.3)
    assert alone.tuned.recommended is other


def test_of_the_example() -> None:
    found = answer(recorded(), "rework", 3.0)
    best = found.tuned.recommended
    assert best is not None
    assert best.setting.coding.by_bits
    cheaper = [c for c in recorded() if c.setting.coding.by_bits and c.rate < best.rate]
    assert all(not c.meets("rework", 3.0) for c in cheaper)
    assert found.tuned.candidates == choose(recorded(), "rework", 3.0).candidates
    assert not found.basis  # ten failures


def test_of_files() -> None:
    """They are often far apart: bits have no precedence, and the codec's default is there."""
    default = replace(budget(0.015, 0, 0.3), setting=Setting(Coding.safe(), 1))
    one, best, safe = (
        replace(c, rework=None, rework_bound=None) for c in (BITS, budget(0.01, 0, 0.3), default)
    )
    found = answer((one, best, safe), "distance", 0.3)
    assert (found.tuned.recommended, found.closer, found.default) == (best, None, safe)
    assert found.headline == (
        "budget 2.00 % meets the limit: 1 % of float32, distance at most 30.00 %"
    )


def test_few_failures_are_told() -> None:
    few = replace(BITS, distance=Mean(0.08, 0.1, 2))
    assert "rests on 2 failures" in answer((few,), "rework", 3.0).basis
    assert "rests on 2 failures" in answer((few,), "rework", 0.1).basis


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
