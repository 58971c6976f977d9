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
MODULES = "headline weights buckets steps bits curves examples tensors gaps"
_FOLDER = Path(__file__).parent
# Comments on lines of their own, indentation and empty lines: together a fifteenth of the page.
_UNREAD = re.compile(r"^ *(/\*\*.*?\*/\n|//[^\n]*\n)|^ +|^\n", re.DOTALL | re.MULTILINE)


def _files(folder: str, names: str) -> list[Path]:
    return [_FOLDER / folder / f"{name}.js" for name in names.split()]


WORKER = (  # each file uses those before it
    picture.FOLDER / "numbers.js",
    *picture.SCHEME,
    *_files("worker", "random digits regression run record rivals race"),
    *_files("worker/pictures", "headline weights buckets bits loss race"),
    *_files("worker/files", "safetensors series exact player pictures"),
    *_files("worker", "worker messages"),
)
PAGE = _files("page", "address places recorded served in_worker guide lecture main files host")


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
        f"const WORKER = {json.dumps(_UNREAD.sub('', code), ensure_ascii=False)};",
        picture.shared_script(links=links),
        "const DRAW = {};",
        *(
            f"DRAW.{name} = (() => {{\n{picture.own_script(name)}\nreturn draw;\n}})();"
            for name in (*MODULES.split(), *modules)
        ),
        "function openBoard(ROOT, GIVEN, HOST) {",
        *map(_read, PAGE),
        "}",
    ]
    return _UNREAD.sub("", "\n".join(parts))


def markup(question: str, about: str) -> str:
    """The board's elements, with the two sentences at its top. about: HTML."""
    template = Template(_read(_FOLDER / "page" / "board.html"))
    return template.substitute(question=escape(question), about=about)


def style() -> str:
    """The style of everything but the pictures."""
    return _read(_FOLDER / "page" / "page.css")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
