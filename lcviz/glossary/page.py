"""The Glossary page: all words of the scheme. A word that a link or a search names also links to
the pages that show it at work."""

from __future__ import annotations

import streamlit as st

from lcviz.ui import navigation
from lcviz.ui.glossary import GROUPS, TERMS, Term


def page() -> None:
    """The glossary: the entry that ?term= names, then all entries that contain the query."""
    with st.container(key="answer"):
        st.title("Glossary", anchor=False)
        query = st.text_input(
            "Find a word",
            key="glossary_find",
            bind="query-params",
            placeholder="Find a word, for instance: bucket",
            icon=":material/search:",
            label_visibility="collapsed",
        )
    name = st.query_params.get("term")
    if name in TERMS:
        with st.container(border=True, key="glossary-asked"):
            _show(TERMS[name])
            _pages(TERMS[name], "asked")
    words = query.casefold().split()
    n = 0
    for title, terms in GROUPS.items():
        matches = [t for t in terms if all(w in f"{t.name} {t.text}".casefold() for w in words)]
        if not matches:
            continue
        n += len(matches)
        st.header(title, anchor=False)
        grid = st.grid(3, min_column_width=360, key=f"glossary-{title}")
        for term in matches:
            with grid.cell():
                _show(term)
                if words:
                    _pages(term, "found")
    if not n:
        st.info("No entry contains all of these words: try fewer or shorter ones.")


def _show(term: Term) -> None:
    st.markdown(f"**{term.name}**  \n{term.text}")


def _pages(term: Term, group: str) -> None:
    """Links to the pages that show the term at work. group: "asked" or "found", in a key."""
    with st.container(horizontal=True, key=f"glossary-{group}-{term.name}"):
        for name in term.pages:
            st.page_link(navigation.page(name), width="content")
