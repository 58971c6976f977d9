"""Draws a page, with what all pages begin and end with.

Importing this module imports the codec and torch, which takes seconds: see `welcome`.
"""

from __future__ import annotations

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from lcviz.inspect import page_watch
from lcviz.ui import browser, navigation, picture, session, widgets


def run(page: StreamlitPage) -> None:
    """Show a page."""
    browser.keep_settings()
    with st.container(key="unseen-browser"):
        browser.listen()
    page_watch.land(page.url_path == navigation.page(navigation.FIRST).url_path)
    session.keep_in_url()
    st.session_state.pop(picture.HAS_TABLES, None)
    page.run()
    # Each section of Tune has its own switch.
    if picture.HAS_TABLES in st.session_state and page.title != navigation.PAGES["tune"][0]:
        widgets.tables_toggle()
