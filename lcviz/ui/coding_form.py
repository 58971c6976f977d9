"""The widgets that choose how deltas are coded. Each is bound to the URL.

The name of each parameter in the URL is the widget's key: the page's prefix, and keep, bits,
budget, tolerance, distance, quantizer, coder or scope.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import streamlit as st

from codec import Coding, inspect
from codec.inspect import DEFAULT_DISTANCE
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.text import CODER_NAMES, kept_name, kept_number

from .widgets import IN_URL, Limits, checked_number, choice

DEFAULT = Coding()
# The options' texts stand in the URL, so shared links depend on them.
KEEP = {"bits": "Bits x", "distance": "Distance", "budget": "Budget", "tolerance": "Tolerance"}
QUANTIZERS = {"uniform": "equal steps", "exponent": "powers of two"}
LEAST_BUDGET, MOST_BUDGET = 0.005, 0.5
SCOPES = {"model": "whole model", "tensor": "each tensor"}
CODERS = {name: title.removesuffix(" Huffman") for name, title in CODER_NAMES.items()}  # short
Container = AbstractContextManager[Any]
_CODER_HELP = "Changes the size, not the restored weights. " + " ".join(
    f"{coder.title}: {coder.summary}" for coder in inspect.CODERS.values()
)


@dataclass(frozen=True)
class _Target:
    """What a delta keeps instead of bits: the field for its number. whole: the number of 1."""

    label: str
    limits: Limits[float]
    text: str
    whole: float = 1.0


TARGETS = {
    "tolerance": _Target(
        "Tolerance",
        Limits(1e-9, 10.0, 1e-3, 1e-4),
        "The furthest a restored value may be from the live one. The size follows.",
    ),
    "distance": _Target(
        "Distance, share of the change",
        Limits(0.001, 0.99, DEFAULT_DISTANCE, 0.05),
        "The share of a change that a checkpoint may leave for the next one: over all weights, or "
        "over each tensor if each has its own levels. The size follows from how much the weights "
        "have changed.",
    ),
    "budget": _Target(
        "Budget, % of float32",
        Limits(100 * LEAST_BUDGET, 100 * MOST_BUDGET, 5.0, 0.5),
        "The size of a whole record, against the same state in float32. A header alone takes about "
        "175 bytes.",
        whole=100.0,
    ),
}


def coding_form(
    prefix: str = "",
    default: Coding = DEFAULT,
    coder_place: Container | None = None,
) -> Coding | None:
    """The coding that a visitor chooses; None if a number is wrong.

    Args:
        prefix: of the widgets' keys.
        default: the choice at first; it keeps bits or DEFAULT_DISTANCE.
        coder_place: the container for the coder and the scope; by default the current one.
    """
    keep = choice(
        "Keep",
        KEEP,
        default=default.target,
        key=f"{prefix}keep",
        persist_state="session",
        help="Bits: the 2ˣ − 1 largest buckets, as in the paper. Distance: at most this share of "
        "a change is left for the next checkpoint; the default of codec.Checkpointer. "
        "Budget: as much as fits into a size. Tolerance: no restored value is further off.",
    )
    arguments = _what_is_kept(keep, prefix, (default if default.by_bits else DEFAULT).bits)
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
    return None if arguments is None else Coding(scope=scope, coder=coder, **arguments)


def _what_is_kept(keep: str, prefix: str, bits: int | None) -> dict[str, Any] | None:
    """The arguments of a coding that say what it keeps; None if the number is wrong."""
    if keep == "bits":
        bits = st.select_slider(
            "Bits x for priority promotion",
            EVERY_BITS,
            bits,
            format_func=kept_name,
            key=f"{prefix}bits",
            help="Keeps the 2ˣ − 1 buckets of largest magnitude; “all”: the exponent stage alone.",
            **IN_URL,
        )
        return {"bits": bits}
    target = TARGETS[keep]
    number = checked_number(
        target.label,
        target.limits,
        key=f"{prefix}{keep}",
        text=target.text,
        persist_state="session",
    )
    quantizer = None
    if keep == "budget":
        quantizer = choice(
            "Levels",
            QUANTIZERS,
            default="uniform",
            key=f"{prefix}quantizer",
            persist_state="session",
            help="Equal steps come closer at the same size; powers of two are the paper's.",
        )
    if number is None:
        return None
    return {keep: number / target.whole, "quantizer": quantizer}


def widget_values(coding: Coding) -> dict[str, Any]:
    """The values of the form's widgets for this coding, by their keys without the prefix."""
    keep = coding.target
    values: dict[str, Any] = {"keep": keep, "coder": coding.coder, "scope": coding.scope}
    if coding.budget is not None:
        return values | {keep: 100 * coding.budget, "quantizer": coding.quantizer}
    return values | {keep: getattr(coding, keep)}


def in_url(coding: Coding, prefix: str = "") -> dict[str, str]:
    """The parameters of the URL for this coding: its widgets' texts. prefix: of their keys."""
    texts = {"keep": KEEP, "coder": CODERS, "scope": SCOPES, "quantizer": QUANTIZERS}
    return {
        prefix + name: texts[name][value] if name in texts else kept_number(coding)
        for name, value in widget_values(coding).items()
    }
