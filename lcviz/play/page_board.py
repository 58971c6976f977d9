"""The board on Live: with its example, or with a run on this server.

Nothing here imports the codec or torch: a new server shows the board before they are there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import streamlit as st

from lcviz.ui import picture

from . import board
from .given import Setting, recorded

HOSTED = (
    "An example that trains in your browser: logistic regression on handwritten digits, saved "
    "every 10 iterations. Everything on it can be touched."
)
CODE = """
export default () => {
  globalThis.lcvizBoard = (root, words, send) => {
    const example = { ...EXAMPLE, setting: words.use?.setting ?? {}, own: {} };
    const given = words.served ? { served: true } : example;
    root.dashboard ??= { words };
    root.dashboard.send = send;
    root.board ??= openBoard(root, given, root.dashboard);
    root.board.hear(words);
  };
  dispatchEvent(new Event("lcviz-board"));
};
"""
# Streamlit calls the default function again whenever the words change, and sends it along each
# time: so the code stands in a component of its own, whose words never change.
MOUNT = """
export default ({ parentElement: root, data: [words], setTriggerValue: send }) => {
  const open = () => globalThis.lcvizBoard(root, words, send);
  if (globalThis.lcvizBoard) open();
  else addEventListener("lcviz-board", open, { once: true });
  return () => {
    removeEventListener("lcviz-board", open);
    root.board?.close();
    delete root.board;
    delete root.dashboard;
  };
};
"""


def load() -> None:
    """Bring the board's code to the browser; draws nothing. Once on each page that has a board."""
    _code()(key="board-code")


def mount(
    events: picture.Events,
    *,
    use: tuple[int, Setting] | None = None,
    problem: str = "",
    wrong: str = "",
    started: str = "",
) -> None:
    """Show the board with its example. events: "tried" and "start". Others: see HostWords."""
    setting = None if use is None else {"n": use[0], "setting": use[1]}
    words = {"use": setting, "problem": problem, "wrong": wrong, "started": started}
    picture.connect(_component(), "picture-board", words, events)


def mount_run(
    run_id: str,
    pictures: Mapping[str, Any],
    state: Mapping[str, Any],
    problem: str,
    events: picture.Events,
) -> None:
    """Show the board with a run on this server.

    Args:
        run_id: A part of the component's key: a new run begins with an empty board.
        pictures: Place on the board -> facts of its picture.
        state: about, what is trained; interval and last, of the run; newest, a step; shown, the
            step of the pictures; step, the one that was chosen, None for the newest; carries.
        problem: What is not as asked for.
        events: Of all pictures, and "step", with 0 for the newest.
    """
    served = {"pictures": pictures, "state": state}
    picture.connect(
        _component(), f"picture-run-{run_id}", {"served": served, "problem": problem}, events
    )


@cache
def _code() -> Callable[..., Any]:
    example = {name: value for name, value in recorded().items() if name != "learn"}
    code = f"const EXAMPLE = {json.dumps(example)};\n{board.script(links=True)}{CODE}"
    component: Callable[..., Any] = st.components.v2.component("lcviz.board-code", js=code)
    return component


@cache
def _component() -> Callable[..., Any]:
    component: Callable[..., Any] = st.components.v2.component(
        "lcviz.board", html=board.markup(board.QUESTION, HOSTED), css=board.style(), js=MOUNT
    )
    return component
