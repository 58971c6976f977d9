"""A code as a binary tree, drawn from left to right."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from codec.scheme.huffman import Node
from lcviz.text import plural
from lcviz.ui.charts import GREY, SIGN_COLOURS, Option, base_option

MAX_LEAVES = 24  # a taller tree is a smear; longer words are folded into one leaf
Describe = Callable[[int], tuple[str, int | None]]


def tree_option(root: Node, describe: Describe, noun: str, right: int) -> tuple[Option, int]:
    """The tree on hidden axes, and how many leaves it shows.

    describe: symbol -> its label and its sign, 0, 1 or None. noun: what a leaf stands for, for
    those that are folded. right: pixels for the labels.

    Not ECharts' own tree series: that one cannot label edges, and stops with an error when a
    tick changes the shape of the tree.
    """
    branching = _branching(root)
    shown = [n for n in _nodes(root) if not n.word or n.word[:-1] in branching]
    leaves = [n for n in shown if n.word not in branching]
    height: dict[str, float] = {leaf.word: i for i, leaf in enumerate(leaves)}
    for node in sorted(shown, key=lambda n: -len(n.word)):
        if node.word not in height:
            height[node.word] = (height[node.word + "0"] + height[node.word + "1"]) / 2
    edges, bits = [], []
    for word in (n.word for n in shown if n.word):
        x, y, parent = len(word), height[word], height[word[:-1]]
        edges.append({"coords": [[x - 1, parent], [x - 1, y], [x, y]]})
        bits.append({"value": [x - 0.5, y], "label": {"formatter": word[-1]}})
    ends = []
    for leaf in leaves:
        text, colour = _leaf(leaf, describe, noun)
        place = [len(leaf.word), height[leaf.word]]
        style = {"itemStyle": {"color": colour}, "label": {"formatter": text}}
        ends.append({"value": place} | style)
    label = {"show": True, "fontSize": 12}
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"show": False},
        "grid": [{"left": 12, "right": right, "top": 12, "bottom": 12}],
        "xAxis": {"show": False, "type": "value", "min": 0, "max": max(len(n.word) for n in shown)},
        "yAxis": {
            "show": False,
            "type": "value",
            "min": -0.5,
            "max": len(leaves) - 0.5,
            "inverse": True,
        },
        "series": [
            {
                "type": "lines",
                "coordinateSystem": "cartesian2d",
                "polyline": True,
                "silent": True,
                "lineStyle": {"color": GREY, "width": 1.2, "opacity": 1, "curveness": 0},
                "data": edges,
            },
            {
                "type": "scatter",
                "symbolSize": 0,
                "silent": True,
                "itemStyle": {"opacity": 1},
                "label": label | {"position": "top", "distance": 1},
                "data": bits,
            },
            {
                "type": "scatter",
                "symbolSize": 8,
                "silent": True,
                "itemStyle": {"opacity": 1},
                "label": label | {"position": "right", "distance": 6},
                "data": ends,
            },
        ],
    }
    return option, len(leaves)


def _nodes(node: Node) -> list[Node]:
    """The node and all below it, upper branch first."""
    found, left = [], [node]
    while left:
        node = left.pop()
        found.append(node)
        left += [child for child in (node.one, node.zero) if child]
    return found


def _leaf(leaf: Node, describe: Describe, noun: str) -> tuple[str, str]:
    """What stands at the end of a branch, and the colour of its dot."""
    if leaf.symbol is None:
        n = sum(node.symbol is not None for node in _nodes(leaf))
        return f"{leaf.word}…  {plural(n, 'more ' + noun)}", GREY
    text, sign = describe(leaf.symbol)
    colour = GREY if sign is None else SIGN_COLOURS[sign]
    return f"{leaf.word or 'no bits'}  →  {text}", colour


def _branching(root: Node) -> set[str]:
    """Words of the nodes whose branches are drawn: the uppermost and shortest first."""
    words: set[str] = set()
    waiting = deque([root])
    while waiting and len(words) + 1 < MAX_LEAVES:  # a tree has one leaf more than branchings
        node = waiting.popleft()
        if node.zero is not None and node.one is not None:
            words.add(node.word)
            waiting += [node.zero, node.one]
    return words
