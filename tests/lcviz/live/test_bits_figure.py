"""What x bits keep and cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lcviz.lab.anatomy import EVERY_BITS, Choice
from lcviz.lab.sizes import Sizes
from lcviz.live.bits_figure import bit_choices
from lcviz.text import CODER_NAMES
from lcviz.ui.charts import INK, Panel, inked

Check = Callable[[Panel], dict[str, Any]]
NAMES = ["1", "2", "3", "4", "5", "6", "7", "8", "all"]


def made(n: int = 1000) -> list[Choice]:
    """Choices with a number of its own in every field."""
    return [
        Choice(
            bits=bits,
            budget=None,
            buckets_kept=i,
            buckets=20,
            energy_share=1 - 0.5**i,
            error=0.5**i,
            sizes=Sizes(n * i // 10, n * i // 8 + 7, n * i / 2, n),
        )
        for i, bits in enumerate(EVERY_BITS, 1)
    ]


def series(option: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {s["name"]: s for s in option["series"]}


@pytest.mark.parametrize("now", [0, 1, 7, 8])
def test_values_are_the_choices_and_the_run_s_own_is_marked(check_option: Check, now: int) -> None:
    option = check_option(bit_choices(made(), now, "huffman"))
    assert [axis["data"] for axis in option["xAxis"]] == [NAMES, NAMES]
    drawn = series(option)
    runs, paper = (drawn[name] for name in CODER_NAMES.values())
    assert [d["value"] for d in runs["data"]] == [2.5 * i for i in range(1, 10)]
    assert [d["value"] for d in paper["data"]] == [
        round(100 * (1000 * i // 8 + 7) / 4000, 3) for i in range(1, 10)
    ]
    assert drawn["1 bit a parameter"]["data"] == [3.125] * 9
    assert drawn["entropy"]["data"] == [round(100 * i / 64, 3) for i in range(1, 10)]
    assert drawn["energy kept"]["data"] == [round(100 * (1 - 0.5**i), 3) for i in range(1, 10)]
    marked = [i == now for i in range(9)]
    for bars in (runs, paper):
        styles = [str(d["itemStyle"]) for d in bars["data"]]
        assert [styles.count(style) == 1 for style in styles] == marked  # it alone looks like that
    (band,) = (s for name, s in drawn.items() if name.startswith("now"))
    assert [value is not None for value in band["data"]] == marked
    assert band["name"] not in option["legend"]["data"]
    assert set(option["legend"]["data"]) == set(drawn) - {band["name"]}


def test_coders_differ_by_more_than_colour(check_option: Check) -> None:
    drawn = series(check_option(bit_choices(made(), 1, "runlength")))
    runs, paper = (drawn[name]["itemStyle"] for name in CODER_NAMES.values())
    assert "decal" in paper
    assert "decal" not in runs
    assert runs["color"] != paper["color"]


def test_sizes_that_are_not_known_are_gaps(check_option: Check) -> None:
    """Without the codes in memory runs cannot be counted for another x."""
    known = made()
    choices = [
        c if i == 2 else replace(c, sizes=replace(c.sizes, runlength=None))
        for i, c in enumerate(known)
    ]
    panel = bit_choices(choices, 2, "runlength")
    drawn = series(check_option(panel))
    values = [d["value"] for d in drawn[CODER_NAMES["runlength"]]["data"]]
    assert values == [None, None, 7.5, *([None] * 6)]
    assert panel.table["run-length, bytes"].isna().tolist() == [v is None for v in values]
    assert CODER_NAMES["runlength"] in panel.sentence
    other = bit_choices(choices, 3, "runlength")
    check_option(other)
    assert CODER_NAMES["runlength"] not in other.sentence


def test_sentence_and_table(check_option: Check) -> None:
    panel = bit_choices(made(), 1, "runlength")
    check_option(panel)
    for part in (
        "x = 2 keeps 2 of 20 buckets",
        "75.00 %",
        "Run-length Huffman 200 B (1.600 bits a parameter)",
        "Huffman (paper) 257 B (2.056 bits a parameter)",
    ):
        assert part in panel.sentence
    assert panel.table["Huffman, bytes"].tolist() == [1000 * i // 8 + 7 for i in range(1, 10)]
    assert panel.table["run-length, bytes"].tolist() == [100 * i for i in range(1, 10)]
    assert panel.table["buckets kept"][8] == "9 of 20"
    assert panel.table["entropy, bytes"].tolist() == [62.5 * i for i in range(1, 10)]
    assert bit_choices(made(), 8, "huffman").sentence.startswith("x = all keeps 9 of 20")


def test_marks_are_explained_and_now_stands_above_every_bar(check_option: Check) -> None:
    panel = bit_choices(made(), 8, "runlength")
    option = check_option(panel)
    for part in ("Diamonds are the entropy", "Dashed is 1 bit a parameter"):
        assert part in panel.sentence
    (band,) = (s for name, s in series(option).items() if name.startswith("now"))
    assert band["label"]["position"] == "top"  # inside, the bar of "all" would be over it


def test_a_budget_is_a_choice_of_its_own(check_option: Check) -> None:
    last = replace(made()[4], bits=None, budget=0.05, buckets_kept=17)
    panel = bit_choices([*made(), last], 9, "runlength")
    option = check_option(panel)
    assert option["xAxis"][0]["data"] == [*NAMES, "5 %"]
    assert "5 %: what fits into the budget" in option["xAxis"][0]["name"]
    assert "budget" not in bit_choices(made(), 1, "runlength").chart["xAxis"][0]["name"]
    assert option["series"][-1]["data"] == [None] * 9 + [100]
    assert panel.sentence.startswith("The budget of 5 % keeps 17 of 20 buckets")
    assert panel.table["x"].tolist() == [*NAMES, "5 %"]


def test_a_delta_without_elements(check_option: Check) -> None:
    nothing = Sizes(0, 0, 0.0, 0)
    panel = bit_choices(
        [Choice(b, None, 0, 0, 1.0, 0.0, nothing) for b in EVERY_BITS], 1, "huffman"
    )
    assert check_option(panel)["series"][0]["data"][1]["value"] == 0.0


def test_alt_is_the_same_at_every_step() -> None:
    first, second = bit_choices(made(), 1, "huffman"), bit_choices(made(5000), 2, "runlength")
    assert first.alt == second.alt
    assert first.sentence != second.sentence


@pytest.mark.parametrize(("keeps", "where"), [(2, "from x = 3 on"), (8, "by x = all only")])
def test_the_choices_that_keep_a_highlighted_bucket(
    check_option: Check, keeps: int, where: str
) -> None:
    panel = bit_choices(made(), 1, "runlength", (-5, 1), keeps)
    option = check_option(panel)
    ((begin, end),) = series(option)["entropy"]["markArea"]["data"]
    assert (begin["xAxis"], end["xAxis"]) == (NAMES[keeps], "all")
    assert begin["name"] == "keep −2⁻⁵"
    assert panel.sentence.endswith(f"Highlighted: −2⁻⁵ is kept {where}.")
    assert inked(option, "dark")["series"][2]["markArea"]["label"]["color"] == INK["dark"]


def test_a_budget_is_not_among_the_bits_that_keep_a_bucket(check_option: Check) -> None:
    every = [*made(), replace(made()[2], bits=None, budget=0.05)]
    option = check_option(bit_choices(every, 9, "runlength", (-5, 1), 2))
    ((_, end),) = series(option)["entropy"]["markArea"]["data"]
    assert end["xAxis"] == "all"


def test_a_bucket_that_this_delta_has_not() -> None:
    plain = bit_choices(made(), 1, "huffman")
    other = bit_choices(made(), 1, "huffman", (-5, 1), None)
    assert (other.chart, other.sentence) == (plain.chart, plain.sentence)
