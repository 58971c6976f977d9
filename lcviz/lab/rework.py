"""What a crash would cost, estimated from a run's own loss curve."""

from __future__ import annotations

from collections.abc import Sequence


def lost_iterations(
    steps: Sequence[int], live_losses: Sequence[float], restored_loss: float, iteration: int
) -> int:
    """Iterations of work that a crash at ``iteration`` would lose.

    A restart begins with the restored loss; the training first had a loss that low at some
    saved step, and everything since then is lost. steps, live_losses: of the saved steps up
    to the newest, rising. An estimate: it reads the curve instead of training again.
    """
    reached = (s for s, loss in zip(steps, live_losses) if loss <= restored_loss)
    return iteration - next(reached, steps[-1])
