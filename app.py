"""The dashboard: streamlit run app.py."""

import streamlit as st

from lcviz.pages import export, live

st.set_page_config(
    page_title="lcviz: LC-Checkpoint live", page_icon=":material/compress:", layout="wide"
)
st.navigation(
    [
        st.Page(
            live.page, title="Live", icon=":material/monitoring:", url_path="live", default=True
        ),
        st.Page(export.page, title="Export", icon=":material/download:", url_path="export"),
    ],
    position="top",
).run()
