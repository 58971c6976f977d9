"""One delta tensor by tensor, a column for each number of bits: a heat map with its numbers."""

from __future__ import annotations

import math

import pandas as pd

from codec import Coding
from lcviz.text import kept_name
from lcviz.ui.charts import CIVIDIS, Option, Panel, axis, base_option

from .by_tensor import ByTensor, Cell

MEASURES = {
    "bits": "bits per parameter",
    "error": "relative error ‖δ − q‖ / ‖δ‖",
    "zeros": "values left as they were, %",
}
MAX_ROWS = 40
NAME_LENGTH = 26
LIGHT, DARK = "#ffffff", "#000000"


def by_tensor_panel(found: ByTensor, own: Coding, measure: str, who: str, top: float) -> Panel:
    """Rows are tensors, columns settings.

    own: the one that is framed. measure: one of MEASURES. who: whose it is, "A" or "B". top: the
    number that the lightest colour stands for, the same for all that are compared.
    """
    sizes = sorted(found.sizes, key=lambda name: -found.sizes[name])[:MAX_ROWS]
    names = [name for name in found.sizes if name in sizes]  # in the model's order
    columns = [kept_name(v.bits, v.budget) for v in found.choices]
    mine = found.choices.index(own)
    cells = []
    for y, name in enumerate(names):
        for x, cell in enumerate(found.rows[name]):
            if cell is not None:
                cells.append(_drawn(x, y, value(cell, measure), measure, top, framed=x == mine))
    option: Option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"trigger": "item", "confine": True, "formatter": "{b}"},
        "grid": [{"left": 150, "right": 12, "top": 8, "bottom": 46}],
        "xAxis": axis(_x_name(own), splitArea={"show": False})
        | {"type": "category", "data": columns, "axisTick": {"show": False}},
        "yAxis": {
            "type": "category",
            "data": [_short(name) for name in names],
            "inverse": True,
            "axisTick": {"show": False},
        },
        "visualMap": {"show": False, "min": 0, "max": top or 1, "dimension": 2}
        | {"inRange": {"color": list(CIVIDIS)}},
        "series": [
            {
                "type": "heatmap",
                "name": MEASURES[measure],
                "data": cells,
                "label": {"show": True, "fontSize": 11},
                "emphasis": {"disabled": True},
            }
        ],
    }
    return Panel(
        f"{who}, step {found.step}: {MEASURES[measure]}",
        _sentence(found, own, measure, names),
        option,
        "Heat map: a row for each tensor, a column for each number of bits.",
        _table(found, columns, measure),
        64 + 28 * len(names),
    )


def value(cell: Cell, measure: str) -> float:
    """What is shown of a cell: a percentage for zeros."""
    return 100 * cell.zeros if measure == "zeros" else float(getattr(cell, measure))


def highest(founds: tuple[ByTensor, ...], measure: str) -> float:
    """The largest number that is shown."""
    cells = [c for f in founds for row in f.rows.values() for c in row if c is not None]
    return max((value(c, measure) for c in cells), default=0.0)


def ink_on(share: float) -> str:
    """Black or white, whichever can be read better on the colour of a share from 0 to 1."""
    at = min(max(share, 0.0), 1.0) * (len(CIVIDIS) - 1)
    i = min(int(at), len(CIVIDIS) - 2)
    low, high = _rgb(CIVIDIS[i]), _rgb(CIVIDIS[i + 1])
    light = luminance(tuple(a + (at - i) * (b - a) for a, b in zip(low, high)))
    return LIGHT if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 else DARK


def luminance(rgb: tuple[float, ...]) -> float:
    """Relative luminance of a colour, 0 to 1, as in WCAG 2. rgb: 0 to 255 each."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def _drawn(x: int, y: int, number: float, measure: str, top: float, *, framed: bool) -> Option:
    text = _text(number, measure)
    shown = round(number, 5) if math.isfinite(number) else 0
    cell: Option = {
        "value": [x, y, shown],
        "name": text,
        "label": {"formatter": text, "color": ink_on(shown / top if top else 0.0)},
    }
    if framed:
        cell["itemStyle"] = {"borderColor": "#d55e00", "borderWidth": 3}
    return cell


def _text(number: float, measure: str) -> str:
    if not math.isfinite(number):
        return "–"
    return f"{number:.1f}" if measure == "zeros" else f"{number:.2f}"


def _x_name(own: Coding) -> str:
    text = "x bits for priority promotion"
    return text if own.budget is None else f"{text}, and the budget"


def _short(name: str) -> str:
    """The end of a long name says more than its beginning."""
    return name if len(name) <= NAME_LENGTH else "…" + name[1 - NAME_LENGTH :]


def _sentence(found: ByTensor, own: Coding, measure: str, names: list[str]) -> str:
    mine = found.choices.index(own)
    here = {n: c for n, row in found.rows.items() if (c := row[mine]) is not None}
    if not here:
        return "In this step every tensor was stored exactly, so there is nothing to compare."
    by = sorted(here, key=lambda n: value(here[n], measure))
    low, high = (f"{name}, {_with_unit(here[name], measure)}" for name in (by[0], by[-1]))
    text = f"With {own.describe()} (framed): "
    if len(by) == 1:
        text += f"{_with_unit(here[by[0]], measure)} in {by[0]}."
    else:
        text += f"smallest: {low}; largest: {high}."
    if len(found.sizes) > len(names):
        text += f" Drawn are the {len(names)} largest of {len(found.sizes)} tensors."
    return text


def _with_unit(cell: Cell, measure: str) -> str:
    unit = {"bits": " bits", "error": "", "zeros": " %"}[measure]
    return f"{_text(value(cell, measure), measure)}{unit}"


def _table(found: ByTensor, columns: list[str], measure: str) -> pd.DataFrame:
    return pd.DataFrame(
        {"tensor": list(found.rows), "values": [found.sizes[name] for name in found.rows]}
        | {
            column: [
                None if row[i] is None else round(value(row[i], measure), 4)  # type: ignore[arg-type]
                for row in found.rows.values()
            ]
            for i, column in enumerate(columns)
        }
    )
