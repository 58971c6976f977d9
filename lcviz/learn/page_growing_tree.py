"""Huffman's tree, built merge by merge: back, forward, or by itself."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from lcviz.lab.lesson import huffman_merges
from lcviz.ui import widgets

from .growing_tree_figure import growing_tree_panel

PACE = 1.2  # seconds a merge
_MERGES = "learn_merges"  # in the URL: merges of the shown tree; in the session: which tree


def growing_tree(counts: Sequence[int], labels: Sequence[str], whose: str) -> None:
    """The tree of these counts, with buttons to build it.

    Args:
        counts, labels: of every symbol.
        whose: tells this tree from others with the same counts.
    """
    place = f"tree-{whose}-{'-'.join(map(str, counts))}"
    if place not in st.session_state:
        st.session_state[place] = _merges_of_link(len(huffman_merges(counts))), False
    _, playing = st.session_state[place]
    st.session_state[_MERGES] = place
    st.fragment(_steps, run_every=PACE if playing else None)(counts, labels, place, playing)


def _merges_of_link(most: int) -> int:
    """How many merges the URL asks for, of the first tree that a session shows."""
    text = "" if _MERGES in st.session_state else st.query_params.get(_MERGES, "")
    return min(int(text), most) if text.isdecimal() and len(text) < 5 else 0


def _steps(counts: Sequence[int], labels: Sequence[str], place: str, ticking: bool) -> None:
    every = huffman_merges(counts)
    done, playing = st.session_state[place]
    if playing != ticking:
        st.rerun()  # the whole page: only that can change the interval
    if playing:
        done = min(done + 1, len(every))
        playing = done < len(every)
        st.session_state[place] = done, playing
    if not playing:  # every tick would be an entry in the browser's history
        if not done:
            st.query_params.pop(_MERGES, None)
        elif st.query_params.get(_MERGES) != str(done):
            st.query_params[_MERGES] = str(done)

    def go(to: int, play: bool = False) -> None:
        st.session_state[place] = to, play

    begin = done if playing or done < len(every) else 0
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
        st.button(
            "Pause" if playing else "Play",
            icon=f":material/{'pause' if playing else 'play_arrow'}:",
            key="tree-play",
            disabled=not every,
            on_click=go,
            args=(begin, not playing),
        )
        st.markdown(f"merge {done} of {len(every)}", width="content")
    widgets.show(growing_tree_panel(labels, counts, every, done), "growing-tree")
