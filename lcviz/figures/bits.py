"""Priority promotion: what x = 1..8 bits keep and what they cost."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..lab.anatomy import Choice
from .panel import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    Option,
    Panel,
    base_option,
    nbytes_text,
    percent_text,
)

FLOOR = 100 / 32  # percent of float32: one bit a parameter


def bit_choices(choices: Sequence[Choice], bits: int | None) -> Panel:
    """Size and kept energy for every x, the run's own x marked.

    choices: from `lab.anatomy.choices`; the last one is the exponent stage alone.
    """
    names = [_name(c.bits) for c in choices]
    now = next(c for c in choices if c.bits == bits)
    option: Option = base_option() | {
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [{"left": 56, "right": 56, "top": 56, "bottom": 48}],
        "xAxis": {
            "type": "category",
            "data": names,
            "name": "x bits for priority promotion (E: every bucket kept)",
            "nameLocation": "middle",
            "nameGap": 28,
        },
        "yAxis": [
            {
                "type": "value",
                "name": "size, % of float32",
                "nameLocation": "middle",
                "nameGap": 38,
                "min": 0,
            },
            {
                "type": "value",
                "name": "kept, % of ‖δ‖²",
                "nameLocation": "middle",
                "nameGap": 40,
                "min": 0,
                "max": 100,
                "splitLine": {"show": False},
            },
        ],
        "series": [
            {
                "name": "size with Huffman",
                "type": "bar",
                "itemStyle": {"color": BLUE},
                "data": [
                    {
                        "value": round(100 * c.share, 3),
                        "itemStyle": {"color": BLUE, "opacity": 1 if c.bits == bits else 0.45},
                        "label": {"show": c.bits == bits, "position": "top", "formatter": "now"},
                    }
                    for c in choices
                ],
            },
            {
                "name": "1 bit a parameter",
                "type": "line",
                "symbol": "none",
                "lineStyle": {"type": "dashed", "color": GREY, "width": 1.5},
                "itemStyle": {"color": GREY},
                "data": [FLOOR] * len(choices),
            },
            {
                "name": "entropy",
                "type": "scatter",
                "symbol": "diamond",
                "symbolSize": 10,
                "itemStyle": {"color": PURPLE},
                "data": [round(100 * c.entropy_share, 3) for c in choices],
            },
            {
                "name": "energy kept",
                "type": "line",
                "yAxisIndex": 1,
                "symbol": "circle",
                "symbolSize": 6,
                "lineStyle": {"color": GREEN, "type": "dotted"},
                "itemStyle": {"color": GREEN},
                "data": [round(100 * c.energy_share, 3) for c in choices],
            },
        ],
    }
    sentence = (
        f"{'E alone' if bits is None else f'x = {bits}'} keeps {now.buckets_kept} of {now.buckets} "
        f"buckets and {percent_text(now.energy_share)} of δ's energy ‖δ‖², in "
        f"{now.bits_per_parameter:.2f} bits a parameter: {nbytes_text(now.nbytes)} without the "
        "record's header. "
    ) + _floor_sentence(now)
    table = pd.DataFrame(
        {
            "x": names,
            "buckets kept": [f"{c.buckets_kept} of {c.buckets}" for c in choices],
            "energy kept, %": [round(100 * c.energy_share, 3) for c in choices],
            "bits a parameter": [round(c.bits_per_parameter, 3) for c in choices],
            "entropy, bits": [round(c.entropy_bits / c.n, 3) if c.n else 0.0 for c in choices],
            "bytes": [c.nbytes for c in choices],
            "% of float32": [round(100 * c.share, 2) for c in choices],
        }
    )
    alt = "Size and kept energy for x from 1 to 8 bits, and for all buckets."
    return Panel("Priority promotion: what x bits keep and cost", sentence, option, alt, table)


def _name(bits: int | None) -> str:
    return "E" if bits is None else str(bits)


def _floor_sentence(now: Choice) -> str:
    if now.n and 1 <= now.stream_bits / now.n < 1.1:
        return (
            "It cannot get below the dashed line: a prefix code spends at least 1 bit on every "
            f"value, 3.125 % of float32, though the entropy is {now.entropy_bits / now.n:.3f} bits."
        )
    return "The diamonds are the entropy of the same symbols: no code for single symbols beats it."
