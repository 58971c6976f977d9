"""The board's worker without a page: JavaScript, called in Node.js."""

from __future__ import annotations

from functools import cache
from typing import Any

from lcviz.play.board import PAGE, WORKER
from lcviz.play.given import given
from lcviz.ui.picture import FOLDER
from tests.node import in_node

SAID = (FOLDER / "words.js", FOLDER / "steps" / "said.js")
PLAYER = """
async function playerOf(given) {
    const bytes = await inflated(given.digits);
    const split = given.train * (SOURCE_PIXELS + 1);
    const [train, heldOut] = [bytes.subarray(0, split), bytes.subarray(split)].map(digitsOf);
    return new Player({ train, heldOut }, given.sizes, given.coders, () => {});
}
"""
# All pictures of a step of the example.
DRAW = """async ([given, step]) => {
    const player = await playerOf(given);
    while (!player.run.finished) player.run.advance();
    player.step = step;
    return picturesOf(player.view());
}"""


def computed(function: str, argument: Any) -> Any:
    """What the worker computes; its last file, for messages, stays out."""
    return in_node([*WORKER[:-1], *SAID, PAGE[0], PLAYER], function, argument)


@cache
def facts() -> dict[str, Any]:
    """Place -> facts of a picture, of the step of the example that a board opens with."""
    drawn: dict[str, Any] = computed(DRAW, [given(), given()["opens"]])
    return drawn
