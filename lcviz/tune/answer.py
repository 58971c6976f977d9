"""The recommended setting in words."""

from __future__ import annotations

import math

from codec import Coding
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.replay import FAILURES
from lcviz.lab.tuner.tuner import Tuned
from lcviz.text import kept_text, percent_text, plural


def headline(tuned: Tuned) -> str:
    """What to use, what it writes, and the most that 95 of 100 crashes lose."""
    if tuned.recommended is None:
        return "no tested setting meets this limit"
    return described(tuned.recommended, " meets the limit")


def default_of(tuned: Tuned) -> Candidate | None:
    """The codec's default for a training, at every save; None if it was not tried."""
    setting = Setting(Coding.safe(), 1)
    return next((c for c in tuned.candidates if c.setting == setting), None)


def basis(tuned: Tuned) -> str:
    """A sentence if the numbers rest on few failures, else ""."""
    best = tuned.recommended
    n = best.distance.n if best else max(c.distance.n for c in tuned.candidates)
    if n >= FAILURES:
        return ""
    return f" This rests on {plural(n, 'failure')}: the fewer, the wider is the margin."


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
