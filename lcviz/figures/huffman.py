"""The Huffman stage: the code as a tree and as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from codec import huffman
from codec.huffman import Node

from ..lab.anatomy import CodeRow
from .panel import (
    GREY,
    SIGN_COLOURS,
    Option,
    Panel,
    base_option,
    exponent_text,
    minus,
    nbytes_text,
    plural,
)

MAX_LEAVES = 24  # a taller tree is a smear; deeper words are folded into one leaf


def code_panel(rows: Sequence[CodeRow], name: str) -> Panel:
    """One alphabet's canonical code: levels, counts, code words, and their tree.

    rows: from `lab.anatomy.code_table`. name: whose alphabet it is, for the sentence.
    """
    counts = np.array([r.count for r in rows], np.int64)
    lengths = np.array([len(r.word) for r in rows], np.uint8)
    n = int(counts.sum())
    option, n_leaves = _tree_option(huffman.tree(lengths), rows)
    mean = huffman.n_bits(counts, lengths) / n
    entropy = huffman.entropy(counts) / n
    table_bytes = counts.size + 4 * (counts.size - 1)
    if not lengths.any():
        sentence = f"{name}: a single symbol, so no bits are needed at all."
    else:
        sentence = (
            f"{name}: {sum(counts > 0)} symbols, {mean:.4f} bits a value on average; the "
            f"entropy is {entropy:.4f}. The table costs {table_bytes} bytes: {counts.size} "
            f"code lengths of 1 byte and {plural(counts.size - 1, 'level')} of 4 bytes. Each "
            f"record has its own, beside {nbytes_text(int(np.ceil(mean * n / 8)))} of code words."
        )
    table = pd.DataFrame(
        {
            "symbol": [r.symbol for r in rows],
            "bucket": [
                "zero" if r.exponent is None else exponent_text(r.exponent, r.sign) for r in rows
            ],
            "level": [minus(f"{r.level:.6g}") for r in rows],
            "count": [r.count for r in rows],
            "share, %": [round(100 * r.count / n, 3) for r in rows],
            "bits": [len(r.word) for r in rows],
            "code word": [r.word or "(none)" for r in rows],
        }
    )
    alt = "The code as a binary tree; the table below has the same words."
    height = max(150, 24 + 20 * n_leaves)
    return Panel("Huffman code of the levels", sentence, option, alt, table, height)


def _tree_option(root: Node, rows: Sequence[CodeRow]) -> tuple[Option, int]:
    """The tree from left to right on hidden axes, and how many leaves it shows.

    Not ECharts' own tree series: that one cannot label edges, and stops with an error when a
    tick changes the shape of the tree.
    """
    depth = _depth_for(root)
    shown = [node for node in _nodes(root) if len(node.word) <= depth]
    leaves = [n for n in shown if n.symbol is not None or len(n.word) == depth]
    height: dict[str, float] = {leaf.word: i for i, leaf in enumerate(leaves)}
    for node in sorted(shown, key=lambda n: -len(n.word)):
        if node.word not in height:
            height[node.word] = (height[node.word + "0"] + height[node.word + "1"]) / 2
    edges, bits = [], []
    for word in (n.word for n in shown if n.word):
        x, y, parent = len(word), height[word], height[word[:-1]]
        edges.append({"coords": [[x - 1, parent], [x - 1, y], [x, y]]})
        bits.append({"value": [x - 0.5, y], "label": {"formatter": word[-1]}})
    ends = [
        {
            "value": [len(leaf.word), height[leaf.word]],
            "itemStyle": {"color": _colour(leaf, rows)},
            "label": {"formatter": _text(leaf, rows)},
        }
        for leaf in leaves
    ]
    label = {"show": True, "fontSize": 12}
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"show": False},
        "grid": [{"left": 12, "right": 150, "top": 12, "bottom": 12}],
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
    below = [_nodes(child) for child in (node.zero, node.one) if child]
    return [node, *(n for branch in below for n in branch)]


def _colour(leaf: Node, rows: Sequence[CodeRow]) -> str:
    sign = rows[leaf.symbol].sign if leaf.symbol is not None else None
    return GREY if sign is None else SIGN_COLOURS[sign]


def _text(leaf: Node, rows: Sequence[CodeRow]) -> str:
    if leaf.symbol is None:
        n = sum(node.symbol is not None for node in _nodes(leaf))
        return f"{leaf.word}…  {n} more levels"
    return f"{leaf.word or 'no bits'}  →  {_label(rows[leaf.symbol])}"


def _depth_for(root: Node) -> int:
    """The largest depth to which the tree shows at most MAX_LEAVES leaves."""
    level, done, depth = [root], 0, 0
    while level and done + len(level) <= MAX_LEAVES:
        done += sum(node.symbol is not None for node in level)
        level = [c for node in level for c in (node.zero, node.one) if c is not None]
        depth += 1
    return depth - 1


def _label(row: CodeRow) -> str:
    return "zero" if row.exponent is None else minus(f"{row.level:+.3g}")
