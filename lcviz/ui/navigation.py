"""The dashboard's pages, found by name. A new page needs its folder and a line in `PAGES`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import streamlit as st
from streamlit.navigation.page import StreamlitPage

PAGES = {  # folder of lcviz/, whose page.py has the function `page` -> title, icon
    "live": ("Live", "monitoring"),
    "learn": ("Learn", "school"),
    "tune": ("Tune", "tune"),
    "recover": ("Recover", "healing"),
    "inspect": ("Inspect", "search"),
    "export": ("Export", "download"),
    "glossary": ("Glossary", "menu_book"),
}
FIRST = "live"  # where visitors land


def page(name: str, instead: Callable[[str], None] | None = None) -> StreamlitPage:
    """The page of that name, to link to or to run. Raises KeyError if there is none.

    instead: called with the name to draw something else on this page.
    """
    title, icon = PAGES[name]

    def run() -> None:
        if instead is None:
            script(name)()
        else:
            instead(name)

    icon = f":material/{icon}:"
    return st.Page(run, title=title, icon=icon, url_path=name, default=name == FIRST)


def script(name: str) -> Callable[[], None]:
    """The function that draws a page, imported at the first call."""
    draw: Callable[[], None] = import_module(f"lcviz.{name}.page").page
    return draw
