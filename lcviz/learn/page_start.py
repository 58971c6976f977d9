"""What a reader has done on Learn, in the URL and in the session."""

from __future__ import annotations

from typing import Any

import streamlit as st

from .pictures import BITS, LETTERS, Start
from .questions import QUESTIONS
from .values import FINEST

_STATE = "learn_state"  # in the session: URL parameter -> text
_X, _FOLLOW, _MERGES, _FOLDED = "learn_bits", "learn_follow", "learn_merges", "learn_folded"
_FINE = "learn_tolerance"
_ANSWERS = "learn_answers"  # picture-option, between commas; options count from 1
_DEFAULTS = {
    _X: "2",
    _FOLLOW: "c",
    _MERGES: str(Start.merges),
    _FOLDED: "0",
    _FINE: "8",
    _ANSWERS: "",
}
MOST = 99


def start() -> Start:
    """From the session, else from the URL; what makes no sense is left out."""
    found = st.session_state.get(_STATE)
    if found is None:
        found = {name: st.query_params[name] for name in _DEFAULTS if name in st.query_params}
    _remember(found)
    x, followed = found.get(_X, "2"), found.get(_FOLLOW, "c")
    answers = dict(part.partition("-")[::2] for part in found.get(_ANSWERS, "").split(","))
    return Start(
        x=next((one for one in BITS if str(one or "all") == x), 2),
        followed=max(LETTERS.find(followed), 0) if len(followed) == 1 else 2,
        merges=_count(found.get(_MERGES, _DEFAULTS[_MERGES])),
        folded=_count(found.get(_FOLDED, "")),
        fine=min(_count(found.get(_FINE, _DEFAULTS[_FINE])), FINEST),
        answers={
            name: _count(answers[name]) - 1
            for name, question in QUESTIONS.items()
            if 0 < _count(answers.get(name, "")) <= len(question.options)
        },
    )


def keep(told: Any) -> list[float] | None:
    """Keep what the pictures tell. Returns the live values if the reader has moved them."""
    answers = {name: at for name, at in told["answers"].items() if name in QUESTIONS}
    _remember(
        {
            _X: str(told["x"] or "all"),
            _FOLLOW: LETTERS[int(told["followed"])],
            _MERGES: str(int(told["merges"])),
            _FOLDED: str(int(told["folded"])),
            _FINE: str(int(told["fine"])),
            _ANSWERS: ",".join(f"{name}-{int(at) + 1}" for name, at in answers.items()),
        }
    )
    return None if told["live"] is None else [float(value) for value in told["live"]]


def _remember(found: dict[str, str]) -> None:
    st.session_state[_STATE] = found
    for name, default in _DEFAULTS.items():
        value = found.get(name, default)
        if value == default:
            st.query_params.pop(name, None)
        elif st.query_params.get(name) != value:
            st.query_params[name] = value


def _count(text: str) -> int:
    return min(int(text), MOST) if text.isascii() and text.isdigit() and len(text) < 5 else 0
