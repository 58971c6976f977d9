"""How numbers are written, and how an option is inked."""

from __future__ import annotations

import copy

import pytest

from lcviz.text import exponent_text, minus, nbytes_text, percent_text
from lcviz.ui import charts as panel
from lcviz.ui.charts import base_option, inked


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1234, "1.23 kB"),
        (31_400, "31.4 kB"),
        (246_824, "247 kB"),
        (1_234_567, "1.23 MB"),
        (2_581_032, "2.58 MB"),
        (5e9, "5.00 GB"),
        (1.234e13, "12,340 GB"),
    ],
)
def test_nbytes_text(n: float, text: str) -> None:
    assert nbytes_text(n) == text


@pytest.mark.parametrize("n", [999_499, 999_500, 999_999, 999_600_000])
def test_nbytes_text_never_has_a_power_of_ten(n: int) -> None:
    """Just below the next unit three digits round up to 1000."""
    assert "e" not in nbytes_text(n)
    number, unit = nbytes_text(n).split()
    size = {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
    assert float(number.replace(",", "")) * size == pytest.approx(n, rel=0.005)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0.00 %"),
        (0.00005, "< 0.01 %"),
        (0.0001, "0.01 %"),
        (0.0343, "3.43 %"),
        (0.99944, "99.94 %"),
        (1.0, "100 %"),
        (2.5, "250 %"),
        (float("nan"), "not finite"),
        (float("inf"), "not finite"),
    ],
)
def test_percent_text(share: float, text: str) -> None:
    assert percent_text(share) == text


@pytest.mark.parametrize(
    ("exponent", "sign", "text"),
    [
        (-7, None, "2⁻⁷"),
        (10, 0, "+2¹⁰"),
        (-126, 1, "−2⁻¹²⁶"),
        (-127, None, "subnormal"),
        (-127, 1, "−subnormal"),
    ],
)
def test_exponent_text(exponent: int, sign: int | None, text: str) -> None:
    assert exponent_text(exponent, sign) == text


def test_minus_is_a_true_one() -> None:
    assert minus(-12) == "−12"
    assert minus("+0.5") == "+0.5"


@pytest.mark.parametrize(("theme", "ink"), [("light", "#31333f"), ("dark", "#fafafa")])
def test_inked_colours_everything_readable_and_changes_nothing_else(theme: str, ink: str) -> None:
    option = base_option() | {
        "xAxis": {"type": "value", "name": "x"},
        "yAxis": [{"type": "value"}, {"type": "log"}],
        "series": [
            {"type": "tree", "label": {"position": "top"}},
            {"type": "line", "markLine": {"data": [{"xAxis": 3}], "label": {"show": False}}},
            {"type": "bar", "data": [1]},
        ],
    }
    before = copy.deepcopy(option)
    dyed = inked(option, theme)
    assert option == before
    text = {"axisLabel": {"color": ink}, "nameTextStyle": {"color": ink}}
    assert dyed["xAxis"] == before["xAxis"] | text
    assert dyed["yAxis"] == [axis | text for axis in before["yAxis"]]
    assert dyed["legend"] == before["legend"] | {"textStyle": {"color": ink}}
    tree, line, bar = dyed["series"]
    assert tree["label"] == {"position": "top", "color": ink}
    assert line["markLine"]["label"] == {"show": False, "color": ink}
    assert line["markLine"]["animation"] is False  # else it grows anew at every tick
    assert line["markLine"]["data"] == [{"xAxis": 3}]
    assert line["markLine"]["precision"] > 6  # else a loss of 0.5724 is marked at 0.57
    assert bar == before["series"][2]


def test_inked_has_two_themes_only() -> None:
    with pytest.raises(KeyError):
        inked(base_option() | {"series": []}, "sepia")


@pytest.mark.parametrize("colour", [panel.BLUE, panel.VERMILION, panel.GREEN, panel.PURPLE])
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
