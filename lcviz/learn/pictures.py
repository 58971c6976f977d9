"""Learn's pictures: their texts, their questions, and the values that they draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from lcviz.lab.lesson import lesson
from lcviz.ui.glossary import TERMS, address
from lcviz.ui.picture import Picture

from .neighbours import neighbours_values
from .numbers import MOST
from .questions import QUESTIONS
from .runs import runs_values
from .values import CHECKPOINTS, FINEST, checkpoints_of, values_of

BITS = (1, 2, 3, None)
LETTERS = "abcdefghijklmnop"
HEADING = "Learn: why is a checkpoint this small?"
ABOUT = "A checkpoint lets a training go on after a crash. Touch a picture: the others follow."
PICTURES = {  # module -> title, subtitle, text, term of the glossary
    "delta": (
        "δ",
        "only the difference",
        "Each arrow goes from what a restart would load to what the model has.",
        "delta",
    ),
    "levels": (
        "Exponents",
        "buckets in powers of two",
        "Buckets in powers of two, one for each sign. All members of a bucket become its level.",
        "exponent",
    ),
    "slots": (
        "Promotion",
        "the largest first",
        "The largest buckets get a slot. The others wait for the next checkpoint.",
        "priority promotion",
    ),
    "tree": (
        "Huffman",
        "short words",
        "Huffman's tree: the two rarest tiles join until one tree is left.",
        "Huffman code",
    ),
    "runs": (
        "Runs",
        "of zeros, in 200 other values",
        "Two hundred values, nearly all of them 0. A run of zeros becomes one word.",
        "run-length coder",
    ),
    "restart": (
        "Restart",
        "",
        "The track follows the model from checkpoint to checkpoint.",
        "track",
    ),
    "steps": (
        "Beyond the paper",
        "equal steps",
        "Two number lines. Buckets grow with the change; steps are of one size.",
        "uniform quantizer",
    ),
    "neighbours": (
        "Neighbours",
        "beyond the paper: they change together",
        "The δ of 640 weights. Rows and columns change together, as a context code expects.",
        "context code",
    ),
}
BEYOND = {"steps", "neighbours"}


@dataclass(frozen=True)
class Start:
    """The state in which the pictures start: what a reader has done so far.

    x: bits of promotion. followed: index of the number that all pictures mark. merges: how many
    merges of tiles are done; if there are fewer, all. folded: how many runs are folded. fine: sets
    the tolerance, see `steps_of`. answers: picture -> index of the chosen option.
    """

    x: int | None = 2
    followed: int = 2
    merges: int = MOST - 1
    folded: int = 0
    fine: int = 8
    answers: Mapping[str, int] = field(default_factory=dict)


def learn_picture(
    track: Sequence[float],
    live: Sequence[float],
    home: Sequence[float],
    start: Start,
    *,
    tables: bool = False,
) -> Picture:
    """All pictures as one, with the ribbon above them.

    Args:
        track, live: 2 to 16 float32 values each.
        home: Live values that *Start over* brings back.
        start: The reader's state.
        tables: Whether to show the numbers under each picture.
    """
    lessons = [
        {"x": x, "lesson": values_of(lesson(track, live, x))}
        | {"checkpoints": checkpoints_of(track, live, x)}
        for x in BITS
    ]
    values = {
        "heading": HEADING,
        "about": ABOUT,
        "pictures": [_picture(i, name) for i, name in enumerate(PICTURES, 1)],
        "names": list(LETTERS[: len(live)]),
        "track": _as_float32(track),
        "live": _as_float32(live),
        "home": _as_float32(home),
        "options": list(BITS),
        "lessons": lessons,
        "runs": runs_values(),
        "neighbours": neighbours_values(),
        "checkpoints": CHECKPOINTS,
        "finest": FINEST,
        "start": asdict(start),
        "first": asdict(replace(Start(), followed=min(Start.followed, len(live) - 1))),
        "tables": tables,
    }
    lesson_on_page = lessons[BITS.index(start.x)]
    return Picture(
        "learn",
        {"title": "Learn", "about": ABOUT, "text": "Six pictures, and two beyond the paper."}
        | values,
        partial(_table, lesson_on_page),
    )


def _as_float32(values: Sequence[float]) -> list[float]:
    rounded: list[float] = np.array(values, np.float32).tolist()
    return rounded


def _picture(number: int, name: str) -> dict[str, Any]:
    title, about, text, term = PICTURES[name]
    return {
        "picture": name,
        "beyond": name in BEYOND,
        "number": number,
        "title": title,
        "about": about,
        "text": text,
        "help": TERMS[term].text,
        "link": address(term),
        "question": asdict(QUESTIONS[name]),
    }


def _table(lesson_values: dict[str, Any]) -> pd.DataFrame:
    """All stages of every number."""
    numbers = pd.DataFrame(lesson_values["lesson"]["numbers"])
    return numbers[["track", "live", "delta", "middle", "written", "rebuilt"]]
