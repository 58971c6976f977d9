"""The race back after "Kill it now", with all its numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lcviz.lab.recovery.recovery import Outcome
from lcviz.text import loss_text, nbytes_text, percent_text
from lcviz.ui.charts import Panel
from lcviz.ui.race import RaceWords, race_figure, race_sentence, race_table, ways_back

HEIGHT = 400  # pixels
_WORDS = RaceWords("crash", "did not crash", "before the crash")


def race_panel(outcomes: Sequence[Outcome], killed_at: int, smooth: bool) -> Panel:
    """Losses around the crash.

    Args:
        outcomes: one of each kind of method.
        killed_at: the iteration of the crash.
        smooth: whether losses are those of the trend.
    """
    ways = ways_back(outcomes, smooth)
    names = {
        name: f"{name} (> {ways.cap})" if end is None else f"{name} ({end:.3g})"
        for name, end in ways.ends.items()
    }
    return Panel(
        f"The race back: loss around the crash, {'smoothed' if smooth else 'as measured'}",
        f"{race_sentence(ways, _WORDS)} In brackets: iterations until then.",
        race_figure(ways, _WORDS, killed_at, HEIGHT, names),
        "Loss before the crash, and of each method and of the undisturbed training after it.",
        race_table(ways, _WORDS),
    )


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
