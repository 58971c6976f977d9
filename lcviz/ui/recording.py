"""The recording: what a new server shows while it still prepares its own example.

`python -m lcviz.record` writes it. It is drawn with the pictures of the pages themselves.
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
COMMAND = "python -m lcviz.record"
WITH_FIGURES = ("tune", "recover", "inspect")  # pages that open with Plotly
# Plotly asks pandas what a value is as soon as anybody has begun to import it: it fails half-way.
DRAWING = threading.Lock()
QUESTION = "What can you throw away and still restart after a crash?"  # that Live begins with
TOLD = "recording-told"  # in the session: what Learn's pictures have told so far


def show_live() -> None:
    """The whole page, while nothing can be pressed yet."""
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        st.button("Start live training", icon=":material/play_arrow:", disabled=True, key="wait")
        label("You can touch the pictures once the server is ready.", QUESTION)
    pictures()


def show_figures(name: str) -> None:
    """What a page that opens with Plotly figures will show, while nothing can be pressed yet."""
    with st.container(key="answer"):
        st.title(_read()["pages"][name]["title"], anchor=False)
    label("The server is starting.")
    figures(name)


def figures(name: str) -> None:
    """Draw a page's pictures and Plotly figures in two columns; an odd first one is as wide."""
    found = _read()["pages"][name]
    ink, theme = _read()["ink"], st.context.theme.type or "light"
    odd = len(found["panels"]) % 2
    grid = st.grid(2, min_column_width=420, border=True, key="recorded")
    for i, panel in enumerate(found["panels"]):
        with grid.cell(column_span=2 if odd and i == 0 else 1):
            if "picture" in panel:
                picture.mount({**panel, "recorded": True}, f"recorded-{i}")
                continue
            st.markdown(f"**{panel['title']}**")
            text = json.dumps(panel["figure"]).replace(ink["light"], ink[theme])
            with DRAWING:
                st.plotly_chart(json.loads(text), key=f"recorded-{i}", alt=panel["alt"])


def show_learn() -> None:
    """Learn's pictures of ten numbers: the page keeps them, and what was done in them."""

    def told(what: Any) -> None:
        st.session_state[TOLD] = what

    with st.container(key="learn"):
        picture.mount(_read()["learn"], "learn", {"told": told})


def learn_told() -> Any | None:
    """What a reader has done in Learn's recorded pictures, once."""
    return st.session_state.pop(TOLD, None)


def label(more: str, question: str = "") -> None:
    """Say that it is a recording. more: a sentence after it. question: stands above it."""
    text = f"A recording: {_read()['title']}. {more}"
    if question:
        text = f"**{question}**  \n:small[{text}]"
    st.markdown(text, width="content", help=f"`{COMMAND}` makes it.")


def pictures() -> None:
    """Draw Live's pictures; nothing in them can be used until those of a run replace them."""
    places = layout.live()
    for name, data in _read()["pictures"].items():
        with places[name]:
            picture.mount({**data, "recorded": True}, name)


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found
