"""Recover, own files: what a crash at the last of them costs with each way to save."""

from __future__ import annotations

import streamlit as st

from lcviz.lab.progress import Progress
from lcviz.lab.recovery.last_state import LastState, crash_at_last
from lcviz.lab.recovery.methods import Method, methods_at
from lcviz.lab.series import OpenedSeries
from lcviz.lab.tuner.replay import LEAST_STATES
from lcviz.server.jobs import View
from lcviz.text import percent_text, plain
from lcviz.ui import widgets
from lcviz.ui.experiment import Asking, ControlTexts
from lcviz.ui.own_files import opened_series

from .last_state_figure import distances_panel
from .page_rework import nothing_saved

NO_LOSS = (
    "Iterations need a loss: `python -m lcviz recovery --own PATH --loss FILE.py:FUNCTION` takes "
    "one of yours."
)


def section(share: float) -> None:
    """The whole section. share: of float32 that a checkpoint may take."""
    own, wrong = opened_series("recover_own", LEAST_STATES)

    def work(_part: int, progress: Progress) -> LastState:
        assert own is not None, "without files the button is off"
        methods = (Method("full"), *methods_at(share))
        return crash_at_last(OpenedSeries(own), methods, progress)

    asked = ("last state", own.digest if own else "", share)
    asking: Asking[LastState] = Asking("recover-own", asked, 1, work)

    def answer(view: View[LastState], watching: bool) -> None:
        found = view.found[0].value if view.found and not wrong else None
        told = "what a crash costs" if found is None else headline(found, share)
        st.title(f"Recover: {told}", anchor=False)
        if own is not None and not wrong:
            st.caption(f"{plain(own.describe())}. Each is saved; the crash comes after the last.")
        asking.controls(view, watching, _texts(view, wrong))
        if found is None:
            return
        if lost := nothing_saved(found.restored):
            st.warning(lost, icon=":material/data_loss_prevention:")
        with st.container(border=True, key="recover-last-state"):
            widgets.show(distances_panel(found), "last-state")
            if not found.by:
                st.markdown(f":small[{NO_LOSS}]")

    with st.container(key="answer"):
        asking.follow(answer)


def headline(found: LastState, share: float) -> str:
    """What a crash costs at this share: ours first, then the baselines, the nearest first."""
    _, *baselines, _, ours = found.restored
    others = sorted(baselines, key=lambda one: one.distance)
    told = [f"LC {percent_text(ours.distance)}"]
    told += [f"{one.method.name} {percent_text(one.distance)}" for one in others]
    return (
        f"a crash at step {found.step:,} costs {', '.join(told)} of the way trained, at "
        f"{100 * share:g} % of the bytes"
    )


def _texts(view: View[LastState], wrong: str) -> ControlTexts:
    return ControlTexts(
        start="Crash after the last one",
        icon=":material/bolt:",
        help="Saves every checkpoint in five ways, and restores the last one from each.",
        working=f"Saving in five ways: {100 * view.share:.0f} %",
        wrong=wrong,
    )
