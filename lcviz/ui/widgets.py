"""How pages show a panel, figures and a table, and the inputs that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from lcviz.text import minus, plain

from .charts import Panel, inked_figure
from .glossary import linked
from .picture import tables_shown

PLAIN_TABLE_ROWS = 10  # longer ones scroll
TABLE_HEIGHT = 300  # pixels
MOST_STEPS = 20_000  # on a slider: the browser holds all of them
_HEAD_HEIGHT, _ROW_HEIGHT = 38, 35  # pixels, of a table that scrolls
# Such a widget has its value in the URL, and keeps it when a visitor opens another page.
IN_URL: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}
_TOOLS: dict[str, Any] = {  # of Plotly, shown while the pointer is on the picture
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
}
T = TypeVar("T")
N = TypeVar("N", int, float)


def show(panel: Panel, key: str) -> None:
    """A panel: title, picture, sentence, and its table if tables are switched on."""
    picture(panel, key)
    if tables_shown():
        show_table(panel.table, key)


def picture(panel: Panel, key: str) -> None:
    """A panel without its table."""
    theme = st.context.theme.type or "light"
    st.markdown(f"**{linked(panel.title)}**")
    st.plotly_chart(
        inked_figure(panel.figure, theme),
        key=f"panel-{key}",
        alt=panel.alt,
        config=_TOOLS | {"toImageButtonOptions": {"filename": key, "scale": 2}},
    )
    if panel.sentence:
        st.markdown(f":small[{panel.sentence}]")


def opened(
    label: str, icon: str, key: str, names: tuple[str, ...] = (), expanded: bool = False
) -> DeltaGenerator | None:
    """A box that can be folded; None while its content need not be drawn.

    The content is drawn while the box is open. With `names`, it is drawn from the first opening on,
    also while the box is folded, so that its widgets keep their values; and from the beginning if
    the URL has one of these widgets.

    names: how the names of its widgets in the URL begin. expanded: whether the box begins open.
    """
    box = st.expander(
        label, expanded=expanded, icon=f":material/{icon}:", key=key, on_change="rerun"
    )
    drawn = f"{key}-drawn"
    if names and (box.open or any(name.startswith(names) for name in st.query_params.to_dict())):
        st.session_state[drawn] = True
    return box if box.open or drawn in st.session_state else None


def button(
    label: str,
    act: Callable[[], object] = lambda: None,
    *,
    key: str,
    about: object = None,
    disabled: bool = False,
    **how: Any,
) -> bool:
    """A button that counts each click once, whatever interrupts the run that the click began.

    Touching the session ends this run if a newer one waits. Act on the click first, or pass
    ``act``: the newer run repeats an interrupted call from its start.

    about: what the button changes, as it is now; a click on another value of it does not count.
    how: as for st.button.
    """
    place = f"{key}-clicks"
    clicks: list[object] = st.session_state.setdefault(place, [])
    # A callback runs before the page. This one does not touch the session either.
    st.button(label, key=key, disabled=disabled, on_click=clicks.append, args=(about,), **how)
    n = len(clicks)
    # If the click began another run, in another thread, this run ends here: the other one acts.
    clicks = st.session_state[place]
    clicked = about in clicks[:n] and not disabled
    if clicked:
        act()
    del clicks[:n]
    return clicked


class Limits(NamedTuple, Generic[N]):
    """The numbers of a field, all int or all float: what it takes, its default, and a step."""

    low: N
    high: N
    default: N
    step: N


def checked_number(
    label: str, limits: Limits[N], *, key: str, text: str | None = None, **how: Any
) -> N | None:
    """A field for a number within these limits, bound to the URL.

    Returns None and shows the reason if the input is invalid. text: the help. how: as for
    st.number_input.
    """
    low, high, default, step = limits
    # The widget itself has no limits: with limits it would keep the old number instead of one out
    # of range. All its numbers are floats, so that it never cuts one to a whole number.
    how = {"format": "%g", "bind": "query-params"} | how
    entry = st.number_input(
        label, value=float(default), step=float(step), key=key, help=text, **how
    )
    whole = isinstance(default, int)
    if entry is not None and low <= entry <= high and not (whole and entry % 1):
        return type(default)(entry)
    bounds = (f"{bound:,}" if whole else f"{bound:g}" for bound in (low, high))
    wrong(f"Enter a {'whole ' if whole else ''}number from {' to '.join(bounds)}.")
    return None


def wrong(why: str) -> None:
    """Say what is wrong with the field above."""
    st.markdown(f":red[:material/error: {why}]")


def error(problem: object) -> None:
    """Say what failed, as a sentence of Markdown."""
    st.error(f"{str(problem).rstrip('.')}.", icon=":material/error:")


def verified(text: str, warning: str) -> None:
    """Say what was verified; in green only if restarts are not too far from what was trained."""
    (st.info if warning else st.success)(text, icon=":material/verified:")


def choice(label: str, options: Iterable[T], *, default: T, **how: Any) -> T:
    """One of a few options, side by side; always one.

    options: a mapping gives each value its text on the screen. how: as for st.segmented_control;
    the choice is bound to the URL.
    """
    values, how = _bound(options, how)
    value: T = st.segmented_control(label, values, default=default, required=True, **how)
    # A URL with the parameter's name and no value leaves even a required one without a choice.
    return default if value is None and None not in values else value


def select(label: str, options: Iterable[T], *, default: T | None = None, **how: Any) -> T:
    """One of many options, in a list that folds out; options, how: as for `choice`.

    default: by default the first.
    """
    values, how = _bound(options, how)
    value: T = st.selectbox(label, values, 0 if default is None else values.index(default), **how)
    return value


def _bound(options: Iterable[T], how: dict[str, Any]) -> tuple[list[T], dict[str, Any]]:
    """The values of options, and arguments that bind the choice to the URL and name the values."""
    how = {"bind": "query-params"} | how
    if isinstance(options, Mapping):
        how["format_func"] = options.__getitem__
    return list(options), how


def step_slider(steps: Sequence[int], step: int, key: str, text: str | None = None) -> int:
    """A slider of a chain's newest steps. step: the one chosen at first. text: the help."""
    if len(steps) > MOST_STEPS:
        st.caption(f"The newest {MOST_STEPS:,} of {len(steps):,} steps can be chosen.")
    return int(st.select_slider("Step", steps[-MOST_STEPS:], step, key=key, help=text, **IN_URL))


def tables_toggle() -> None:
    """The switch that shows the numbers under every picture."""
    st.toggle(
        "Show data tables",
        key="tables",
        persist_state="session",
        bind="query-params",
        help="The numbers under every picture.",
    )


def show_table(table: pd.DataFrame, key: str) -> None:
    """A table: plain text if it is short, else scrolling."""
    if len(table) <= PLAIN_TABLE_ROWS:
        # Streamlit reads these cells as Markdown, and names come from visitors' files.
        style = table.map(lambda v: plain(v) if isinstance(v, str) else v).style
        style.format(_text, subset=list(table.select_dtypes("number")), na_rep="–")
        st.table(style, hide_index=True)
    else:
        scrolling(table, f"table-{key}", TABLE_HEIGHT)


def _text(number: float) -> str:
    """A number for a plain table: digits in groups; six digits if it is not whole."""
    whole = float(number).is_integer() or abs(number) >= 1e5
    return minus(f"{number:,.0f}" if whole else f"{number:,.6g}")


def rows_height(table: pd.DataFrame, most: int | None = None) -> int:
    """The height of a scrolling table with its rows in view, at most this many, in pixels."""
    return _HEAD_HEIGHT + _ROW_HEIGHT * min(len(table), most or len(table))


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
