"""The Tune page: five sections, of which only the one on the screen is computed."""

from __future__ import annotations

import streamlit as st

from lcviz.ui import widgets

from . import page_ab, page_all_settings, page_by_bucket, page_by_tensor, page_recommend

SECTIONS = {
    "ab": ("A against B", page_ab.section),
    "recommend": ("Recommend one", page_recommend.section),
    "all_settings": ("All settings", page_all_settings.section),
    "by_tensor": ("Tensor by tensor", page_by_tensor.section),
    "by_bucket": ("Bucket by bucket", page_by_bucket.section),
}


def page() -> None:
    """The whole page."""
    st.title("Tune: which setting should I use?", anchor=False)
    view = widgets.choice(
        "Look at",
        {key: title for key, (title, _) in SECTIONS.items()},
        default="ab",
        key="tune_view",
        help="“Recommend one” tries many settings out on a whole training. The others show what "
        "settings do to the run on Live, and follow it while it plays.",
    )
    SECTIONS[view][1]()
