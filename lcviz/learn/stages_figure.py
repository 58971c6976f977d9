"""Bits after each stage as bars, with the entropy as a line."""

from __future__ import annotations

import pandas as pd

from lcviz.lab.lesson import StageBits
from lcviz.text import minus, percent_text
from lcviz.ui.charts import BLUE, GREEN, GREY, PURPLE, VERMILION, Panel, axis, base_option

NAMES = {
    "float32": "float32: 32 bits each",
    "e": "E: an index of the bucket",
    "p": "P: x bits each",
    "h": "H: Huffman words",
}


def stages_panel(bits: StageBits) -> Panel:
    """Bits after each stage."""
    n = bits.float32 // 32
    values = [bits.float32, bits.e, bits.p, bits.h]
    bars = [
        {
            "value": round(value / n, 4),
            "itemStyle": {"color": colour},
            "label": {"formatter": f"{value:,} bits"},
        }
        for value, colour in zip(values, [GREY, BLUE, PURPLE, VERMILION])
    ]
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"show": False},
        "grid": [{"left": 190, "right": 150, "top": 8, "bottom": 46}],
        "xAxis": axis("bits a number", 28),
        "yAxis": {"type": "category", "inverse": True, "data": list(NAMES.values())},
        "series": [
            {
                "type": "bar",
                "silent": True,
                "barWidth": "62%",
                "label": {"show": True, "position": "right"},
                "data": bars,
                "markLine": {
                    "symbol": "none",
                    "silent": True,
                    "lineStyle": {"color": GREEN, "type": "dashed", "width": 2},
                    "label": {"show": False},
                    "data": [{"xAxis": round(bits.entropy / n, 4)}],
                },
            }
        ],
    }
    table = pd.DataFrame(
        {
            "after": list(NAMES.values()),
            "bits": [f"{value:,}" for value in values],
            "bits a number": [f"{value / n:.4f}" for value in values],
            "of float32": [percent_text(value / bits.float32) for value in values],
        }
    )
    sentence = (
        f"{n:,} numbers: {bits.float32:,} bits become {bits.h:,}, {bits.float32 / bits.h:.1f} "
        f"× fewer. The dashed line is the entropy of what P leaves, {bits.entropy:,.2f} bits: no "
        f"symbol-by-symbol code is shorter. Without P, Huffman words of all buckets would take "
        f"{bits.e_huffman:,} bits. Not counted here: the code table and the levels."
        if bits.h
        else f"{n:,} numbers, all with the same symbol: no bits are needed."
    )
    return Panel(
        "Bits after each stage",
        minus(sentence),
        option,
        "A bar for each stage, in bits a number, and the entropy as a dashed line.",
        table,
        230,
    )
