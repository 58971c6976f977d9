"""The loss over the run: of the live model, and of the model that a restart would load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lcviz.report.figure_parts import thinned
from lcviz.ui.picture import Picture, finite

MAX_POINTS = 500  # of a line: more would slow every tick, and no screen shows them


def loss_picture(
    losses: Mapping[int, tuple[float, float]],
    viewed: int,
    last: int,
    kills: Sequence[int] = (),
    trial: Mapping[int, float] | None = None,
) -> Picture:
    """Both losses by step.

    Args:
        losses: Step, rising -> live and restored loss.
        viewed: The step that the other pictures show.
        last: The axis ends here or later.
        kills: Iterations at which the run was killed.
        trial: Step -> restored loss if the whole run were saved as a visitor tries; None without a
            trial.
    """
    steps, (live, restored) = list(losses), zip(*losses.values())
    told = max((step for step in losses if step <= viewed), default=steps[0])
    x = sorted({*thinned(steps, MAX_POINTS), told})
    return Picture(
        "curves",
        {
            "kind": "loss",
            "step": viewed,
            "last": last,
            "losses": [[step, *map(finite, losses[step])] for step in x],
            "trial": [[step, finite(loss)] for step, loss in trial.items()] if trial else None,
            "kills": list(kills),
        },
        lambda: pd.DataFrame({"step": steps, "live": live, "restored": restored}),
    )
