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


# Streamlit remembers that a visitor has opened the menu, and opens it again on the next page. A
# click on the menu's own close button makes Streamlit forget that. A change of the address within a
# page makes no new entry in the history: Back leads to the page before.
_MODULE = """
const NARROW = 768; // pixels, as in Streamlit: in a narrower window the menu covers the page

export default function () {
  // Once for the document: a page that replaces another may come before that one is cleaned up.
  if (!window.lcvizClosesMenu) document.addEventListener("click", closeMenu, true);
  window.lcvizClosesMenu = true;
  history.pushState = (state, title, url) => {
    const same = new URL(url ?? "", location.href).pathname === location.pathname;
    History.prototype[same ? "replaceState" : "pushState"].call(history, state, title, url);
  };
}

function closeMenu(event) {
  if (innerWidth > NARROW || !event.target.closest?.("[data-testid=stSidebarNavLink]")) return;
  document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click();
}
"""
