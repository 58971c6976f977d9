"""Bars in HTML: how a notebook shows a chain, a record and a quantized delta."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

MOST_BARS = 40
# Readable on light and dark pages.
BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#8a8a8a"

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Bar(NamedTuple):
    """One row: a label, a bar as long as the value, and the value as text."""

    label: str
    value: float
    text: str
    color: str = BLUE


def bars_html(title: str, bars: Sequence[Bar], sentence: str) -> str:
    """A title, the first MOST_BARS bars below each other, and a sentence; HTML without scripts."""
    longest = max((bar.value for bar in bars), default=0) or 1
    rows = [_row(bar, longest) for bar in bars[:MOST_BARS]]
    if len(bars) > MOST_BARS:
        rows.append(f"<tr><td></td><td>… and {len(bars) - MOST_BARS:,} more</td></tr>")
    return (
        f'<div><div style="font-weight:600">{escape(title)}</div>'
        f'<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">{"".join(rows)}'
        f'</table><div style="opacity:.75">{escape(sentence)}</div></div>'
    )


def power_of_two(exponent: int) -> str:
    """2 to a power, as people write it."""
    return "2" + str(exponent).translate(_RAISED)


def short(value: float) -> str:
    """A number with three digits."""
    return f"{value:.3g}".replace("-", "−")


def _row(bar: Bar, longest: float) -> str:
    cell = "padding:1px 8px;border:0;background:none"
    width = 240 * bar.value / longest
    return (
        f'<tr><td style="{cell};text-align:right">{escape(bar.label)}</td>'
        f'<td style="{cell};text-align:left;white-space:nowrap"><span style="display:inline-block;'
        f"height:.8em;margin-right:6px;vertical-align:-.05em;width:{width:.1f}px;"
        f'background:{bar.color}"></span>{escape(bar.text)}</td></tr>'
    )
