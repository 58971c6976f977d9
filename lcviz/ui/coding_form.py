"""The widgets that choose how deltas are coded. Each is bound to the URL.

The name of each parameter in the URL is the widget's key: the page's prefix, and keep, bits,
budget, tolerance, distance, quantizer, coder or scope.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import streamlit as st

from codec import Coding, inspect
from codec.inspect import DEFAULT_DISTANCE
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.text import CODER_NAMES, kept_name, kept_number

from .widgets import checked_number, choice

DEFAULT = Coding()
# The options' texts stand in the URL, so shared links depend on them.
NUMBERS = {  # the labels of the fields
    "budget": "Budget, % of float32",
    "tolerance": "Tolerance",
    "distance": "Distance, share of the change",
}
KEEP = {"bits": "Bits x", "distance": "Distance", "budget": "Budget", "tolerance": "Tolerance"}
QUANTIZERS = {"uniform": "equal steps", "exponent": "powers of two"}
LEAST_BUDGET = 0.005
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
    number_place: Container | None = None,
    coder_place: Container | None = None,
) -> Coding | None:
    """The coding that a visitor chooses; None if a number is wrong.

    Args:
        prefix: of the widgets' keys.
        default: the choice at first; it keeps bits.
        number_place: the container for the number of bits, the budget, the tolerance or the
            distance; by default the current one.
        coder_place: the container for the coder and the scope; by default the current one.
    """
    bits, budget, tolerance, distance, quantizer = None, None, None, None, None
    keep = choice(
        "Keep",
        KEEP,
        default="bits",
        key=f"{prefix}keep",
        persist_state="session",
        help="Bits: the 2ˣ − 1 largest buckets, as in the paper. Distance: at most this share of "
        "a change is left for the next checkpoint; the default of codec.Checkpointer. "
        "Budget: as much as fits into a size. Tolerance: no restored value is further off.",
    )
    with number_place or nullcontext():
        if keep == "bits":
            bits = bits_slider(f"{prefix}bits", default.bits)
        elif keep == "tolerance":
            tolerance = checked_number(
                NUMBERS["tolerance"],
                1e-9,
                10.0,
                1e-3,
                1e-4,
                key=f"{prefix}tolerance",
                text="The furthest a restored value may be from the live one. The size follows.",
                persist_state="session",
            )
        elif keep == "distance":
            distance = checked_number(
                NUMBERS["distance"],
                0.001,
                0.99,
                DEFAULT_DISTANCE,
                0.05,
                key=f"{prefix}distance",
                text="The share of a change that a checkpoint may leave for the next one: over all "
                "weights, or over each tensor if each has its own levels. The size follows from "
                "how much the weights have changed.",
                persist_state="session",
            )
        else:
            percent = checked_number(
                NUMBERS["budget"],
                100 * LEAST_BUDGET,
                50.0,
                5.0,
                0.5,
                key=f"{prefix}budget",
                text="The size of a whole record, against the same state in float32. A header "
                "alone takes about 250 bytes.",
                persist_state="session",
            )
            budget = None if percent is None else percent / 100
            quantizer = choice(
                "Levels",
                QUANTIZERS,
                default="uniform",
                key=f"{prefix}quantizer",
                persist_state="session",
                help="Equal steps come closer at the same size; powers of two are the paper's.",
            )
    with coder_place or nullcontext():
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
            help="One set for all parameters, as in the paper, or one for each tensor: closer in "
            "small tensors, a little larger.",
        )
    if keep != "bits" and budget is None and tolerance is None and distance is None:
        return None
    return Coding(bits, scope, coder, budget, tolerance, quantizer, distance)


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


def widget_values(coding: Coding) -> dict[str, Any]:
    """The values of the form's widgets for this coding, by their keys without the prefix."""
    keep = coding.target
    values: dict[str, Any] = {"keep": keep, "coder": coding.coder, "scope": coding.scope}
    if coding.budget is not None:
        return values | {keep: 100 * coding.budget, "quantizer": coding.quantizer}
    return values | {keep: getattr(coding, keep)}


def in_url(coding: Coding) -> dict[str, str]:
    """The parameters of the URL for this coding, without the prefix."""
    keep, number = coding.target, kept_number(coding)
    coder, scope = CODERS[coding.coder], SCOPES[coding.scope]
    values = {"keep": KEEP[keep], keep: number, "coder": coder, "scope": scope}
    if coding.budget is not None:
        values["quantizer"] = QUANTIZERS[coding.quantizer or "uniform"]
    return values
