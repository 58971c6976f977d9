"""The widgets that choose how deltas are coded. Each is bound to the URL.

A page's parameters in the URL are its keys: a prefix, and keep, bits, budget, coder or scope.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import streamlit as st

from codec import Coding, inspect
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.text import CODER_NAMES, kept_name

from .widgets import checked_number, choice

DEFAULT = Coding()
# The texts on the screen stand in the URL too: shared links have them.
BUDGET = "Budget, % of float32"  # the label of its field
KEEP = {"bits": "Bits x", "budget": "Budget"}
SCOPES = {"model": "whole model", "tensor": "each tensor"}
CODERS = {name: title.removesuffix(" Huffman") for name, title in CODER_NAMES.items()}  # short
Container = AbstractContextManager[Any]
_IN_URL: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}
_CODER_HELP = "Changes the size, not the restored weights. " + " ".join(
    f"{coder.title}: {coder.summary}" for coder in inspect.CODERS.values()
)


def coding_form(
    prefix: str = "",
    default: Coding = DEFAULT,
    number: Container | None = None,
    others: Container | None = None,
) -> Coding | None:
    """What a visitor chooses; None if a number is wrong.

    Args:
        prefix: of the widgets' keys.
        default: with bits.
        number: the container of bits or budget; by default the one that is open now.
        others: that of the coder and the scope.
    """
    bits, budget = None, None
    keep = choice(
        "Keep",
        KEEP,
        default="bits",
        key=f"{prefix}keep",
        persist_state="session",
        help="The buckets of largest magnitude: 2ˣ − 1 of them, or as many as fit into a budget of "
        "bytes.",
    )
    with number or nullcontext():
        if keep == "bits":
            bits = bits_slider(f"{prefix}bits", default.bits)
        else:
            percent = checked_number(
                BUDGET,
                0.5,
                50.0,
                5.0,
                0.5,
                key=f"{prefix}budget",
                text="Of a whole record against the same state in float32. A header alone takes "
                "about 250 bytes.",
                persist_state="session",
            )
            budget = None if percent is None else percent / 100
    with others or nullcontext():
        coder = choice(
            "Coder",
            CODERS,
            default=default.coder,
            key=f"{prefix}coder",
            persist_state="session",
            help=_CODER_HELP,
        )
        scope = choice(
            "Buckets over",
            SCOPES,
            default=default.scope,
            key=f"{prefix}scope",
            persist_state="session",
            help="One set for all parameters, as in the paper, or one for each tensor, which serves "
            "small tensors better and takes a little more space.",
        )
    wrong = keep == "budget" and budget is None
    return None if wrong else Coding(bits, scope, coder, budget)


def bits_slider(key: str, default: int | None = DEFAULT.bits) -> int | None:
    """Bits x; None keeps all buckets."""
    bits: int | None = st.select_slider(
        "Bits x for priority promotion",
        EVERY_BITS,
        default,
        format_func=kept_name,
        key=key,
        help="Keeps the 2ˣ − 1 buckets of largest magnitude; “all”: the exponent stage alone.",
        **_IN_URL,
    )
    return bits


def chosen(coding: Coding) -> dict[str, Any]:
    """The values of the form's widgets for this choice, by their keys without the prefix."""
    keep = "bits" if coding.budget is None else "budget"
    number = coding.bits if coding.budget is None else 100 * coding.budget
    return {"keep": keep, keep: number, "coder": coding.coder, "scope": coding.scope}


def in_url(coding: Coding) -> dict[str, str]:
    """The same as parameters of the URL."""
    keep = "bits" if coding.budget is None else "budget"
    number = kept_name(coding.bits, coding.budget).removesuffix(" %")
    coder, scope = CODERS[coding.coder], SCOPES[coding.scope]
    return {"keep": KEEP[keep], keep: number, "coder": coder, "scope": scope}
