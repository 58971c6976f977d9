"""A against B: the same checkpoints saved in two ways, number by number and over the run."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from lcviz.text import loss_text, minus, nbytes_text, percent_text, plural
from lcviz.ui.charts import BLUE, VERMILION, Option, Panel, base_option, plotted

from .ab import Saved, Side

AGAINST = "B against A"


def ab_table(a: Side, b: Side, live_loss: float) -> pd.DataFrame:
    """Every measure of both, and B's difference to A. live_loss: of the model that was saved."""
    steps = plural(len(a.every), "checkpoint")
    both = a.newest, b.newest
    rows = [
        (
            "newest record, bytes on disk",
            *(_bytes(s.newest.nbytes, s) for s in (a, b)),
            _more(both[0].nbytes, both[1].nbytes),
        ),
        (
            f"mean of {steps}, bytes",
            *(_bytes(s.mean_nbytes, s) for s in (a, b)),
            _more(a.mean_nbytes, b.mean_nbytes),
        ),
        (
            "bits a parameter, newest record",
            *(f"{s.bits:.3f}" for s in (a, b)),
            f"{_signed(b.bits - a.bits, '.3f')} bits",
        ),
        (
            "distance, % of the way trained",
            *(percent_text(s.distance) for s in both),
            _points(both[0].distance, both[1].distance),
        ),
        (
            f"loss, restored (live {loss_text(live_loss, 4)})",
            *(loss_text(s.loss) for s in (a, b)),
            _loss(a.loss, b.loss),
        ),
        (
            "buckets kept",
            *(f"{s.newest.kept} of {s.buckets}" for s in (a, b)),
            _buckets(both[1].kept - both[0].kept),
        ),
        (
            "code tables written, bytes",
            *(_tables(s) for s in both),
            _more(both[0].table_nbytes, both[1].table_nbytes),
        ),
        (
            f"time to encode, median of {steps}",
            *(f"{1000 * s.seconds:.2f} ms" for s in (a, b)),
            f"{_signed(1000 * (b.seconds - a.seconds), '.2f')} ms{_share(a.seconds, b.seconds)}",
        ),
    ]
    return pd.DataFrame(rows, columns=["", "A", "B", AGAINST])


def ab_sentence(a: Side, b: Side) -> str:
    """What B costs and gains, against A."""
    if a.variant == b.variant:
        return "A and B are the same: change one of them."
    size, near = b.mean_nbytes - a.mean_nbytes, b.newest.distance - a.newest.distance
    less = "as many bytes as A"
    if round(size):
        share = percent_text(abs(size) / a.mean_nbytes)
        less = f"{nbytes_text(abs(size))} ({share} of A's) {'more' if size > 0 else 'less'} than A"
    less += " for a checkpoint on average"
    points = abs(100 * near)
    far = "is as far as A from what was trained"
    if not math.isfinite(points):
        far = "how far they are from what was trained has no number"
    elif points >= 0.005:
        far = f"is {points:.2f} percentage points {'further from' if near > 0 else 'nearer to'} "
        far += "what was trained"
    return f"B takes {less}, and {far}."


def ab_sizes(a: Side, b: Side) -> Panel:
    """The record of every checkpoint, with both."""
    return _both(
        a,
        b,
        lambda side, s: 100 * s.nbytes / side.full_nbytes,
        "record, % of float32",
        "Size of each checkpoint, A and B",
        f"On average A writes {nbytes_text(a.mean_nbytes)} and B {nbytes_text(b.mean_nbytes)} for "
        f"a checkpoint of {nbytes_text(a.full_nbytes)} in float32.",
        "Size of each record with A and with B, in percent of float32, by step.",
    )


def ab_distances(a: Side, b: Side) -> Panel:
    """How far a restart would be from what was trained, with both."""
    far = [s.newest.distance for s in (a, b)]
    sentence = f"Restored from step {a.newest.step}, the model would be "
    if all(map(math.isfinite, far)):
        sentence += f"{percent_text(far[0])} of the way trained from the live one with A, "
        sentence += f"{percent_text(far[1])} with B."
    else:
        sentence += "so far from the live one that it has no number."
    return _both(
        a,
        b,
        lambda _, s: 100 * s.distance,
        "distance, % of the way trained",
        "Distance of what is restored to what was trained, A and B",
        sentence,
        "Relative distance of the restored to the live model with A and with B, by step.",
    )


def _both(
    a: Side,
    b: Side,
    value: Callable[[Side, Saved], float],
    name: str,
    title: str,
    sentence: str,
    alt: str,
) -> Panel:
    sides = {"A": (a, BLUE, "solid", "circle"), "B": (b, VERMILION, "dashed", "diamond")}
    steps = [s.step for s in a.every]
    option: Option = base_option() | {
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [{"left": 64, "right": 24, "top": 40, "bottom": 48}],
        "xAxis": {
            "type": "value",
            "name": "step (iterations)",
            "nameLocation": "middle",
            "nameGap": 28,
            "min": steps[0],
            "max": max(steps[-1], steps[0] + 1),
            "minInterval": 1,
            "axisLabel": {"hideOverlap": True},
        },
        "yAxis": {"type": "value", "name": name, "nameLocation": "middle", "nameGap": 46, "min": 0},
        "series": [
            {
                "name": who,
                "type": "line",
                "symbol": symbol,
                "symbolSize": 7,
                "showSymbol": len(steps) < 30,
                "lineStyle": {"color": colour, "type": dash, "width": 2},
                "itemStyle": {"color": colour},
                "data": [[s.step, plotted(value(side, s), 4)] for s in side.every],
            }
            for who, (side, colour, dash, symbol) in sides.items()
        ],
    }
    table = pd.DataFrame(
        {"step": steps}
        | {
            f"{who}, {name}": [plotted(value(side, s), 4) for s in side.every]
            for who, (side, *_) in sides.items()
        }
    )
    return Panel(title, sentence, option, alt, table, 280)


def _bytes(n: float, side: Side) -> str:
    return f"{n:,.0f} B, {percent_text(n / side.full_nbytes)} of float32"


def _tables(s: Saved) -> str:
    """Bytes of those that are new, and how many were sent before."""
    return f"{s.table_nbytes:,} B, {s.reused} of {plural(s.tables, 'table')} used again"


def _more(a: float, b: float) -> str:
    return f"{_signed(b - a, ',.0f')} B{_share(a, b)}"


def _share(a: float, b: float) -> str:
    return f", {_signed(100 * (b - a) / a, '.1f')} % of A's" if a else ""


def _loss(a: float, b: float) -> str:
    return _signed(b - a, ".6f") if math.isfinite(a) and math.isfinite(b) else "no number"


def _points(a: float, b: float) -> str:
    """Of two shares."""
    if not math.isfinite(b - a):
        return "no number"
    return f"{_signed(100 * (b - a), '.2f')} percentage points"


def _buckets(more: int) -> str:
    return f"{_signed(more, 'd')} bucket{'' if abs(more) == 1 else 's'}"


def _signed(difference: float, how: str) -> str:
    """With its sign; what rounds to 0 has none."""
    text = format(difference, f"+{how}")
    return minus(text if text.strip("+-0.,") else text[1:])
