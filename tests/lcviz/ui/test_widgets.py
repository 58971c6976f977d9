"""Inputs that the pages share."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest


def script() -> None:
    import streamlit as st

    from lcviz.ui import widgets

    state = st.session_state
    if state.pop("interrupt", False):
        st.rerun()  # as a poll of another part of the page would
    if widgets.button("Go", key="go", disabled=state.get("disabled", False)):
        state.clicks = state.get("clicks", 0) + 1


def overtaken() -> None:
    from unittest.mock import patch

    import streamlit as st
    from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx

    from lcviz.ui import widgets

    state, draw = st.session_state, st.button

    def overtake(*args, on_click, **how):
        draw(*args, on_click=on_click, **how)
        if state.pop("overtaken", False):
            on_click(*how["args"])
            get_script_run_ctx().script_requests.request_rerun(RerunData())

    with patch.object(st, "button", overtake):
        clicked = widgets.button("Go", key="go")
    if clicked:
        state.clicks = state.get("clicks", 0) + 1


def interrupted() -> None:
    import streamlit as st
    from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx

    from lcviz.ui import widgets

    state = st.session_state

    def act() -> None:
        if state.pop("interrupt", False):
            get_script_run_ctx().script_requests.request_rerun(RerunData())
            state.interrupted = True  # ends this run
        state.acts = state.get("acts", 0) + 1

    widgets.button("Go", act, key="go")


@pytest.mark.parametrize("interrupt", [False, True])
def test_each_click_counts_once(interrupt: bool) -> None:
    page = AppTest.from_function(script, default_timeout=60).run()
    for clicks in (1, 2):
        page.session_state["interrupt"] = interrupt
        page.button(key="go").click().run()
        page.run()
        assert page.session_state["clicks"] == clicks


def test_a_click_of_another_run_is_left_to_that() -> None:
    """It comes when this one has just drawn the button."""
    page = AppTest.from_function(overtaken, default_timeout=60)
    page.session_state["overtaken"] = True
    page.run()
    assert not page.exception
    assert page.session_state["clicks"] == 1


@pytest.mark.parametrize("interrupt", [False, True])
def test_what_was_interrupted_is_done_by_the_next_run(interrupt: bool) -> None:
    page = AppTest.from_function(interrupted, default_timeout=60).run()
    page.session_state["interrupt"] = interrupt
    page.button(key="go").click().run()
    page.run()
    assert page.session_state["acts"] == 1


def test_no_click_outlives_its_button() -> None:
    page = AppTest.from_function(script, default_timeout=60).run()
    page.session_state["interrupt"] = page.session_state["disabled"] = True
    page.button(key="go").click().run()
    page.session_state["disabled"] = False
    page.run()
    assert "clicks" not in page.session_state
