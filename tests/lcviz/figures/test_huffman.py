"""The Huffman code as a tree and as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def leaves(branch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The branches that end the drawn tree, folded ones too."""
    if "children" in branch:
        for child in branch["children"]:
            yield from leaves(child)
    else:
        yield branch


def drawn(option: dict[str, Any]) -> list[str]:
    return [leaf["name"] for leaf in leaves(option["series"][0]["data"][0])]


def test_one_symbol_needs_no_bits(check_option: Check) -> None:
    panel = code_panel(rows_for([50]), "The whole model")
    assert drawn(check_option(panel)) == ["∅  →  zero"]
    assert panel.sentence == "The whole model: a single symbol, so no bits are needed at all."
    assert panel.table["code word"].tolist() == ["(none)"]
    assert panel.table["count"].tolist() == [50]


def test_one_symbol_that_is_no_zero(check_option: Check) -> None:
    panel = code_panel(rows_for([0, 50]), "fc.bias")
    assert drawn(check_option(panel)) == ["∅  →  −0.75"]
    assert panel.table["share, %"].tolist() == [0.0, 100.0]


def test_two_symbols(check_option: Check) -> None:
    panel = code_panel(rows_for([60, 40]), "conv.weight")
    option = check_option(panel)
    assert sorted(drawn(option)) == ["0  →  zero", "1  →  −0.75"]
    assert panel.sentence.startswith("conv.weight: 2 symbols, 1.0000 bits a value on average")
    assert "the entropy is 0.9710" in panel.sentence
    assert "2 code lengths of 1 byte, 1 levels of 4" in panel.sentence.replace(
        "level of", "levels of"
    )
    assert "for 13 B of code words" in panel.sentence


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
    assert panel.table["level"].tolist() == ["0", "-0.75", "0.375", "-0.1875"]
    assert "4 symbols, 1.8000 bits a value on average" in panel.sentence


def test_tree_branches_are_the_words(check_option: Check) -> None:
    """Each child's path goes on by the bit of its place: the upper is 0, the lower 1."""
    option = check_option(code_panel(rows_for([900, 50, 30, 10, 5, 3, 1]), "δ"))

    def check(branch: dict[str, Any], path: str) -> int:
        assert branch["name"].split("  →  ")[0] == path
        children = branch.get("children", [])
        if not children:
            return 1
        assert len(children) == 2
        return sum(check(child, path + str(bit)) for bit, child in enumerate(children))

    assert check(option["series"][0]["data"][0], "") == 7


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
    folded = [int(n.split("  →  ")[1].split()[0]) for n in names if n.endswith("more levels")]
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
