"""The recommendation in bits, and what comes closer with as many bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.replay import FAILURES
from lcviz.lab.tuner.tuner import Tuned, choose
from lcviz.text import kept_text, percent_text, plural


@dataclass(frozen=True)
class Answer:
    """What is recommended.

    tuned: its recommended setting keeps bits, if one of those meets the limit. closer: a budget,
    distance or tolerance that meets the limit too, writes no more bytes and loses less; None
    if nothing does.
    """

    tuned: Tuned
    closer: Candidate | None = None

    @property
    def headline(self) -> str:
        """What to use, what it writes, and the most that 95 of 100 crashes lose."""
        best = self.tuned.recommended
        if best is None:
            return "no tested setting meets this limit"
        if best.setting.coding.by_bits:
            return described(best, " meets the limit")
        return f"no number of bits meets the limit, {described(best, ' does')}"

    @property
    def basis(self) -> str:
        """A sentence if the numbers rest on few failures, else ""."""
        best = self.tuned.recommended
        n = best.distance.n if best else max(c.distance.n for c in self.tuned.candidates)
        if n >= FAILURES:
            return ""
        return f" This rests on {plural(n, 'failure')}: the fewer, the wider is the margin."


def answer(
    candidates: Sequence[Candidate],
    target: str,
    most: float,
    tried: Sequence[Setting] | None = None,
) -> Answer:
    """The best setting in bits, and a closer one. Arguments and errors are those of `choose`."""
    every = choose(candidates, target, most, tried)
    in_bits = [c for c in candidates if c.setting.coding.by_bits]
    found = choose(in_bits, target, most) if in_bits else every
    best = found.recommended
    if best is None or not best.setting.coding.by_bits:
        return Answer(every)
    closer = [
        c
        for c in candidates
        if not c.setting.coding.by_bits
        and c.rate <= best.rate
        and c.meets(target, most)
        and _lost(c, target) < _lost(best, target)
    ]
    tuned = replace(every, recommended=best, because=f"In bits: {found.because}{every.left_out}")
    return Answer(tuned, min(closer, key=lambda c: _lost(c, target), default=None))


def described(candidate: Candidate, verb: str = "") -> str:
    """As "x = 3 bits meets the limit: 1.5 % of float32, a crash costs at most 0.5 iterations".

    verb: with the blank before it.
    """
    setting = candidate.setting
    kept = kept_text(setting.coding)
    if setting.coding.bits is not None:
        kept = f"x = {kept}"
    every = f" every {setting.interval}" if setting.interval > 1 else ""
    lost = f"distance at most {percent_text(candidate.distance_bound)}"
    if (n := candidate.rework_bound) is not None:
        lost = "a crash costs more than was trained"
        if math.isfinite(n):
            lost = f"a crash costs at most {n:.1f} iterations"
    return f"{kept}{every}{verb}: {100 * candidate.share:.2g} % of float32, {lost}"


def _lost(candidate: Candidate, target: str) -> float:
    """What is compared: rework where it is known and distance was not asked for."""
    known = candidate.rework_bound
    return candidate.distance_bound if known is None or target == "distance" else known
