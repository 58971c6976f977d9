"""The race back in the details: its losses on the trend or as measured, and its numbers."""

from __future__ import annotations

import streamlit as st

from lcviz.lab.recovery.kill import Raced
from lcviz.ui import widgets

from .race_figure import race_panel, rework_table

LOSSES = {"trend": "smoothed", "measured": "as measured"}


def show_race(raced: Raced, killed_at: int, *, whole: bool) -> None:
    """The race of a crash at this iteration. whole: whether optimizers were saved, too."""
    losses = widgets.choice(
        "Loss",
        LOSSES,
        default="trend",
        key="kill_loss",
        help="Rework is counted on the trend, which averages jumps from batch to batch; as "
        "measured, whole iterations until the loss itself is back.",
    )
    widgets.show(race_panel(raced.outcomes, killed_at, losses == "trend"), "kill")
    st.table(rework_table(raced.outcomes), hide_index=True)
    held = "Every method holds the model alone."
    if whole:
        held = "Every method holds the optimizer's state, too, and goes on with it."
    same = "reached the same bits as the killed one. It " if raced.alike else ""
    st.caption(
        "One crash of one seed; Recover has more.",
        help=f"The repeated training {same}was saved by full, SCAR and TOPN at the run's own "
        f"steps. {held} Distance: from the restored weights to those "
        "at the crash, as a share of how far training had moved them.",
    )
