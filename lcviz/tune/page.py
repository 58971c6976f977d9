"""Tune: which bits, scope, coder and interval to use, computed instead of guessed.

Only the section that is looked at is computed.
"""

from __future__ import annotations

import streamlit as st

from lcviz.ui import widgets

from .page_ab import duel
from .page_all_settings import every
from .page_by_bucket import kept_buckets
from .page_by_tensor import tensors
from .page_recommend import recommend

VIEWS = {
    "ab": "A against B",
    "want": "Recommend one",
    "all": "All settings",
    "tensors": "Tensor by tensor",
    "buckets": "Bucket by bucket",
}
SECTIONS = {
    "ab": duel,
    "want": recommend,
    "all": every,
    "tensors": tensors,
    "buckets": kept_buckets,
}


def page() -> None:
    """The whole page."""
    st.title("Tune: which setting should I use?", anchor=False)
    view = widgets.choice(
        "Look at",
        list(VIEWS),
        default="ab",
        key="tune_view",
        format_func=VIEWS.__getitem__,
        bind="query-params",
        help="“Recommend one” tries many settings out on a whole training. The others show what "
        "settings do to the run that Live shows, and follow it while it plays.",
    )
    SECTIONS[str(view)]()
