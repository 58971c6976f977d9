"""The heat map of tensors: every number in its cell, and readable there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from codec.scheme.coding import Coding
from lcviz.tune.by_tensor import ByTensor, Cell
from lcviz.tune.by_tensor_figure import (
    CIVIDIS,
    DARK,
    LIGHT,
    by_tensor_panel,
    highest,
    ink_on,
    luminance,
)
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
ONE, TWO = Coding(1), Coding(2)
FOUND = ByTensor(
    8,
    (ONE, TWO),
    {
        "conv.weight": (Cell(0.5, 0.75, 0.9), Cell(2.0, 0.25, 0.4)),
        "bias": (None, Cell(1.25, 1.0, 1.0)),
    },
    {"conv.weight": 400, "bias": 10},
)


def cells(figure: dict[str, Any]) -> dict[tuple[str, str], str]:
    """Row and column -> the number that is written there."""
    rows, columns = (figure["layout"][axis]["ticktext"] for axis in ("yaxis", "xaxis"))
    texts = figure["data"][1]
    return {(rows[y], columns[x]): t for x, y, t in zip(texts["x"], texts["y"], texts["text"])}


PLACES = (("conv.weight", "1"), ("conv.weight", "2"), ("bias", "2"))


@pytest.mark.parametrize(
    ("measure", "numbers"),
    [
        ("bits", ("0.50", "2.00", "1.25")),
        ("error", ("0.75", "0.25", "1.00")),
        ("zeros", ("90.0", "40.0", "100.0")),
    ],
)
def test_numbers_in_cells(check_figure: Check, measure: str, numbers: tuple[str, ...]) -> None:
    texts = dict(zip(PLACES, numbers, strict=True))
    top = highest((FOUND,), measure)
    assert top == max(map(float, texts.values()))
    panel = by_tensor_panel(FOUND, TWO, measure, "A", top)
    figure = check_figure(panel)
    assert cells(figure) == texts
    heat, written = figure["data"]
    assert (heat["zmin"], heat["zmax"]) == (0, top)
    assert heat["z"] == [
        [float(texts[row, x]) if (row, x) in texts else None for x in "12"]
        for row in ("conv.weight", "bias")
    ]
    assert written["textfont"]["color"] == [ink_on(float(text) / top) for text in numbers]
    (frame,) = figure["layout"]["shapes"]
    assert (frame["x0"], frame["x1"], frame["y0"], frame["y1"]) == (0.5, 1.5, -0.5, 1.5)
    assert panel.table.shape == (2, 4)
    assert math.isnan(panel.table["1"][1])


def test_the_sentence(check_figure: Check) -> None:
    panel = by_tensor_panel(FOUND, TWO, "bits", "B", 2.0)
    check_figure(panel)
    assert panel.title == "B, step 8: bits per parameter"
    assert panel.sentence == "Framed: bias, 1.25 bits to conv.weight, 2.00 bits."
    single = by_tensor_panel(FOUND, ONE, "zeros", "B", 100.0)
    assert single.sentence == "Framed: conv.weight, 90.0 %."
    nothing = ByTensor(8, (ONE,), {"bias": (None,)}, {"bias": 10})
    assert "nothing to compare" in by_tensor_panel(nothing, ONE, "bits", "A", 0.0).sentence


def test_what_is_not_finite_and_a_tensor_that_is_named_like_a_tag(check_figure: Check) -> None:
    """Its cell is dark, as that of a 0, and so its sign is light."""
    found = ByTensor(8, (ONE,), {"<b>x</b>": (Cell(1.0, math.nan, 0.5),)}, {"<b>x</b>": 400})
    figure = check_figure(by_tensor_panel(found, ONE, "error", "A", 1.0))
    heat, written = figure["data"]
    assert heat["z"] == [[0]]
    assert (written["text"], written["textfont"]["color"]) == (["–"], [LIGHT])
    assert figure["layout"]["yaxis"]["ticktext"] == ["&lt;b&gt;x&lt;/b&gt;"]


def test_ink_can_be_read_on_every_colour() -> None:
    """WCAG's 4.5 : 1 for text, on each colour and between them."""
    stops = [tuple(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in CIVIDIS]
    for i in range(1001):
        at = i / 1000 * (len(stops) - 1)
        low = min(int(at), len(stops) - 2)
        colour = tuple(a + (at - low) * (b - a) for a, b in zip(stops[low], stops[low + 1]))
        light = luminance(colour)
        contrast = 1.05 / (light + 0.05) if ink_on(i / 1000) == LIGHT else (light + 0.05) / 0.05
        assert contrast >= 4.5
    assert (ink_on(0), ink_on(1), ink_on(7)) == (LIGHT, DARK, DARK)
    assert luminance((255, 255, 255)) == pytest.approx(1)
    assert luminance((0, 0, 0)) == 0


def test_many_tensors(check_figure: Check) -> None:
    cells = {f"a.rather.long.name.of.a.layer.{i}": (Cell(1.0, 0.5, 0.5),) for i in range(60)}
    found = ByTensor(1, (ONE,), cells, {name: i + 10 for i, name in enumerate(cells)})
    panel = by_tensor_panel(found, ONE, "bits", "A", 1.0)
    rows = check_figure(panel)["layout"]["yaxis"]["ticktext"]
    assert len(rows) == 40
    assert rows[-1].startswith("…")
    assert rows[0].endswith(".20")  # the smallest twenty are not drawn
    assert panel.sentence.endswith("Drawn are the 40 largest of 60 tensors.")
    assert len(panel.table) == 60
