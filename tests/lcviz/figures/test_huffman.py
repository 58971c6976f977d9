"""The Huffman code as a tree and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from codec import huffman
from lcviz.figures.huffman import MAX_LEAVES, code_panel
from lcviz.figures.panel import Panel
from lcviz.lab.anatomy import CodeRow

Check = Callable[[Panel], dict[str, Any]]


def rows_for(counts: list[int]) -> list[CodeRow]:
    """A table with these counts; levels fall by half, signs alternate."""
    words = huffman.code_words(huffman.code_lengths(np.array(counts)))
    rows = [CodeRow(0, 0.0, None, None, counts[0], words[0])]
    for i, count in enumerate(counts[1:], 1):
        level = (-1) ** i * 1.5 * 2.0**-i
        rows.append(CodeRow(i, level, -i, i % 2, count, words[i]))
    return rows


def drawn(option: dict[str, Any]) -> list[str]:
    """What stands at the ends of the drawn tree, from top to bottom."""
    _, _, ends = option["series"]
    assert [e["value"][1] for e in ends["data"]] == list(range(len(ends["data"])))
    return [e["label"]["formatter"] for e in ends["data"]]


def test_one_symbol_needs_no_bits(check_option: Check) -> None:
    panel = code_panel(rows_for([50]), "The whole model")
    assert drawn(check_option(panel)) == ["no bits  →  zero"]
    assert panel.sentence.startswith("The whole model: a single symbol")
    assert panel.table["code word"].tolist() == ["(none)"]
    assert panel.table["count"].tolist() == [50]


def test_one_symbol_that_is_no_zero(check_option: Check) -> None:
    panel = code_panel(rows_for([0, 50]), "fc.bias")
    assert drawn(check_option(panel)) == ["no bits  →  −0.75"]
    assert panel.table["share, %"].tolist() == [0.0, 100.0]


def test_two_symbols(check_option: Check) -> None:
    panel = code_panel(rows_for([60, 40]), "conv.weight")
    option = check_option(panel)
    assert sorted(drawn(option)) == ["0  →  zero", "1  →  −0.75"]
    for part in ("conv.weight: 2 symbols", "1.0000 bits", "0.9710", " 6 bytes", "13 B"):
        assert part in panel.sentence


def test_four_symbols_as_in_the_paper(check_option: Check) -> None:
    """The worked example: counts 5, 2, 2, 1 have code lengths 1, 2, 3, 3."""
    panel = code_panel(rows_for([5, 2, 1, 2]), "δ")
    option = check_option(panel)
    words = dict(zip(panel.table["symbol"], panel.table["code word"]))
    assert sorted(map(len, words.values())) == [1, 2, 3, 3]
    assert panel.table["bits"].tolist() == [len(words[i]) for i in range(4)]
    for name in drawn(option):
        word, _, label = name.partition("  →  ")
        symbol = next(s for s, w in words.items() if w == word)
        assert label == "zero" if symbol == 0 else label[0] in "+−"
    assert len(drawn(option)) == 4
    assert panel.table["count"].tolist() == [5, 2, 1, 2]
    assert panel.table["bucket"].tolist() == ["zero", "−2⁻¹", "+2⁻²", "−2⁻³"]
    assert panel.table["level"].tolist() == ["0", "−0.75", "0.375", "−0.1875"]
    assert "4 symbols, 1.8000 bits" in panel.sentence


def test_branches_spell_the_words(check_option: Check) -> None:
    """Following the edges from the root to a leaf, the bits beside them are its word."""
    rows = rows_for([900, 50, 30, 10, 5, 3, 1])
    lines, bits, ends = check_option(code_panel(rows, "δ"))["series"]
    parent = {tuple(e["coords"][2]): tuple(e["coords"][0]) for e in lines["data"]}
    beside = {tuple(b["value"]): b["label"]["formatter"] for b in bits["data"]}
    assert len(parent) == len(beside) == 12  # all nodes of 7 leaves but the root
    for edge in lines["data"]:
        (x0, y0), corner, (x1, y1) = edge["coords"]
        assert x1 == x0 + 1
        assert corner == [x0, y1]  # an elbow: up or down first, then to the right
        assert (y1 < y0) == (beside[x1 - 0.5, y1] == "0")  # the upper branch is 0
    for end in ends["data"]:
        place, word = tuple(end["value"]), ""
        while place in parent:
            word = beside[place[0] - 0.5, place[1]] + word
            place = parent[place]
        assert place[0] == 0
        assert end["label"]["formatter"].split("  →  ")[0] == word
    assert {e["label"]["formatter"].split("  →  ")[0] for e in ends["data"]} == {
        r.word for r in rows
    }


@pytest.mark.parametrize(
    "counts",
    [
        [1] * 256,
        [4**7, *([4**5] * 3), *([1] * 252)],
        [2**20 >> min(i, 15) for i in range(256)],
        [1] * 25,
    ],
    ids=["equal", "steps", "falling", "25"],
)
def test_256_symbols_are_folded(check_option: Check, counts: list[int]) -> None:
    """A tall tree is folded: few leaves, and together they stand for every level."""
    panel = code_panel(rows_for(counts), "δ")
    names = drawn(check_option(panel))
    assert 2 <= len(names) <= MAX_LEAVES
    folded = [int(n.split("…  ")[1].split()[0]) for n in names if n.endswith("more levels")]
    assert len(names) - len(folded) + sum(folded) == len(counts)
    assert len(panel.table) == len(counts)
    assert panel.table["count"].sum() == sum(counts)


def test_24_symbols_are_all_shown(check_option: Check) -> None:
    names = drawn(check_option(code_panel(rows_for([1] * MAX_LEAVES), "δ")))
    assert len(names) == MAX_LEAVES
    assert not any("…" in n for n in names)


def test_alt_is_the_same_at_every_step() -> None:
    first, second = code_panel(rows_for([60, 40]), "δ"), code_panel(rows_for([9, 5, 2, 1]), "δ")
    assert first.alt == second.alt
    assert first.sentence != second.sentence
