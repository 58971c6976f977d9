"""Huffman's tree, built step by step: back, forward, and by itself."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from .. import state
from ..figures.forest import forest_panel
from ..lab.lesson import merges

PACE = 1.2  # seconds a merge


def building(counts: Sequence[int], labels: Sequence[str], whose: str) -> None:
    """The tree of these counts. labels: of every symbol. whose: tells one tree from another."""
    place = f"tree-{whose}-{'-'.join(map(str, counts))}"
    _, playing = st.session_state.setdefault(place, (0, False))
    st.fragment(_steps, run_every=PACE if playing else None)(counts, labels, place, playing)


def _steps(counts: Sequence[int], labels: Sequence[str], place: str, ticking: bool) -> None:
    every = merges(counts)
    done, playing = st.session_state[place]
    if playing != ticking:
        st.rerun()  # the whole page: only that can change the pace
    if playing:
        done = min(done + 1, len(every))
        playing = done < len(every)
        st.session_state[place] = done, playing

    def go(to: int, *, play: bool = False) -> None:
        st.session_state[place] = to, play

    with st.container(horizontal=True, vertical_alignment="center", key="building"):
        st.button(
            "Back", icon=":material/undo:", key="tree-back", disabled=done == 0,
            on_click=go, args=(done - 1,),
        )  # fmt: skip
        st.button(
            "Merge the two rarest", icon=":material/merge:", type=state.main_button(),
            key="tree-forward", disabled=done == len(every), on_click=go, args=(done + 1,),
        )  # fmt: skip
        again = 0 if done == len(every) else done
        st.button(
            "Pause" if playing else "Play", key="tree-play", disabled=not every, on_click=go,
            icon=f":material/{'pause' if playing else 'play_arrow'}:",
            args=(done if playing else again,), kwargs={"play": not playing},
        )  # fmt: skip
        st.markdown(f"merge {done} of {len(every)}", width="content")
    state.show(forest_panel(labels, counts, every, done), "forest")
