"""The board: one page of pictures with its controls, put together as elements, style and script.

It stands on Live, see page_board, and in a file, see one_file.
"""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from string import Template

from lcviz.ui import picture

QUESTION = "What can you throw away and still restart after a crash?"
MODULES = ("headline", "weights", "buckets", "steps", "bits", "curves", "examples", "tensors")
_FOLDER = Path(__file__).parent
_PAGE = (
    *("address", "places", "recorded", "served", "in_worker", "guide", "lecture", "main"),
    *("files", "host"),
)
_FILES = ("safetensors", "series", "player", "pictures")
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
    *(_FOLDER / "worker" / "files" / f"{name}.js" for name in _FILES),
    *(_FOLDER / "worker" / f"{name}.js" for name in ("worker", "messages")),
)
PAGE = tuple(_FOLDER / "page" / f"{name}.js" for name in _PAGE)


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


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
