"""The play page as one HTML file that needs no server and no network."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from lcviz.server.runs import EXAMPLE, EXAMPLE_OPENS
from lcviz.ui import picture
from lcviz.ui.recording import QUESTION

from .given import Setting, given, learn_data

TITLE = "lcviz: what can a checkpoint leave out?"
ABOUT = (
    "This page trains a small model, logistic regression on handwritten digits, and saves it "
    "every 10 iterations: in your browser, without a server."
)
RECORDED = (
    "A recorded chain: these pictures show what its records held when this file was made. Only "
    "Learn computes here."
)
MODULES = ("headline", "weights", "buckets", "steps", "bits", "curves", "examples", "learn")
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
    for name in ("address", "places", "recorded", "guide", "lecture", "main")
)


@dataclass(frozen=True)
class Recorded:
    """A recorded chain in the place of the page's own training.

    Attributes:
        title: Of the chain.
        pictures: base64 of deflated JSON: {"lines", "steps"}. lines: place on the page -> points
            that all steps share. steps: a list of {"step", "pictures"} by rising step, where
            pictures is place -> facts.
    """

    title: str
    pictures: str


def play_html(
    seed: int = EXAMPLE.seed,
    setting: Setting | None = None,
    step: int = EXAMPLE_OPENS,
    own: Setting | None = None,
) -> str:
    """The page that trains. seed, setting, step, own: see `given`."""
    return _page(given(seed, setting, step, own), QUESTION, ABOUT)


def recorded_html(recorded: Recorded) -> str:
    """The page of a recorded chain."""
    values = {"learn": learn_data(), "recorded": recorded.pictures, "opens": None}
    return _page(values, recorded.title, RECORDED)


def _page(values: dict[str, Any], question: str, about: str) -> str:
    """The page with what it begins with, and the two sentences at its top."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    script = [
        f"const GIVEN = {text};",
        f"const PICTURE_STYLE = {json.dumps(picture.style())};",
        picture.shared_script(links=False),
        "const DRAW = {};",
        *(
            f"DRAW.{name} = (() => {{\n{picture.own_script(name)}\nreturn draw;\n}})();"
            for name in MODULES
        ),
        *map(_read, PAGE),
    ]
    return Template(_read(_FOLDER / "page" / "page.html")).substitute(
        title=TITLE,
        question=escape(question),
        about=about,
        style=_read(_FOLDER / "page" / "page.css"),
        worker="" if "recorded" in values else _embedded("".join(map(_read, WORKER))),
        script=_embedded("\n".join(script)),
    )


def _embedded(script: str) -> str:
    """A script as it can stand in HTML, without its documentation."""
    return _TYPES.sub("", script).replace("</", "<\\/")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
