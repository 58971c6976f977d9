"""The finished seeds of a recovery experiment: a sentence, rework, the race back."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from demo_models import MODELS
from lcviz.lab.recovery.recovery import Outcome
from lcviz.lab.recovery.rework import CrashCost, CrashExperiment, costs, times
from lcviz.text import plural
from lcviz.ui import widgets
from lcviz.ui.race import race_panel

from .rework_figure import restored_table, rework_panel

LOSSES = {"trend": "on the trend", "measured": "as measured"}
NOTHING = 0.0005  # so close to 1, a distance is that of the beginning: nothing was saved


def rework_section(
    experiment: CrashExperiment, seeds: int, by_seed: Sequence[tuple[Outcome, ...]]
) -> None:
    """The whole section. seeds: how many were asked for. by_seed: those that are finished."""
    found = costs(by_seed)
    st.subheader(f"{MODELS[experiment.model].title}, {100 * experiment.share:g} %", anchor=False)
    st.markdown(summary(found, experiment.share))
    if lost := nothing_saved(found):
        st.warning(lost, icon=":material/data_loss_prevention:")
    widgets.tables_toggle()
    grid = st.grid(2, min_column_width=460, border=True, key="recover-panels")
    with grid.cell():
        widgets.show(rework_panel(found), "rework")
    with grid.cell():
        _race(experiment, seeds, by_seed)
    with st.container(border=True, key="recover-restored"):
        st.markdown(
            f"**Right after restoring, mean of {plural(len(by_seed), 'seed')}**",
            help="Loss: on fixed held-out examples. Distance: from the restored weights to those "
            "at the failure, as a share of how far training had moved them from their beginning. "
            "One save: median, in the training loop.",
        )
        st.table(restored_table(found), hide_index=True)
    st.caption(
        "The paper (LC-Checkpoint, ICML 2020) reports 2.88–5.77 times less rework than SCAR and "
        "2.17–4.06 times less than TOPN, at 5 %. Protocol, models, data and settings here are "
        "ours: compare which way is ahead, not digit by digit."
    )


def summary(found: list[CrashCost], share: float) -> str:
    """What a crash costs with each way: ours first, then the others, full last."""
    full, *others, ours = found
    told = []
    for cost in sorted(others, key=lambda c: c.rework.value):
        text = f"{cost.method.name} {_amount(cost)}"
        ratio = times(cost, ours)
        if ratio is not None and ratio >= 1.05:
            text += f" ({'at least ' if cost.capped else ''}{ratio:.3g} times as many)"
        told.append(text)
    told.append(f"full, at {100 * full.share:.0f} %, {_amount(full)}")
    n = plural(ours.rework.n, "seed")
    return (
        f"At {100 * share:g} %, a crash costs **{ours.method.name} {_amount(ours)} iterations** "
        f"of training; {', '.join(told)}. {'Mean of' if ours.rework.n > 1 else 'Of'} {n}."
    )


def nothing_saved(found: Sequence[CrashCost | Outcome]) -> str:
    """Which methods could save no change at all, and why; nothing if all could."""
    names = [c.method.name for c in found if abs(c.distance - 1) < NOTHING]
    if not names:
        return ""
    return (
        f"{', '.join(names)}: saved nothing, so the restart begins at the first weights. So few "
        "bytes are taken by a record's header; with Huffman every value takes at least one bit."
    )


def _amount(cost: CrashCost) -> str:
    return f"{'at least ' if cost.capped else ''}{cost.rework.value:.2f}"


def _race(experiment: CrashExperiment, seeds: int, by_seed: Sequence[tuple[Outcome, ...]]) -> None:
    with st.container(horizontal=True, key="recover-race"):
        seed = 0
        if seeds > 1:
            seed = widgets.choice(
                "Seed", range(seeds), default=0, key=f"recover_seed_{seeds}", bind="query-params"
            )
        losses = widgets.choice(
            "Loss",
            LOSSES,
            default="trend",
            key="recover_loss",
            help="On the trend, jumps from batch to batch are averaged out. As measured counts "
            "whole iterations until the loss itself is back.",
        )
    if seed >= len(by_seed):
        st.info(f"Seed {seed} is not finished yet.")
        return
    widgets.show(race_panel(by_seed[seed], experiment.protocol.fail_at, losses == "trend"), "race")
