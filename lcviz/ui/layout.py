"""Where Live's pictures stand: two rows below a headline, on one screen."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

STEPS_WIDTH = 330  # pixels


def live() -> dict[str, DeltaGenerator]:
    """Make the places and return them by name."""
    top = st.container(horizontal=True, vertical_alignment="center", key="headline")
    places = {
        "headline": top.container(),
        "steps": top.container(
            horizontal=True, vertical_alignment="center", key="steps", width=STEPS_WIDTH
        ),
        "messages": st.container(),
    }
    grid = st.grid(3, min_column_width=330, border=True, key="pictures")
    for name, span in (("weights", 1), ("buckets", 1), ("bits", 1), ("loss", 2), ("examples", 1)):
        places[name] = grid.cell(column_span=span)
    return places
