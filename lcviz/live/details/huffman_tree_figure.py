"""The finished tree of a Huffman code, drawn from left to right."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import plotly.graph_objects as go

from codec.inspect import Node
from lcviz.text import plural
from lcviz.ui.charts import GREY, SIGN_COLOURS, base_figure

MAX_LEAVES = 24  # a taller tree cannot be read: leaves are folded together
ROW = 20  # pixels
Describe = Callable[[int], tuple[str, int | None]]


def huffman_tree(root: Node, describe: Describe, noun: str, right: int) -> go.Figure:
    """Draw a code's tree.

    Args:
        root: Of the tree.
        describe: Symbol -> its label and its sign (0, 1 or None).
        noun: For what a leaf stands for, to count folded leaves.
        right: Pixels for the labels.
    """
    branching = _branching(root)
    nodes = [n for n in _nodes(root) if not n.word or n.word[:-1] in branching]
    leaves = [n for n in nodes if n.word not in branching]
    row: dict[str, float] = {leaf.word: i for i, leaf in enumerate(leaves)}
    for node in sorted(nodes, key=lambda n: -len(n.word)):
        if node.word not in row:
            row[node.word] = (row[node.word + "0"] + row[node.word + "1"]) / 2
    words = [n.word for n in nodes if n.word]
    depth = max(len(n.word) for n in nodes)
    height = max(150, 24 + ROW * len(leaves))
    figure = base_figure("", "", height, l=12, r=right, t=12, b=12)
    # An edge follows the parent's column, then the child's row; None ends it.
    figure.add_scatter(
        x=[x for w in words for x in (len(w) - 1, len(w) - 1, len(w), None)],
        y=[y for w in words for y in (row[w[:-1]], row[w], row[w], None)],
        mode="lines",
        line={"color": GREY, "width": 1.3},
    )
    figure.add_scatter(
        x=[len(w) - 0.5 for w in words],
        y=[row[w] for w in words],
        mode="text",
        text=[w[-1] for w in words],
        textposition="top center",
    )
    labels = [_leaf(leaf, describe, noun) for leaf in leaves]
    figure.add_scatter(
        x=[len(leaf.word) for leaf in leaves],
        y=[row[leaf.word] for leaf in leaves],
        mode="markers+text",
        marker={"color": [colour for _, colour in labels], "size": 8},
        text=[f" {text}" for text, _ in labels],
        textposition="middle right",
    )
    figure.update_traces(hoverinfo="skip", cliponaxis=False, textfont={"size": 12})
    figure.update_layout(showlegend=False, hovermode=False)
    figure.update_xaxes(visible=False, range=[0, max(depth, 1)])
    figure.update_yaxes(visible=False, range=[len(leaves) - 0.5, -0.5])
    return figure


def _nodes(node: Node) -> list[Node]:
    """The node and all nodes below it, upper branch first."""
    children = [child for child in (node.zero, node.one) if child]
    return [node] + [descendant for child in children for descendant in _nodes(child)]


def _leaf(leaf: Node, describe: Describe, noun: str) -> tuple[str, str]:
    """The label at the end of a branch, and the colour of its dot."""
    if leaf.symbol is None:
        n = sum(node.symbol is not None for node in _nodes(leaf))
        return f"{leaf.word}…  {plural(n, 'more ' + noun)}", GREY
    text, sign = describe(leaf.symbol)
    colour = GREY if sign is None else SIGN_COLOURS[sign]
    return f"{leaf.word or 'no bits'}  →  {text}", colour


def _branching(root: Node) -> set[str]:
    """The words of the nodes whose branches are drawn, at most MAX_LEAVES - 1.

    Shorter words go first, and of equal ones the upper.
    """
    words: set[str] = set()
    waiting = deque([root])
    while waiting and len(words) + 1 < MAX_LEAVES:  # a binary tree: one leaf more than branchings
        node = waiting.popleft()
        if node.zero is not None and node.one is not None:
            words.add(node.word)
            waiting += [node.zero, node.one]
    return words
