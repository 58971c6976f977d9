"""What the numbers take after each stage, as bars, with the entropy as a line."""

from __future__ import annotations

import pandas as pd

from lcviz.lab.lesson import Sizes
from lcviz.text import minus, percent_text
from lcviz.ui.charts import BLUE, GREEN, GREY, PURPLE, VERMILION, Panel, base_option

NAMES = {
    "float32": "float32: 32 bits each",
    "e": "E: an index of the bucket",
    "p": "P: x bits each",
    "h": "H: Huffman words",
}


def stages_panel(sizes: Sizes) -> Panel:
    """Bits after each stage. Not float32's axis: its bar would leave the others invisible."""
    n = sizes.float32 // 32
    values = [sizes.float32, sizes.e, sizes.p, sizes.h]
    colours = [GREY, BLUE, PURPLE, VERMILION]
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"show": False},
        "grid": [{"left": 190, "right": 150, "top": 8, "bottom": 46}],
        "xAxis": {
            "type": "value",
            "name": "bits a number",
            "nameLocation": "middle",
            "nameGap": 28,
        },
        "yAxis": {"type": "category", "inverse": True, "data": list(NAMES.values())},
        "series": [
            {
                "type": "bar",
                "silent": True,
                "barWidth": "62%",
                "label": {"show": True, "position": "right"},
                "data": [
                    {
                        "value": round(bits / n, 4),
                        "itemStyle": {"color": colour},
                        "label": {"formatter": f"{bits:,} bits"},
                    }
                    for bits, colour in zip(values, colours)
                ],
                "markLine": {
                    "symbol": "none",
                    "silent": True,
                    "lineStyle": {"color": GREEN, "type": "dashed", "width": 2},
                    "label": {"show": False},
                    "data": [{"xAxis": round(sizes.entropy / n, 4)}],
                },
            }
        ],
    }
    table = pd.DataFrame(
        {
            "after": list(NAMES.values()),
            "bits": [f"{bits:,}" for bits in values],
            "bits a number": [f"{bits / n:.4f}" for bits in values],
            "of float32": [percent_text(bits / sizes.float32) for bits in values],
        }
    )
    sentence = (
        f"{n:,} numbers: {sizes.float32:,} bits become {sizes.h:,}, {sizes.float32 / sizes.h:.1f} "
        f"× fewer. The dashed line is the entropy of what P leaves, {sizes.entropy:,.2f} bits: no "
        f"code of single values takes less. Without P, Huffman words of all buckets would take "
        f"{sizes.e_huffman:,} bits. Not counted here: the code table and the levels."
        if sizes.h
        else f"{n:,} numbers, all with the same symbol: no bits are needed to tell them apart."
    )
    return Panel(
        "Bits after each stage",
        minus(sentence),
        option,
        "A bar for each stage, in bits a number, and the entropy as a dashed line.",
        table,
        230,
    )
