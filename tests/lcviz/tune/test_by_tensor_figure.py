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


def cells(option: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    rows, columns = option["yAxis"]["data"], option["xAxis"]["data"]
    (series,) = option["series"]
    return {(rows[c["value"][1]], columns[c["value"][0]]): c for c in series["data"]}


PLACES = (("conv.weight", "1"), ("conv.weight", "2"), ("bias", "2"))


@pytest.mark.parametrize(
    ("measure", "numbers"),
    [
        ("bits", ("0.50", "2.00", "1.25")),
        ("error", ("0.75", "0.25", "1.00")),
        ("zeros", ("90.0", "40.0", "100.0")),
    ],
)
def test_numbers_in_cells(check_option: Check, measure: str, numbers: tuple[str, ...]) -> None:
    texts = dict(zip(PLACES, numbers, strict=True))
    top = highest((FOUND,), measure)
    assert top == max(map(float, texts.values()))
    panel = by_tensor_panel(FOUND, TWO, measure, "A", top)
    option = check_option(panel)
    found = cells(option)
    assert {key: c["label"]["formatter"] for key, c in found.items()} == texts
    assert option["visualMap"]["max"] == top
    framed = {key for key, c in found.items() if "borderColor" in c.get("itemStyle", {})}
    assert framed == {("conv.weight", "2"), ("bias", "2")}
    assert panel.table.shape == (2, 4)
    assert math.isnan(panel.table["1"][1])


def test_the_sentence(check_option: Check) -> None:
    panel = by_tensor_panel(FOUND, TWO, "bits", "B", 2.0)
    check_option(panel)
    assert panel.title == "B, step 8: bits per parameter"
    assert "smallest: bias, 1.25 bits; largest: conv.weight, 2.00 bits." in panel.sentence
    single = by_tensor_panel(FOUND, ONE, "zeros", "B", 100.0)
    assert "90.0 % in conv.weight" in single.sentence
    nothing = ByTensor(8, (ONE,), {"bias": (None,)}, {"bias": 10})
    assert "nothing to compare" in by_tensor_panel(nothing, ONE, "bits", "A", 0.0).sentence


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


def test_many_tensors(check_option: Check) -> None:
    rows = {f"a.rather.long.name.of.a.layer.{i}": (Cell(1.0, 0.5, 0.5),) for i in range(60)}
    found = ByTensor(1, (ONE,), rows, {name: i + 10 for i, name in enumerate(rows)})
    panel = by_tensor_panel(found, ONE, "bits", "A", 1.0)
    option = check_option(panel)
    assert len(option["yAxis"]["data"]) == 40
    assert option["yAxis"]["data"][-1].startswith("…")
    assert option["yAxis"]["data"][0].endswith(".20")  # the smallest twenty are not drawn
    assert panel.sentence.endswith("Drawn are the 40 largest of 60 tensors.")
    assert len(panel.table) == 60
