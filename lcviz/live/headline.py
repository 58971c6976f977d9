"""The top of the Live page: how small the checkpoint is, and what a crash would cost."""

from __future__ import annotations

import pandas as pd

from lcviz.text import nbytes_text
from lcviz.ui.picture import Picture

from .shown_step import ShownStep


def headline(shown: ShownStep, status: str, crash: str, own: str) -> Picture:
    """A step's size, to scale.

    Args:
        shown: the step.
        status: what the run does, in words.
        crash: what a crash would cost, in words.
        own: the run's own setting, in words.
    """
    full, nbytes = shown.checkpoint.full_nbytes, shown.nbytes
    ratio = full / nbytes
    times = f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}"
    sentence = f"{nbytes_text(full)} becomes {nbytes_text(nbytes)}, {times} times smaller."
    return Picture(
        "headline",
        "Size",
        "",
        f"{sentence} {crash[:1].upper()}{crash[1:]}.",
        {
            "full": nbytes_text(full),
            "record": nbytes_text(nbytes),
            "times": f"{times}× smaller",
            "share": min(nbytes / full, 1.0),
            "status": status,
            "crash": crash,
            "back": None if not shown.trial else f"You try this; the run keeps {own}. Back",
        },
        pd.DataFrame({"what": ["float32", "record"], "bytes": [full, nbytes]}),
    )
