"""The dashboard's pages, found by name."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st
from streamlit.navigation.page import StreamlitPage

_PAGES = "pages"


def set_pages(pages: Mapping[str, StreamlitPage]) -> None:
    """Store this session's pages, by the name of their folder in lcviz/."""
    st.session_state[_PAGES] = pages


def page(name: str) -> StreamlitPage:
    """The page of that name. Raises KeyError if there is none."""
    found: StreamlitPage = st.session_state[_PAGES][name]
    return found
