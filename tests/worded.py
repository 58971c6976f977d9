"""What pictures say of their facts: JavaScript, called in Node.js."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lcviz.ui import picture
from tests.node import in_node

SAID = (
    picture.shared_script(),
    *picture.FOLDER.glob("*/said.js"),
    *picture.FOLDER.glob("curves/*"),
)


def worded(facts: dict[str, Any]) -> dict[str, Any]:
    """All that is drawn of a picture's facts."""
    return all_worded([facts])[0]


def all_worded(facts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """`worded` for several pictures."""
    drawn: list[dict[str, Any]] = in_node(SAID, "facts => facts.map(said)", list(facts))
    return drawn


def lost_work(cost: dict[str, Any]) -> str:
    """The price of a crash, as it is read."""
    function = """cost => {
        const { verb, price, more } = lostWork(cost, "crash-cost");
        return plain(`${verb} ${price}${more}`);
    }"""
    text: str = in_node(SAID, function, cost)
    return text
