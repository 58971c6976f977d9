"""What the parts of this page share: a progress bar, and errors as sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import streamlit as st

from lcviz.run.run import Run
from lcviz.text import plain, plural

MOST_PROBLEMS = 5  # shown


@contextmanager
def progress_bar(
    text: str, run: Run | None = None, stop: str = ""
) -> Iterator[Callable[[int, int], None]]:
    """A bar while something takes long; gives progress(done, total).

    Args:
        text: What is done, with two places for numbers: "Read {} of {} records".
        run: It learns that somebody watches.
        stop: Key of a button beside the bar; any click ends the script's run.
    """
    button, bar = st.empty(), st.empty()
    if stop:
        button.button("Stop", icon=":material/stop:", key=stop)

    def progress(done: int, total: int) -> None:
        if run is not None:
            run.watch()
        bar.progress(min(done / max(total, 1), 1.0), text.format(f"{done:,}", f"{total:,}"))

    try:
        yield progress
    finally:
        button.empty()
        bar.empty()


def show_problems(problems: Sequence[str], more: str = "") -> None:
    """The first problems as errors. more: said if there are others, with a place for how many."""
    for problem in problems[:MOST_PROBLEMS]:
        st.error(sentence(problem), icon=":material/error:")
    if more and (left := len(problems) - MOST_PROBLEMS) > 0:
        st.error(more.format(plural(left, "problem")), icon=":material/error:")


def sentence(problem: object) -> str:
    """An error of the codec as a sentence in Markdown."""
    # An upload has no path that an error could begin with.
    text = re.sub("^the archive", "The archive", str(problem).rstrip("."))
    text = re.sub("^The archive: is ", "The archive is ", text)
    return plain(text) + "."
