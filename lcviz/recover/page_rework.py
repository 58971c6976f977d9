"""A recovery experiment: a headline, the race back and its prices, and the restored states."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from demo_models import MODELS
from lcviz.lab.recovery.last_state import Restored
from lcviz.lab.recovery.recovery import Outcome
from lcviz.lab.recovery.rework import CrashCost, CrashExperiment, costs
from lcviz.text import enumerated, interval_text, plural
from lcviz.ui import picture, widgets
from lcviz.ui.race import race_picture

from .prices import prices, restored_table

LOSSES = {"trend": "smoothed", "measured": "as measured"}
NOTHING = 0.0005  # a distance closer than this to 1 is that of the first weights: nothing was saved


def headline(by_seed: Sequence[tuple[Outcome, ...]], share: float) -> str:
    """How soon LC is back at this size limit, and the baselines, the soonest first."""
    _, *baselines, _, ours = costs(by_seed)
    amount = _amount(ours)
    text = f"LC is {amount} {'iteration' if amount == '1.0' else 'iterations'} behind after a crash"
    others = sorted(baselines, key=lambda c: c.rework.value)
    return (
        f"{text}, {enumerated([f'{c.method.name} {_amount(c)}' for c in others])}, "
        f"at {100 * share:g} % of the bytes"
    )


def conditions(experiment: CrashExperiment, seeds: int) -> str:
    """The experiment's settings in one line."""
    protocol = experiment.protocol
    return (
        f"{MODELS[experiment.model].title}, {100 * experiment.share:g} % of float32, "
        f"saved {interval_text(protocol.interval)}, crash after {protocol.fail_at}, "
        f"{plural(seeds, 'seed')}"
    )


def pictures(
    experiment: CrashExperiment, seeds: int, by_seed: Sequence[tuple[Outcome, ...]]
) -> None:
    """The race back of one seed, above the prices of all.

    seeds: number of seeds asked for. by_seed: outcomes of the finished ones, at least one.
    """
    if warning := nothing_saved(costs(by_seed)):
        st.warning(warning, icon=":material/data_loss_prevention:")
    with st.container(border=True, key="recover-panels"):
        _race(experiment, seeds, by_seed)


def details(by_seed: Sequence[tuple[Outcome, ...]]) -> None:
    """The restored states before any further training, and what the paper reports."""
    box = widgets.opened("Right after restoring", "healing", "recover-restored")
    if box is not None:
        with box:
            st.markdown(
                f"Means of {plural(len(by_seed), 'seed')}.",
                help="Loss: on fixed held-out examples. Distance: from the restored weights to "
                "those at the failure, as a share of how far training had moved them. One save: "
                "median, in the training loop.",
            )
            st.table(restored_table(costs(by_seed)), hide_index=True)
            st.caption(
                "In the paper, on other models and data, SCAR costs 2.88–5.77 times as much as LC, "
                "TOPN 2.17–4.06 times."
            )


def nothing_saved(outcomes: Sequence[CrashCost | Outcome | Restored]) -> str:
    """Which methods could save no change at all, and why; "" if all saved some."""
    names = [outcome.method.name for outcome in outcomes if abs(outcome.distance - 1) < NOTHING]
    if not names:
        return ""
    restart = "restarts" if len(names) == 1 else "restart"
    return (
        f"{enumerated(names)} saved nothing and {restart} at the first weights: a header, or "
        "Huffman's one bit a value, takes more than the limit."
    )


def _amount(cost: CrashCost) -> str:
    return f"{'at least ' if cost.capped else ''}{cost.rework.value:.1f}"


def _race(experiment: CrashExperiment, seeds: int, by_seed: Sequence[tuple[Outcome, ...]]) -> None:
    place = st.container()
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
            help="Smoothed: jumps from batch to batch are averaged out. As measured: the loss "
            "itself, so that its price is a whole number of iterations.",
        )
    with place:
        if seed >= len(by_seed):
            st.info(f"Seed {seed} is not finished yet.")
            return
        race = race_picture(
            by_seed[seed],
            experiment.protocol.fail_at,
            smooth=losses == "trend",
            prices=prices(costs(by_seed)),
        )
        picture.show(race, "race")
