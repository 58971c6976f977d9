"""The first seconds of a server: Live's board is there while everything is imported.

Nothing here imports the codec, torch or pandas, which take seconds, and minutes where they are
slow to read from disk.
"""

from __future__ import annotations

import threading
from importlib import import_module

import streamlit as st

from lcviz.play import page_board
from lcviz.play.given import recorded
from lcviz.ui import navigation, picture
from lcviz.ui.polling import rerun_once

POLL_SECONDS = 0.4
HEAD_START = 0.7  # seconds until the imports begin: the board is drawn first
_LOADED = threading.Event()
_LOADING = threading.Lock()


def loaded() -> bool:
    """Whether everything is imported; begins to import it soon after the first call."""
    if not _LOADED.is_set() and _LOADING.acquire(blocking=False):
        imports = threading.Timer(HEAD_START, load)
        imports.daemon = True
        imports.start()
    return _LOADED.is_set()


def load() -> None:
    """Import what pages need, and let the server prepare its example."""
    try:
        import_module("lcviz.ui.session").all_runs()  # its example takes longest
        import_module("lcviz.dashboard")
        for name in navigation.PAGES:
            navigation.script(name)
    finally:  # an import that fails is tried again by the page, which shows why
        _LOADED.set()


def show(name: str) -> None:
    """Show what needs no import, until the page itself can be drawn."""
    # The page itself has the same places: its pictures are then updated, not replaced.
    st.container(key="unseen-browser")
    if name == "live" and "run" not in st.query_params:
        with st.container(key="unseen"):
            st.title("LC-Checkpoint, live", anchor=False)
            page_board.load()
        st.container(key="unshown")
        with st.container(key="board"):
            page_board.mount(picture.stored("tried", "start"))
    elif name == "learn" and not st.query_params:  # a link may ask for another state of the page
        with st.container(key="learn"):
            picture.mount(recorded()["learn"], "learn", picture.stored("told"))
    else:
        st.info("The server has just started: this page opens in a few seconds.")
    rerun_once(loaded, POLL_SECONDS)
