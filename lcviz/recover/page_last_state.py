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
from lcviz.ui.experiment import ControlTexts, PageJob
from lcviz.ui.own_files import opened_series

from .last_state_figure import distances_panel
from .page_rework import nothing_saved

NO_LOSS = (
    "Iterations need a loss. To use your own, in a checkout of lcviz: "
    "`python -m benchmarks.experiments recovery --own PATH --loss FILE.py:FUNCTION`."
)


def section(share: float) -> None:
    """The whole section. share: size limit of a checkpoint, as a share of float32."""
    files, wrong = opened_series("recover_own", LEAST_STATES)

    def work(_part: int, progress: Progress) -> LastState:
        assert files is not None, "the button is off without files"
        methods = (Method("full"), *methods_at(share))
        return crash_at_last(OpenedSeries(files), methods, progress)

    experiment = ("last state", files.digest if files else "", share)
    job: PageJob[LastState] = PageJob("recover-own", experiment, 1, work)

    def answer(view: View[LastState], watching: bool) -> None:
        last_state = view.finished_parts[0].value if view.finished_parts and not wrong else None
        title = "what a crash costs" if last_state is None else headline(last_state, share)
        st.title(f"Recover: {title}", anchor=False)
        if files is not None and not wrong:
            st.caption(f"{plain(files.describe())}. Each is saved; the crash comes after the last.")
        job.controls(view, watching, _texts(view, wrong))
        if last_state is None:
            return
        if warning := nothing_saved(last_state.restored):
            st.warning(warning, icon=":material/data_loss_prevention:")
        with st.container(border=True, key="recover-last-state"):
            widgets.show(distances_panel(last_state), "last-state")
            if not last_state.by:
                st.markdown(f":small[{NO_LOSS}]")

    with st.container(key="answer"):
        job.follow(answer)


def headline(last_state: LastState, share: float) -> str:
    """What a crash costs at this size limit: LC first, then the baselines, the nearest first."""
    _, *baselines, _, ours = last_state.restored
    baselines_by_distance = sorted(baselines, key=lambda state: state.distance)
    costs = [f"LC {percent_text(ours.distance)}"]
    costs += [
        f"{state.method.name} {percent_text(state.distance)}" for state in baselines_by_distance
    ]
    return (
        f"a crash at step {last_state.step:,} costs {', '.join(costs)} of the distance trained, at "
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
