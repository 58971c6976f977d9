"""The dashboard: streamlit run app.py; with -- --run PATH it opens on what grows there."""

from pathlib import Path

import streamlit as st

from lcviz import state
from lcviz.pages import export, glossary, inspect, learn, live, recover, traced, tune, watched

st.set_page_config(
    page_title="lcviz: LC-Checkpoint live",
    page_icon=Path(__file__).parent / "lcviz" / "assets" / "icon.svg",
    layout="wide",
)
pages = [
    st.Page(live.page, title="Live", icon=":material/monitoring:", default=True),
    st.Page(learn.page, title="Learn", icon=":material/school:", url_path="learn"),
    st.Page(tune.page, title="Tune", icon=":material/tune:", url_path="tune"),
    st.Page(recover.page, title="Recover", icon=":material/healing:", url_path="recover"),
    st.Page(inspect.page, title="Inspect", icon=":material/search:", url_path="inspect"),
    st.Page(export.page, title="Export", icon=":material/download:", url_path="export"),
    st.Page(
        lambda: glossary.page({page.url_path: page for page in pages}),
        title="Glossary",
        icon=":material/menu_book:",
        url_path="glossary",
    ),
]
page = st.navigation(pages, position="top")
watched.land(page.url_path == "", pages[4])
state.keep_run()
traced.toolbar(not watched.covers(page is pages[4]))
page.run()
