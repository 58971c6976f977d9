"""The dashboard: streamlit run app.py; with -- --run PATH it opens on what grows there."""

from importlib import import_module
from pathlib import Path

import streamlit as st

from lcviz.inspect import page_watch
from lcviz.ui import follow_weight, navigation, session

PAGES = {  # folder of lcviz/, whose page.py has the page -> title, icon
    "live": ("Live", "monitoring"),
    "learn": ("Learn", "school"),
    "tune": ("Tune", "tune"),
    "recover": ("Recover", "healing"),
    "inspect": ("Inspect", "search"),
    "export": ("Export", "download"),
    "glossary": ("Glossary", "menu_book"),
}

st.set_page_config(
    page_title="lcviz: LC-Checkpoint live",
    page_icon=Path(__file__).parent / "lcviz" / "assets" / "icon.svg",
    layout="wide",
)
pages = {
    name: st.Page(
        import_module(f"lcviz.{name}.page").page,
        title=title,
        icon=f":material/{icon}:",
        url_path=name,
        default=name == "live",
    )
    for name, (title, icon) in PAGES.items()
}
navigation.set_pages(pages)
page = st.navigation(list(pages.values()), position="top")
page_watch.land(page is pages["live"])
session.keep_run()
follow_weight.toolbar(not page_watch.covers(page is pages["inspect"]))
page.run()
