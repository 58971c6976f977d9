"""The code, of values or of runs, as a tree and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme import huffman
from lcviz.lab.anatomy import Alphabet, dissect
from lcviz.live.code_tables import CodeRow, TokenRow, token_table
from lcviz.live.huffman_figure import code_panel, token_panel, token_text
from lcviz.live.tree_figure import MAX_LEAVES
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


def drawn(option: dict[str, Any]) -> list[str]:
    """What stands at the ends of the drawn tree, from top to bottom."""
    _, _, ends = option["series"]
    assert [e["value"][1] for e in ends["data"]] == list(range(len(ends["data"])))
    return [e["label"]["formatter"] for e in ends["data"]]


def test_one_symbol_needs_no_bits(check_option: Check) -> None:
    panel = code_panel(rows_for([50]), plain([50]), "The whole model")
    assert drawn(check_option(panel)) == ["no bits  →  zero"]
    assert panel.sentence.startswith("The whole model: a single symbol")
    assert panel.table["code word"].tolist() == ["(none)"]
    assert panel.table["count"].tolist() == [50]


def test_one_symbol_that_is_no_zero(check_option: Check) -> None:
    panel = code_panel(rows_for([0, 50]), plain([0, 50]), "fc.bias")
    assert drawn(check_option(panel)) == ["no bits  →  −0.75"]
    assert panel.table["share, %"].tolist() == [0.0, 100.0]


def test_two_symbols(check_option: Check) -> None:
    panel = code_panel(rows_for([60, 40]), plain([60, 40]), "conv.weight")
    option = check_option(panel)
    assert sorted(drawn(option)) == ["0  →  zero", "1  →  −0.75"]
    for part in ("conv.weight: 2 symbols", "1.0000 bits", "0.9710"):
        assert part in panel.sentence
    assert panel.sentence.endswith("The table is new: 2 bytes, beside 12 B of words.")


def test_a_table_that_was_used_again(check_option: Check) -> None:
    """It took no bytes; what a new one would have cost more is told."""
    alphabet = plain([60, 40, 20], [60, 40, 20])
    assert alphabet.cached
    panel = code_panel(rows_for([60, 40, 20]), alphabet, "δ")
    check_option(panel)
    assert "The table is the one sent last, which saved 2 B: only 22 B of words." in panel.sentence


def test_the_paper_s_code_of_a_record_of_runs(check_option: Check) -> None:
    alphabet, _ = alphabet_of(runs())
    panel = code_panel(rows_for([2900, 100]), alphabet, "δ")
    check_option(panel)
    assert "not what this record was written with" in panel.sentence
    assert "375 B of words and a table of 2 bytes" in panel.sentence


def test_four_symbols_as_in_the_paper(check_option: Check) -> None:
    """The worked example: counts 5, 2, 2, 1 have code lengths 1, 2, 3, 3."""
    panel = code_panel(rows_for([5, 2, 1, 2]), plain([5, 2, 1, 2]), "δ")
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
    counts = [900, 50, 30, 10, 5, 3, 1]
    rows = rows_for(counts)
    lines, bits, ends = check_option(code_panel(rows, plain(counts), "δ"))["series"]
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
    """A tall tree is folded: so many leaves, and together they stand for every level."""
    panel = code_panel(rows_for(counts), plain([30, 20, 10]), "δ")
    names = drawn(check_option(panel))
    assert len(names) == MAX_LEAVES
    folded = [int(n.split("…  ")[1].split()[0]) for n in names if n.endswith("more levels")]
    assert len(names) - len(folded) + sum(folded) == len(counts)
    assert len(panel.table) == len(counts)
    assert panel.table["count"].sum() == sum(counts)


def test_short_words_are_never_folded(check_option: Check) -> None:
    counts = [2**20 >> min(i, 15) for i in range(256)]
    rows = rows_for(counts)
    names = drawn(check_option(code_panel(rows, plain([30, 20, 10]), "δ")))
    whole = {n.split("  →  ")[0] for n in names if "→" in n}
    longest = max(map(len, whole))
    assert {r.word for r in rows if len(r.word) < longest} <= whole


def test_24_symbols_are_all_shown(check_option: Check) -> None:
    panel = code_panel(rows_for([1] * MAX_LEAVES), plain([30, 20, 10]), "δ")
    names = drawn(check_option(panel))
    assert len(names) == MAX_LEAVES
    assert not any("…" in n for n in names)


# Tokens.


def runs(gap: int = 29) -> np.ndarray:
    """3000 values, 100 of them not zero and, but for a few, so many zeros apart."""
    delta = np.zeros(3000, np.float32)
    delta[:: gap + 1] = 0.75
    delta[5] = -3.0
    return delta


def row(symbol: int | None, level: float | None, first: int, last: int) -> TokenRow:
    return TokenRow(1, symbol, level, None, None, first, last, 1, "0", 0)


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


def test_tokens_are_rows_and_leaves(check_option: Check) -> None:
    alphabet, codes = alphabet_of(runs())
    panel = token_panel(token_table(alphabet, codes), alphabet, "The whole model")
    option = check_option(panel)
    words = dict(zip(panel.table["token"], panel.table["code word"]))
    assert set(words) == {
        "28–31 zeros, +0.75",
        "24–27 zeros, +0.75",
        "4 zeros, −3",
        "no zero, +0.75",
        "escape: any other run",
    }
    assert sorted(drawn(option)) == sorted(f"{w}  →  {token}" for token, w in words.items())
    counts = dict(zip(panel.table["token"], panel.table["count"]))
    assert counts["28–31 zeros, +0.75"] == 98
    assert counts["escape: any other run"] == 0
    assert dict(zip(panel.table["token"], panel.table["open bits"]))["28–31 zeros, +0.75"] == "2"
    colours = {
        e["label"]["formatter"]: e["itemStyle"]["color"] for e in option["series"][2]["data"]
    }
    assert len(set(colours.values())) == 3  # positive, negative, neither


def test_sentence_of_tokens(check_option: Check) -> None:
    alphabet, codes = alphabet_of(runs())
    assert alphabet.table is not None
    panel = token_panel(token_table(alphabet, codes), alphabet, "The whole model")
    check_option(panel)
    for part in (
        "The whole model: 101 of 3,000 values are not 0",
        f"{alphabet.word_bits / 3000:.4f} bits a value",
        f"entropy of single values is {huffman.entropy(np.array([2899, 100, 1])) / 3000:.4f}",
        f"The table is new: {alphabet.table.packed.size} bytes, beside ",
    ):
        assert part in panel.sentence
    assert "escape" not in panel.sentence


def test_tokens_with_a_table_sent_before(check_option: Check) -> None:
    more = runs()
    more[[7, 9]] = 0.75  # runs of 1: no word for them in the first table
    alphabet, codes = alphabet_of(runs(), more)
    assert alphabet.cached
    panel = token_panel(token_table(alphabet, codes), alphabet, "δ")
    check_option(panel)
    saved = round(alphabet.saved_bits / 8)
    assert f"The table is the one sent last, which saved {saved} B" in panel.sentence
    assert "3 runs without a word took the escape's." in panel.sentence


def test_tokens_that_were_not_counted(check_option: Check) -> None:
    alphabet, _ = alphabet_of(runs())
    panel = token_panel(token_table(alphabet), alphabet, "δ")
    check_option(panel)
    assert "count" not in panel.table
    assert panel.table["code word"].notna().all()


def test_alt_is_the_same_at_every_step() -> None:
    first = code_panel(rows_for([60, 40]), plain([60, 40]), "δ")
    second = code_panel(rows_for([9, 5, 2, 1]), plain([9, 5, 2, 1]), "δ")
    assert first.alt == second.alt
    assert first.sentence != second.sentence
    panels = []
    for gap in (29, 31):
        alphabet, codes = alphabet_of(runs(gap))
        panels.append(token_panel(token_table(alphabet, codes), alphabet, "δ"))
    assert panels[0].alt == panels[1].alt != first.alt
    assert panels[0].sentence != panels[1].sentence


def test_a_highlighted_level_is_pointed_at(check_option: Check) -> None:
    panel = code_panel(rows_for([50, 20, 7]), plain([50, 20, 7]), "The whole model", (-2, 0))
    assert [text for text in drawn(check_option(panel)) if "▶" in text] == ["11  →  ▶ +0.375"]
    assert panel.table["bucket"].tolist() == ["zero", "−2⁻¹", "▶ +2⁻²"]


def test_all_tokens_of_a_highlighted_level_are_pointed_at(check_option: Check) -> None:
    rng = np.random.default_rng(1)
    delta = np.where(rng.random(4000) < 0.1, 2.0 ** -rng.integers(0, 2, 4000), 0)
    alphabet, codes = alphabet_of(delta.astype(np.float32))
    rows = token_table(alphabet, codes)
    panel = token_panel(rows, alphabet, "The whole model", (-1, 0))
    check_option(panel)
    pointed = ["▶" in text for text in panel.table["token"]]
    assert pointed == [r.exponent == -1 for r in rows]
    assert any(pointed)
    assert not all(pointed)
