"""The board: one page of pictures with its controls, as a component of the dashboard or as a file.

Nothing here imports the codec or torch: a new server shows the board before they are there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
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
    "An example that trains in your browser: logistic regression on handwritten digits, saved every "
    "10 iterations. Everything on it can be touched."
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
    for name in ("address", "places", "recorded", "guide", "lecture", "main", "host")
)
# Streamlit calls the default function again whenever the words change.
MOUNT = """
export default ({ parentElement: root, data: [words], setTriggerValue: send }) => {
  const given = { ...EXAMPLE, setting: words.use?.setting ?? {}, own: {} };
  root.board ??= openBoard(root, given, { words, send });
  root.board.hear(words);
  return () => {
    root.board.close();
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


def mount(words: dict[str, Any], events: picture.Events) -> None:
    """Show the board. words: the type `HostWords` of host.js. events: "tried" and "start"."""
    picture.connect(_component(), "picture-board", words, events)


def words(
    use: tuple[int, Setting] | None = None, problem: str = "", wrong: str = "", started: str = ""
) -> dict[str, Any]:
    """What the dashboard says to the board, see `HostWords` in host.js."""
    setting = None if use is None else {"n": use[0], "setting": use[1]}
    return {"use": setting, "problem": problem, "wrong": wrong, "started": started}


@cache
def _component() -> Callable[..., Any]:
    example = {name: value for name, value in recorded().items() if name != "learn"}
    code = f"const EXAMPLE = {json.dumps(example)};\n{script(links=True)}{MOUNT}"
    component: Callable[..., Any] = st.components.v2.component(
        "lcviz.board", html=markup(QUESTION, HOSTED), css=style(), js=code
    )
    return component


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
