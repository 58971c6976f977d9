"""What x bits keep and cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from codec import Coding
from lcviz.lab.anatomy import EVERY_BITS, Promotion
from lcviz.lab.sizes import Sizes
from lcviz.live.details.bits_figure import bits_panel
from lcviz.text import CODER_NAMES
from lcviz.ui.charts import Panel

pytestmark = pytest.mark.quick

Check = Callable[[Panel], dict[str, Any]]
NAMES = ["1", "2", "3", "4", "5", "6", "7", "8", "all"]


def made(n: int = 1000) -> list[Promotion]:
    """Promotions with a number of its own in every field."""
    return [
        Promotion(
            bits, i, 20, 1 - 0.5**i, 0.5**i, sizes(n * i // 10, n * i // 8 + 7, n * i / 16, n)
        )
        for i, bits in enumerate(EVERY_BITS, 1)
    ]


def sizes(runlength: int, huffman: int, entropy: float, n: int) -> Sizes:
    by_coder = {"runlength": runlength, "huffman": huffman, "context": runlength - 1}
    return Sizes(by_coder, entropy, n)


def traces(figure: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {t["name"]: t for t in figure["data"]}


def bands(figure: dict[str, Any]) -> list[tuple[float, float]]:
    """From where to where, in places of x from 0."""
    return [(s["x0"], s["x1"]) for s in figure["layout"]["shapes"]]


@pytest.mark.parametrize("now", [0, 8])
def test_values_are_those_promised_and_the_run_s_own_is_marked(
    check_figure: Check, now: int
) -> None:
    panel = bits_panel(made(), now)
    figure = check_figure(panel)
    drawn = traces(figure)
    assert {tuple(t["x"]) for t in drawn.values()} == {tuple(NAMES)}
    runs, paper, context = (drawn[name] for name in CODER_NAMES.values())
    assert context["y"] == [round(y - 0.025, 3) for y in runs["y"]]
    assert runs["y"] == [2.5 * i for i in range(1, 10)]
    huffman = [1000 * i // 8 + 7 for i in range(1, 10)]
    assert paper["y"] == [round(n / 40, 3) for n in huffman]
    assert drawn["1 bit per parameter"]["y"] == [3.125] * 9
    assert drawn["entropy"]["y"] == [round(100 * i / 64, 3) for i in range(1, 10)]
    energy = drawn["energy kept"]
    assert energy["y"] == [round(100 * (1 - 0.5**i), 3) for i in range(1, 10)]
    assert (energy["yaxis"], figure["layout"]["yaxis2"]["side"]) == ("y2", "right")
    for bars in (runs, paper, context):
        assert [opacity == 1 for opacity in bars["marker"]["opacity"]] == [
            i == now for i in range(9)
        ]
    assert bands(figure) == [(now - 0.5, now + 0.5)]
    (note,) = figure["layout"]["annotations"]
    assert (note["text"], note["x"]) == ("now", NAMES[now])
    shapes = [bars["marker"]["pattern"]["shape"] for bars in (runs, paper, context)]
    assert shapes == ["", "/", "x"]  # not by colour alone
    assert panel.table["Huffman, bytes"].tolist() == huffman
    assert panel.table["run-length, bytes"].tolist() == [100 * i for i in range(1, 10)]
    assert panel.table["entropy, bytes"].tolist() == [62.5 * i for i in range(1, 10)]


def test_sentence(check_figure: Check) -> None:
    """A chart whose alt text changes is drawn anew: that stays the same."""
    panel, other = bits_panel(made(), 1), bits_panel(made(5000), 8)
    check_figure(panel)
    for part in (
        "x = 2 keeps 2 of 20 buckets",
        "75.00 %",
        "Run-length Huffman 200 B (1.600 bits per parameter)",
        "Huffman (paper) 257 B (2.056 bits per parameter)",
    ):
        assert part in panel.sentence
    assert other.sentence.startswith("x = all keeps 9 of 20")
    assert panel.alt == other.alt


def test_sizes_that_are_not_known_are_gaps(check_figure: Check) -> None:
    """Without the codes in memory runs cannot be counted for another x."""
    known = made()
    unknown = {"runlength": None, "context": None}
    some = [
        p
        if i == 2
        else replace(p, sizes=replace(p.sizes, by_coder={**p.sizes.by_coder, **unknown}))
        for i, p in enumerate(known)
    ]
    panel, other = bits_panel(some, 2), bits_panel(some, 3)
    values = traces(check_figure(panel))[CODER_NAMES["runlength"]]["y"]
    assert values == [None, None, 7.5, *([None] * 6)]
    assert panel.table["run-length, bytes"].isna().tolist() == [v is None for v in values]
    check_figure(other)
    assert CODER_NAMES["runlength"] in panel.sentence
    assert CODER_NAMES["runlength"] not in other.sentence


def test_a_budget(check_figure: Check) -> None:
    last = replace(made()[4], rule=Coding(budget=0.05, quantizer="exponent"), buckets_kept=17)
    panel = bits_panel([*made(), last], 9)
    figure = check_figure(panel)
    assert figure["data"][0]["x"] == [*NAMES, "5 %"]
    assert panel.sentence.startswith("Budget 5.00 % in buckets keeps 17 of 20 buckets")
    assert (panel.table["x"].tolist(), bands(figure)) == ([*NAMES, "5 %"], [(8.5, 9.5)])


def test_a_delta_without_elements(check_figure: Check) -> None:
    nothing = sizes(0, 0, 0.0, 0)
    found = [Promotion(b, 0, 0, 1.0, 0.0, nothing) for b in EVERY_BITS]
    bars = traces(check_figure(bits_panel(found, 1)))[CODER_NAMES["huffman"]]
    assert set(bars["y"]) == {0.0}
