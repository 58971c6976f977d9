"""One weight over the steps of a run, and what one step does to it, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lcviz.lab.follow_weight import Followed, WeightCode
from lcviz.text import exponent_text, minus, plural
from lcviz.ui.charts import plotted
from lcviz.ui.picture import Picture

from .followed import WeightHistory

HEIGHT = 118  # CSS pixels
DIGITS = 9  # after the point: weights are small


def weight_picture(
    history: WeightHistory, interval: int, last: int, *, carries: bool = True
) -> Picture:
    """Trained and restored value of one weight: u is trained, ũ follows in steps.

    Args:
        history: The weight.
        interval: Iterations between two checkpoints.
        last: The end of the axis.
        carries: Whether what a checkpoint leaves out stays in the next δ.
    """
    f, stairs = history.followed, history.stairs
    # A stair has ũ just before its step: the value since the step before.
    track = {step - interval: stair.track for step, stair in stairs.items()}
    track |= {f.step: f.restored}
    lines = [
        _line("u trained", "down", {step: stair.u for step, stair in stairs.items()}),
        _line("ũ restored", "up", dict(sorted(track.items()))) | {"stairs": True},
    ]
    return Picture(
        "curves",
        "One weight",
        f.weight.text(f.shape),
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


def _line(name: str, colour: str, values: Mapping[int, float]) -> dict[str, Any]:
    y = [plotted(value, DIGITS) for value in values.values()]
    return {"name": name, "colour": colour, "dash": "solid", "x": list(values), "y": y}


def bucket_text(f: Followed) -> str:
    """The bucket of the weight's change, '+2⁻⁷', or why it has none."""
    if f.exact:
        return "stored exactly"
    return "none: δ is 0" if f.bucket is None else exponent_text(f.bucket.exponent, f.bucket.sign)


def bits_text(f: Followed) -> str:
    """The bits that encode the weight, in words."""
    if f.exact:
        return "32 bits of the value"
    if f.code is None:
        return "none: zeros at a stream's end need no bits"
    return _code_text(f.code)


def _code_text(code: WeightCode) -> str:
    if code.shared:
        return f"a part of {code.shared}, without a word of its own"
    if not code.word:
        return "none: all values have the same level"
    extra = f" + {plural(code.extra_bits, 'bit')}" if code.extra_bits else ""
    text = f"{code.word}{extra}"
    if code.escaped:
        text += ", an escape"
    if code.run is None:
        return text
    if code.zero:
        return f"{text}: zero {code.zero} of a run of {code.run}"
    return (
        f"{text}: {plural(code.run, 'zero')}, then it"
        if code.run
        else f"{text}: no zeros before it"
    )


def number_text(value: float, sign: str = "") -> str:
    """A weight or a change with four digits."""
    return minus(f"{value:{sign}.4g}") if value else "0"


def _bracketed(number: str) -> str:
    """A subtrahend: in brackets if negative, so that no two signs meet."""
    return f"({number})" if number.startswith("−") else number


def _in_words(f: Followed, carries: bool) -> str:
    if f.exact:
        return f"Stored exactly in step {f.step}: {number_text(f.live)}."
    left_out = "it stays in the next δ" if carries else "it is lost"
    level = number_text(f.level, "+") if f.level else f"0: {left_out}"
    delta = number_text(f.delta, "+")
    if carries:
        difference = f"{number_text(f.live)} − {_bracketed(number_text(f.track))}"
        delta = f"δ = u − ũ = {difference} = {delta}"
    else:
        delta = f"Changed by {delta} since the last checkpoint"
    return f"{delta}, bucket {bucket_text(f)}, level {level}. Code: {bits_text(f)}."
