"""One weight over the steps of a run, and what became of it in one of them, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lcviz.lab.follow_weight import Followed, WeightCode
from lcviz.text import exponent_text, minus, plural
from lcviz.ui.charts import plotted
from lcviz.ui.picture import Picture

from .followed import Thread

HEIGHT = 118  # CSS pixels
DIGITS = 9  # after the point: weights are small


def weight_picture(thread: Thread, interval: int, last: int, *, carries: bool = True) -> Picture:
    """Trained and restored value of one weight: u goes its way, ũ follows in steps.

    Args:
        thread: The weight.
        interval: Iterations between two steps.
        last: Where the axis ends.
        carries: Whether what a checkpoint leaves out stays in the next δ.
    """
    f, stairs = thread.followed, thread.stairs
    # ũ is known just before each step: it has been there since the step before.
    track = {step - interval: stair.track for step, stair in stairs.items()}
    track |= {f.step: f.restored}
    lines = [
        _line("u trained", "down", {step: stair.u for step, stair in stairs.items()}, {}),
        _line("ũ restored", "up", dict(sorted(track.items())), {"stairs": True, "dash": "solid"}),
    ]
    return Picture(
        "curves",
        "One weight",
        name_text(f),
        _in_words(f, carries),
        {
            "lines": lines,
            "marks": [{"step": f.step, "text": f"step {f.step}", "strong": False}],
            "range": [0, last],
            "log": False,
            "unit": "step",
            "height": HEIGHT,
            "clickable": True,
        },
        pd.DataFrame(
            {
                "step": list(stairs),
                "trained u": [stair.u for stair in stairs.values()],
                "ũ before it": [stair.track for stair in stairs.values()],
            }
        ),
    )


def _line(
    name: str, colour: str, values: Mapping[int, float], more: Mapping[str, Any]
) -> dict[str, Any]:
    y = [plotted(value, DIGITS) for value in values.values()]
    return {"name": name, "colour": colour, "dash": "solid", "x": list(values), "y": y} | dict(more)


def name_text(f: Followed) -> str:
    """'conv1.weight (0, 0, 1, 2)'."""
    place = ", ".join(str(i) for i in f.weight.place(f.shape))
    return f"{f.weight.tensor} ({place})"


def bucket_text(f: Followed) -> str:
    """Its bucket, '+2⁻⁷', or why it has none."""
    if f.exact:
        return "stored exactly"
    return "none: δ is 0" if f.bucket is None else exponent_text(f.bucket.exponent, f.bucket.sign)


def said_text(f: Followed) -> str:
    """The bits that tell of it, in words."""
    if f.exact:
        return "32 bits of the value"
    if f.code is None:
        return "none: zeros at a stream's end need no bits"
    return _said(f.code)


def _said(said: WeightCode) -> str:
    if said.arithmetic:
        return "a part of one arithmetic code, which has no words"
    if not said.word:
        return "none: all values have the same level"
    after = f" + {plural(said.extra_bits, 'bit')}" if said.extra_bits else ""
    text = f"{said.word}{after}"
    if said.escaped:
        text += ", an escape"
    if said.run is None:
        return text
    if said.zero:
        return f"{text}: zero {said.zero} of a run of {said.run}"
    return (
        f"{text}: {plural(said.run, 'zero')}, then it"
        if said.run
        else f"{text}: no zeros before it"
    )


def number_text(value: float, sign: str = "") -> str:
    """A weight or a change, four digits."""
    return minus(f"{value:{sign}.4g}") if value else "0"


def _bracketed(number: str) -> str:
    """As what is subtracted: two signs do not stand side by side."""
    return f"({number})" if number.startswith("−") else number


def _in_words(f: Followed, carries: bool) -> str:
    if f.exact:
        return f"Stored exactly in step {f.step}: {number_text(f.live)}."
    left_out = "it stays in the next δ" if carries else "it is lost"
    level = number_text(f.level, "+") if f.level else f"0: {left_out}"
    delta = number_text(f.delta, "+")
    if carries:
        both = f"{number_text(f.live)} − {_bracketed(number_text(f.track))}"
        delta = f"δ = u − ũ = {both} = {delta}"
    else:
        delta = f"Changed by {delta} since the last checkpoint"
    return f"{delta}, bucket {bucket_text(f)}, level {level}. Code: {said_text(f)}."
