"""The controls of A and B: two choices of the codec, side by side, in the URL."""

from __future__ import annotations

import streamlit as st

from codec import Coding
from lcviz.ui.coding_form import chosen, coding_form

DEFAULTS = {"A": Coding(2), "B": Coding(3)}


def both() -> dict[str, Coding] | None:
    """ "A" and "B" as they are chosen now; None if a number of them is wrong."""
    grid = st.grid(2, min_column_width=380, border=True, key="tune-sides")
    found: dict[str, Coding | None] = {}
    for who, default in DEFAULTS.items():
        with grid.cell():
            st.markdown(f"**{who}**")
            row = st.container(horizontal=True, key=f"tune-side-{who}")
            number = st.container()
            with row:
                found[who] = coding_form(_prefix(who), default, number)
    right = {who: coding for who, coding in found.items() if coding is not None}
    return right if len(right) == len(found) else None


def put(who: str, choice: Coding) -> None:
    """Set the controls of A or B; called before they are drawn."""
    for name, value in chosen(choice).items():
        st.session_state[_prefix(who) + name] = value


def _prefix(who: str) -> str:
    return f"tune_{who.lower()}_"
