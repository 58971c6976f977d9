"""The pages of the docs, their parts, and what the code says in their place."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATHS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
TEXTS = {  # path below docs/, or of a README -> text
    path.relative_to(ROOT).as_posix().removeprefix("docs/"): path.read_text("utf-8")
    for path in PATHS
}


def section(page: str, heading: str) -> str:
    """The part of a page below a heading, up to the next heading of that rank."""
    return TEXTS[page].split(f"\n## {heading}\n")[1].split("\n## ")[0]


def rows(text: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of all tables: the first cell of their head, and their cells."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *lines = ([c.strip() for c in row.split("|")[1:-1]] for row in table.splitlines())
        yield from ((head[0], line) for line in lines)


def spans(text: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`\n]+)`", text)


def value(place: str) -> Any:
    """What "module:expression" is: an expression of the names of that module."""
    module, expression = place.split(":", 1)
    return eval(expression, dict(vars(importlib.import_module(module))))
