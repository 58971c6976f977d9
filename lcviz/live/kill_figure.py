"""The race back after "Kill it now": the losses around the crash, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from lcviz.lab.recovery.recovery import Outcome
from lcviz.text import enumerated, loss_text, nbytes_text, percent_text, plural
from lcviz.ui.charts import Panel
from lcviz.ui.race import RaceWords, race_picture, ways_back

LEVEL = 0.05  # iterations: results no further apart are called level


def kill_panel(outcomes: Sequence[Outcome], killed_at: int, smooth: bool) -> Panel:
    """Losses around the crash.

    Args:
        outcomes: one of each kind of method.
        killed_at: the iteration of the crash.
        smooth: whether losses are those of the trend.
    """
    ways = ways_back(outcomes, smooth)
    ends = {
        name: f"> {ways.cap}" if end is None else f"{end:.3g}" if end else "at once"
        for name, end in ways.ends.items()
    }
    panel = race_picture(
        ways,
        RaceWords("crash", "did not crash", "before the crash"),
        killed_at,
        "The way back: loss around the crash",
        {name: f"{name} ({end})" for name, end in ends.items()},
        "back again",
        "Loss before the crash, and of each method and of the undisturbed training after it.",
    )
    return replace(panel, sentence=f"{panel.sentence} In brackets: iterations until then.")


def rework_table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """What the crash cost with each method."""
    return pd.DataFrame(
        [
            {
                "method": f"**{o.method.name}**",
                "rework, iterations": f"{'≥ ' if o.capped else ''}{o.rework:.2f}",
                "as measured": f"{'≥ ' if o.capped_raw else ''}{o.rework_raw}",
                "a checkpoint": f"{nbytes_text(o.nbytes)}, {percent_text(o.share)}",
                "distance": percent_text(o.distance),
                "loss right after restoring": loss_text(o.loss_restored, 4),
            }
            for o in outcomes
        ]
    )


def verdict(outcomes: Sequence[Outcome]) -> str:
    """Who won at equal bytes, and by how much; how full compares, and what it costs."""
    (full,) = (o for o in outcomes if o.method.kind == "full")
    equal = sorted((o for o in outcomes if o is not full), key=lambda o: (o.capped, o.rework))
    first, *others = equal
    size = f"{nbytes_text(first.nbytes)} a checkpoint"
    if first.capped:
        cap = plural(len(first.race.trend) - 1, "iteration")
        nobody = enumerated([o.method.name for o in equal])
        text = f"**Nobody wins**: at {size}, none of {nobody} was back within {cap}"
    else:
        level = [o for o in others if not o.capped and o.rework - first.rework < LEVEL]
        winners = enumerated([o.method.name for o in (first, *level)])
        wins = "are level" if level else "wins"
        text = f"**{winners} {wins}**: {_back(first)}, at {size}"
        if behind := others[len(level) :]:
            needs = ", ".join(f"{o.method.name} {_needs(o, first)}" for o in behind)
            text += f"; {needs}"
    times = full.nbytes / first.nbytes
    more = (
        f"{times:,.0f} times the bytes"
        if times >= 1.5
        else f"{nbytes_text(full.nbytes)} a checkpoint"
    )
    return f"{text}. Full, with {more}, is {_back(full)}."


def _back(o: Outcome) -> str:
    if o.capped:
        return f"not back within {_iterations(o.rework)}"
    return f"back after {_iterations(o.rework)}" if o.rework else "back at once"


def _needs(o: Outcome, first: Outcome) -> str:
    text = f"was {_back(o)}" if o.capped else f"needs {_iterations(o.rework)}"
    if first.rework < LEVEL:  # a multiple of next to nothing says nothing
        return text
    least = "at least " if o.capped else ""
    return f"{text}, {least}{o.rework / first.rework:.3g} times as many"


def _iterations(n: float) -> str:
    text = f"{n:.3g}"
    return f"{text} iteration{'' if text == '1' else 's'}"
