"""Draws the page that a visitor asked for, in the frame that all pages share.

Two scripts show it: `app.py` of the repository, and `start/app.py` for the command `lcviz`.
"""

from importlib import import_module
from pathlib import Path

import streamlit as st

from lcviz import welcome
from lcviz.ui import navigation

HERE = Path(__file__).parent


def show() -> None:
    """Draw the page that the address names, or what needs no import while the server begins."""
    st.set_page_config(
        page_title="lcviz: LC-Checkpoint live",
        page_icon=HERE / "assets" / "icon.svg",
        layout="wide",
        initial_sidebar_state="collapsed",
    )
    st.html(HERE / "ui" / "page.css")
    loaded = welcome.loaded()
    placeholder = None if loaded else welcome.show
    pages = [navigation.page(name, placeholder) for name in navigation.PAGES]
    page = st.navigation(pages, position="top")
    if loaded:
        import_module("lcviz.dashboard").run(page)
    else:
        page.run()
