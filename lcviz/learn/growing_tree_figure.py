"""How Huffman's tree grows: first every symbol alone, then the two rarest trees joined."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lcviz.lab.lesson import Merge
from lcviz.text import plural
from lcviz.ui.charts import BLUE, GREY, VERMILION, Option, Panel
from lcviz.ui.tree_chart import Point, elbow, tree_option
from lcviz.ui.tree_chart import labels as dot_series


def growing_tree_panel(
    labels: Sequence[str], counts: Sequence[int], merges: Sequence[Merge], done: int
) -> Panel:
    """The trees after some merges; the two merged next in another colour and shape.

    Every node keeps its place from the first step to the last.

    Args:
        labels, counts: of every symbol.
        merges: all of them, from `lab.lesson.huffman_merges`.
        done: how many of them are drawn.
    """
    k = len(counts)
    leaves = _in_order(k, counts, merges)
    place: dict[int, Point] = {leaf: (0, i) for i, leaf in enumerate(leaves)}
    for i, m in enumerate(merges):
        (x, y), (other_x, other_y) = place[m.rare], place[m.rarer]
        place[k + i] = min(x, other_x) - 1, (y + other_y) / 2
    following = merges[done] if done < len(merges) else None
    upcoming = {following.rare, following.rarer} if following else set()
    total = dict(enumerate(counts)) | {k + i: m.count for i, m in enumerate(merges)}

    def dot(node: int) -> Option:
        soon, leaf, count = node in upcoming, node < k, f"{total[node]:,}"
        return {
            "value": list(place[node]),
            "symbol": "diamond" if soon else "circle",
            "symbolSize": 14 if soon else 9,
            "itemStyle": {"color": VERMILION if soon else BLUE if leaf else GREY},
            "label": {
                "formatter": f"{labels[node]}  ·  {count} ×" if leaf else count,
                "position": "right" if leaf else "top",
                "fontWeight": "bold" if soon else "normal",
            },
        }

    edges = [
        elbow(place[k + i], place[child])
        for i, m in enumerate(merges[:done])
        for child in (m.rare, m.rarer)
    ]
    dots = [dot(node) for node in (*leaves, *range(k, k + done))]
    option = tree_option(
        edges,
        [dot_series(dots, distance=6)],
        (min(x for x, _ in place.values()), 0),
        max(len(leaves), 2),
        {"left": 28, "right": 170, "top": 18, "bottom": 12},
    )
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
        "Symbols with their counts, joined step by step into a binary tree.",
        table,
        max(150, 30 + 26 * len(leaves)),
    )


def _sentence(
    labels: Sequence[str], total: dict[int, int], merges: Sequence[Merge], done: int
) -> str:
    if not merges:
        return "A single symbol needs no bits at all."
    if done == len(merges):
        return (
            "One tree is left: the code is done. Every merge put one more bit in front of all "
            "symbols below it. The rarest symbols were merged first and have the longest words."
        )
    m = merges[done]
    return (
        f"{plural(len(merges) + 1 - done, 'tree')} left. The two rarest are "
        f"{_name(m.rarer, labels)} ({total[m.rarer]:,} ×) and {_name(m.rare, labels)} "
        f"({total[m.rare]:,} ×): they are merged next, into one of {m.count:,}."
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
