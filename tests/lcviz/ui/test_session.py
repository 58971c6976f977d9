"""What a session makes once, and keeps while it asks for the same."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def script() -> None:
    import streamlit as st

    from lcviz.ui import session

    state = st.session_state

    def make() -> int:
        state["made"] = state.get("made", 0) + 1
        if state.get("fails"):
            raise ValueError("not this time")
        return int(state["made"])

    st.text(session.cached("place", state.get("key"), make))


def test_made_once_for_each_key() -> None:
    page = AppTest.from_function(script, default_timeout=60)
    for key, made in (("a", "1"), ("a", "1"), ("b", "2"), ("a", "3")):
        page.session_state["key"] = key
        assert [text.value for text in page.run().text] == [made]
    page.session_state["key"], page.session_state["fails"] = "b", True
    assert page.run().exception
    page.session_state["key"], page.session_state["fails"] = "a", False
    assert [text.value for text in page.run().text] == ["5"]  # it had made room
