"""The recommended setting, of a training in bits, and a closer one that writes no more bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from codec import Coding
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.replay import FAILURES
from lcviz.lab.tuner.tuner import Tuned, choose
from lcviz.text import kept_text, percent_text, plural


@dataclass(frozen=True)
class Answer:
    """The recommended setting, and a closer one.

    tuned: its recommended setting keeps bits, if the loss is known and one with bits meets the
    limit. closer: a budget, distance or tolerance that meets the limit too, writes no more bytes
    and loses less; None if no setting does.
    """

    tuned: Tuned
    closer: Candidate | None = None

    @property
    def headline(self) -> str:
        """What to use, what it writes, and the most that 95 of 100 crashes lose."""
        best = self.tuned.recommended
        if best is None:
            return "no tested setting meets this limit"
        if best.setting.coding.by_bits or best.rework is None:
            return described(best, " meets the limit")
        return f"no number of bits meets the limit, {described(best, ' does')}"

    @property
    def default(self) -> Candidate | None:
        """The codec's default for a training, at every save; None if it was not tried."""
        setting = Setting(Coding.safe(), 1)
        return next((c for c in self.tuned.candidates if c.setting == setting), None)

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
    candidate_settings: Sequence[Setting] | None = None,
) -> Answer:
    """The best setting, and a closer one. Arguments and errors are those of `choose`.

    Of a training it is the best one in bits, which Live shows. Checkpoint files are often far
    apart: of them it is the best of all, as on the command line.
    """
    of_all = choose(candidates, target, most, candidate_settings)
    if candidates[0].rework is None:
        return Answer(of_all)
    in_bits = [c for c in candidates if c.setting.coding.by_bits]
    of_bits = choose(in_bits, target, most) if in_bits else of_all
    best = of_bits.recommended
    if best is None or not best.setting.coding.by_bits:
        return Answer(of_all)
    closer = [
        c
        for c in candidates
        if not c.setting.coding.by_bits
        and c.rate <= best.rate
        and c.meets(target, most)
        and _loss(c, target) < _loss(best, target)
    ]
    because = f"In bits: {of_bits.because}{of_all.left_out}"
    tuned = replace(of_all, recommended=best, because=because)
    return Answer(tuned, min(closer, key=lambda c: _loss(c, target), default=None))


def described(candidate: Candidate, verb: str = "") -> str:
    """As "x = 3 bits meets the limit: 1.5 % of float32, a crash costs at most 0.5 iterations".

    verb: a verb phrase, with the blank before it.
    """
    setting = candidate.setting
    name = kept_text(setting.coding)
    if setting.coding.bits is not None:
        name = f"x = {name}"
    interval = f" every {setting.interval}" if setting.interval > 1 else ""
    loss = f"distance at most {percent_text(candidate.distance_bound)}"
    if (iterations := candidate.rework_bound) is not None:
        loss = "a crash costs more than was trained"
        if math.isfinite(iterations):
            loss = f"a crash costs at most {iterations:.1f} iterations"
    return f"{name}{interval}{verb}: {100 * candidate.share:.2g} % of float32, {loss}"


def _loss(candidate: Candidate, target: str) -> float:
    """What a crash loses: distance if that is the target or rework is not known, else rework."""
    rework = candidate.rework_bound
    return candidate.distance_bound if rework is None or target == "distance" else rework
