"""The race back after a failure: the loss of each method until it is what it was before."""

from __future__ import annotations

from collections.abc import Sequence

from lcviz.lab.recovery.recovery import Outcome
from lcviz.ui.charts import Panel
from lcviz.ui.race import RaceWords, Ways, race_figure, race_sentence, race_table, ways_back

HEIGHT = 350  # pixels
_WORDS = RaceWords("failure", "did not fail")


def race_panel(outcomes: Sequence[Outcome], fail_at: int, smooth: bool) -> Panel:
    """The loss after the failure, of each method and of the training that did not fail.

    outcomes: of one seed. smooth: see `Ways`. Each line ends where the loss is back.
    """
    ways = ways_back(outcomes, smooth)
    return Panel(
        f"The race back: loss after the failure, {_measure(ways)}",
        race_sentence(ways, _WORDS),
        race_figure(ways, _WORDS, fail_at, HEIGHT),
        "Loss after the failure by iteration, of each method and of the undisturbed training.",
        race_table(ways, _WORDS),
    )


def _measure(ways: Ways) -> str:
    return "smoothed" if ways.smooth else "as measured"
