"""What whoever started the server wants to watch: `streamlit run app.py -- --run PATH`.

The page opens on it, follows it as it grows, and lays several runs side by side. Nothing of it has
to be there yet. Not done here: one run in full, which is Inspect's as of any chain.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

import codec
from lcviz.text import enumerated, plain, plural
from lcviz.ui import navigation, widgets
from lcviz.ui import session as state

from .arguments import Asked, asked
from .rhythm import BUSY_SECONDS, PATIENCE
from .watch import MOST_RUNS, Watch, Watched
from .watch_figure import MEASURES, runs_over_steps, runs_table

SCRIPT = "app.py"
ALL, LIVE = "All runs, side by side", "The run on Live"
MOST_PROBLEMS = 5  # shown
MOST_WIDTH = 240  # of a name, in pixels
CHOICE = "inspect_watch"
WIDTHS = {"state": 130, "kept": 165, "coder": 115}  # else as wide as what came first
HELP = {  # of columns
    "state": f"Growing: the last record is less than {BUSY_SECONDS} s old, or than {PATIENCE} "
    "times as long as one took until then. Quiet: none for longer; the training has ended, rests "
    "or stalls.",
    "steps": "How many saved steps the records tell of.",
    "newest step": "By the trainer's own count.",
    "last record": "How long ago its file came, by this machine's clock; of a URL, since it was "
    "noticed here.",
    "% of float32": "Bytes of a step against the state in float32, on average, without bases.",
    "times smaller": "All records against as many full float32 checkpoints, bases included.",
    "a step, bytes": "Of deltas and merged records, headers included, on average.",
    "on disk, bytes": "Of all records.",
    "kept": "How much of a change the newest record keeps: its largest 2ˣ − 1 buckets with x bits, "
    "or as many as fit into a budget; of the whole model together, or of each tensor.",
    "coder": "How the newest record writes levels.",
}
_OPEN = "watch-open"  # in the session: the run whose name was clicked in the table
_LANDED = "watch-landed"  # in the session: whether it has been led to what is watched


@st.cache_resource(show_spinner=False, max_entries=1)
def _watch(arguments: tuple[str, ...]) -> tuple[Asked, Watch | None]:
    """The one watch of this server; says once, on its console, what is wrong or not there yet."""
    told = asked(arguments)
    if told.problem:
        print(f"lcviz: {told.problem}", file=sys.stderr)
    if not told.runs:
        return told, None
    watch = Watch(told.runs, state.check_may_read)
    for place in watch.missing:
        print(f"lcviz: waiting for the first record at {place}", file=sys.stderr)
    return told, watch


def _asked() -> tuple[Asked, Watch | None]:
    script, *arguments = sys.argv
    return _watch(tuple(arguments)) if Path(script).name == SCRIPT else (Asked(), None)


def watch() -> Watch | None:
    """What is watched; None if nothing is."""
    return _asked()[1]


def chain(run: Watched) -> codec.Chain:
    """Its records as they are now. Raises codec.LccError."""
    found = watch()
    assert found is not None, "else there were no run"
    return found.chain(run)


def land(at_root: bool) -> None:
    """Lead a session that begins at the root, with nothing in its URL, to what is watched."""
    first = not st.session_state.get(_LANDED)
    st.session_state[_LANDED] = True
    if first and at_root and _asked() != (Asked(), None) and not st.query_params:
        st.switch_page(navigation.page("inspect"))


def problem() -> None:
    """Say what is wrong with how the server was started."""
    if text := _asked()[0].problem:
        st.error(plain(text), icon=":material/error:")


def chosen(on_change: Callable[[], None]) -> Watched | str | None:
    """Which run to look at, by a widget: one of them, ALL, LIVE; None where nothing is watched."""
    found = watch()
    if found is None:
        return None
    one = found.one
    runs = {run.name: run for run in ([one] if one else found.runs())}
    options = [*runs, LIVE] if one else [ALL, *runs, LIVE]
    name = st.selectbox(
        "Watched",
        options,
        key=CHOICE,
        bind="query-params",
        persist_state="session",
        on_change=on_change,
        help="What was named when this server was started, after --run. A "
        "trainer may be writing to it: nothing is locked or changed.",
    )
    return runs.get(name, name)


def covers(inspect: bool) -> bool:
    """Whether the page is not about the run on Live. inspect: it is Inspect."""
    if not inspect or watch() is None:
        return False
    return st.session_state.get(CHOICE, st.query_params.get(CHOICE)) != LIVE


def back(run: Watched | None, on_click: Callable[[], None]) -> None:
    """The way back to what the page begins with. run: what it shows instead, if that is watched."""
    found = watch()
    one = found.one if found else None
    if found is None or (run is not None and one is not None and run.name == one.name):
        return
    first = one.name if one else ALL

    def clicked() -> None:
        on_click()
        st.session_state[CHOICE] = first

    name = "All runs" if first == ALL else plain(first)
    st.button(name, icon=":material/arrow_back:", key="watch-back", on_click=clicked)


def await_first(run: Watched) -> None:
    """Say what is missing, and run the whole page again once it is there."""
    what = "Waiting for the first record at" if run.reached else "Not reached yet:"
    text = f"{what} **{plain(run.where)}**: it shows up here by itself."
    if isinstance(run.target, Path) and not run.target.parent.exists():
        text += " Its folder is not there either: is the path right?"
    st.info(text, icon=":material/hourglass_top:")
    st.fragment(_look_for_first, run_every=state.POLL_SECONDS)(run)


def _look_for_first(run: Watched) -> None:
    if isinstance(run.target, str):  # which whoever waits here does not wait for
        found = watch()
        assert found is not None, "else there were no run"
        now = next((one for one in found.runs() if one.name == run.name), run)
        if (now.reached, now.account, now.problem) != (run.reached, run.account, run.problem):
            st.rerun()
        return
    try:
        codec.Chain(run.target)
    except codec.ChainNotFoundError:
        return
    except codec.LccError:
        pass  # the page says what is wrong
    st.rerun()


def await_again(source: Any) -> None:
    """Run the whole page again once a run can be opened that could not. source: where it is."""
    st.caption(f"It is tried again every {state.RESTING_POLL_SECONDS:.0f} s.")
    st.fragment(_look_again, run_every=state.RESTING_POLL_SECONDS)(source)


def _look_again(source: Any) -> None:
    try:
        source.chain()
    except codec.ChainNotFoundError:
        st.rerun()  # which waits for the first record
    except codec.LccError:
        return
    st.rerun()


def side_by_side() -> None:
    """All runs, as they are now and while they grow."""
    found = watch()
    assert found is not None, "else nobody could choose this"
    names = tuple(run.name for run in found.runs())
    with st.container(horizontal=True, vertical_alignment="center", key="watch-head"):
        where = enumerated([f"**{plain(place)}**" for place in found.places])
        st.markdown(f"{plural(len(names), 'run')} at {where}.", width="content")
        widgets.tables_toggle()
    if len(names) >= MOST_RUNS:
        st.caption(
            f"Of more than {MOST_RUNS}, those are looked at that changed last: for others name a "
            "folder further down."
        )
    pace = _pace(found.runs())
    st.fragment(_compared, run_every=pace)(found, pace, names)


def _pace(runs: Sequence[Watched]) -> float:
    """Seconds between two looks."""
    newest = max((run.account.stamp for run in runs if run.account), default=0)
    busy = not runs or abs(time.time() - newest / 1e9) < BUSY_SECONDS
    return state.POLL_SECONDS if busy else state.RESTING_POLL_SECONDS


def _compared(found: Watch, pace: float, names: tuple[str, ...]) -> None:
    runs = found.runs()
    changed = names != tuple(run.name for run in runs) or pace != _pace(runs)
    if changed or st.session_state.get(CHOICE, ALL) != ALL:
        st.rerun()
    if not runs:
        st.info(
            "Waiting for the first run. Looked for are folders whose names end in .lcc, or with "
            "records in them, up to three levels down; new ones show up here by themselves.",
            icon=":material/hourglass_top:",
        )
        for name in found.foreign[:MOST_PROBLEMS]:
            st.warning(_not_a_chain(name), icon=":material/folder_open:")
        return
    _problems(runs)
    table = runs_table(runs, time.time())
    grouped = st.column_config.NumberColumn(format="localized")
    columns = dict.fromkeys(table.select_dtypes("integer"), grouped) | {
        name: st.column_config.NumberColumn(format=f"%.{digits}f")
        for name, digits in (("% of float32", 2), ("times smaller", 1))
    }
    columns = {
        name: (columns.get(name) or st.column_config.Column()) | {"help": text}
        for name, text in HELP.items()
    }
    for name, pixels in WIDTHS.items():
        columns[name]["width"] = pixels
    opening = st.column_config.ButtonColumn(
        "run",
        type="tertiary",
        alignment="left",
        pinned=True,
        key=_OPEN,
        on_click=_clicked,
        width=min(max(map(len, names)) * 8 + 40, MOST_WIDTH),
        help="A click opens the run in full.",
    )
    st.dataframe(
        table,
        key="watch-runs",
        hide_index=True,
        placeholder="–",
        height=_height(len(table)),
        column_config=columns | {"run": opening},
        alt="The runs in numbers, one a row.",
    )
    st.markdown(
        ":small[A click on a name opens that run; so does the list above. Quiet is a run whose "
        f"last record is older than {BUSY_SECONDS} s, and than {PATIENCE} times what one took "
        "until then: its training has ended, rests or stalls. A step: bytes of deltas and merged "
        "records, headers included, on average. Times smaller: than as many full float32 "
        "checkpoints, bases included. Of most records only the beginning is read here; once a run "
        "is open, all of their bytes are checked.]"
    )
    measure = widgets.choice(
        "Drawn",
        list(MEASURES),
        default="share",
        key="watch_measure",
        bind="query-params",
        format_func=MEASURES.__getitem__,
        label_visibility="collapsed",
    )
    panel = runs_over_steps(runs, measure)
    if panel is None:
        st.info("There is no delta yet: the first one comes with the second step that is saved.")
    else:
        widgets.show(panel, f"watched-{measure}")


def _not_a_chain(name: str) -> str:
    """What to do with a checkpoint of another kind."""
    if name.startswith("__"):  # as DCP calls its files
        return (
            f"{plain(name)} is part of a distributed checkpoint (DCP), and those are not shown "
            "here, also those of codec.dcp."
        )
    return (
        f"{plain(name)} is a checkpoint, but no record of a chain. *Export*, under *Files of "
        "mine*, makes a chain of such files, and so does `python -m codec compress`; a training "
        "writes one with `codec.Checkpointer`."
    )


def _height(rows: int) -> int:
    return min(2 * widgets.TABLE_HEIGHT, 38 + 35 * rows)


def _clicked() -> None:
    """The name that was clicked becomes the chosen run."""
    st.session_state[CHOICE] = st.session_state[_OPEN].label


def _problems(runs: Sequence[Watched]) -> None:
    every = [f"{plain(run.name)}: {plain(run.problem)}" for run in runs if run.problem]
    every += [
        f"{plain(run.name)}: {plain(text)}"
        for run in runs
        if run.account
        for text in run.account.problems
    ]
    for text in every[:MOST_PROBLEMS]:
        st.error(f"{text.rstrip('.')}.", icon=":material/error:")
    if (more := len(every) - MOST_PROBLEMS) > 0:
        st.error(f"And {plural(more, 'problem')} more.", icon=":material/error:")
