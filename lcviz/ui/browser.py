"""Back, Forward and the menu of a narrow window: what Streamlit's own page does otherwise."""

from __future__ import annotations

from functools import cache
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx


def keep_settings() -> None:
    """Keep what this session has set when a visitor goes back or forward.

    For Streamlit the address then decides, and a setting that it does not name is reset. Call it
    before the first widget.
    """
    context = get_script_run_ctx()
    if context is not None:
        context.is_history_navigation = False


def listen() -> None:
    """Draw nothing; the browser does what `_MODULE` says."""
    _component()(key="browser")


@cache
def _component() -> Any:
    return st.components.v2.component("lcviz.browser", js=_MODULE)


# Streamlit opens a menu again on the next page, because it remembers that a visitor has opened it:
# its own button makes it forget that. A change of the address within a page is no page to go back
# to.
_MODULE = """
const NARROW = 768; // pixels, as Streamlit: there the menu covers the page

export default function () {
  document.addEventListener("click", closeMenu, true);
  history.pushState = (state, title, url) => {
    const same = new URL(url ?? "", location.href).pathname === location.pathname;
    History.prototype[same ? "replaceState" : "pushState"].call(history, state, title, url);
  };
  return () => document.removeEventListener("click", closeMenu, true);
}

function closeMenu(event) {
  if (innerWidth > NARROW || !event.target.closest?.("[data-testid=stSidebarNavLink]")) return;
  document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click();
}
"""
