"""The recording: what a new server shows while it still prepares its own example.

`python -m lcviz.record_example` writes it. It is drawn with the pictures of the pages themselves.
"""

from __future__ import annotations

import json
import threading
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from . import layout, picture

FILE = Path(__file__).parent / "recording.json"
COMMAND = "python -m lcviz.record_example"
WITH_FIGURES = ("tune", "recover", "inspect")  # pages that open with Plotly
# Plotly uses pandas as soon as its import has begun, and fails while that is under way.
DRAWING = threading.Lock()
QUESTION = "What can you throw away and still restart after a crash?"  # the first line of Live
TOLD = "recording-told"  # in the session: what a reader has done in Learn's pictures


def show_live() -> None:
    """Draw Live from the recording, while nothing can be clicked yet."""
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        st.button("Start live training", icon=":material/play_arrow:", disabled=True, key="wait")
        label("You can touch the pictures once the server is ready.", QUESTION)
    pictures()


def show_figures(name: str) -> None:
    """Draw a page that opens with Plotly figures, while nothing can be clicked yet."""
    with st.container(key="answer"):
        st.title(_read()["pages"][name]["title"], anchor=False)
    label("The server is starting.")
    figures(name)


def figures(name: str) -> None:
    """Draw a page's pictures and Plotly figures in two columns.

    The first one takes both columns if their number is odd.
    """
    panels = _read()["pages"][name]["panels"]
    ink, theme = _read()["ink"], st.context.theme.type or "light"
    odd = len(panels) % 2
    grid = st.grid(2, min_column_width=420, border=True, key="recorded")
    for i, panel in enumerate(panels):
        with grid.cell(column_span=2 if odd and i == 0 else 1):
            if "picture" in panel:
                picture.mount({**panel, "recorded": True}, f"recorded-{i}")
                continue
            st.markdown(f"**{panel['title']}**")
            text = json.dumps(panel["figure"]).replace(ink["light"], ink[theme])
            with DRAWING:
                st.plotly_chart(json.loads(text), key=f"recorded-{i}", alt=panel["alt"])


def show_learn() -> None:
    """Draw Learn's pictures of ten numbers; the page itself goes on where the reader is in them."""

    def remember(state: Any) -> None:
        st.session_state[TOLD] = state

    with st.container(key="learn"):
        picture.mount(_read()["learn"], "learn", {"told": remember})


def take_learn_state() -> Any | None:
    """What a reader has done in Learn's recorded pictures; None if nothing, or taken already."""
    return st.session_state.pop(TOLD, None)


def label(more: str, question: str = "") -> None:
    """Say that the page shows a recording. more: the next sentence. question: a line above."""
    text = f"A recording: {_read()['title']}. {more}"
    if question:
        text = f"**{question}**  \n:small[{text}]"
    st.markdown(text, width="content", help=f"`{COMMAND}` makes it.")


def pictures() -> None:
    """Draw Live's pictures. Nobody can use them until a run's pictures replace them."""
    places = layout.live_places()
    for name, data in _read()["pictures"].items():
        with places[name]:
            picture.mount({**data, "recorded": True}, name)


@cache
def _read() -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return recording
