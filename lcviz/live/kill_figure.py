"""A live run was killed: the loss before, each method's way back, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from lcviz.lab.recovery.recovery import Outcome
from lcviz.text import enumerated, loss_text, nbytes_text, percent_text, plural
from lcviz.ui.charts import Panel
from lcviz.ui.race import RaceWords, race_picture, ways_back

LEVEL = 0.05  # iterations within which two are told to be level


def killed_panel(outcomes: Sequence[Outcome], killed_at: int, smooth: bool) -> Panel:
    """Losses around the crash. outcomes: one of each kind. smooth: on the trend."""
    ways = ways_back(outcomes, smooth)
    names = {name: _told(name, end, ways.cap) for name, end in ways.ends.items()}
    panel = race_picture(
        ways,
        RaceWords("crash", "did not crash", "before the crash"),
        killed_at,
        "The way back: loss around the crash",
        names,
        "back again",
        "Loss before the crash, and of each method and of the undisturbed training after it.",
    )
    return replace(panel, sentence=f"{panel.sentence} In brackets: iterations until then.")


def _told(name: str, end: float | None, cap: int) -> str:
    """A method's name in the legend: when it is back."""
    if end is None:
        return f"{name} (> {cap})"
    return f"{name} ({end:.3g})" if end else f"{name} (at once)"


def rework_table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """What the crash cost with each method."""
    return pd.DataFrame(
        [
            {
                "method": f"**{o.method.name}**",
                "rework, iterations": _amount(o),
                "as measured": f"{'≥ ' if o.capped_raw else ''}{o.rework_raw}",
                "a checkpoint": f"{nbytes_text(o.nbytes)}, {percent_text(o.share)}",
                "distance": percent_text(o.distance),
                "loss right after restoring": loss_text(o.loss_restored, 4),
            }
            for o in outcomes
        ]
    )


def verdict(outcomes: Sequence[Outcome]) -> str:
    """Who won at equal bytes, and by how much; what full takes for its place."""
    (full,) = (o for o in outcomes if o.method.kind == "full")
    equal = sorted((o for o in outcomes if o is not full), key=lambda o: (o.capped, o.rework))
    first, *others = equal
    if first.capped:
        cap = plural(len(first.race.trend) - 1, "iteration")
        text = f"**Nobody wins**: at {_bytes(first)}, none of {_names(equal)} was back within {cap}"
    else:
        level = [o for o in others if not o.capped and o.rework - first.rework < LEVEL]
        others = others[len(level) :]
        winners = _names([first, *level])
        lead = f"**{winners} wins**" if not level else f"**{winners} are level**"
        back = "back at once" if not first.rework else f"back after {_iterations(first.rework)}"
        text = f"{lead}: {back}, at {_bytes(first)}"
        told = [f"{o.method.name} {_needs(o, first)}" for o in others]
        if told:
            text += f"; {', '.join(told)}"
    times = full.nbytes / first.nbytes
    more = f"{times:,.0f} times the bytes" if times >= 1.5 else _bytes(full)
    own = (
        f"not back within {full.rework:.0f} iterations"
        if full.capped
        else (f"back after {_iterations(full.rework)}" if full.rework else "back at once")
    )
    return f"{text}. Full, with {more}, is {own}."


def _needs(o: Outcome, first: Outcome) -> str:
    if o.capped:
        text = f"was not back within {_iterations(o.rework)}"
    else:
        text = f"needs {_iterations(o.rework)}"
    if first.rework < LEVEL:  # a multiple of next to nothing says nothing
        return text
    least = "at least " if o.capped else ""
    return f"{text}, {least}{o.rework / first.rework:.3g} times as many"


def _iterations(n: float) -> str:
    text = f"{n:.3g}"
    return f"{text} iteration{'' if text == '1' else 's'}"


def _bytes(o: Outcome) -> str:
    return f"{nbytes_text(o.nbytes)} a checkpoint"


def _names(outcomes: Sequence[Outcome]) -> str:
    return enumerated([o.method.name for o in outcomes])


def _amount(o: Outcome) -> str:
    return f"{'≥ ' if o.capped else ''}{o.rework:.2f}"
