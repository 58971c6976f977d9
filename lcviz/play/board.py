"""The board: one page of pictures with its controls, as a component of the dashboard or as a file.

Nothing here imports the codec or torch: a new server shows the board before they are there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import streamlit as st

from lcviz.ui import picture

from .given import Setting, recorded

QUESTION = "What can you throw away and still restart after a crash?"
HOSTED = (
    "An example that trains in your browser: logistic regression on handwritten digits, saved "
    "every 10 iterations. Everything on it can be touched."
)
MODULES = ("headline", "weights", "buckets", "steps", "bits", "curves", "examples")
_FOLDER = Path(__file__).parent
_TYPES = re.compile(r"^ */\*\*.*?\*/\n", re.DOTALL | re.MULTILINE)
WORKER = (  # each file uses those before it
    picture.FOLDER / "numbers.js",
    *picture.SCHEME,
    *(
        _FOLDER / "worker" / f"{name}.js"
        for name in ("random", "digits", "regression", "run", "record", "rivals", "race")
    ),
    *(
        _FOLDER / "worker" / "pictures" / f"{name}.js"
        for name in ("headline", "weights", "buckets", "bits", "loss", "race")
    ),
    *(_FOLDER / "worker" / f"{name}.js" for name in ("worker", "messages")),
)
PAGE = tuple(
    _FOLDER / "page" / f"{name}.js"
    for name in ("address", "places", "recorded", "served", "guide", "lecture", "main", "host")
)
CODE = """
export default () => {
  globalThis.lcvizBoard = (root, words, send) => {
    const example = { ...EXAMPLE, setting: words.use?.setting ?? {}, own: {} };
    const given = words.served ? { served: true } : example;
    root.board ??= openBoard(root, given, { words, send });
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
    root.board?.close();
    delete root.board;
  };
};
"""


def script(*modules: str, links: bool, worker: bool = True) -> str:
    """A script with the function openBoard(ROOT, GIVEN, HOST), see main.js.

    Args:
        modules: Of pictures, beside MODULES.
        links: Whether there is a glossary to link to.
        worker: Whether the worker is part of it.
    """
    code = "".join(map(_read, WORKER)) if worker else ""
    parts = [
        f"const PICTURE_STYLE = {json.dumps(picture.style())};",
        f"const WORKER = {json.dumps(_TYPES.sub('', code), ensure_ascii=False)};",
        picture.shared_script(links=links),
        "const DRAW = {};",
        *(
            f"DRAW.{name} = (() => {{\n{picture.own_script(name)}\nreturn draw;\n}})();"
            for name in (*MODULES, *modules)
        ),
        "function openBoard(ROOT, GIVEN, HOST) {",
        *map(_read, PAGE),
        "}",
    ]
    return _TYPES.sub("", "\n".join(parts))


def markup(question: str, about: str) -> str:
    """The board's elements, with the two sentences at its top. about: HTML."""
    template = Template(_read(_FOLDER / "page" / "board.html"))
    return template.substitute(question=escape(question), about=about)


def style() -> str:
    """The style of everything but the pictures."""
    return _read(_FOLDER / "page" / "page.css")


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
    pictures: Mapping[str, Any], state: Mapping[str, Any], problem: str, events: picture.Events
) -> None:
    """Show the board with a run on this server.

    Args:
        pictures: Place on the board -> facts of its picture.
        state: interval and last, of the run; newest, a step; shown, the step of the pictures; step,
            the one that was chosen, None for the newest.
        problem: What is not as asked for.
        events: Of all pictures, and "step", with 0 for the newest.
    """
    served = {"pictures": pictures, "state": state}
    picture.connect(_component(), "picture-run", {"served": served, "problem": problem}, events)


@cache
def _code() -> Callable[..., Any]:
    example = {name: value for name, value in recorded().items() if name != "learn"}
    code = f"const EXAMPLE = {json.dumps(example)};\n{script(links=True)}{CODE}"
    component: Callable[..., Any] = st.components.v2.component("lcviz.board-code", js=code)
    return component


@cache
def _component() -> Callable[..., Any]:
    component: Callable[..., Any] = st.components.v2.component(
        "lcviz.board", html=markup(QUESTION, HOSTED), css=style(), js=MOUNT
    )
    return component


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
