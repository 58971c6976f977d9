"""The code, of values or of runs, as a tree and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme import huffman
from lcviz.lab.anatomy import Alphabet, dissect
from lcviz.live.details.code_tables import CodeRow, TokenRow, token_table
from lcviz.live.details.huffman_figure import code_panel, token_panel, token_text
from lcviz.live.details.huffman_tree_figure import MAX_LEAVES
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
Codes = np.ndarray


def rows_for(counts: list[int]) -> list[CodeRow]:
    """A table with these counts; levels fall by half, signs alternate."""
    words = huffman.code_words(huffman.code_lengths(np.array(counts)))
    rows = [CodeRow(0, 0.0, None, None, counts[0], words[0])]
    for i, count in enumerate(counts[1:], 1):
        level = (-1) ** i * 1.5 * 2.0**-i
        rows.append(CodeRow(i, level, -i, i % 2, count, words[i]))
    return rows


def alphabet_of(*deltas: np.ndarray, coder: str = "runlength") -> tuple[Alphabet, Codes]:
    """The last of these steps taken apart, and its exponent-stage codes."""
    tracker = codec.Tracker({"w": np.zeros_like(deltas[0])}, None, coder=coder)
    for delta in deltas:
        before = tracker.state["w"].copy()
        step = tracker.step({"w": before + delta})
    (alphabet,), (codes,) = dissect({"w": before + deltas[-1] - before}, step)
    return alphabet, codes


def plain(counts: list[int], *more: list[int]) -> Alphabet:
    """The record of values with these counts, written with the paper's code."""
    return alphabet_of(*(spread(c) for c in (counts, *more)), coder="huffman")[0]


def spread(counts: list[int]) -> np.ndarray:
    """Values with these counts: zeros, then powers of two, falling."""
    levels = [0.0, *(2.0**-i for i in range(1, len(counts)))]
    return np.repeat(np.array(levels, np.float32), counts)


def drawn(figure: dict[str, Any]) -> list[str]:
    """What stands at the ends of the drawn tree, from top to bottom."""
    _, _, ends = figure["data"]
    assert ends["y"] == list(range(len(ends["text"])))
    return [text.strip() for text in ends["text"]]


@pytest.mark.parametrize(
    ("counts", "leaves"),
    [
        ([50], ["no bits  →  zero"]),
        ([0, 50], ["no bits  →  −0.75"]),
        ([60, 40], ["0  →  zero", "1  →  −0.75"]),
    ],
)
def test_few_symbols(check_figure: Check, counts: list[int], leaves: list[str]) -> None:
    panel = code_panel(rows_for(counts), plain(counts), "fc.bias")
    assert (drawn(check_figure(panel)), panel.table["count"].tolist()) == (leaves, counts)
    assert ("(none)" in panel.table["code word"].tolist()) == (len(leaves) == 1)
    parts = ("2 symbols, 1.0000 bits", "0.9710", "new: 2 bytes and 12 B of words")
    for part in parts if len(leaves) == 2 else ("fc.bias: a single symbol",):
        assert part in panel.sentence


def test_cost_of_a_reused_table_and_of_the_paper_s_code_instead(check_figure: Check) -> None:
    alphabet = plain([60, 40, 20], [60, 40, 20])
    assert alphabet.encoded.cached
    panel = code_panel(rows_for([60, 40, 20]), alphabet, "δ")
    check_figure(panel)
    assert "saved 2 B: only 22 B of words." in panel.sentence
    panel = code_panel(rows_for([2900, 100]), alphabet_of(runs())[0], "δ")
    assert "375 B of words and a table of 2 bytes" in panel.sentence


def test_branches_spell_the_words(check_figure: Check) -> None:
    """Following the edges from the root to a leaf, the bits beside them are its word."""
    counts = [900, 50, 30, 10, 5, 3, 1]
    rows = rows_for(counts)
    panel = code_panel(rows, plain(counts), "δ")
    figure = check_figure(panel)
    lines, bits, ends = figure["data"]
    corners = list(zip(lines["x"], lines["y"]))
    edges = [corners[i : i + 3] for i in range(0, len(corners), 4)]
    assert set(corners[3::4]) == {(None, None)}  # each edge ends with a gap
    parent = {end: start for start, _, end in edges}
    beside = dict(zip(zip(bits["x"], bits["y"]), bits["text"]))
    assert len(parent) == len(beside) == 12  # all nodes of 7 leaves but the root
    for (x0, y0), corner, (x1, y1) in edges:
        assert x1 == x0 + 1
        assert corner == (x0, y1)  # an elbow: up or down first, then to the right
        assert (y1 < y0) == (beside[x1 - 0.5, y1] == "0")  # the upper branch is 0
    low, high = figure["layout"]["yaxis"]["range"]
    assert low > high  # rows grow downwards
    table = panel.table
    assert table["bucket"].tolist()[:4] == ["zero", "−2⁻¹", "+2⁻²", "−2⁻³"]
    assert table["level"].tolist()[:4] == ["0", "−0.75", "0.375", "−0.1875"]
    assert panel.alt == code_panel(rows_for([60, 40]), plain([60, 40]), "δ").alt  # at every step
    for place, text in zip(zip(ends["x"], ends["y"]), drawn(figure)):
        word = ""
        while place in parent:
            word = beside[place[0] - 0.5, place[1]] + word
            place = parent[place]
        assert (place[0], text.split("  →  ")[0]) == (0, word)
    assert {text.split("  →  ")[0] for text in drawn(figure)} == {r.word for r in rows}


FALLING = [2**20 >> min(i, 15) for i in range(256)]


@pytest.mark.parametrize("counts", [[1] * 256, FALLING, [1] * 25, [1] * MAX_LEAVES])
def test_a_tall_tree_is_folded(check_figure: Check, counts: list[int]) -> None:
    """So many leaves, which together stand for every level; short words are never folded."""
    rows = rows_for(counts)
    panel = code_panel(rows, plain([30, 20, 10]), "δ")
    names = drawn(check_figure(panel))
    assert len(names) == MAX_LEAVES
    folded = [int(n.split("…  ")[1].split()[0]) for n in names if n.endswith("more levels")]
    assert len(names) - len(folded) + sum(folded) == len(counts)
    assert bool(folded) == (len(counts) > MAX_LEAVES)
    assert panel.table["count"].sum() == sum(counts)
    whole = {n.split("  →  ")[0] for n in names if "→" in n}
    longest = max(map(len, whole), default=0)
    assert {r.word for r in rows if len(r.word) < longest} <= whole


# Tokens.


def runs(gap: int = 29) -> np.ndarray:
    """3000 values, 100 of them not zero and, but for a few, so many zeros apart."""
    delta = np.zeros(3000, np.float32)
    delta[:: gap + 1] = 0.75
    delta[5] = -3.0
    return delta


def row(symbol: int | None, level: float | None, first: int, last: int) -> TokenRow:
    return TokenRow(1, symbol, level, None, first, last, 1, "0", 0)


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (row(1, 0.79, 16, 19), "16–19 zeros, +0.79"),
        (row(1, -0.79, 3, 3), "3 zeros, −0.79"),
        (row(2, 0.00012345, 1, 1), "1 zero, +0.000123"),
        (row(2, 2.0, 0, 0), "no zero, +2"),
        (row(4, None, 2, 2), "2 zeros, level 4"),
        (row(None, None, 0, 0), "escape: any other run"),
    ],
)
def test_token_text(token: TokenRow, text: str) -> None:
    assert token_text(token) == text


def test_tokens_are_rows_and_leaves(check_figure: Check) -> None:
    alphabet, codes = alphabet_of(runs())
    panel = token_panel(token_table(alphabet, codes), alphabet, "The whole model")
    figure, table = check_figure(panel), panel.table.set_index("token")
    of_runs, escape = "28–31 zeros, +0.75", "escape: any other run"
    others = {"24–27 zeros, +0.75", "4 zeros, −3", "no zero, +0.75"}
    assert set(table.index) == {of_runs, escape} | others
    assert sorted(drawn(figure)) == sorted(f"{w}  →  {t}" for t, w in table["code word"].items())
    assert (table["count"][of_runs], table["count"][escape]) == (98, 0)
    assert table["extra bits"][of_runs] == "2"
    assert len(set(figure["data"][2]["marker"]["color"])) == 3  # positive, negative, neither
    assert alphabet.encoded.table is not None
    for part in (
        "101 of 3,000 values are not 0",
        f"{alphabet.encoded.payload_bits / 3000:.4f} bits per value",
        f"the entropy is {huffman.entropy(np.array([2899, 100, 1])) / 3000:.4f}",
        f"{alphabet.encoded.table.packed.size} bytes",
    ):
        assert part in panel.sentence
    assert "count" not in token_panel(token_table(alphabet), alphabet, "δ").table


def test_tokens_with_a_table_sent_before(check_figure: Check) -> None:
    more = runs()
    more[[7, 9]] = 0.75  # runs of 1: no word for them in the first table
    alphabet, codes = alphabet_of(runs(), more)
    assert alphabet.encoded.cached
    panel = token_panel(token_table(alphabet, codes), alphabet, "δ")
    check_figure(panel)
    saved = round(alphabet.encoded.saved_bits / 8)
    assert f"saved {saved} B" in panel.sentence
    assert "3 rare runs used the escape code." in panel.sentence
