"""The recorded example: what Live shows while a new server still prepares its own.

`python -m lcviz.live.record` writes it. It is drawn with the pictures of the page itself.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from . import layout, picture

FILE = Path(__file__).parent / "recording.json"


def show() -> None:
    """The whole page, while nothing can be pressed yet."""
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        st.button("Start live training", icon=":material/play_arrow:", disabled=True, key="wait")
        label("The server is starting.")
    pictures()


def label(more: str) -> None:
    """Say that it is a recording. more: a sentence after it."""
    st.markdown(f"A recording: {_read()['title']}. {more}", width="content")


def pictures() -> None:
    """Draw its pictures."""
    places = layout.live()
    for name, data in _read()["pictures"].items():
        with places[name]:
            picture.mount(data, name)


@cache
def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found
