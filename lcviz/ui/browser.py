"""Corrects how Streamlit's page handles Back, Forward and the menu of a narrow window."""

from __future__ import annotations

from functools import cache
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx


def keep_settings() -> None:
    """Keep the session's settings when a visitor goes back or forward.

    Otherwise Streamlit resets every setting that the address does not name. Call this function
    before the first widget.
    """
    context = get_script_run_ctx()
    if context is not None:
        context.is_history_navigation = False


def listen() -> None:
    """Run `_MODULE` in the browser; nothing is drawn."""
    _component()(key="browser")


@cache
def _component() -> Any:
    return st.components.v2.component("lcviz.browser", js=_MODULE)


# In a narrow window the menu covers the page, and Streamlit leaves it open when the visitor has
# chosen a page. Streamlit also remembers that it was open; a click on the menu's own close button
# makes it forget that. A change of the address within a page makes no new entry in the history:
# Back leads to the page before.
_MODULE = """
const NARROW = 768; // pixels, as in Streamlit

export default function () {
  history.pushState = (state, title, url) => {
    const same = new URL(url ?? "", location.href).pathname === location.pathname;
    History.prototype[same ? "replaceState" : "pushState"].call(history, state, title, url);
    closeMenuOnArrival();
  };
  // The visitor may have chosen a page before this module was loaded.
  closeMenuOnArrival();
}

function closeMenuOnArrival() {
  if (window.lcvizArrivedAt === location.pathname) return;
  window.lcvizArrivedAt = location.pathname;
  if (innerWidth > NARROW) return;
  document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click();
}
"""
