"""The finished tree of a Huffman code, drawn from left to right."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from codec.inspect import Node
from lcviz.text import plural
from lcviz.ui.charts import GREY, SIGN_COLOURS, Option
from lcviz.ui.tree_chart import elbow, labels, tree_option

MAX_LEAVES = 24  # a taller tree cannot be read; longer words are folded into one leaf
Describe = Callable[[int], tuple[str, int | None]]


def huffman_tree(root: Node, describe: Describe, noun: str, right: int) -> tuple[Option, int]:
    """Draw a code's tree.

    Args:
        root: of the tree.
        describe: symbol -> its label and its sign (0, 1 or None).
        noun: what a leaf stands for, to count folded leaves.
        right: pixels for the labels.

    Returns:
        The ECharts option, and how many leaves it shows.
    """
    branching = _branching(root)
    shown = [n for n in _nodes(root) if not n.word or n.word[:-1] in branching]
    leaves = [n for n in shown if n.word not in branching]
    row: dict[str, float] = {leaf.word: i for i, leaf in enumerate(leaves)}
    for node in sorted(shown, key=lambda n: -len(n.word)):
        if node.word not in row:
            row[node.word] = (row[node.word + "0"] + row[node.word + "1"]) / 2
    words = [n.word for n in shown if n.word]
    edges = [elbow((len(w) - 1, row[w[:-1]]), (len(w), row[w])) for w in words]
    bits = [{"value": [len(w) - 0.5, row[w]], "label": {"formatter": w[-1]}} for w in words]
    ends = []
    for leaf in leaves:
        text, colour = _leaf(leaf, describe, noun)
        style = {"itemStyle": {"color": colour}, "label": {"formatter": text}}
        ends.append({"value": [len(leaf.word), row[leaf.word]]} | style)
    dots = labels(bits, position="top", distance=1), labels(ends, 8, position="right", distance=6)
    grid = {"left": 12, "right": right, "top": 12, "bottom": 12}
    depth = max(len(n.word) for n in shown)
    return tree_option(edges, dots, (0, depth), len(leaves), grid), len(leaves)


def _nodes(node: Node) -> list[Node]:
    """The node and all below it, upper branch first."""
    below = [child for child in (node.zero, node.one) if child]
    return [node] + [found for child in below for found in _nodes(child)]


def _leaf(leaf: Node, describe: Describe, noun: str) -> tuple[str, str]:
    """The label at the end of a branch, and the colour of its dot."""
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
