"""Where Live's pictures stand: two rows below a headline, on one screen."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

STEPS_WIDTH = 330  # pixels


def live_places(*, race: bool = False) -> dict[str, DeltaGenerator]:
    """Make the places and return them by name. race: adds a large one for a race, at the top."""
    top = st.container(horizontal=True, vertical_alignment="center", key="headline")
    places = {
        "headline": top.container(),
        "steps": top.container(
            horizontal=True, vertical_alignment="center", key="steps", width=STEPS_WIDTH
        ),
        "messages": st.container(),
    }
    grid = st.grid(3, min_column_width=330, border=True, key="pictures")
    rows = ("weights", "buckets", "examples"), ("weight", "bits", "loss")
    spans = {name: 1 for row in rows for name in row}
    if race:
        spans = {"race": 2, "examples": 1} | spans
    for name, span in spans.items():
        places[name] = grid.cell(column_span=span)
    return places
