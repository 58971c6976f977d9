"""The recommended setting in words, with the numbers that the picture shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codec import Coding
from codec.inspect import WARNED_BEHIND
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.replay import FAILURES
from lcviz.lab.tuner.tuner import Tuned
from lcviz.text import CODER_NAMES, kept_text, nbytes_text, percent_text, plural

DAY = 86_400  # seconds
LEAST_PRICE = 0.1  # iterations: the least that is told of a crash


@dataclass(frozen=True)
class Measure:
    """What the page says of a setting, in the headline, the picture and the limit alike.

    share: a checkpoint's bytes, of those in float32. times: how many units `per` has, such as
    iterations a day; 0 if only the checkpoint counts. per: as "an iteration". by_distance: whether
    a setting's loss is its distance, not the price of a crash. sure: what a bound means.
    """

    share: Callable[[Candidate], float]
    times: float
    per: str
    by_distance: bool
    sure: str

    def nbytes(self, candidate: Candidate) -> float:
        """The bytes of a setting, in `per`."""
        saves = self.times / candidate.setting.interval if self.times else 1.0
        return saves * self.share(candidate) * candidate.full_nbytes

    def nbytes_text(self, candidate: Candidate) -> str:
        """As "53 B an iteration, 150 × smaller": than as many checkpoints in float32."""
        smaller = 1 / max(self.share(candidate), 1e-9)
        times = f"{smaller:,.0f}" if smaller > 100 else f"{smaller:.3g}"
        return f"{nbytes_text(self.nbytes(candidate))} {self.per}, {times} × smaller"

    def loss(self, candidate: Candidate) -> float:
        """A bound: the distance in %, or the price of a crash in iterations."""
        if self.by_distance:
            return 100 * candidate.distance_bound
        return candidate.rework_bound or 0.0

    def loss_text(self, candidate: Candidate) -> str:
        """As "95 of 100 crashes cost at most 0.5 iterations"."""
        if self.by_distance:
            cases = "" if candidate.rework is None else " in 95 of 100 cases"
            return f"distance at most {percent_text(candidate.distance_bound)}{cases}"
        price = self.loss(candidate)
        if not math.isfinite(price):
            return "some crashes cost more than this training shows"
        if price < LEAST_PRICE:
            return f"95 of 100 crashes cost less than {LEAST_PRICE:g} iterations"
        return f"95 of 100 crashes cost at most {math.ceil(10 * price - 1e-6) / 10:.1f} iterations"


def measure_of(tuned: Tuned, unit: str, seconds: float) -> Measure:
    """How the page measures settings, by the target.

    unit: of intervals, as "iteration". seconds: from one of them to the next.
    """
    of_files = tuned.candidates[0].rework is None
    bounds = tuned.target == "distance" or of_files, "largest" if of_files else "95 of 100 below"
    if tuned.target == "size":
        per = "a checkpoint at most" if of_files else "a checkpoint in 95 of 100 saves"
        return Measure(lambda c: c.share_bound, 0.0, per, *bounds)
    per, times = f"{'an' if unit[0] in 'aeiou' else 'a'} {unit}", 1.0
    if tuned.target == "rate":
        per, times = "a day, bases included", DAY / seconds
    return Measure(lambda c: c.rate * c.setting.interval, times, per, *bounds)


def headline(tuned: Tuned, measure: Measure) -> str:
    """What to use, what it writes, and what it loses."""
    if tuned.recommended is None:
        return "no tested setting meets this limit"
    verb = " meets the limit"
    if tuned.recommended.rework is None and tuned.recommended.distance_bound > WARNED_BEHIND:
        verb += ", yet too far off for a restart"
    return described(tuned.recommended, measure, verb)


def reason(tuned: Tuned, measure: Measure) -> str:
    """Why this setting is recommended, or how near the nearest comes."""
    candidates, best, target = tuned.candidates, tuned.recommended, tuned.target
    n = plural(len(candidates), "setting")
    nearest = best or min(candidates, key=lambda c: (c.reached(target), c.distance.value))
    if best is None:
        text = f"None of {n} keeps this limit. The nearest is {described(nearest, measure)}."
    else:
        n_keep = sum(c.meets(target, tuned.most) for c in candidates)
        keep = "1 keeps" if n_keep == 1 else f"{n_keep} keep"
        why = "loses least" if target in ("size", "rate") else "writes the fewest bytes"
        text = f"Of {n} {keep} this limit. Of them this one {why}."
    exact = nearest.exact_share
    if 2 * exact >= nearest.share:
        size, of = (nbytes_text(s * nearest.full_nbytes) for s in (exact, nearest.share))
        text += f" Of a mean save's {of}, {size} are exact tensors: a policy can make them lossy."
    return text


def default_of(candidates: Sequence[Candidate]) -> Candidate | None:
    """The codec's default for a training, at every save; None if it was not tried."""
    setting = Setting(Coding.safe(), 1)
    return next((c for c in candidates if c.setting == setting), None)


def basis(tuned: Tuned) -> str:
    """A sentence if the numbers rest on few failures, or on all saves of a series; else ""."""
    best = tuned.recommended
    n = best.distance.n if best else max(c.distance.n for c in tuned.candidates)
    if tuned.candidates[0].rework is None:
        limit = f"{100 * WARNED_BEHIND:g} %"
        return (
            f" The distance is the largest of {n} that were measured. Beyond {limit}, a restart is "
            "of little use. The sizes leave out the states of random generators, 1 to 5 kB a "
            "checkpoint."
        )
    if n >= FAILURES:
        return ""
    return f" This rests on only {n} crashes: more would tighten the bounds."


def named(setting: Setting) -> str:
    """As "x = 3 bits (each tensor, every 2)", a name for a title or a point."""
    coding = setting.coding
    name = f"x = {kept_text(coding)}" if coding.bits is not None else kept_text(coding)
    more = ["each tensor"] if coding.scope != Coding.scope else []
    if coding.coder != Coding.coder:
        more.append(CODER_NAMES[coding.coder].partition(" (")[0])
    if setting.interval > 1:
        more.append(f"every {setting.interval}")
    return f"{name} ({', '.join(more)})" if more else name


def described(candidate: Candidate, measure: Measure, verb: str = "") -> str:
    """As "x = 3 bits meets the limit: 53 B an iteration, 95 of 100 crashes cost …".

    verb: a verb phrase, with the blank before it.
    """
    numbers = f"{measure.nbytes_text(candidate)}, {measure.loss_text(candidate)}"
    return f"{named(candidate.setting)}{verb}: {numbers}"
