"""Which setting should I use? Recommends the cheapest one that meets a target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codec.errors import SettingsError
from lcviz.lab.progress import Progress, unreported
from lcviz.lab.series import Series

from .candidates import Candidate, Grid, Setting
from .replay import try_out

TARGETS = ("size", "rate", "distance", "rework")


@dataclass(frozen=True)
class Tuned:
    """The answer.

    target, most: as for `choose`. frontier: the Pareto frontier of rate, distance and rework, by
    rising rate; of candidates that are equal in all three, one. recommended: None if no setting
    meets the target. left_out: which settings could not be tried and why, in sentences; "" if none.
    """

    target: str
    most: float
    candidates: tuple[Candidate, ...]
    frontier: tuple[Candidate, ...]
    recommended: Candidate | None
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
    sufficient = sorted((c for c in candidates if c.meets(target, most)), key=_order(target))
    best = sufficient[0] if sufficient else None
    left_out = _left_out(candidates, candidate_settings or ())
    return Tuned(target, most, tuple(candidates), frontier, best, left_out)


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


def _left_out(candidates: Sequence[Candidate], candidate_settings: Sequence[Setting]) -> str:
    """Sentences on the settings that became no candidate, and why; "" if all did."""
    tried = {c.setting for c in candidates}
    missing = [setting for setting in candidate_settings if setting not in tried]
    # Without a budget, only the length of the series can matter.
    too_long = {s.interval for s in missing if not s.coding.budget}
    sentences = ""
    if too_long:
        intervals = " or ".join(map(str, sorted(too_long)))
        sentences = f" Intervals of {intervals} are left out: this series is too short for them."
    if n := sum(setting.interval not in too_long for setting in missing):
        settings_are = "1 setting is" if n == 1 else f"{n} settings are"
        sentences += f" {settings_are} left out: the budget is too small, or this series too short."
    return sentences
