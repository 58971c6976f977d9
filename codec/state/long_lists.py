"""JSON of long lists of plain values: only what is new since the last state is converted.

A training appends a loss a step to a list of many. Elements that cannot change, and are the same
objects in the same places as before, have the same text as before. Others may be equal and have
another text: 1, 1.0 and True, or 0.0 and -0.0.

Not done here: the JSON of one element (tree).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import compress, count
from operator import is_, is_not
from typing import Any

from .tensors import NUMBERS

LONG = 64  # elements; a shorter list is converted as a whole
PIECE = 128  # elements of a text that is kept: so many old ones are converted again, at most
_FROZEN = {type(None), bool, int, float, str, bytes, *NUMBERS}  # of which no object can change


class LongList:
    """The text of one list, from state to state.

    tag: how the key of its JSON object is called.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._elements: list[Any] = []
        self._pieces: list[str] = []  # texts of PIECE elements each, the last one of the rest
        self._text = ""
        self._seen: tuple[Sequence[Any], int] = (), 0  # the next list, elements that are the same

    def look_at(self, elements: Sequence[Any]) -> bool:
        """Whether all elements are objects that cannot change, and no containers.

        elements: a list or tuple of LONG or more.
        """
        before = self._elements
        n = min(len(before), len(elements))
        if not all(map(is_, before, elements)):
            n = next(compress(count(), map(is_not, before, elements)))
        self._seen = elements, n
        return _FROZEN.issuperset(map(type, elements[n:]))

    def text(self, convert: Callable[[Any, int], Any]) -> str:
        """The JSON of the list that `look_at` saw last: {"l":[0.5,0.25]}.

        convert: makes what JSON can hold of an element and its index: always the same of the same.
        """
        elements, n = self._seen
        if n == len(elements) == len(self._elements):
            return self._text
        before, self._elements = self._elements, []  # should what follows fail, all is made anew
        pieces = self._pieces[: n // PIECE]
        for begin in range(n // PIECE * PIECE, len(elements), PIECE):
            piece, old = elements[begin : begin + PIECE], before[begin : begin + PIECE]
            if len(piece) == len(old) and all(map(is_, piece, old)):  # after a change before it
                pieces.append(self._pieces[begin // PIECE])
            else:
                made = [convert(element, i) for i, element in enumerate(piece, begin)]
                pieces.append(dumped(made)[1:-1])
        before[n:] = elements[n:]
        framed = [f'{{"{self._tag}":[{pieces[0]}', *pieces[1:]]
        framed[-1] += "]}"
        self._pieces, self._text = pieces, ",".join(framed)
        self._elements = before
        return self._text


def dumped(value: Any) -> str:
    """Compact JSON. Raises ValueError for NaN and infinity."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
