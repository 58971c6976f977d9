"""What a crash would cost, estimated from a run's own loss curve."""

from __future__ import annotations

import math
from collections.abc import Sequence


def lost_iterations(
    steps: Sequence[int], live_losses: Sequence[float], restored_loss: float, iteration: int
) -> int | None:
    """Roughly how many iterations of work a crash at ``iteration`` would lose.

    A restart begins with the restored loss. The live curve, drawn straight between measured
    steps, was last that high some iterations ago; what was done since would be done again.
    steps, live_losses: of the measured steps, rising, the newest last. None if the restored
    loss is not finite. An estimate: it reads the curve instead of training again.
    """
    if not math.isfinite(restored_loss):
        return None
    points = [(s, loss) for s, loss in zip(steps, live_losses) if math.isfinite(loss)]
    later = None
    for step, loss in reversed(points):
        if loss >= restored_loss:
            if later is None or loss == restored_loss:
                return iteration - step
            share = (loss - restored_loss) / (loss - later[1])
            return math.ceil(iteration - step - share * (later[0] - step))
        later = (step, loss)
    return iteration
