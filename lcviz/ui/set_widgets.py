"""Widgets that the page sets, although a person can move them.

While the page sets a widget, a report of the browser may be under way that has its old value, for
instance from a part that polls: it would undo what was set. So a number that nobody sees is set
with it. A report with an older number has not seen the new values, which are set again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

_SET = "widgets-set"  # in the session: the number, and the values set with it
_SEEN = "widgets-seen"  # the key of the widget that brings the number back


def set_widgets(values: Mapping[str, Any]) -> None:
    """Give widgets these values by key, from a callback."""
    number = st.session_state.get(_SET, (0, {}))[0] + 1
    st.session_state[_SET] = number, dict(values)
    st.session_state.update({**values, _SEEN: number})


def set_again() -> None:
    """Call it before these widgets are drawn: what the browser has not seen is set again."""
    number, values = st.session_state.get(_SET, (0, {}))
    if st.session_state.get(_SEEN, number) != number:  # it is missing after another page
        st.session_state.update(values)
    st.session_state[_SEEN] = number
    with st.container(key="unshown"):
        st.number_input("How often the page has set a widget", step=1, key=_SEEN)
