"""Runs named when the server was started: `streamlit run app.py -- --run PATH`.

They need not exist yet. The page opens on them, follows them as they grow, and compares them. One
run alone is shown like any other chain.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

import codec
from codec.errors import ChainNotFoundError
from lcviz.text import enumerated, plain, plural
from lcviz.ui import navigation, picture, session, widgets
from lcviz.ui.polling import polled, rerun_once

from .page_parts import sentence, show_damage
from .page_remote import open_remote
from .watch import MOST_RUNS, Watch, Watched
from .watch_paths import parse_arguments
from .watch_picture import MEASURES, runs_over_steps
from .watch_table import BUSY_SECONDS, PATIENCE, runs_table

SCRIPT = "app.py"
ALL, LIVE = "All runs, side by side", "The run on Live"
MOST_FOREIGN = MOST_UNREADABLE = 5  # shown
MOST_WIDTH = 240  # of a name, in pixels
CHOICE = "inspect_watch"
_count = partial(st.column_config.NumberColumn, format="localized")
COLUMNS: dict[str, Any] = {
    "state": st.column_config.Column(
        width=130,
        help=f"Growing: the last record is younger than {BUSY_SECONDS} s, or than {PATIENCE} times "
        "the usual time between two. Quiet: older; the training has ended, pauses or hangs.",
    ),
    "steps": _count(help="Saved steps in the records."),
    "newest step": _count(help="By the trainer's own count."),
    "last record": st.column_config.Column(
        help="How long ago its file was written, by this machine's clock; for a URL, how long ago "
        "it was noticed here."
    ),
    "% of float32": st.column_config.NumberColumn(
        format="%.2f",
        help="Bytes of a step against the state in float32, on average, without bases.",
    ),
    "times smaller": st.column_config.NumberColumn(
        format="%.1f",
        help="All records against as many full float32 checkpoints, bases included.",
    ),
    "a step, bytes": _count(help="Of deltas, headers included, on average."),
    "on disk, bytes": _count(help="Of all records."),
    "kept": st.column_config.Column(
        width=165,
        help="How much of a change the newest record keeps: its largest 2ˣ − 1 buckets with x "
        "bits, or as many as fit into a budget; of the whole model together, or of each tensor.",
    ),
    "coder": st.column_config.Column(width=115, help="How the newest record writes levels."),
}
_OPEN = "watch-open"  # in the session: the run whose name was clicked in the table
_LANDED = "watch-landed"  # in the session: whether `land` has been called


@st.cache_resource(show_spinner=False, max_entries=1)
def _watch(arguments: tuple[str, ...]) -> tuple[str, Watch]:
    """What is wrong with the arguments, and the watch; prints what is wrong or not there yet."""
    parsed = parse_arguments(arguments)
    server_watch = Watch(parsed.runs, session.check_may_read, open_remote)
    lines = [f"waiting for the first record at {place}" for place in server_watch.places.missing]
    for line in filter(None, (parsed.problem, *lines)):
        print(f"lcviz: {line}", file=sys.stderr)
    return parsed.problem, server_watch


def _problem_and_watch() -> tuple[str, Watch]:
    script, *arguments = sys.argv
    return _watch(tuple(arguments) if Path(script).name == SCRIPT else ())


def watch() -> Watch:
    """The watch of this server; it has no places if nothing is watched."""
    return _problem_and_watch()[1]


def land(at_root: bool) -> None:
    """Send a new session to this page if there are arguments and its URL names nothing.

    at_root: whether the URL has no path.
    """
    new = not st.session_state.get(_LANDED)
    st.session_state[_LANDED] = True
    if not new or not at_root or st.query_params:
        return
    wrong, server_watch = _problem_and_watch()
    if wrong or server_watch.places.targets:
        st.switch_page(navigation.page("inspect"))


def problem() -> None:
    """Say what is wrong with how the server was started."""
    if text := _problem_and_watch()[0]:
        widgets.error(plain(text))


def chosen(on_change: Callable[[], None]) -> Watched | str | None:
    """A widget for which run to look at: one of them, ALL or LIVE; None if nothing is watched."""
    server_watch = watch()
    if not server_watch.places.targets:
        return None
    only_run = server_watch.only_run
    runs = {run.name: run for run in ([only_run] if only_run else server_watch.runs())}
    name = widgets.select(
        "Watched",
        [*runs, LIVE] if only_run else [ALL, *runs, LIVE],
        key=CHOICE,
        **widgets.IN_URL,
        on_change=on_change,
        help="The paths given to this server after --run. A trainer may be writing there: nothing "
        "is locked or changed.",
    )
    return runs.get(name, name)


def back(run: Watched | None, on_click: Callable[[], None]) -> None:
    """A button back to what the page shows first. run: the watched run that it shows, if any."""
    server_watch = watch()
    if not server_watch.places.targets:
        return
    only_run = server_watch.only_run
    first_choice = only_run.name if only_run else ALL
    if run is not None and run.name == first_choice:
        return

    def clicked() -> None:
        on_click()
        st.session_state[CHOICE] = first_choice

    label = "All runs" if first_choice == ALL else plain(first_choice)
    st.button(label, icon=":material/arrow_back:", key="watch-back", on_click=clicked)


def await_first(run: Watched) -> None:
    """Say what is missing, and run the whole page again once it is there."""
    what = "Waiting for the first record at" if run.reached else "No answer yet from"
    text = f"{what} **{plain(run.where)}**. It shows up here by itself."
    if isinstance(run.target, Path) and not run.target.parent.exists():
        text += " Its folder does not exist either: is the path right?"
    st.info(text, icon=":material/hourglass_top:")
    if isinstance(run.target, str):  # another thread waits for its answer
        rerun_once(lambda: _has_changed(run), session.POLL_SECONDS)
    else:
        rerun_once(
            lambda: _opens(lambda: watch().places.open(run.target), missing=True),
            session.POLL_SECONDS,
        )


def await_again(open_chain: Callable[[], object]) -> None:
    """Run the whole page again once the chain can be opened."""
    st.caption(f"It is tried again every {session.RESTING_POLL_SECONDS:.0f} s.")
    rerun_once(lambda: _opens(open_chain, missing=False), session.RESTING_POLL_SECONDS)


def _opens(open_chain: Callable[[], object], *, missing: bool) -> bool:
    """Whether a chain can be opened, or fails otherwise than before. missing: how it did."""
    try:
        open_chain()
    except codec.LccError as exc:
        return isinstance(exc, ChainNotFoundError) != missing
    return True


def _has_changed(run: Watched) -> bool:
    """Whether a watched run is otherwise than it was here."""
    return replace(run, unread=0) not in (replace(r, unread=0) for r in watch().runs())


def side_by_side() -> None:
    """All runs, as they are now and while they grow."""
    server_watch = watch()
    names = tuple(run.name for run in server_watch.runs())
    where = enumerated([f"**{plain(place)}**" for place in server_watch.places.printed])
    st.markdown(f"{plural(len(names), 'run')} at {where}.")
    if len(names) >= MOST_RUNS:
        st.caption(
            f"Only the {MOST_RUNS} runs that changed last are shown. For others, name a folder "
            "closer to them."
        )
    seconds = _pace(server_watch.runs())
    polled(seconds, _compared, server_watch, seconds, names)


def _pace(runs: Sequence[Watched]) -> float:
    """Seconds between two looks at all runs."""
    stamps = (run.summary.stamp for run in runs if run.summary)
    return pace(max(stamps, default=0) if runs else time.time_ns())


def pace(newest: int) -> float:
    """Seconds between two looks. newest: when the last record came, ns."""
    busy = abs(time.time() - newest / 1e9) < BUSY_SECONDS
    return session.POLL_SECONDS if busy else session.RESTING_POLL_SECONDS


def _compared(server_watch: Watch, seconds: float, names: tuple[str, ...]) -> None:
    runs = server_watch.runs()
    stale = names != tuple(run.name for run in runs) or seconds != _pace(runs)
    if stale or st.session_state.get(CHOICE, ALL) != ALL:
        st.rerun()
    if not runs:
        st.info(
            "Waiting for the first run: a folder whose name ends in .lcc or that has records in "
            "it, up to three levels down. New ones show up here by themselves.",
            icon=":material/hourglass_top:",
        )
        for name in server_watch.places.foreign[:MOST_FOREIGN]:
            st.warning(_not_a_chain(name), icon=":material/folder_open:")
        return
    for run in [run for run in runs if run.problem][:MOST_UNREADABLE]:
        widgets.error(sentence(f"{run.name}: {run.problem}"))
    problems = [f"{run.name}: {p}" for run in runs if run.summary for p in run.summary.problems]
    if problems:
        damaged = [plain(run.name) for run in runs if run.summary and run.summary.problems]
        text = f"Damaged: {', '.join(damaged)}. Open a run to see which of its steps restore."
        show_damage(text, problems, "runs")
    measure = widgets.choice(
        "Drawn",
        MEASURES,
        default="share",
        key="watch_measure",
        label_visibility="collapsed",
    )
    drawn = runs_over_steps(runs, measure)
    if drawn is None:
        st.info("There is no delta yet: the first one comes with the second step that is saved.")
    else:
        picture.show(drawn, "watched")
    _table(runs)


def _not_a_chain(name: str) -> str:
    """What to do with a checkpoint of another kind."""
    if name.startswith("__"):  # as DCP calls its files
        return (
            f"{plain(name)} is part of a distributed checkpoint (DCP). Such checkpoints, those of "
            "codec.dcp included, are not shown here."
        )
    return (
        f"{plain(name)} is a checkpoint, but not a record of a chain. *Export*, under *Files of "
        "mine*, makes a chain of such files, and so does `python -m codec compress`; a training "
        "writes one with `codec.Checkpointer`."
    )


def _table(runs: Sequence[Watched]) -> None:
    """The runs in numbers; a click on a name opens the run."""
    table = runs_table(runs, time.time())
    name_column = st.column_config.ButtonColumn(
        "run",
        type="tertiary",
        alignment="left",
        pinned=True,
        key=_OPEN,
        on_click=_clicked,
        width=min(max(len(run.name) for run in runs) * 8 + 40, MOST_WIDTH),
        help="A click opens the run in full.",
    )
    st.dataframe(
        table,
        key="watch-runs",
        hide_index=True,
        placeholder="–",
        height=min(2 * widgets.TABLE_HEIGHT, widgets.rows_height(table)),
        column_config={"run": name_column, **COLUMNS},
        alt="The runs in numbers, one a row.",
    )
    st.markdown(
        ":small[Click a name to open that run. Only the beginning of most records is read here; "
        "an open run is read in full.]"
    )


def _clicked() -> None:
    """The name that was clicked becomes the chosen run."""
    st.session_state[CHOICE] = st.session_state[_OPEN].label
