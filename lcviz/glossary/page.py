"""Glossary: every word of the scheme, and the pages that show it at work."""

from __future__ import annotations

import streamlit as st

from lcviz.ui import navigation
from lcviz.ui.glossary import GROUPS, TERMS, Term


def page() -> None:
    """The whole page."""
    st.title("Glossary", anchor=False)
    st.markdown(
        "The words that the other pages use. Where one is underlined, rest the pointer on it to "
        "see its meaning, or click it to come here."
    )
    asked = st.query_params.get("term")
    if asked in TERMS:
        with st.container(border=True, key="glossary-asked"):
            _show(TERMS[asked], "asked")
    query = st.text_input(
        "Find a word",
        key="glossary_find",
        bind="query-params",
        placeholder="for instance: bucket",
        icon=":material/search:",
    )
    words = query.casefold().split()
    n = 0
    for title, terms in GROUPS.items():
        found = [t for t in terms if all(w in f"{t.name} {t.text}".casefold() for w in words)]
        if not found:
            continue
        n += len(found)
        st.subheader(title, anchor=False)
        grid = st.grid(2, min_column_width=420, key=f"glossary-{title}")
        for term in found:
            with grid.cell():
                _show(term, "all")
    if not n:
        st.info("No entry contains all of these words: try fewer or shorter ones.")


def _show(term: Term, where: str) -> None:
    st.markdown(f"**{term.name}**  \n{term.text}")
    with st.container(horizontal=True, key=f"glossary-{where}-{term.name}"):
        for name in term.seen:
            st.page_link(navigation.page(name), width="content")
