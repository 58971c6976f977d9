"""Where the time of saving goes: synchronous, asynchronous, merged; and a crash at any moment."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import streamlit as st

from demo_models import MODELS
from lcviz.run.snapshot import RunSettings
from lcviz.server.jobs import FinishedPart, View
from lcviz.text import nbytes_text, percent_text, plural
from lcviz.ui import session as state
from lcviz.ui import widgets
from lcviz.ui.experiment import Asking, ControlTexts
from lcviz.ui.glossary import explained

from .timelines import (
    ASYNCHRONOUS,
    MERGED,
    MERGED_AT_ONCE,
    MOST_INTERVAL,
    SHOWN,
    SYNCHRONOUS,
    WAYS,
    Drill,
    Timeline,
)
from .timelines_figure import crash_table, ticks, timelines_panel, ways_table

Measured = tuple[Timeline, ...]
MOST_MEASUREMENTS = 20  # of one drill
EXPLAINED = {
    SYNCHRONOUS: "`save` returns once the record is on disk: the training waits for all of it.",
    ASYNCHRONOUS: "`asynchronous=True`: `save` returns once another process has a copy of the "
    "state. The next `save` waits for that process.",
    MERGED: f"Saved synchronously; every {MERGED_AT_ONCE} deltas become one record. The loop "
    "closes its Checkpointer, merges, checks, and opens the chain again.",
}
SHOWS = {"all": "all of it", "part": "a sixth of it, around the crash"}
CRASHES = {"machine": "the whole machine", "training": "the training alone"}


def timelines_of_run(place: str, settings: RunSettings) -> None:
    """The section for a run of these settings, whatever the run does meanwhile."""
    timelines(place, drill_of_run(settings))
    if settings.interval > MOST_INTERVAL:
        st.caption(
            f"The run saves every {settings.interval:,} iterations. Every {MOST_INTERVAL} are "
            "measured, to save time."
        )


def drill_of_run(settings: RunSettings) -> Drill:
    """The measurement for a run of these settings."""
    interval = min(settings.interval, MOST_INTERVAL)
    return Drill(settings.workload, settings.seed, interval, settings.coding)


def timelines(place: str, drill: Drill) -> None:
    """The whole section. place: of the page, in the URL and the keys of widgets."""
    st.subheader("Where the time goes: synchronous, asynchronous, merged", anchor=False)
    every = "iteration" if drill.interval == 1 else f"{drill.interval} iterations"
    st.markdown(
        explained(
            "The training loop writes a checkpoint, or another process does: **[[asynchronous "
            "saving]]**. [[Deltas|delta]] can be **[[merged|merged record]]**. One short training, "
            f"{MODELS[drill.workload.model].title} saved every {every}, is measured in each way."
        )
    )
    with st.container(horizontal=True, key=f"{place}-timelines-ways"):
        for way, text in EXPLAINED.items():
            st.markdown(f"**{way}**", width="content", help=text)
    kept = _kept(drill)
    number = min(max(kept, default=-1) + 1, MOST_MEASUREMENTS - 1)
    asking = Asking(f"{place}-timelines", (drill, number), 1, drill.measure)

    def show(view: View[Measured], watching: bool) -> None:
        asking.controls(view, watching, _texts(drill, view, again=bool(kept)))
        if kept:
            _measured(place, kept[max(kept)])

    asking.follow(show)


def _kept(drill: Drill) -> dict[int, FinishedPart[Measured]]:
    """The measurements that this server still has, by number."""
    looked = ((i, state.all_jobs().look((drill, i), 1)) for i in range(MOST_MEASUREMENTS))
    return {i: view.found[0] for i, view in looked if view.found}


def _texts(drill: Drill, view: View[Measured], *, again: bool) -> ControlTexts:
    way = min(int(view.share * len(WAYS)), len(WAYS) - 1)
    return ControlTexts(
        start="Measure again" if again else "Measure it",
        icon=":material/timer:",
        help=f"Trains {len(WAYS)} times, {plural(drill.iterations, 'iteration')} each.",
        working=f"Measuring, saved {WAYS[way]}: {100 * view.share:.0f} % of all.",
        done=f"Measured {MOST_MEASUREMENTS} times: this server keeps no more.",
    )


def _measured(place: str, measured: FinishedPart[Measured]) -> None:
    """One measurement, and a crash at any moment of it."""
    found = measured.value
    end, step = ticks(max(line.end for line in found))
    with st.container(
        horizontal=True, vertical_alignment="bottom", key=f"{place}-timelines-choices"
    ):
        crash = st.slider(
            "A crash at t = … ms",
            0.0,
            end,
            round(end / 2 / step) * step,
            step,
            key=f"{place}_crash_{end:g}",
            bind="query-params",
            width=420,
            format="%g",
            help="The same moment of the three trainings, counted from where each began the first "
            "iteration that is shown.",
        )
        who = widgets.choice(
            "What crashes",
            CRASHES,
            default="machine",
            key=f"{place}_crashes",
            help="What is on disk survives both. If only the training dies, the background process "
            "still writes what it was given.",
        )
        shows = widgets.choice("Show", SHOWS, default="all", key=f"{place}_shows")
    second, last = crash / 1e3, end / 1e3
    window = (0.0, last)
    if shows == "part":
        begin = min(max(second - last / 12, 0.0), last - last / 6)
        window = begin, begin + last / 6
    machine = who == "machine"
    st.table(crash_table(found, second, machine), hide_index=True)
    widgets.show(timelines_panel(found, second, machine, window), f"{place}-timelines")
    st.table(ways_table(found), hide_index=True)
    st.markdown(_on_disk(found))
    when = datetime.datetime.fromtimestamp(measured.at, datetime.UTC)
    st.caption(
        f"This machine on {when.day} {when:%B} at {when:%H:%M:%S} UTC: medians of the {SHOWN} "
        "checkpoints shown. *Measure again* shows how much they vary. Where the training's lane is "
        "empty, the server did something else."
    )


def _on_disk(found: Sequence[Timeline]) -> str:
    """Bytes with and without merging, and whether all restores the same."""
    plain, background, merged = found
    saved = 1 - merged.nbytes / plain.nbytes
    same = len({line.track for line in found}) == 1
    alike = (
        "All three restore the same weights to the last bit."
        if same
        else "The three do **not** restore the same weights: the training was not repeated exactly."
    )
    less = f"{percent_text(saved)} less" if saved >= 0 else f"{percent_text(-saved)} more"
    return (
        f"On disk, after a base of {nbytes_text(plain.base_nbytes)}: "
        f"{nbytes_text(plain.nbytes)} in {plural(plain.records, 'delta')} synchronous, "
        f"{nbytes_text(background.nbytes)} in {background.records:,} asynchronous, and "
        f"{nbytes_text(merged.nbytes)} in {plural(merged.records, 'record')} merged, {less}. "
        f"Steps that can be restored: {plain.steps:,}, {background.steps:,} and {merged.steps:,}. "
        f"{alike}"
    )
