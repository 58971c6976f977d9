"""Learn: ten numbers, or some weights of the run, through all four stages, one question each."""

from __future__ import annotations

import streamlit as st

from lcviz.ui.glossary import explained

from .page_buckets import delta, exponents, promotion
from .page_codes import huffman, restart
from .page_example import choose_example
from .page_quiz import Quiz


def page() -> None:
    """The whole page."""
    st.title("Learn: a checkpoint, number by number", anchor=False)
    st.markdown(
        explained(
            "A [[checkpoint]] lets training go on after a crash. LC-Checkpoint makes it small in "
            "four steps: it takes the **difference [[δ|delta]]** to what a restart would load, "
            "sorts the differences into **[[exponent]] [[buckets|bucket]] (E)**, keeps the largest "
            "of them (**[[priority promotion]], P**) and writes what is left with a **[[Huffman "
            "code]] (H)**. Below you can do all four by hand. Answer the question to open the next "
            "step, or open everything."
        )
    )
    example = choose_example()
    if example is None:
        return
    quiz = Quiz(st.session_state.get("everything", False))
    for step in (delta, exponents, promotion, huffman, restart):
        with st.container(border=True, key=step.__name__):
            if not step(example, quiz):
                break
