"""What the parts of this page share: long work in portions, and errors as sentences."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import streamlit as st

from lcviz.text import plain, plural
from lcviz.ui import widgets

MOST_PROBLEMS = 20  # shown


@contextmanager
def progress_bar(text: str, stop: str = "") -> Iterator[Callable[[int, int], None]]:
    """A progress bar during long work; yields progress(done, total).

    Args:
        text: What is done, with two places for numbers: "Read {} of {} records".
        stop: Key of a button beside the bar; any click ends the script's run.
    """
    button, bar = st.empty(), st.empty()
    if stop:
        button.button("Stop", icon=":material/stop:", key=stop)

    def progress(done: int, total: int) -> None:
        bar.progress(min(done / max(total, 1), 1.0), text.format(f"{done:,}", f"{total:,}"))

    try:
        yield progress
    finally:
        button.empty()
        bar.empty()


def more_button(label: str, key: str, done: str) -> None:
    """A button that lets the next run of the page do all of a long work, see `deadline`.

    done: What has happened to the parts that are done: "decoded".
    """
    st.button(
        label,
        key=key,
        icon=":material/play_arrow:",
        on_click=st.session_state.update,
        args=({_all_of(key): True},),
        help=f"Any click stops it; what is {done} by then is kept.",
    )


def deadline(key: str, unasked_seconds: float) -> float:
    """When to stop a long work, by `time.monotonic`; never if its `more_button` was clicked."""
    asked = st.session_state.pop(_all_of(key), False)
    return math.inf if asked else time.monotonic() + unasked_seconds


def _all_of(key: str) -> str:
    return f"{key}-all"


def show_damage(text: str, problems: Sequence[str], key: str) -> None:
    """What is wrong and what to do in one box; the codec's own words fold out below it."""
    widgets.error(text)
    if not problems:
        return
    more = len(problems) - MOST_PROBLEMS
    lines = [sentence(problem) for problem in problems[:MOST_PROBLEMS]]
    lines += [f"And {plural(more, 'more problem')}."] if more > 0 else []
    with st.expander("Details", key=f"inspect-details-{key}"):
        st.markdown("\n".join(f"- {line}" for line in lines))


def sentence(problem: object) -> str:
    """An error of the codec as a sentence in Markdown."""
    # An upload has no path that an error could begin with.
    text = re.sub("^the archive", "The archive", str(problem).rstrip("."))
    text = re.sub("^The archive: (is|ends) ", r"The archive \1 ", text)
    return plain(text) + "."
