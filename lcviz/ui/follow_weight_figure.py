"""One weight over the steps of a run, and what became of it in one of them, in words."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lcviz.lab.follow_weight import Followed, WeightCode
from lcviz.text import exponent_text, minus, plural

from .charts import BLUE, GREY, VERMILION, Panel, base_figure, plotted

HEIGHT = 320  # pixels
FEW = 25  # points that are drawn one by one
DIGITS = 9  # after the point: weights are small


def weight_over_steps(found: Sequence[Followed], viewed: Followed) -> Panel:
    """Trained and restored value of one weight. found: by rising step. viewed: one of them."""
    steps = [f.step for f in found]
    figure = base_figure("step (iterations)", "value", HEIGHT, l=84)
    for name, colour, dash, values in (
        ("trained u", BLUE, "solid", [f.live for f in found]),
        ("restored ũ", VERMILION, "dash", [f.restored for f in found]),
    ):
        figure.add_scatter(
            name=name,
            x=steps,
            y=[plotted(value, DIGITS) for value in values],
            mode="lines+markers" if len(found) <= FEW else "lines",
            line={"color": colour, "dash": dash, "width": 2},
            marker={"size": 6},
            hovertemplate="%{y:.6g}",
        )
    side = "left" if viewed.step < (steps[0] + steps[-1]) / 2 else "right"  # with room for text
    figure.add_vline(
        viewed.step,
        line={"color": GREY, "width": 1},
        annotation={"text": f"step {viewed.step}", "xanchor": side},
    )
    sentence = f"In step {viewed.step}: {_in_words(viewed)}.{_waited(found)}"
    table = pd.DataFrame(
        {
            "step": steps,
            "trained u": [f.live for f in found],
            "restored ũ": [f.restored for f in found],
            "δ": [f.delta for f in found],
            "bucket": [bucket_text(f) for f in found],
            "level": [None if f.exact else f.level for f in found],
        }
    )
    alt = "Trained and restored value of the followed weight, by step."
    title = f"The followed weight, {name_text(viewed)}"
    return Panel(title, sentence, figure, alt, table)


def _waited(found: Sequence[Followed]) -> str:
    """A second sentence: how often its change was kept, how often not, how often there was none."""
    coded = [f for f in found if not f.exact]
    if not coded:
        return ""
    kept, changed = sum(f.kept for f in coded), sum(f.bucket is not None for f in coded)
    told = [f"in {kept} its change was kept"]
    if waited := changed - kept:
        told.append(f"in {waited} it waited for the next one")
    if still := len(coded) - changed:
        told.append(f"in {still} there was none")
    return f" Of the {plural(len(coded), 'delta')} shown, {', '.join(told)}."


def name_text(f: Followed) -> str:
    """'conv1.weight (0, 0, 1, 2)'."""
    place = ", ".join(str(i) for i in f.weight.place(f.shape))
    return f"{f.weight.tensor} ({place})"


def bucket_text(f: Followed) -> str:
    """Its bucket, '+2⁻⁷', or why it has none."""
    if f.exact:
        return "stored exactly"
    return "none: δ is 0" if f.bucket is None else exponent_text(f.bucket.exponent, f.bucket.sign)


def level_text(f: Followed) -> str:
    """What its change became."""
    if f.exact:
        return "the value itself"
    if f.kept:
        return f"{number_text(f.level, '+')}, kept"
    return "0" if f.bucket is None else "0, dropped"


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
    return f"{text}: {plural(said.run, 'zero')}, then it"


def number_text(value: float, sign: str = "") -> str:
    """A weight or a change, six digits."""
    return minus(f"{value:{sign}.6g}") if value else "0"


def _bracketed(number: str) -> str:
    """As what is subtracted: two signs do not stand side by side."""
    return f"({number})" if number.startswith("−") else number


def _in_words(f: Followed) -> str:
    if f.exact:
        return f"it is stored exactly, {number_text(f.live)}"
    text = (
        f"δ = {number_text(f.live)} − {_bracketed(number_text(f.track))} = "
        f"{number_text(f.delta, '+')}, bucket {bucket_text(f)}, becomes {level_text(f)}"
    )
    return f"{text}; restored {number_text(f.restored)}"
