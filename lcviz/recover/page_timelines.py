"""Where the time of saving goes: synchronous and asynchronous; and a crash at any time."""

from __future__ import annotations

import datetime

import streamlit as st

from demo_models import MODELS
from lcviz.server.jobs import FinishedPart, View
from lcviz.text import interval_text, plural
from lcviz.ui import session as state
from lcviz.ui import widgets
from lcviz.ui.experiment import ControlTexts, PageJob

from .timelines import ASYNCHRONOUS, SHOWN, SYNCHRONOUS, WAYS, Drill, Timeline
from .timelines_figure import crash_table, ticks, timelines_panel, ways_table

TITLE = "Where the time of saving goes"
Measurement = tuple[Timeline, ...]
MOST_MEASUREMENTS = 20  # of one drill
EXPLANATIONS = {
    SYNCHRONOUS: "`save` returns once the record is on disk: the training waits until then.",
    ASYNCHRONOUS: "`asynchronous=True`: `save` returns once another process has a copy of the "
    "state. The next `save` waits for that process.",
}
SHOWS = {"all": "all", "part": "around the crash"}
CRASHES = {"machine": "machine", "training": "training alone"}


def timelines(drill: Drill) -> None:
    """The whole section."""
    with st.container(horizontal=True, key="recover-timelines-ways"):
        title = MODELS[drill.workload.model].title
        st.markdown(f"{title}: saved {interval_text(drill.interval)}, in two ways", width="content")
        for way, text in EXPLANATIONS.items():
            st.markdown(f"**{way}**", width="content", help=text)
    measurements = _measurements(drill)
    number = min(max(measurements, default=-1) + 1, MOST_MEASUREMENTS - 1)
    job = PageJob("recover-timelines", (drill, number), 1, drill.measure)

    def show(view: View[Measurement], watching: bool) -> None:
        job.controls(view, watching, _texts(drill, view, again=bool(measurements)))
        if measurements:
            _show_measurement(measurements[max(measurements)])

    job.follow(show)


def _measurements(drill: Drill) -> dict[int, FinishedPart[Measurement]]:
    """The measurements that this server still has, by number."""
    views = ((i, state.all_jobs().look((drill, i), 1)) for i in range(MOST_MEASUREMENTS))
    return {i: view.finished_parts[0] for i, view in views if view.finished_parts}


def _texts(drill: Drill, view: View[Measurement], *, again: bool) -> ControlTexts:
    way = min(int(view.share * len(WAYS)), len(WAYS) - 1)
    return ControlTexts(
        start="Measure again" if again else "Measure it",
        icon=":material/timer:",
        help=f"Trains {len(WAYS)} times, {plural(drill.iterations, 'iteration')} each.",
        working=f"Measuring, saved {WAYS[way]}: {100 * view.share:.0f} % of all.",
        done=f"Measured {MOST_MEASUREMENTS} times: this server keeps no more.",
    )


def _show_measurement(measured: FinishedPart[Measurement]) -> None:
    """One measurement, and a crash at any time of it."""
    lines = measured.value
    end, step = ticks(max(line.end for line in lines))
    with st.container(
        horizontal=True, vertical_alignment="bottom", key="recover-timelines-choices"
    ):
        crash = st.slider(
            "Crash at … ms",
            0.0,
            end,
            round(end / 2 / step) * step,
            step,
            key=f"recover_crash_{end:g}",
            bind="query-params",
            width=420,
            format="%g",
            help="Since the first iteration shown began, in each of the trainings.",
        )
        what_crashes = widgets.choice(
            "What crashes",
            CRASHES,
            default="machine",
            key="recover_crashes",
            help="If the training alone dies, the background process still writes what it has.",
        )
        extent = widgets.choice("Show", SHOWS, default="all", key="recover_shows")
    second, last_second = crash / 1e3, end / 1e3
    window = (0.0, last_second)
    if extent == "part":
        begin = min(max(second - last_second / 12, 0.0), last_second - last_second / 6)
        window = begin, begin + last_second / 6
    whole_machine = what_crashes == "machine"
    st.table(crash_table(lines, second, whole_machine), hide_index=True)
    widgets.show(timelines_panel(lines, second, whole_machine, window), "recover-timelines")
    st.table(ways_table(lines), hide_index=True)
    if len({line.track for line in lines}) == 1:
        st.markdown("Both restore the same weights to the last bit.")
    else:
        st.markdown(
            "They do **not** restore the same weights: the training was not repeated exactly."
        )
    when = datetime.datetime.fromtimestamp(measured.at, datetime.UTC)
    st.caption(
        f"This machine, {when.day} {when:%B} {when:%H:%M:%S} UTC; medians of {SHOWN} checkpoints.",
        help="*Measure again* shows how much they vary. Gaps in the training's lane: the server "
        "did something else.",
    )
