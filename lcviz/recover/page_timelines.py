"""Where the time of saving goes: synchronous, asynchronous, merged; and a crash at any moment."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import streamlit as st

from demo_models import MODELS
from lcviz.server.jobs import FinishedPart, View
from lcviz.text import percent_text, plural
from lcviz.ui import session as state
from lcviz.ui import widgets
from lcviz.ui.experiment import Asking, ControlTexts

from .timelines import (
    ASYNCHRONOUS,
    MERGED,
    MERGED_AT_ONCE,
    SHOWN,
    SYNCHRONOUS,
    WAYS,
    Drill,
    Timeline,
)
from .timelines_figure import crash_table, ticks, timelines_panel, ways_table

TITLE = "Where the time of saving goes"
Measured = tuple[Timeline, ...]
MOST_MEASUREMENTS = 20  # of one drill
EXPLAINED = {
    SYNCHRONOUS: "`save` returns once the record is on disk: the training waits for all of it.",
    ASYNCHRONOUS: "`asynchronous=True`: `save` returns once another process has a copy of the "
    "state. The next `save` waits for that process.",
    MERGED: f"Saved synchronously; every {MERGED_AT_ONCE} deltas become one record. The loop "
    "closes its Checkpointer, merges, checks, and opens the chain again.",
}
SHOWS = {"all": "all", "part": "around the crash"}
CRASHES = {"machine": "machine", "training": "training alone"}


def timelines(place: str, drill: Drill) -> None:
    """The whole section. place: of the page, in the URL and the keys of widgets."""
    every = "iteration" if drill.interval == 1 else f"{drill.interval} iterations"
    with st.container(horizontal=True, key=f"{place}-timelines-ways"):
        title = MODELS[drill.workload.model].title
        what = f"{title} with its optimizer" if drill.whole else title
        st.markdown(f"{what}: saved every {every}, in three ways", width="content")
        for way, text in EXPLAINED.items():
            st.markdown(f"**{way}**", width="content", help=text)
    kept = _kept(drill)
    number = min(max(kept, default=-1) + 1, MOST_MEASUREMENTS - 1)
    asking = Asking(f"{place}-timelines", (drill, number), 1, drill.measure)

    def show(view: View[Measured], watching: bool) -> None:
        asking.controls(view, watching, _texts(drill, view, again=bool(kept)))
        if kept:
            _measured(place, kept[max(kept)], "state" if drill.whole else "weights")

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


def _measured(place: str, measured: FinishedPart[Measured], what: str) -> None:
    """One measurement, and a crash at any moment of it. what: that is saved."""
    found = measured.value
    end, step = ticks(max(line.end for line in found))
    with st.container(
        horizontal=True, vertical_alignment="bottom", key=f"{place}-timelines-choices"
    ):
        crash = st.slider(
            "Crash at … ms",
            0.0,
            end,
            round(end / 2 / step) * step,
            step,
            key=f"{place}_crash_{end:g}",
            bind="query-params",
            width=420,
            format="%g",
            help="Counted, in each training, from the start of the first iteration shown.",
        )
        who = widgets.choice(
            "What crashes",
            CRASHES,
            default="machine",
            key=f"{place}_crashes",
            help="If the training alone dies, the background process still writes what it has.",
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
    st.markdown(_merged(found, what))
    when = datetime.datetime.fromtimestamp(measured.at, datetime.UTC)
    st.caption(
        f"This machine, {when.day} {when:%B} {when:%H:%M:%S} UTC; medians of {SHOWN} checkpoints.",
        help="*Measure again* shows how much they vary. Where the training's lane is empty, the "
        "server did something else.",
    )


def _merged(found: Sequence[Timeline], what: str) -> str:
    """What merging saves on disk, and whether all restore the same. what: that is restored."""
    plain, _, merged = found
    saved = 1 - merged.nbytes / plain.nbytes
    text = f"Merged takes {percent_text(abs(saved))} {'less' if saved >= 0 else 'more'} on disk. "
    if len({line.track for line in found}) == 1:
        return f"{text}All three restore the same {what} to the last bit."
    return (
        f"{text}The three do **not** restore the same {what}: the training was not repeated "
        "exactly."
    )
