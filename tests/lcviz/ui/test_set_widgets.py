"""Widgets that the page sets: an old report of the browser does not undo it."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def _page() -> None:
    import streamlit as st

    from lcviz.ui.set_widgets import set_again, set_widgets

    def choose() -> None:
        set_widgets({"bits": 3})

    if st.toggle("Live", True, key="live"):
        set_again()
        st.slider("Bits", 1, 8, 2, key="bits", persist_state="session")
        st.button("Three", on_click=choose, key="three")


def _chosen() -> AppTest:
    at = AppTest.from_function(_page).run()
    assert at.slider(key="bits").value == 2
    at.button(key="three").click().run()
    assert at.slider(key="bits").value == 3
    return at


def test_an_old_report_is_set_again_but_a_person_may_go_back() -> None:
    at = _chosen()
    for _ in range(2):  # as often as it comes
        at.slider(key="bits").set_value(2)
        at.number_input(key="widgets-seen").set_value(0).run()
        assert at.slider(key="bits").value == 3
        assert at.number_input(key="widgets-seen").value == 1
    assert not at.exception
    assert not at.warning
    at.slider(key="bits").set_value(2).run()
    assert at.slider(key="bits").value == 2
    at.slider(key="bits").set_value(5).run()
    for is_live in (False, True):  # a choice outlives another page
        at.toggle(key="live").set_value(is_live).run()
    assert at.slider(key="bits").value == 5
    assert not at.exception
