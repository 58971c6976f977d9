"""Huffman's tree, built step by step: back, forward, and by itself."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from lcviz.lab.lesson import merges
from lcviz.ui import widgets

from .tree_figure import forest_panel

PACE = 1.2  # seconds a merge
_MERGES = (
    "learn_merges"  # in the URL: how many of the tree that is shown; and in the session, which
)


def building(counts: Sequence[int], labels: Sequence[str], whose: str) -> None:
    """The tree of these counts. labels: of every symbol. whose: tells one tree from another."""
    place = f"tree-{whose}-{'-'.join(map(str, counts))}"
    if place not in st.session_state:
        st.session_state[place] = _of_link(len(merges(counts))), False
    _, playing = st.session_state[place]
    st.session_state[_MERGES] = place
    st.fragment(_steps, run_every=PACE if playing else None)(counts, labels, place, playing)


def _of_link(most: int) -> int:
    """How many merges the URL asks for, of the first tree that a session sees."""
    told = "" if _MERGES in st.session_state else st.query_params.get(_MERGES, "")
    return min(int(told), most) if told.isdecimal() and len(told) < 5 else 0


def _tell(done: int) -> None:
    """Have it in the URL."""
    if not done:
        st.query_params.pop(_MERGES, None)
    elif st.query_params.get(_MERGES) != str(done):
        st.query_params[_MERGES] = str(done)


def _steps(counts: Sequence[int], labels: Sequence[str], place: str, ticking: bool) -> None:
    every = merges(counts)
    done, playing = st.session_state[place]
    if playing != ticking:
        st.rerun()  # the whole page: only that can change the pace
    if playing:
        done = min(done + 1, len(every))
        playing = done < len(every)
        st.session_state[place] = done, playing
    if not playing:  # every tick would be an entry in the browser's history
        _tell(done)

    def go(to: int, *, play: bool = False) -> None:
        st.session_state[place] = to, play

    with st.container(horizontal=True, vertical_alignment="center", key="building"):
        st.button(
            "Back",
            icon=":material/undo:",
            key="tree-back",
            disabled=done == 0,
            on_click=go,
            args=(done - 1,),
        )
        st.button(
            "Merge the two rarest",
            icon=":material/merge:",
            type=widgets.main_button(),
            key="tree-forward",
            disabled=done == len(every),
            on_click=go,
            args=(done + 1,),
        )
        again = 0 if done == len(every) else done
        st.button(
            "Pause" if playing else "Play",
            key="tree-play",
            disabled=not every,
            on_click=go,
            icon=f":material/{'pause' if playing else 'play_arrow'}:",
            args=(done if playing else again,),
            kwargs={"play": not playing},
        )
        st.markdown(f"merge {done} of {len(every)}", width="content")
    widgets.show(forest_panel(labels, counts, every, done), "forest")
