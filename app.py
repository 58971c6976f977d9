"""The dashboard: streamlit run app.py; with -- --run PATH it opens on what grows there."""

from pathlib import Path

import streamlit as st

from lcviz.inspect import page_watch
from lcviz.ui import follow_weight, navigation, session

st.set_page_config(
    page_title="lcviz: LC-Checkpoint live",
    page_icon=Path(__file__).parent / "lcviz" / "assets" / "icon.svg",
    layout="wide",
    initial_sidebar_state="collapsed",
)
st.html(Path(__file__).parent / "lcviz" / "ui" / "page.css")
pages = {name: navigation.page(name) for name in navigation.PAGES}
page = st.navigation(list(pages.values()), position="top")
page_watch.land(page is pages["live"])
session.keep_run()
own_toolbar = page in (pages["live"], pages["learn"]) or page_watch.covers(page is pages["inspect"])
follow_weight.toolbar(shown=not own_toolbar)
page.run()
