"""The state of a reader on Learn, in the URL and in the session."""

from __future__ import annotations

from typing import Any

import streamlit as st

from .pictures import BITS, LETTERS, Start
from .questions import QUESTIONS
from .values import FINEST

_STATE = "learn_state"  # in the session: URL parameter -> text
_X, _FOLLOW, _MERGES, _FOLDED = "learn_bits", "learn_follow", "learn_merges", "learn_folded"
_FINE = "learn_tolerance"
_ANSWERS = "learn_answers"  # "picture-option", separated by commas; options count from 1
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
    """The reader's state from the session, else from the URL. Defaults replace invalid texts."""
    texts = st.session_state.get(_STATE)
    if texts is None:
        texts = {name: st.query_params[name] for name in _DEFAULTS if name in st.query_params}
    _remember(texts)
    x, followed = texts.get(_X, "2"), texts.get(_FOLLOW, "c")
    answers = dict(part.partition("-")[::2] for part in texts.get(_ANSWERS, "").split(","))
    return Start(
        x=next((bits for bits in BITS if str(bits or "all") == x), 2),
        followed=max(LETTERS.find(followed), 0) if len(followed) == 1 else 2,
        merges=_count(texts.get(_MERGES, _DEFAULTS[_MERGES])),
        folded=_count(texts.get(_FOLDED, "")),
        fine=min(_count(texts.get(_FINE, _DEFAULTS[_FINE])), FINEST),
        answers={
            name: _count(answers[name]) - 1
            for name, question in QUESTIONS.items()
            if 0 < _count(answers.get(name, "")) <= len(question.options)
        },
    )


def keep(state: Any) -> list[float] | None:
    """Keep the state that the pictures report. Returns the live values if the reader moved them."""
    answers = {name: option for name, option in state["answers"].items() if name in QUESTIONS}
    _remember(
        {
            _X: str(state["x"] or "all"),
            _FOLLOW: LETTERS[int(state["followed"])],
            _MERGES: str(int(state["merges"])),
            _FOLDED: str(int(state["folded"])),
            _FINE: str(int(state["fine"])),
            _ANSWERS: ",".join(f"{name}-{int(option) + 1}" for name, option in answers.items()),
        }
    )
    return None if state["live"] is None else [float(value) for value in state["live"]]


def _remember(texts: dict[str, str]) -> None:
    st.session_state[_STATE] = texts
    for name, default in _DEFAULTS.items():
        text = texts.get(name, default)
        if text == default:
            st.query_params.pop(name, None)
        elif st.query_params.get(name) != text:
            st.query_params[name] = text


def _count(text: str) -> int:
    return min(int(text), MOST) if text.isascii() and text.isdigit() and len(text) < 5 else 0
