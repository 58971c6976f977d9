"""The Tune page: one fragment, so that a control does not run what is around it."""

from __future__ import annotations

import streamlit as st

from .page_recommend import recommendation


def page() -> None:
    """The whole page."""
    st.fragment(recommendation)()
