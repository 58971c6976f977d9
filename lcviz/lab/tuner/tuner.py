"""Which setting should I use? Recommends the cheapest one that meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codec.errors import SettingsError
from lcviz.lab.progress import Progress, unreported
from lcviz.lab.series import Series
from lcviz.text import nbytes_text, percent_text

from .candidates import Candidate, Grid, Setting
from .replay import try_out

TARGETS = ("size", "rate", "distance", "rework")


@dataclass(frozen=True)
class Tuned:
    """The answer.

    target, most: as for `choose`. frontier: the Pareto frontier of rate, distance and rework, by
    rising rate; of candidates that are equal in all three, one. recommended: None if no setting
    meets the target. because: the reason, in a few sentences. left_out: which settings could not be
    tried and why, in sentences; "" if none.
    """

    target: str
    most: float
    candidates: tuple[Candidate, ...]
    frontier: tuple[Candidate, ...]
    recommended: Candidate | None
    because: str
    left_out: str


def tune(
    series: Series,
    target: str,
    most: float,
    candidate_settings: Sequence[Setting] | None = None,
    progress: Progress = unreported,
) -> Tuned:
    """Try every setting on a series, and recommend one: `try_out`, then `choose`.

    Raises what these do; SettingsError comes before anything is tried.
    """
    _check_target(target, most, knows_loss=next(iter(series)).loss_of is not None)
    candidate_settings = Grid().settings if candidate_settings is None else candidate_settings
    candidates = try_out(series, candidate_settings, progress)
    return choose(candidates, target, most, candidate_settings)


def choose(
    candidates: Sequence[Candidate],
    target: str,
    most: float,
    candidate_settings: Sequence[Setting] | None = None,
    unit: str = "",
) -> Tuned:
    """The best candidate for a target.

    Args:
        candidates: What each setting reached in the run.
        target: One of TARGETS.
        most: For "size", the share of the float32 bytes that a checkpoint may take on disk, for
            "rate" that every iteration (or checkpoint of the series) may take; the setting with the
            least rework (distance, if no loss is known) is recommended. For "distance" and
            "rework", the limit on `Candidate`'s bound; the setting with the fewest bytes per
            iteration is recommended.
        candidate_settings: All settings, if some were left out of the candidates.
        unit: Of intervals, in words; by default "iteration", or "checkpoint" if no loss is known.

    Raises:
        SettingsError: The target is unknown, or is rework without a loss.
    """
    knows_loss = candidates[0].rework is not None
    _check_target(target, most, knows_loss=knows_loss)
    alike: dict[tuple[float, float, float], Candidate] = {}
    for c in candidates:
        if not any(_beats(o, c) for o in candidates):
            alike.setdefault(c.costs, c)
    frontier = tuple(alike[costs] for costs in sorted(alike))
    unit = unit or ("iteration" if knows_loss else "checkpoint")
    sufficient = sorted((c for c in candidates if c.meets(target, most)), key=_order(target))
    best = sufficient[0] if sufficient else None
    if best:
        because = _recommendation(sufficient, len(candidates), target, most, unit)
    else:
        nearest = min(candidates, key=lambda c: (c.reached(target), c.distance.value))
        because = (
            f"No setting of {len(candidates)} keeps {_words(nearest, target, most, unit)}; the "
            f"nearest is {nearest.setting.text(unit)}, with "
            f"{_amount(nearest, target, nearest.reached(target))}."
        )
    left_out = _left_out(candidates, candidate_settings or ())
    because += _exact(best or nearest) + left_out
    return Tuned(target, most, tuple(candidates), frontier, best, because, left_out)


def _recommendation(
    sufficient: Sequence[Candidate], n_tried: int, target: str, most: float, unit: str
) -> str:
    """Why the first of the settings that meet the target is the best."""
    best = sufficient[0]
    why = f"writes the fewest bytes for every {unit}"
    if target in ("size", "rate"):
        why = "restores closest to what was trained"
        if best.rework_bound is not None and math.isfinite(best.rework_bound):
            why = "has the lowest price of a crash, in 95 of 100 cases"
    rework = ""
    if best.rework:
        rework = f", and a crash costs {best.rework.value:.2f} iterations on average"
        if not math.isfinite(best.rework.value):
            rework = ", and a crash costs more than was trained"
    words = best.setting.text(unit)
    n, all_of_them = len(sufficient), "all " * (len(sufficient) == n_tried)
    n_keep = "1 setting keeps" if n == 1 else f"{all_of_them}{n} settings keep"
    return (
        f"{words[0].upper()}{words[1:]}: {n_keep} {_words(best, target, most, unit)}. Of them this "
        f"one {why}: {_bytes(best, best.rate)} for every {unit}, distance "
        f"{percent_text(best.distance.value)} on average{rework}."
    )


def _order(target: str) -> Callable[[Candidate], tuple[float, ...]]:
    """The sort key of settings that meet the target."""
    if target in ("size", "rate"):
        return lambda c: (c.rework_bound or 0.0, c.distance_bound, c.rate)
    return lambda c: (c.rate, *c.costs)


def _check_target(target: str, most: float, *, knows_loss: bool) -> None:
    if target not in TARGETS or not most > 0:
        raise SettingsError(
            f"a target is one of {', '.join(TARGETS)}, and a number above 0; got {target!r}, {most}"
        )
    if target == "rework" and not knows_loss:
        raise SettingsError(
            "the loss of these checkpoints is unknown, and so is rework: choose size or "
            "distance as the target"
        )


def _beats(candidate: Candidate, other: Candidate) -> bool:
    """Whether a candidate is better in one cost, and worse in none."""
    pairs = list(zip(candidate.costs, other.costs, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _exact(candidate: Candidate) -> str:
    """A sentence on tensors stored exactly, if they take at least half of a checkpoint."""
    if 2 * candidate.exact_share < candidate.share:
        return ""
    return (
        f" Of {_bytes(candidate, candidate.share)} in a checkpoint, "
        f"{_bytes(candidate, candidate.exact_share)} are tensors stored exactly. A policy can make "
        "them lossy."
    )


def _left_out(candidates: Sequence[Candidate], candidate_settings: Sequence[Setting]) -> str:
    """Sentences on the settings that became no candidate, and why; "" if all did."""
    tried = {c.setting for c in candidates}
    missing = [setting for setting in candidate_settings if setting not in tried]
    # Without a budget, only the length of the series can matter.
    too_long = {s.interval for s in missing if not s.coding.budget}
    sentences = ""
    if too_long:
        saves = " or ".join(f"every {interval}" for interval in sorted(too_long))
        sentences = f" Saves at {saves} are left out: this series is too short for them."
    if n := sum(setting.interval not in too_long for setting in missing):
        settings_are = "1 setting is" if n == 1 else f"{n} settings are"
        sentences += f" {settings_are} left out: the budget is too small, or this series too short."
    return sentences


def _words(candidate: Candidate, target: str, most: float, unit: str) -> str:
    if target == "rate":
        return f"every {unit} within {_amount(candidate, target, most)}"
    subject = {
        "size": "a checkpoint",
        "distance": "the relative distance",
        "rework": "the price of a crash",
    }[target]
    sure = "at every save" if candidate.rework is None else "in 95 of 100 cases"
    return f"{subject} within {_amount(candidate, target, most)}, {sure}"


def _amount(candidate: Candidate, target: str, value: float) -> str:
    """A value of a target, with its unit."""
    if target in ("size", "rate"):
        return _bytes(candidate, value)
    if target == "distance":
        return f"{100 * value:.3g} %"
    if not math.isfinite(value):
        return "more iterations than this training had"
    return f"{value:.3g} iteration{'' if value == 1 else 's'}"


def _bytes(candidate: Candidate, share: float) -> str:
    return nbytes_text(share * candidate.full_nbytes)
