"""The race back after "Kill it now": the losses around the crash, while the methods run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from lcviz.lab.recovery.recovery import Outcome
from lcviz.text import enumerated, nbytes_text, plural, short_loss_text
from lcviz.ui.charts import plotted
from lcviz.ui.picture import Picture
from lcviz.ui.race import STYLES, Points, RaceWords, race_table, ways_back

TITLE = "Race back"
WORDS = RaceWords("crash", "no crash", "before")
HEIGHT = 104  # CSS pixels: all of it fits on the screen below the sentence about the crash
LEVEL = 0.05  # iterations: results no further apart are called level
_COLOURS = {"full": "good", "SCAR": "up", "TOPN": "table", "LC": "down"}


def race_picture(outcomes: Sequence[Outcome], killed_at: int, over: bool) -> Picture:
    """The smoothed losses of each method and of the training that did not crash.

    Args:
        outcomes: so far, at least one; the last may be under way.
        killed_at: the iteration of the crash.
        over: whether no method is under way.
    """
    ways = ways_back(outcomes, smooth=True)
    lines = [
        _line("before", "grey", "solid", ways.before),
        _line(WORDS.calm, "grey", "dot", ways.calm),
    ]
    for o in outcomes:
        points, running = ways.lines[o.method.name], not over and o is outcomes[-1]
        end = "" if running else f" > {ways.cap}" if o.capped else f" {o.rework:.3g}"
        line = _line(o.method.name, _COLOURS[o.method.name], STYLES[o.method.name][2], points)
        lines.append(line | {"label": f"{o.method.name}{end}", "ends": not running})
    text = "Each line ends where the loss is what it was before the crash."
    return Picture(
        "curves",
        TITLE,
        "smoothed loss · SCAR saves the blocks that changed most, TOPN single weights",
        verdict(outcomes) if over else text,
        {
            "lines": lines,
            "marks": [{"step": 0, "text": f"crash at {killed_at}", "strong": True}],
            "level": {"y": plotted(ways.level), "text": f"{short_loss_text(ways.level)} before"},
            "range": [ways.before[0][0], ways.calm[-1][0]],
            "log": False,
            "unit": "iteration",
            "height": HEIGHT,
            "clickable": False,
        },
        partial(race_table, ways, WORDS),
        4,
    )


def _line(name: str, colour: str, dash: str, points: Points) -> dict[str, Any]:
    return {
        "name": name,
        "label": "" if colour == "grey" else name,
        "colour": colour,
        "dash": dash,
        "x": [round(x, 4) for x, _ in points],
        "y": [plotted(y) for _, y in points],
    }


def verdict(outcomes: Sequence[Outcome]) -> str:
    """Who won at equal bytes, and by how much; how full compares, and what it costs."""
    (full,) = (o for o in outcomes if o.method.kind == "full")
    equal = sorted((o for o in outcomes if o is not full), key=lambda o: (o.capped, o.rework))
    first, *others = equal
    size = f"At {nbytes_text(first.nbytes)} per checkpoint"
    if first.capped:
        cap = plural(len(first.race.trend) - 1, "iteration")
        nobody = enumerated([o.method.name for o in equal])
        text = f"{size} nobody wins: none of {nobody} was back within {cap}"
    else:
        level = [o for o in others if not o.capped and o.rework - first.rework < LEVEL]
        winners = enumerated([o.method.name for o in (first, *level)])
        text = f"{size} {winners} {'are level' if level else 'wins'}: {_back(first)}"
        if behind := others[len(level) :]:
            text += f"; {', '.join(f'{o.method.name} {_needs(o, first)}' for o in behind)}"
    times = full.nbytes / first.nbytes
    more = f"{times:,.0f} × the bytes" if times >= 1.5 else f"{nbytes_text(full.nbytes)} each"
    return f"{text}. Full, with {more}, is {_back(full)}."


def _back(o: Outcome) -> str:
    if o.capped:
        return f"not back within {_iterations(o.rework)}"
    return f"back after {_iterations(o.rework)}" if o.rework else "back at once"


def _needs(o: Outcome, first: Outcome) -> str:
    if o.capped:
        return f"after more than {o.rework:.3g}"
    if first.rework < LEVEL:  # a multiple of next to nothing says nothing
        return f"after {o.rework:.3g}"
    return f"after {o.rework:.3g}, {o.rework / first.rework:.3g} × as many"


def _iterations(n: float) -> str:
    text = f"{n:.3g}"
    return f"{text} iteration{'' if text == '1' else 's'}"
