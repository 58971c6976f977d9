"""The board as one HTML file that needs no server and no network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from . import board
from .given import Setting, given
from .given import recorded as recorded_example

TITLE = "lcviz: what can a checkpoint leave out?"
ABOUT = (
    "This page trains a small model, logistic regression on handwritten digits, and saves it "
    "every 10 iterations: in your browser, without a server."
)
RECORDED = (
    "A recorded chain: these pictures show what its records held when this file was made. Only "
    "Learn computes here."
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
    seed: int | None = None,
    setting: Setting | None = None,
    step: int | None = None,
    own: Setting | None = None,
) -> str:
    """The page that trains. seed, setting, step, own: see `given`."""
    values = given(seed, setting, step, own)
    return _page({**values, "learn": _alone(values["learn"])}, board.QUESTION, ABOUT)


def recorded_html(recorded: Recorded) -> str:
    """The page of a recorded chain."""
    learn = _alone(recorded_example()["learn"])
    values = {"learn": learn, "recorded": recorded.pictures, "opens": None}
    return _page(values, recorded.title, RECORDED)


def _alone(learn: dict[str, Any]) -> dict[str, Any]:
    """Learn's data where there is no glossary to link to."""
    pictures = [{**picture, "link": None} for picture in learn["pictures"]]
    return {**learn, "alone": True, "pictures": pictures}


def _page(values: dict[str, Any], question: str, about: str) -> str:
    """The page with what it begins with, and the two sentences at its top."""
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    code = board.script("learn", links=False, worker="recorded" not in values)
    script = f"{code}\nconst board = openBoard(document, {text}, null);"
    page = (Path(__file__).parent / "page" / "page.html").read_text(encoding="utf-8")
    return Template(page).substitute(
        title=escape(TITLE),
        style=board.style(),
        board=board.markup(question, about),
        script=script.replace("</", "<\\/"),
    )
