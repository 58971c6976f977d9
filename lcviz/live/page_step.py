"""The checkpoint that the Live page shows: the newest, unless a step was chosen on the board."""

from __future__ import annotations

from lcviz.run.snapshot import Checkpoint, Snapshot
from lcviz.ui import session

_STEP = "step"  # in the URL, while the page does not follow the newest step


def chosen_step() -> int | None:
    """The step that was chosen; None while the page follows the newest."""
    text = session.remembered(_STEP) or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def viewed_checkpoint(snapshot: Snapshot) -> Checkpoint:
    """The checkpoint to show."""
    step = chosen_step()
    if step not in snapshot.steps or snapshot.at(step).kind == "base":
        return snapshot.newest
    return snapshot.at(step)


def look_into(step: int | None) -> None:
    """Show a step from now on; None for the newest."""
    session.remember(_STEP, None if step is None else str(step))
