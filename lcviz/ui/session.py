"""What the pages share: this server's runs, the run being looked at, how a panel is shown.

The run's id stands in the URL, so a reload or a second tab finds the same run, and two
people with different links do not meet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

import codec
import demo_models
from lcviz.run.run import Run
from lcviz.run.snapshot import BUSY, RunError
from lcviz.server.allowed_paths import FOLDERS, check_within
from lcviz.server.jobs import Jobs
from lcviz.server.quota import Shelf
from lcviz.server.runs import EXAMPLE_ID, Runs
from lcviz.text import minus, plain

from .charts import INK, Panel, inked
from .glossary import linked

POLL_SECONDS = 1.0
LATER_POLL_SECONDS = 2.0  # a look costs a training on the same machine about 0.1 s of its time
LIVELY_SECONDS = 10.0  # of training; what comes after them changes more slowly anyway
RESTING_POLL_SECONDS = 10.0
STARTING_POLL_SECONDS = 0.3
PLAIN_TABLE_ROWS = 10  # longer ones scroll
TABLE_HEIGHT = 300  # pixels
_RUN = "run"
T = TypeVar("T")
Select = Literal["ignore"] | Callable[[], None]


@st.cache_resource(show_spinner=False)
def all_runs() -> Runs:
    """The one manager of this server's runs, who gets ready as soon as he is asked for."""
    runs = Runs()
    runs.prepare()
    return runs


@st.cache_resource(show_spinner=False)
def all_jobs() -> Jobs[Any]:
    """The one line of this server's experiments."""
    return Jobs()


@st.cache_resource(show_spinner=False)
def shelf() -> Shelf:
    """The disk space of this server for what visitors bring."""
    return Shelf()


def check_may_read(*paths: Path) -> None:
    """Raise SourceError, with a way out, unless a visitor of this server may name these paths."""
    address = st.get_option("server.address")
    check_within(paths, address, os.environ.get(FOLDERS, ""))


def current_run() -> Run | None:
    """The run named in the URL, else the finished example; says so if the link is stale.

    None while a server that was just started still trains its example, see `await_example`, and,
    with a sentence, where it cannot.
    """
    run_id = remembered(_RUN)
    run = all_runs().get(run_id)
    if run is None and run_id not in (None, EXAMPLE_ID):
        st.warning(
            "The run in this link is no longer on this server: it was reset, made room for "
            "another, or the server was restarted. Below is the example run; start a new one.",
            icon=":material/link_off:",
        )
    if run is None:
        if not all_runs().prepared():
            return None
        try:
            run = all_runs().example()
        except (RunError, codec.LccError, demo_models.DataError, OSError) as exc:
            st.error(
                f"The example run cannot be trained on this server. {str(exc).rstrip('.')}. What "
                "needs no run works all the same; reload the page to try again.",
                icon=":material/error:",
            )
            return None
    look_at(run)
    return run


def await_example() -> None:
    """Say what is missing, and run the whole page again once it is there.

    Nothing, where `current_run` has said already why it never will.
    """
    if all_runs().prepared():
        return
    st.info(
        "An example run is being trained: LeNet-5, 40 iterations, a few seconds. On the first "
        "start after an installation the codec is compiled as well, which can take half a minute.",
        icon=":material/hourglass_top:",
    )
    rerun_with_example()


def rerun_with_example() -> None:
    """Run the whole page again as soon as a server that was just started has its example."""
    st.fragment(_look_for_example, run_every=STARTING_POLL_SECONDS)()


def _look_for_example() -> None:
    if all_runs().prepared():
        st.rerun()


def look_at(run: Run) -> None:
    """Make a run the one this session, and this URL, shows."""
    remember(_RUN, None if is_example(run) else run.id)


def keep_run() -> None:
    """Leave the run in this URL, also on pages that show none: a reload or a link finds it."""
    if run_id := remembered(_RUN):
        remember(_RUN, run_id)


def known_run() -> Run | None:
    """The run that `current_run` would show; says nothing, and None while there is none."""
    return all_runs().get(remembered(_RUN)) or all_runs().get(EXAMPLE_ID)


def remembered(name: str) -> str | None:
    """A part of the view that all pages share: from the URL, else as it was last.

    Going to another page drops the URL's parameters, so the session remembers them.
    """
    value = st.query_params.get(name, st.session_state.get(f"remembered-{name}"))
    return None if value is None else str(value)


def remember(name: str, value: str | None) -> None:
    """Put it into this session and this URL, or, if None, take it from both."""
    st.session_state[f"remembered-{name}"] = value
    if value is None:
        st.query_params.pop(name, None)
    elif st.query_params.get(name) != value:
        st.query_params[name] = value


def is_example(run: Run) -> bool:
    """True for the server's own finished run, which nobody can steer."""
    return run.id == EXAMPLE_ID


def poll_interval(run: Run) -> float | None:
    """Seconds between looks at a run; None, costing nothing, for the example.

    A resting run is looked at now and then: another tab may have played or reset it, and
    runs that nobody looks at make room for new ones.
    """
    if is_example(run):
        return None
    snapshot = run.snapshot()
    if snapshot.status not in BUSY:
        return RESTING_POLL_SECONDS
    return POLL_SECONDS if snapshot.wall_seconds < LIVELY_SECONDS else LATER_POLL_SECONDS


def show(panel: Panel, key: str, on_select: Select = "ignore") -> None:
    """A panel: title, picture, sentence, and its table if tables are switched on.

    on_select: called when a part of an ECharts panel is clicked that can be selected; which one
    is in the session then, under `panel_key`.
    """
    picture(panel, key, on_select)
    if st.session_state.get("tables"):
        show_table(panel.table, key)


def panel_key(key: str) -> str:
    """The key of a panel's chart."""
    return f"panel-{key}"


def picture(panel: Panel, key: str, on_select: Select = "ignore") -> None:
    """A panel without its table."""
    theme = st.context.theme.type or "light"
    st.markdown(f"**{linked(panel.title)}**")
    if isinstance(panel.chart, go.Figure):
        ink = {"tickfont": {"color": INK[theme]}, "title": {"font": {"color": INK[theme]}}}
        figure = panel.chart.update_xaxes(ink).update_yaxes(ink).update_coloraxes(colorbar=ink)
        st.plotly_chart(figure, key=panel_key(key), alt=panel.alt, config={"displayModeBar": False})
    else:
        st.echarts_chart(
            inked(panel.chart, theme),
            key=panel_key(key),
            height=panel.height,
            alt=panel.alt,
            renderer=panel.renderer,
            on_select=on_select,
        )
    st.markdown(f":small[{panel.sentence}]")


Card = tuple[str, str, str | None, str]  # what it is, the figure, a note below, a word of help


def cards(every: Sequence[Card], key: str, across: int, min_width: int = 130) -> None:
    """Figures side by side. across: so many at most; min_width: of one, in pixels."""
    grid = st.grid(across, min_column_width=min_width, key=key)
    for label, value, note, text in every:
        with grid.cell():
            st.metric(label, value, note, delta_color="off", delta_arrow="off", help=text)


def main_button() -> Literal["primary", "secondary"]:
    """The type of the button that most people press next.

    Not "primary" on dark pages: the colour that can be read there as text is too light to write
    on in white.
    """
    return "secondary" if st.context.theme.type == "dark" else "primary"


def whole_number(
    label: str, low: int, high: int, value: int, step: int = 1, *, key: str, text: str
) -> int:
    """A whole number from low to high, bound to the URL. value: where that says nothing usable.
    text: of the help."""
    try:
        number = st.number_input(
            label, low, high, value, step, key=key, help=text, bind="query-params"
        )
    except OverflowError:  # the URL says “inf”, of which Streamlit tries to make an int
        number = st.number_input(label, low, high, value, step, key=f"{key}-finite", help=text)
    return int(number)


def choice(label: str, options: Iterable[T], *, default: T, **how: Any) -> T:
    """One of a few options, side by side; always one. how: as for st.segmented_control."""
    every = list(options)
    found: T = st.segmented_control(label, every, default=default, required=True, **how)
    # A URL that names the parameter and nothing more leaves even a required one without a choice.
    return default if found is None and None not in every else found


def tables_toggle() -> None:
    """The switch that puts the numbers under every picture."""
    st.toggle(
        "Show data tables",
        key="tables",
        persist_state="session",
        bind="query-params",
        help="The numbers under every picture.",
    )


def show_table(table: pd.DataFrame, key: str, height: int = TABLE_HEIGHT) -> None:
    """A table: as plain text if it is short, else scrolling. height: in pixels, if it scrolls."""
    if len(table) <= PLAIN_TABLE_ROWS:
        # Streamlit reads the cells of this one as Markdown, and names come from anybody's files.
        shown = table.map(lambda v: plain(v) if isinstance(v, str) else v).style
        shown.format(_text, subset=list(table.select_dtypes("number")), na_rep="–")
        st.table(shown, hide_index=True)
    else:
        scrolling(table, f"table-{key}", height)


def _text(number: float) -> str:
    """A number in a table of text: grouped, six digits of what is not whole."""
    whole = float(number).is_integer() or abs(number) >= 1e5
    return minus(f"{number:,.0f}" if whole else f"{number:,.6g}")


def scrolling(table: pd.DataFrame, key: str, height: int | Literal["auto"] = "auto") -> None:
    """A table that scrolls where it is long, its whole numbers grouped. height: in pixels."""
    grouped = st.column_config.NumberColumn(format="localized")
    st.dataframe(
        table,
        key=key,
        hide_index=True,
        height=height,
        placeholder="–",
        column_config=dict.fromkeys(table.select_dtypes("integer"), grouped),
    )
