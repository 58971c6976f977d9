"""How numbers are written, the names of colours, and their contrast."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

import lcviz
from lcviz.text import (
    behind_text,
    exponent_text,
    level_text,
    minus,
    nbytes_text,
    percent_text,
    step_text,
)
from lcviz.ui.charts import (
    BAD,
    BEHIND,
    DOWN,
    GOOD,
    INK,
    KEPT,
    RESTORED,
    UP,
    base_figure,
    bytes_axis,
    inked_figure,
)


def test_bytes() -> None:
    texts = {
        0: "0 B",
        999: "999 B",
        1000: "1.00 kB",
        31_400: "31.4 kB",
        246_824: "247 kB",
        999_499: "999 kB",
        999_500: "1.00 MB",  # three digits round up to the next unit
        999_600_000: "1.00 GB",
        2_581_032: "2.58 MB",
        1.234e13: "12,340 GB",
    }
    assert {n: nbytes_text(n) for n in texts} == texts


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.00 %"),
        (0.00005, "< 0.01 %"),
        (0.0001, "0.01 %"),
        (0.99944, "99.94 %"),
        (1.0, "100 %"),
        (float("nan"), "not finite"),
        (float("inf"), "not finite"),
    ],
)
def test_shares(share: float, text: str) -> None:
    assert percent_text(share) == text


def test_how_far_a_restart_is_behind() -> None:
    """A record stores 9.999 for all that is more."""
    texts = [behind_text(behind) for behind in (0.123, 3.0, 9.999, math.inf)]
    assert texts == ["12.30 %", "300 %", "1,000 % or more", "1,000 % or more"]


def test_exponents_have_a_true_minus_sign() -> None:
    texts = {(-7, None): "2⁻⁷", (10, 0): "+2¹⁰", (-126, 1): "−2⁻¹²⁶", (-127, 1): "−subnormal"}
    assert {key: exponent_text(*key) for key in texts} == texts
    assert (minus(-12), minus("+0.5")) == ("−12", "+0.5")


def test_steps_of_moments() -> None:
    texts = {
        "octaves=0.25": "steps of 1/4 octave",
        "octaves=2.0": "steps of 2 octaves",
        "roots=0.5": "steps of 1/2 root of v",
        "sizes=0.3": "steps of 0.3 of its size",
        "sizes=1.5": "steps of 1.5 times its size",
    }
    assert {target: step_text(target) for target in texts} == texts
    levels = {(0.0, "roots"): "0", (-1.25, "octaves"): "−1.25 octaves", (1e-4, None): "+0.0001"}
    assert {key: level_text(*key) for key in levels} == levels


PICTURES = Path(lcviz.__file__).parent / "ui" / "pictures" / "pictures.css"
COLOURS = re.findall("#[0-9a-f]{6}(?=;)", PICTURES.read_text())


def test_one_table_of_colours() -> None:
    """No two meanings share one."""
    assert {UP, DOWN, RESTORED, GOOD, BAD} <= set(COLOURS)
    assert len(set(COLOURS)) == len(COLOURS) >= 8


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_kept_is_drawn_in_ink(theme: str) -> None:
    figure = base_figure("x", "y", 300)
    figure.add_scatter(x=[1], y=[2], marker={"color": KEPT}, line={"color": UP})
    figure.add_bar(x=[1], y=[2], marker={"color": [KEPT, UP]})
    dot, bar = inked_figure(figure, theme).data
    assert (dot.marker.color, dot.line.color) == (INK[theme], UP)
    assert list(bar.marker.color) == [INK[theme], UP]


def test_an_axis_of_bytes_has_units() -> None:
    """Also below one byte: of a day, if an iteration takes years."""
    texts = {(150.0, 900.0): ["100 B", "200 B", "500 B"], (2e3, 4e7): ["1 kB", "10 kB"]}
    for nbytes, first in (texts | {(0.03, 0.05): ["0.01 B", "0.02 B"]}).items():
        assert bytes_axis(nbytes)["ticktext"][: len(first)] == first
    assert bytes_axis([])["type"] == "log"  # nothing is drawn


@pytest.mark.parametrize("colour", COLOURS)
def test_colours_reach_three_to_one_on_both_backgrounds(colour: str) -> None:
    """The WCAG contrast of a graphical object, on white and on Streamlit's dark background."""

    def luminance(hexadecimal: str) -> float:
        channels = [int(hexadecimal[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear))

    own = luminance(colour)
    for background in ("#ffffff", "#0e1117"):
        low, high = sorted((own, luminance(background)))
        assert (high + 0.05) / (low + 0.05) >= 2.95


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_line_strikes_a_label(theme: str) -> None:
    figure = base_figure("x", "y", 300)
    figure.add_vline(1, annotation={"text": "step 600"})
    figure.add_annotation(text="keep −2⁻¹⁰", x=1, y=1)
    behind = [label.bgcolor for label in inked_figure(figure, theme).layout.annotations]
    assert behind == [BEHIND[theme]] * 3  # the name of y is one


def test_every_variable_of_a_style_is_defined() -> None:
    """Of pictures and pages; a name that is put together while they are drawn counts as none."""
    root = Path(lcviz.__file__).parent
    files = [p for p in root.rglob("*") if p.suffix in (".css", ".html", ".js", ".py")]
    text = "\n".join(p.read_text() for p in files)
    used, defined = (
        set(re.findall(pattern, text)) for pattern in (r"var\(--([\w-]+)", r"--([\w-]+):")
    )
    assert len(used) > 10
    assert used <= defined
