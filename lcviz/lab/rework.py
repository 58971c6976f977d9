"""What a crash would cost, estimated from a run's own loss curve."""

from __future__ import annotations

import math
from collections.abc import Sequence


def lost_iterations(
    steps: Sequence[int], live_losses: Sequence[float], restored_loss: float, iteration: int
) -> int | None:
    """At most how many iterations of work a crash at ``iteration`` would lose.

    A restart begins with the restored loss. The training was last as bad as that at the
    newest step whose loss was at least as high; what it did since would be done again.
    steps, live_losses: of the measured steps, rising, the newest last. None if the restored
    loss is not finite. An estimate: it reads the curve instead of training again.
    """
    if not math.isfinite(restored_loss):
        return None
    if restored_loss <= live_losses[-1]:
        return iteration - steps[-1]
    as_bad = (s for s, loss in zip(steps, live_losses) if loss >= restored_loss)
    return iteration - max(as_bad, default=0)
