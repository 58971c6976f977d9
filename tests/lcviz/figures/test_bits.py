"""What x bits keep and cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lcviz.figures.bits import bit_choices
from lcviz.figures.panel import Panel
from lcviz.lab.anatomy import EVERY_BITS, Choice

Check = Callable[[Panel], dict[str, Any]]


def made(n: int = 1000) -> list[Choice]:
    """Choices with a number of its own in every field."""
    return [
        Choice(
            bits=bits,
            buckets_kept=i,
            buckets=20,
            energy_share=1 - 0.5**i,
            error=0.5**i,
            stream_bits=n * i + 8,
            entropy_bits=n * i / 2,
            nbytes=n * i // 8 + 7,
            n=n,
        )
        for i, bits in enumerate(EVERY_BITS, 1)
    ]


@pytest.mark.parametrize("bits", [1, 2, 8, None])
def test_values_are_the_choices_and_the_run_s_own_is_marked(
    check_option: Check, bits: int | None
) -> None:
    option = check_option(bit_choices(made(), bits))
    assert option["xAxis"]["data"] == ["1", "2", "3", "4", "5", "6", "7", "8", "E"]
    size, floor, entropy, energy = option["series"]
    assert [d["value"] for d in size["data"]] == [
        round(100 * (1000 * i // 8 + 7) / 4000, 3) for i in range(1, 10)
    ]
    assert floor["data"] == [3.125] * 9
    assert entropy["data"] == [round(100 * i / 64, 3) for i in range(1, 10)]
    assert energy["data"] == [round(100 * (1 - 0.5**i), 3) for i in range(1, 10)]
    marked = [b == bits for b in EVERY_BITS]
    assert [d["label"]["show"] for d in size["data"]] == marked
    styles = [str(d["itemStyle"]) for d in size["data"]]
    assert [styles.count(style) == 1 for style in styles] == marked  # it alone looks like that


def test_sentence_and_table(check_option: Check) -> None:
    panel = bit_choices(made(), 2)
    check_option(panel)
    for part in ("x = 2 keeps 2 of 20 buckets", "75.00 %", "2.06 bits a parameter", "257 B"):
        assert part in panel.sentence
    assert "at least 1 bit" not in panel.sentence
    assert panel.table["bytes"].tolist() == [1000 * i // 8 + 7 for i in range(1, 10)]
    assert panel.table["buckets kept"][8] == "9 of 20"
    assert panel.table["entropy, bits"].tolist() == [i / 2 for i in range(1, 10)]


def test_floor_is_named_where_it_is_what_one_sees(check_option: Check) -> None:
    panel = bit_choices(made(), 1)
    check_option(panel)
    assert "at least 1 bit" in panel.sentence
    assert "0.500 bits" in panel.sentence


def test_a_delta_without_elements(check_option: Check) -> None:
    panel = bit_choices([Choice(b, 0, 0, 1.0, 0.0, 0, 0.0, 0, 0) for b in EVERY_BITS], 2)
    assert check_option(panel)["series"][0]["data"][1]["value"] == 0.0


def test_alt_is_the_same_at_every_step() -> None:
    first, second = bit_choices(made(), 2), bit_choices(made(5000), 3)
    assert first.alt == second.alt
    assert first.sentence != second.sentence
