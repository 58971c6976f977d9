"""Huffman's tree as it grows: first every symbol alone, then the two rarest trees joined."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lcviz.lab.lesson import Merge
from lcviz.text import plural
from lcviz.ui.charts import BLUE, GREY, VERMILION, Option, Panel, base_option


def forest_panel(
    labels: Sequence[str], counts: Sequence[int], merges: Sequence[Merge], done: int
) -> Panel:
    """The trees after so many merges, those that come next in another colour and shape.

    labels, counts: of every symbol. merges: from `lab.lesson.merges`. Every node keeps its place
    from the first step to the last.
    """
    k = len(counts)
    leaves = _in_order(k, counts, merges)
    height: dict[int, float] = {leaf: float(i) for i, leaf in enumerate(leaves)}
    column: dict[int, int] = dict.fromkeys(leaves, 0)
    for i, m in enumerate(merges):
        height[k + i] = (height[m.rare] + height[m.rarer]) / 2
        column[k + i] = min(column[m.rare], column[m.rarer]) - 1
    following = merges[done] if done < len(merges) else None
    upcoming = {following.rare, following.rarer} if following else set()
    total = dict(enumerate(counts)) | {k + i: m.count for i, m in enumerate(merges)}

    def dot(node: int) -> Option:
        text = f"{labels[node]}  ·  {total[node]:,} ×" if node < k else f"{total[node]:,}"
        soon = node in upcoming
        return {
            "value": [column[node], height[node]],
            "symbol": "diamond" if soon else "circle",
            "symbolSize": 14 if soon else 9,
            "itemStyle": {"color": VERMILION if soon else BLUE if node < k else GREY},
            "label": {
                "formatter": text,
                "position": "right" if node < k else "top",
                "fontWeight": "bold" if soon else "normal",
            },
        }

    edges = [
        {
            "coords": [
                [column[child], height[child]],
                [column[k + i], height[child]],
                [column[k + i], height[k + i]],
            ]
        }
        for i, m in enumerate(merges[:done])
        for child in (m.rare, m.rarer)
    ]
    nodes = [*leaves, *(k + i for i in range(done))]
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"show": False},
        "grid": [{"left": 28, "right": 170, "top": 18, "bottom": 12}],
        "xAxis": {"show": False, "type": "value", "min": min(column.values()), "max": 0},
        "yAxis": {
            "show": False,
            "type": "value",
            "min": -0.5,
            "max": max(len(leaves), 2) - 0.5,
            "inverse": True,
        },
        "series": [
            {
                "type": "lines",
                "coordinateSystem": "cartesian2d",
                "polyline": True,
                "silent": True,
                "lineStyle": {"color": GREY, "width": 1.4, "opacity": 1, "curveness": 0},
                "data": edges,
            },
            {
                "type": "scatter",
                "silent": True,
                "itemStyle": {"opacity": 1},
                "label": {"show": True, "fontSize": 12, "distance": 6},
                "data": [dot(node) for node in nodes],
            },
        ],
    }
    table = pd.DataFrame(
        [
            {
                "merge": i + 1,
                "of": f"{_name(m.rarer, labels)} and {_name(m.rare, labels)}",
                "counts": f"{total[m.rarer]:,} + {total[m.rare]:,}",
                "together": f"{m.count:,}",
            }
            for i, m in enumerate(merges[:done])
        ],
        columns=["merge", "of", "counts", "together"],
    )
    return Panel(
        "Huffman's tree, from its leaves",
        _sentence(labels, total, merges, done),
        option,
        "Symbols with their counts, joined into a binary tree by as many merges as were asked for.",
        table,
        max(150, 30 + 26 * len(leaves)),
    )


def _sentence(
    labels: Sequence[str], total: dict[int, int], merges: Sequence[Merge], done: int
) -> str:
    if not merges:
        return "A single symbol: there is nothing to tell apart, so it takes no bits at all."
    if done == len(merges):
        return (
            "One tree is left, and done. Every merge has put one more bit in front of all symbols "
            "below it, so the rarest, merged first, end up with the longest words."
        )
    m = merges[done]
    return (
        f"{plural(len(merges) + 1 - done, 'tree')} left. The two rarest are "
        f"{_name(m.rarer, labels)} ({total[m.rarer]:,} ×) and {_name(m.rare, labels)} "
        f"({total[m.rare]:,} ×): they are joined next, into one of {m.count:,}."
    )


def _name(node: int, labels: Sequence[str]) -> str:
    return labels[node] if node < len(labels) else f"tree {node - len(labels) + 1}"


def _in_order(k: int, counts: Sequence[int], merges: Sequence[Merge]) -> list[int]:
    """The symbols that occur, so that no two edges of the finished tree cross."""
    if not merges:
        return [i for i, count in enumerate(counts) if count]
    found, left = [], [k + len(merges) - 1]
    while left:
        node = left.pop()
        if node < k:
            found.append(node)
        else:
            left += [merges[node - k].rarer, merges[node - k].rare]
    return found
