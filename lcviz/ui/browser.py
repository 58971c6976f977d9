"""Corrects how Streamlit's page handles Back, Forward and the menu of a narrow window."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

MODULE = Path(__file__).with_suffix(".js")


def keep_settings() -> None:
    """Keep the session's settings when a visitor goes back or forward.

    Otherwise Streamlit resets every setting that the address does not name. Call this function
    before the first widget.
    """
    context = get_script_run_ctx()
    if context is not None:
        context.is_history_navigation = False


def listen() -> None:
    """Run MODULE in the browser; nothing is drawn."""
    _component()(key="browser")


@cache
def _component() -> Any:
    return st.components.v2.component("lcviz.browser", js=MODULE.read_text())
