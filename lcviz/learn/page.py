"""Learn: six pictures of the scheme that can be touched, a question under each."""

from __future__ import annotations

import streamlit as st

from lcviz.ui import picture, recording
from lcviz.ui.glossary import explained

from .numbers import write_numbers
from .page_numbers import choose_numbers, keep_numbers
from .page_start import keep, start
from .pictures import learn_picture


def page() -> None:
    """The whole page."""
    if (early := recording.learn_told()) is not None and (moved := keep(early)) is not None:
        st.session_state["u"] = st.query_params["u"] = write_numbers(moved)
    pictures = st.container(key="learn")
    with st.container(border=True, key="lesson"):
        chosen = choose_numbers()
        st.markdown(
            explained(
                ":small[A [[checkpoint]] lets training go on after a crash. Three stages make it "
                "small: [[buckets|bucket]] by [[exponent]], [[priority promotion]] and a "
                "[[Huffman code]]. Sizes are of the [[code words|code word]] alone.]"
            )
        )

    def told(what: object) -> None:
        keep_numbers(keep(what), chosen)

    with pictures:
        picture.show(
            learn_picture(
                chosen.track,
                chosen.live,
                chosen.home,
                start(),
                tables=picture.tables_shown(),
            ),
            "learn",
            {"told": told},
        )
