"""The race back after "Kill it now": who is back first, in words, while the methods run."""

from __future__ import annotations

from collections.abc import Sequence

from lcviz.lab.recovery.recovery import Outcome
from lcviz.text import amount_text, enumerated, iterations_text, nbytes_text
from lcviz.ui import race
from lcviz.ui.picture import Picture
from lcviz.ui.race import TITLE as TITLE

LEVEL = 0.05  # iterations: results closer than this are called level


def race_picture(
    outcomes: Sequence[Outcome], killed_at: int, over: bool, estimate: str = ""
) -> Picture:
    """The smoothed losses of each method and of the training that did not crash.

    Args:
        outcomes: One or more so far; the last may be under way.
        killed_at: The iteration of the crash.
        over: Whether the race is over.
        estimate: The price that was estimated before the race, in words.
    """
    text = "Each line ends where the loss is what it was before the crash."
    if over:
        text = verdict(outcomes)
        if estimate:
            text += f" The estimate was {estimate}: it reads the loss curve, the race trains again."
    about = " · SCAR saves the blocks that changed most, TOPN single weights"
    return race.race_picture(outcomes, killed_at, text, about, over=over)


def verdict(outcomes: Sequence[Outcome]) -> str:
    """The winner at equal bytes and its lead, then full's result and bytes."""
    (full,) = (o for o in outcomes if o.method.kind == "full")
    equal = sorted((o for o in outcomes if o is not full), key=lambda o: (o.capped, o.rework))
    first, *followers = equal
    size = f"At {nbytes_text(first.nbytes)} per checkpoint on average"
    if first.capped:
        names = enumerated([o.method.name for o in equal])
        text = f"{size} nobody wins: none of {names} was back within "
        text += iterations_text(first.rework)
    else:
        level = [o for o in followers if not o.capped and o.rework - first.rework < LEVEL]
        winners = enumerated([o.method.name for o in (first, *level)])
        text = f"{size} {winners} {'are level' if level else 'wins'}: {_back(first)}"
        if behind := followers[len(level) :]:
            text += f"; {', '.join(f'{o.method.name} {_needs(o, first)}' for o in behind)}"
    times = full.nbytes / first.nbytes
    more = f"{times:,.0f} × the bytes" if times >= 1.5 else f"{nbytes_text(full.nbytes)} each"
    return f"{text}. Full, with {more}, is {_back(full)}."


def _back(o: Outcome) -> str:
    if o.capped:
        return f"not back within {iterations_text(o.rework)}"
    return f"back after {iterations_text(o.rework)}" if o.rework else "back at once"


def _needs(o: Outcome, first: Outcome) -> str:
    if o.capped:
        return f"after more than {amount_text(o.rework)}"
    if first.rework < LEVEL:  # a multiple of almost nothing has no meaning
        return f"after {amount_text(o.rework)}"
    return f"after {amount_text(o.rework)}, {o.rework / first.rework:.3g} × as many"
