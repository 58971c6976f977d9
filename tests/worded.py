"""What pictures say of their facts: JavaScript, called in Node.js."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from lcviz.ui import picture
from tests.node import in_node

SAID = (
    picture.shared_script(),
    *picture.FOLDER.glob("*/said.js"),
    *picture.FOLDER.glob("curves/*"),
)

QUANTITY = re.compile(r"\{\{([\w-]+)=([^|]*)\|(.*?)\}\}")  # name, value, and how it is told
MARK = re.compile(r"\[\[(.+?)\]\]")  # of a word that explains itself


def as_read(value: Any) -> Any:
    """A value of a picture, its texts without marks."""
    if isinstance(value, str):
        return MARK.sub(r"\1", QUANTITY.sub(r"\3", value))
    if isinstance(value, dict):
        return {name: as_read(part) for name, part in value.items()}
    return [as_read(part) for part in value] if isinstance(value, list) else value


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
