"""The Tune page: two sections, of which only the one on the screen is computed."""

from __future__ import annotations

import streamlit as st

from lcviz.ui import widgets

from . import page_compare, page_recommend

SECTIONS = {
    "recommend": ("Recommend", page_recommend.section),
    "compare": ("Compare", page_compare.section),
}


_DRAWN = "tune-drawn"  # in the session: the section that the page shows


def page() -> None:
    """The whole page: a fragment, so another section does not run what is around it."""
    st.fragment(_sections)()


def _sections() -> None:
    with st.container(key="sections"):
        view = widgets.choice(
            "Look at",
            {key: title for key, (title, _) in SECTIONS.items()},
            default="recommend",
            key="tune_view",
            label_visibility="collapsed",
        )
        if st.session_state.setdefault(_DRAWN, view) != view:
            # Only a run of the whole page removes what a part of the other section has drawn since.
            st.session_state[_DRAWN] = view
            st.rerun()
        SECTIONS[view][1]()
