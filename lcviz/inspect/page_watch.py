"""Runs named when the server was started: `streamlit run app.py -- --run PATH`.

They need not exist yet. The page opens on them, follows them as they grow, and compares them. One
run alone is shown like any other chain.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

import codec
from codec.errors import ChainNotFoundError
from lcviz.text import enumerated, plain, plural
from lcviz.ui import navigation, picture, session, widgets
from lcviz.ui.polling import polled

from .page_parts import sentence, show_damage
from .watch import MOST_RUNS, Watch, Watched
from .watch_paths import WatchArguments, parse_arguments
from .watch_picture import MEASURES, runs_over_steps
from .watch_table import BUSY_SECONDS, PATIENCE, runs_table

SCRIPT = "app.py"
ALL, LIVE = "All runs, side by side", "The run on Live"
MOST_FOREIGN = MOST_UNREADABLE = 5  # shown
MOST_WIDTH = 240  # of a name, in pixels
CHOICE = "inspect_watch"
HELP = {  # of columns
    "state": f"Growing: the last record is younger than {BUSY_SECONDS} s, or than {PATIENCE} times "
    "the usual time between two. Quiet: older; the training has ended, pauses or hangs.",
    "steps": "Saved steps in the records.",
    "newest step": "By the trainer's own count.",
    "last record": "How long ago its file was written, by this machine's clock; for a URL, how "
    "long ago it was noticed here.",
    "% of float32": "Bytes of a step against the state in float32, on average, without bases.",
    "times smaller": "All records against as many full float32 checkpoints, bases included.",
    "a step, bytes": "Of deltas and merged records, headers included, on average.",
    "on disk, bytes": "Of all records.",
    "kept": "How much of a change the newest record keeps: its largest 2ˣ − 1 buckets with x bits, "
    "or as many as fit into a budget; of the whole model together, or of each tensor.",
    "coder": "How the newest record writes levels.",
}
COLUMNS = {  # widths and formats
    "state": {"width": 130},
    "kept": {"width": 165},
    "coder": {"width": 115},
    "% of float32": st.column_config.NumberColumn(format="%.2f"),
    "times smaller": st.column_config.NumberColumn(format="%.1f"),
}
_OPEN = "watch-open"  # in the session: the run whose name was clicked in the table
_LANDED = "watch-landed"  # in the session: whether `land` has been called


@st.cache_resource(show_spinner=False, max_entries=1)
def _watch(arguments: tuple[str, ...]) -> tuple[WatchArguments, Watch | None]:
    """The arguments and watch of this server; prints once what is wrong, or not there yet."""
    parsed = parse_arguments(arguments)
    if parsed.problem:
        print(f"lcviz: {parsed.problem}", file=sys.stderr)
    if not parsed.runs:
        return parsed, None
    watch = Watch(parsed.runs, session.check_may_read)
    for place in watch.missing:
        print(f"lcviz: waiting for the first record at {place}", file=sys.stderr)
    return parsed, watch


def _arguments_and_watch() -> tuple[WatchArguments, Watch | None]:
    script, *arguments = sys.argv
    return _watch(tuple(arguments)) if Path(script).name == SCRIPT else (WatchArguments(), None)


def watch() -> Watch | None:
    """The watch of this server; None if nothing is watched."""
    return _arguments_and_watch()[1]


def chain(run: Watched) -> codec.Chain:
    """The chain of a watched run as it is now. Raises codec.LccError."""
    return _existing_watch().chain(run)


def _existing_watch() -> Watch:
    """The watch of this server, where something is known to be watched."""
    server_watch = watch()
    assert server_watch is not None, "something is watched"
    return server_watch


def land(at_root: bool) -> None:
    """Send a new session to this page if there are arguments and its URL names nothing.

    at_root: whether the URL has no path.
    """
    new = not st.session_state.get(_LANDED)
    st.session_state[_LANDED] = True
    if not new or not at_root or st.query_params:
        return
    if _arguments_and_watch() != (WatchArguments(), None):
        st.switch_page(navigation.page("inspect"))


def problem() -> None:
    """Say what is wrong with how the server was started."""
    if text := _arguments_and_watch()[0].problem:
        st.error(plain(text), icon=":material/error:")


def chosen(on_change: Callable[[], None]) -> Watched | str | None:
    """A widget for which run to look at: one of them, ALL or LIVE; None if nothing is watched."""
    server_watch = watch()
    if server_watch is None:
        return None
    only_run = server_watch.only_run
    runs = {run.name: run for run in ([only_run] if only_run else server_watch.runs())}
    name = st.selectbox(
        "Watched",
        [*runs, LIVE] if only_run else [ALL, *runs, LIVE],
        key=CHOICE,
        bind="query-params",
        persist_state="session",
        on_change=on_change,
        help="The paths given to this server after --run. A trainer may be writing there: nothing "
        "is locked or changed.",
    )
    return runs.get(name, name)


def back(run: Watched | None, on_click: Callable[[], None]) -> None:
    """A button back to what the page shows first. run: the watched run that it shows, if any."""
    server_watch = watch()
    if server_watch is None:
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
        polled(session.POLL_SECONDS, _look_at_url, run)
    else:
        polled(session.POLL_SECONDS, _look, lambda: chain(run), True)


def await_again(open_chain: Callable[[], object]) -> None:
    """Run the whole page again once the chain can be opened."""
    st.caption(f"It is tried again every {session.RESTING_POLL_SECONDS:.0f} s.")
    polled(session.RESTING_POLL_SECONDS, _look, open_chain, False)


def _look(open_chain: Callable[[], object], missing: bool) -> None:
    """Run the page again unless a chain is still missing, or still cannot be opened."""
    try:
        open_chain()
    except codec.LccError as exc:
        if isinstance(exc, ChainNotFoundError) == missing:
            return
    st.rerun()


def _look_at_url(run: Watched) -> None:
    runs = _existing_watch().runs()
    latest = next((other for other in runs if other.name == run.name), run)
    if (latest.reached, latest.summary, latest.problem) != (run.reached, run.summary, run.problem):
        st.rerun()


def side_by_side() -> None:
    """All runs, as they are now and while they grow."""
    server_watch = _existing_watch()
    names = tuple(run.name for run in server_watch.runs())
    where = enumerated([f"**{plain(place)}**" for place in server_watch.places])
    st.markdown(f"{plural(len(names), 'run')} at {where}.")
    if len(names) >= MOST_RUNS:
        st.caption(
            f"Only the {MOST_RUNS} runs that changed last are shown. For others, name a folder "
            "closer to them."
        )
    pace = _pace(server_watch.runs())
    polled(pace, _compared, server_watch, pace, names)


def _pace(runs: Sequence[Watched]) -> float:
    """Seconds between two looks."""
    newest = max((run.summary.stamp for run in runs if run.summary), default=0)
    busy = not runs or abs(time.time() - newest / 1e9) < BUSY_SECONDS
    return session.POLL_SECONDS if busy else session.RESTING_POLL_SECONDS


def _compared(server_watch: Watch, pace: float, names: tuple[str, ...]) -> None:
    runs = server_watch.runs()
    stale = names != tuple(run.name for run in runs) or pace != _pace(runs)
    if stale or st.session_state.get(CHOICE, ALL) != ALL:
        st.rerun()
    if not runs:
        st.info(
            "Waiting for the first run: a folder whose name ends in .lcc or that has records in "
            "it, up to three levels down. New ones show up here by themselves.",
            icon=":material/hourglass_top:",
        )
        for name in server_watch.foreign[:MOST_FOREIGN]:
            st.warning(_not_a_chain(name), icon=":material/folder_open:")
        return
    for run in [run for run in runs if run.problem][:MOST_UNREADABLE]:
        st.error(sentence(f"{run.name}: {run.problem}"), icon=":material/error:")
    problems = [f"{run.name}: {p}" for run in runs if run.summary for p in run.summary.problems]
    if problems:
        damaged = [plain(run.name) for run in runs if run.summary and run.summary.problems]
        text = f"Damaged: {', '.join(damaged)}. Open a run to see which of its steps restore."
        show_damage(text, problems, "runs")
    measure = widgets.choice(
        "Drawn",
        list(MEASURES),
        default="share",
        key="watch_measure",
        bind="query-params",
        format_func=MEASURES.__getitem__,
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
    grouped = st.column_config.NumberColumn(format="localized")
    columns: dict[str, Any] = dict.fromkeys(table.select_dtypes("integer"), grouped) | COLUMNS
    for name, text in HELP.items():
        columns[name] = st.column_config.Column() | columns.get(name, {}) | {"help": text}
    columns["run"] = st.column_config.ButtonColumn(
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
        height=min(2 * widgets.TABLE_HEIGHT, 38 + 35 * len(table)),
        column_config=columns,
        alt="The runs in numbers, one a row.",
    )
    st.markdown(
        ":small[Click a name to open that run. Only the beginning of most records is read here; "
        "an open run is read in full.]"
    )


def _clicked() -> None:
    """The name that was clicked becomes the chosen run."""
    st.session_state[CHOICE] = st.session_state[_OPEN].label
