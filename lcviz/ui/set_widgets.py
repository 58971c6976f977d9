"""Widgets that the page sets, although a person can move them.

While the page sets a widget, the browser may be sending a report with the widget's old value, for
instance from a part that polls. This report would undo the new value. So the page sets a hidden
number together with the values. If a report brings an older number, the values are set again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

_SET = "widgets-set"  # in the session: the number, and the values set with it
_SEEN = "widgets-seen"  # the key of the hidden widget that brings the number back


def set_widgets(values: Mapping[str, Any]) -> None:
    """Give widgets these values by key, from a callback."""
    set_widgets_next(values)
    st.session_state.update({**values, _SEEN: st.session_state[_SET][0]})


def set_widgets_next(values: Mapping[str, Any]) -> None:
    """Give widgets these values by key when the page is drawn again."""
    st.session_state[_SET] = st.session_state.get(_SET, (0, {}))[0] + 1, dict(values)


def set_again() -> None:
    """Set values again that the browser has not seen; call this before the widgets are drawn."""
    number, values = st.session_state.get(_SET, (0, {}))
    if st.session_state.get(_SEEN, number) != number:  # the number is missing after another page
        st.session_state.update(values)
    st.session_state[_SEEN] = number
    with st.container(key="unshown"):
        st.number_input("How often the page has set a widget", step=1, key=_SEEN)
