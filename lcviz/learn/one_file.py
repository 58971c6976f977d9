"""The Learn page as one HTML file that needs no server and no network."""

from __future__ import annotations

import json
from pathlib import Path
from string import Template

from lcviz.ui import picture

from .numbers import TRACK, TRAINED, read_numbers
from .pictures import HEADING, Start, learn_picture

_PAGE = Path(__file__).with_name("page.html")


def learn_html() -> str:
    """The page with the example's ten numbers."""
    track, live = read_numbers(TRACK), read_numbers(TRAINED)
    lesson = learn_picture(track, live, live, Start(), alone=True)
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        title=HEADING,
        style=picture.style().replace(":host", ":root"),
        script=picture.drawing(lesson.name),
        data=json.dumps(lesson.data, allow_nan=False, separators=(",", ":")).replace("</", "<\\/"),
    )
