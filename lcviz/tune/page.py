"""The Tune page: five sections, of which only the one on the screen is computed."""

from __future__ import annotations

import streamlit as st

from lcviz.ui import widgets

from . import page_ab, page_all_settings, page_by_bucket, page_by_tensor, page_recommend

SECTIONS = {
    "recommend": ("Recommend", page_recommend.section),
    "ab": ("A against B", page_ab.section),
    "all_settings": ("All settings", page_all_settings.section),
    "by_tensor": ("Tensor by tensor", page_by_tensor.section),
    "by_bucket": ("Bucket by bucket", page_by_bucket.section),
}


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
        if view != "recommend":  # whose title is its answer
            with st.container(key="answer"):
                st.title(f"Tune: {SECTIONS[view][0]}", anchor=False)
        SECTIONS[view][1]()
