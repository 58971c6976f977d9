"""The Huffman stage: the code as a tree and as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from codec import huffman
from codec.huffman import Node

from ..lab.anatomy import CodeRow
from .panel import GREY, SIGN_COLOURS, Option, Panel, base_option, exponent_text, minus, nbytes_text

MAX_LEAVES = 24  # a taller tree is a smear; deeper words are folded into one leaf


def code_panel(rows: Sequence[CodeRow], name: str) -> Panel:
    """One alphabet's canonical code: levels, counts, code words, and their tree.

    rows: from `lab.anatomy.code_table`. name: whose alphabet it is, for the sentence.
    """
    counts = np.array([r.count for r in rows], np.int64)
    lengths = np.array([len(r.word) for r in rows], np.uint8)
    n = int(counts.sum())
    root = huffman.tree(lengths)
    shown = _depth_for(root)
    option: Option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"show": False},
        "series": [
            {
                "type": "tree",
                "data": [_branch(root, rows, shown)],
                "orient": "LR",
                "layout": "orthogonal",
                "edgeShape": "polyline",
                "edgeForkPosition": "50%",
                "top": 8,
                "bottom": 8,
                "left": 24,
                "right": 190,
                "symbol": "circle",
                "symbolSize": 7,
                "initialTreeDepth": -1,
                "expandAndCollapse": False,
                "roam": False,
                "lineStyle": {"color": GREY, "width": 1.2},
                "itemStyle": {"color": GREY},
                "label": {"position": "top", "distance": 4},
                "leaves": {"label": {"position": "right", "distance": 6}},
            }
        ],
    }
    mean = huffman.n_bits(counts, lengths) / n
    entropy = huffman.entropy(counts) / n
    table_bytes = counts.size + 4 * (counts.size - 1)
    if not lengths.any():
        sentence = f"{name}: a single symbol, so no bits are needed at all."
    else:
        sentence = (
            f"{name}: {sum(counts > 0)} symbols, {mean:.4f} bits a value on average; the "
            f"entropy is {entropy:.4f}. The table costs {table_bytes} bytes: {counts.size} "
            f"code lengths of 1 byte, {counts.size - 1} levels of 4. It is new in every record, "
            f"for {nbytes_text(int(np.ceil(mean * n / 8)))} of code words."
        )
    table = pd.DataFrame(
        {
            "symbol": [r.symbol for r in rows],
            "bucket": [
                "zero" if r.exponent is None else exponent_text(r.exponent, r.sign) for r in rows
            ],
            "level": [f"{r.level:.6g}" for r in rows],
            "count": [r.count for r in rows],
            "share, %": [round(100 * r.count / n, 3) for r in rows],
            "code word": [r.word or "(none)" for r in rows],
            "bits": [len(r.word) for r in rows],
        }
    )
    alt = "The code as a binary tree; the table below has the same words."
    return Panel("Huffman code of the levels", sentence, option, alt, table)


def _branch(node: Node, rows: Sequence[CodeRow], depth: int) -> Option:
    """The ECharts tree data below a node, folded deeper than ``depth``."""
    if node.symbol is not None:
        row = rows[node.symbol]
        colour = GREY if row.sign is None else SIGN_COLOURS[row.sign]
        text = f"{node.word or '∅'}  →  {_label(row)}"
        return {"name": text, "itemStyle": {"color": colour}}
    if len(node.word) >= depth:
        return {"name": f"{node.word}…  →  {_leaves(node)} more levels"}
    children = [_branch(child, rows, depth) for child in (node.zero, node.one) if child]
    return {"name": node.word, "children": children}


def _depth_for(root: Node) -> int:
    """The largest depth to which the tree shows at most MAX_LEAVES leaves."""
    level, done, depth = [root], 0, 0
    while level and done + len(level) <= MAX_LEAVES:
        done += sum(node.symbol is not None for node in level)
        level = [c for node in level for c in (node.zero, node.one) if c is not None]
        depth += 1
    return depth


def _leaves(node: Node) -> int:
    if node.symbol is not None:
        return 1
    return sum(_leaves(child) for child in (node.zero, node.one) if child is not None)


def _label(row: CodeRow) -> str:
    return "zero" if row.exponent is None else minus(f"{row.level:+.3g}")
