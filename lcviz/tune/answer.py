"""The recommended setting in words, with the numbers that the picture shows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from codec import Coding
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.replay import FAILURES
from lcviz.lab.tuner.tuner import Tuned
from lcviz.text import kept_text, nbytes_text, percent_text, plural

DAY = 86_400  # seconds


@dataclass(frozen=True)
class Measure:
    """What the page says of a setting, in the headline, the picture and the limit alike.

    nbytes: the bytes of a setting. per: what they are counted for, as "an iteration". by_distance:
    whether a setting's loss is its distance, not the price of a crash. sure: what a bound means.
    """

    nbytes: Callable[[Candidate], float]
    per: str
    by_distance: bool
    sure: str

    def nbytes_text(self, candidate: Candidate) -> str:
        """As "53 B an iteration"."""
        return f"{nbytes_text(self.nbytes(candidate))} {self.per}"

    def loss(self, candidate: Candidate) -> float:
        """A bound: the distance in %, or the price of a crash in iterations."""
        if self.by_distance:
            return 100 * candidate.distance_bound
        return candidate.rework_bound or 0.0

    def loss_text(self, candidate: Candidate) -> str:
        """As "a crash costs at most 0.5 iterations"."""
        if self.by_distance:
            return f"distance at most {percent_text(candidate.distance_bound)}"
        price = self.loss(candidate)
        if not math.isfinite(price):
            return "a crash costs more than was trained"
        return f"a crash costs at most {price:.1f} iterations"


def measure_of(tuned: Tuned, unit: str, seconds: float) -> Measure:
    """How the page measures settings, by the target.

    unit: of intervals, as "iteration". seconds: from one of them to the next.
    """
    of_files = tuned.candidates[0].rework is None
    bounds = tuned.target == "distance" or of_files, "largest" if of_files else "95 of 100 below"
    if tuned.target == "size":
        return Measure(lambda c: c.share_bound * c.full_nbytes, "a checkpoint", *bounds)
    per, times = f"{'an' if unit[0] in 'aeiou' else 'a'} {unit}", 1.0
    if tuned.target == "rate":
        per, times = "a day", DAY / seconds
    return Measure(lambda c: times * c.rate * c.full_nbytes, per, *bounds)


def headline(tuned: Tuned, measure: Measure) -> str:
    """What to use, what it writes, and the most that 95 of 100 crashes lose."""
    if tuned.recommended is None:
        return "no tested setting meets this limit"
    return described(tuned.recommended, measure, " meets the limit")


def default_of(tuned: Tuned) -> Candidate | None:
    """The codec's default for a training, at every save; None if it was not tried."""
    setting = Setting(Coding.safe(), 1)
    return next((c for c in tuned.candidates if c.setting == setting), None)


def basis(tuned: Tuned) -> str:
    """A sentence if the numbers rest on few failures, else ""."""
    best = tuned.recommended
    n = best.distance.n if best else max(c.distance.n for c in tuned.candidates)
    if n >= FAILURES or tuned.candidates[0].rework is None:
        return ""
    return f" This rests on {plural(n, 'failure')}: the fewer, the wider is the margin."


def named(setting: Setting) -> str:
    """As "x = 3 bits every 2", a name for a title or a point."""
    name = kept_text(setting.coding)
    if setting.coding.bits is not None:
        name = f"x = {name}"
    return f"{name} every {setting.interval}" if setting.interval > 1 else name


def described(candidate: Candidate, measure: Measure, verb: str = "") -> str:
    """As "x = 3 bits meets the limit: 53 B an iteration, a crash costs at most 0.5 iterations".

    verb: a verb phrase, with the blank before it.
    """
    numbers = f"{measure.nbytes_text(candidate)}, {measure.loss_text(candidate)}"
    return f"{named(candidate.setting)}{verb}: {numbers}"
