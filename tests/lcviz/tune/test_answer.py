"""The recommendation in words."""

from __future__ import annotations

import math
from dataclasses import replace

from codec import Coding
from lcviz.lab.intervals import Mean
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.tuner import Tuned, choose
from lcviz.tune.answer import basis, default_of, described, headline, measure_of, named, reason
from lcviz.tune.recorded import recorded

BITS = Candidate(
    Setting(Coding(3), 1),
    *(0.0153, 0.02, 0.0),
    *(Mean(0.08, 0.0, 10), 0.1, Mean(0.28, 0.1, 10), 0.5),
    *(10_000, 10_000, 99),
)


def budget(share: float, rework: float, distance: float = 0.1, kept: float = 0.02) -> Candidate:
    """A setting that is not of bits. share: of its bytes; the others: the bounds of its losses."""
    setting = Setting(Coding(budget=kept), 1)
    return replace(BITS, setting=setting, share=share, rework_bound=rework, distance_bound=distance)


def said(tuned: Tuned, unit: str = "iteration") -> str:
    return headline(tuned, measure_of(tuned, unit, 2.0))


def test_the_recommended_one_is_the_best() -> None:
    """Whatever it keeps: bits have no precedence, and the codec's default is named beside it."""
    default = replace(budget(0.015, 0.1), setting=Setting(Coding.safe(), 1))
    cheapest = budget(0.01, 0.6)
    tuned = choose((BITS, budget(0.02, 0.1), cheapest, default), "rework", 3.0)
    assert (tuned.recommended, default_of(tuned.candidates)) == (cheapest, default)
    lost = "100 B an iteration, 100 × smaller, 95 of 100 crashes cost at most 0.6 iterations"
    assert said(tuned) == f"budget 2 % meets the limit: {lost}"
    lost = "153 B an iteration, 65.4 × smaller, 95 of 100 crashes cost at most 0.5 iterations"
    bits = choose((BITS, budget(0.02, 0.6)), "rework", 3.0)
    assert said(bits) == f"x = 3 bits meets the limit: {lost}"
    none = choose((BITS,), "rework", 0.1)
    assert (said(none), default_of(none.candidates)) == ("no tested setting meets this limit", None)


def test_each_limit_has_its_measure() -> None:
    """What is limited is what is told: bounds of a checkpoint, bytes of a day, or the distance."""
    far = ": 153 B an iteration, 65.4 × smaller, distance at most 10.00 % in 95 of 100 cases"
    assert said(choose((BITS,), "distance", 0.2)).endswith(far)
    lost = "95 of 100 crashes cost at most 0.5 iterations"
    told = f": 200 B a checkpoint in 95 of 100 saves, 50 × smaller, {lost}"
    assert said(choose((BITS,), "size", 0.02)).endswith(told)
    told = f": 6.61 MB a day, bases included, 65.4 × smaller, {lost}"  # 43,200 × 153 B
    assert said(choose((BITS,), "rate", 0.02)).endswith(told)
    every_second = replace(BITS, setting=Setting(Coding(3), 2))
    told = said(choose((every_second,), "rate", 0.02))
    numbers = f"3.30 MB a day, bases included, 65.4 × smaller, {lost}"
    assert told == f"x = 3 bits (every 2) meets the limit: {numbers}"


def test_of_the_example() -> None:
    """No other setting that was tried is better: neither cheaper nor, as cheap, closer."""
    tuned = choose(recorded(), "rework", 3.0)
    best = tuned.recommended
    assert best is not None
    assert all(c.rate >= best.rate for c in recorded() if c.meets("rework", 3.0))
    assert best in tuned.frontier
    assert not basis(tuned)  # ten failures


def test_of_files() -> None:
    """Their largest values are told, and how many there are."""
    best = replace(budget(0.01, 0, 0.3), rework=None, rework_bound=None)
    tuned = choose((replace(best, distance=Mean(0.1, 0.1, 2)),), "distance", 0.3)
    lost = "100 B a file, 100 × smaller, distance at most 30.00 %"
    assert said(tuned, "file") == f"budget 2 % meets the limit: {lost}"
    assert measure_of(tuned, "file", 1.0).sure == "largest"
    assert basis(tuned).startswith(
        " The distance is the largest of 2 that were measured. Beyond 35 %, a"
    )


def test_the_reason() -> None:
    """In the measure of the limit; if none keeps it, what the nearest one does."""

    def told(target: str, most: float) -> str:
        tuned = choose((BITS, budget(0.05, 0.04)), target, most)
        return reason(tuned, measure_of(tuned, "iteration", 2.0))

    assert told("rework", 3.0) == (
        "Of 2 settings 2 keep this limit. Of them this one writes the fewest bytes."
    )
    assert told("size", 0.02) == "Of 2 settings 2 keep this limit. Of them this one loses least."
    nearest = (
        "x = 3 bits: 6.61 MB a day, bases included, 65.4 × smaller, "
        "95 of 100 crashes cost at most 0.5 iterations"
    )
    assert told("rate", 0.01) == f"None of 2 settings keeps this limit. The nearest is {nearest}."


def test_few_failures_are_told() -> None:
    few = replace(BITS, distance=Mean(0.08, 0.1, 2))
    for most in (3.0, 0.1):
        assert "rests on only 2 crashes" in basis(choose((few,), "rework", most))


def test_in_words() -> None:
    everything = replace(BITS, setting=Setting(Coding(None), 1))
    in_buckets = replace(BITS, setting=Setting(Coding(budget=0.02, quantizer="exponent"), 10))
    names = [named(c.setting) for c in (BITS, everything, in_buckets)]
    assert names == ["x = 3 bits", "all buckets", "budget 2 % in buckets (every 10)"]
    other = Coding(distance=0.3, scope="tensor", coder="huffman")
    assert named(Setting(other, 1)) == "distance 30 % (each tensor, Huffman)"
    never = replace(BITS, rework_bound=math.inf)
    measure = measure_of(choose((never,), "rework", 3.0), "iteration", 1.0)
    assert described(never, measure).endswith("some crashes cost more than this training shows")
    hardly_more = replace(BITS, rework_bound=0.1 + 0.2)  # a float above 0.3
    assert described(hardly_more, measure).endswith("cost at most 0.3 iterations")
    hardly = replace(BITS, rework_bound=0.04)
    assert described(hardly, measure).endswith("95 of 100 crashes cost less than 0.1 iterations")
