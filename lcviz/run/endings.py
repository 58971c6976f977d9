"""What is told of a run that ends before its time: killed by somebody, or diverged."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from lcviz.lab.recovery.kill import Pace, fingerprint

from .snapshot import Checkpoint, Kill, Snapshot


def last_words(snapshot: Snapshot, model: Mapping[str, Any], loss_seconds: float) -> Kill:
    """What is known of a run that is killed now.

    snapshot: as it is before. model: its state_dict. loss_seconds: of all losses on held-out
    examples that it has measured.
    """
    every = snapshot.checkpoints
    probed = 2 * sum(c.measured for c in every) - 1  # the base is one state, not 2
    pace = Pace(
        snapshot.train_seconds / snapshot.trained,
        loss_seconds / probed,
        statistics.median(c.codec_seconds for c in every),
    )
    return Kill(snapshot.iteration, every[-1].step, fingerprint(model), pace)


def divergence(checkpoints: Sequence[Checkpoint], iteration: int, loss: float) -> str:
    """What to tell of a loss that became NaN or infinite, and what is still good."""
    good = [c.step for c in checkpoints if c.measured and math.isfinite(c.restored_loss or 0.0)]
    return (
        f"Training diverged: the loss became {loss} at iteration {iteration}. Every checkpoint "
        f"up to step {checkpoints[-1].step} restores; the newest known to have a finite loss is "
        f"step {good[-1]}. Reset, and try a lower learning rate."
    )
