"""Learn: interactive pictures of the scheme, each with a question."""

from __future__ import annotations

import streamlit as st

from lcviz.ui import picture
from lcviz.ui.glossary import explained

from .numbers import write_numbers
from .page_numbers import choose_numbers, keep_numbers
from .page_start import keep, start
from .pictures import learn_picture


def page() -> None:
    """The whole page."""
    # A reader may have touched the recorded pictures before this server could draw its own.
    picture.act_on("told", _take)
    pictures = st.container(key="learn")
    with st.container(border=True, key="lesson"):
        numbers = choose_numbers()
        st.markdown(explained(":small[Sizes are of the [[code words|code word]] alone.]"))

    def keep_state(state: object) -> None:
        keep_numbers(keep(state), numbers)

    with pictures:
        picture.show(
            learn_picture(
                numbers.track, numbers.live, numbers.home, start(), tables=picture.tables_shown()
            ),
            "learn",
            {"told": keep_state},
        )


def _take(state: object) -> None:
    """Set the page to what was touched."""
    if (live := keep(state)) is not None:
        st.session_state["u"] = st.query_params["u"] = write_numbers(live)
