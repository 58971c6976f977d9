"""Parts of a page that run again by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st


def polled(seconds: float | None, part: Callable[..., None], *args: Any) -> None:
    """Run a part of the page with these arguments, and again each time these seconds are over.

    seconds: None runs the part only once. The part has a container of its own. Streamlit drops what
    a part has drawn and not yet sent when the part runs again. Without the container, what stands
    below would then arrive first, find a gap above itself, and fail in the browser: "Bad delta path
    index".
    """
    with st.container():
        st.fragment(part, run_every=seconds)(*args)


def rerun_once(condition: Callable[[], bool], seconds: float) -> None:
    """Look every so many seconds, and run the whole page again as soon as the condition holds."""

    def look() -> None:
        if condition():
            st.rerun()

    polled(seconds, look)
