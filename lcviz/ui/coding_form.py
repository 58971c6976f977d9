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

from .widgets import choice

DEFAULT = Coding()
# The texts on the screen stand in the URL too: shared links have them.
KEEP = {"bits": "Bits x", "budget": "Budget"}
SCOPES = {"model": "whole model", "tensor": "each tensor"}
CODERS = {name: title.removesuffix(" Huffman") for name, title in CODER_NAMES.items()}  # short
Container = AbstractContextManager[Any]
_IN_URL: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}
_CODER_HELP = "How the kept values become bits. The restored weights are the same. " + " ".join(
    f"{coder.title}: {coder.summary}" for coder in inspect.CODERS.values()
)


def coding_form(
    prefix: str = "",
    default: Coding = DEFAULT,
    number: Container | None = None,
    others: Container | None = None,
) -> Coding:
    """What a visitor chooses.

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
        help="Priority promotion keeps the buckets of largest magnitude. Bits x: always 2ˣ − 1 "
        "buckets, of any size. Budget: as many as fit into so many bytes, so all checkpoints have "
        "about the same size.",
    )
    with number or nullcontext():
        if keep == "bits":
            bits = bits_slider(f"{prefix}bits", default.bits)
        else:
            percent = st.number_input(
                "Budget, % of float32",
                0.5,
                50.0,
                5.0,
                0.5,
                format="%g",
                key=f"{prefix}budget",
                help="Of a whole record with its header, against the same state in float32. A "
                "small model needs more: a header takes about 250 bytes.",
                **_IN_URL,
            )
            budget = percent / 100
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
            help="One set of buckets for all parameters, as in the paper, or one for each tensor, "
            "which follows small tensors more closely and takes a little more space.",
        )
    return Coding(bits, scope, coder, budget)


def bits_slider(key: str, default: int | None = DEFAULT.bits) -> int | None:
    """Bits x; None keeps all buckets."""
    bits: int | None = st.select_slider(
        "Bits x for priority promotion",
        EVERY_BITS,
        default,
        format_func=kept_name,
        key=key,
        help="Keeps the 2ˣ − 1 buckets of largest magnitude and sets all other changes to 0. "
        "“all” keeps every bucket: the exponent stage alone.",
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
