"""The controls of A and B: two choices of the codec, side by side, in the URL."""

from __future__ import annotations

import streamlit as st

from codec import Coding
from lcviz.text import CODER_NAMES
from lcviz.ui import widgets
from lcviz.ui.settings import BITS, CODERS, KEEP, SCOPES, bits_name

DEFAULTS = {"A": Coding(2), "B": Coding(3)}
BUDGET = 5.0  # percent


def both() -> dict[str, Coding]:
    """ "A" and "B" as they are chosen now."""
    grid = st.grid(2, min_column_width=380, border=True, key="tune-sides")
    found = {}
    for who in DEFAULTS:
        with grid.cell():
            found[who] = _side(who)
    return found


def put(who: str, choice: Coding) -> None:
    """Set the controls of A or B to a choice with bits; called before they are drawn."""
    values = {"keep": "bits", "bits": choice.bits, "scope": choice.scope, "coder": choice.coder}
    for name, value in values.items():
        st.session_state[_key(who, name)] = value


def _side(who: str) -> Coding:
    default = DEFAULTS[who]
    st.markdown(f"**{who}**")
    with st.container(horizontal=True, key=f"tune-side-{who}"):
        keep = widgets.choice(
            "Keep",
            KEEP,
            default="bits",
            key=_key(who, "keep"),
            persist_state="session",
            help="The 2ˣ − 1 largest buckets, or as many as fit into a share of float32.",
        )
        scope = widgets.choice(
            "Buckets over",
            SCOPES,
            default=default.scope,
            key=_key(who, "scope"),
            persist_state="session",
            help="The same buckets for the whole model, as in the paper, or each tensor its own.",
        )
        coder = widgets.choice(
            "Coder",
            CODERS,
            default=default.coder,
            key=_key(who, "coder"),
            persist_state="session",
            help=" or ".join(CODER_NAMES.values()) + ": both without loss.",
        )
    if keep == "budget":
        percent = st.number_input(
            "Budget, % of float32",
            0.5,
            50.0,
            BUDGET,
            0.5,
            format="%g",
            key=_key(who, "budget"),
            bind="query-params",
            persist_state="session",
            help="Of a whole record, its header included.",
        )
        return Coding(None, scope, coder, percent / 100)
    bits: int | None = st.select_slider(
        "Bits x",
        BITS,
        default.bits,
        format_func=bits_name,
        key=_key(who, "bits"),
        bind="query-params",
        persist_state="session",
        help="“all” keeps every bucket.",
    )
    return Coding(bits, scope, coder)


def _key(who: str, name: str) -> str:
    return f"tune_{who.lower()}_{name}"
