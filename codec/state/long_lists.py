"""JSON of long lists of plain values, of which only new elements are converted.

A training may append a loss to a long list at every step. An immutable element that is the same
object in the same place as before has the same text as before. Equality is not enough: 1, 1.0 and
True are equal but have different texts, as have 0.0 and -0.0.

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
PIECE = 128  # elements of each stored text; an append converts fewer old elements again
_FROZEN = {type(None), bool, int, float, str, bytes, *NUMBERS}  # types of immutable elements


class LongList:
    """The JSON of one list, brought up to date with each state.

    tag: the key of the list's JSON object.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._elements: list[Any] = []
        self._pieces: list[str] = []  # texts of PIECE elements each; the last one may have fewer
        self._text = ""
        self._next: tuple[Sequence[Any], int] = (), 0  # the next list; its number of old elements

    def look_at(self, elements: Sequence[Any]) -> bool:
        """Note the next state's list, and return whether it holds only immutable plain values.

        elements: a list or tuple of LONG or more.
        """
        before = self._elements
        n = min(len(before), len(elements))
        if not all(map(is_, before, elements)):
            n = next(compress(count(), map(is_not, before, elements)))
        self._next = elements, n
        return _FROZEN.issuperset(map(type, elements[n:]))

    def text(self, convert: Callable[[Any, int], Any]) -> str:
        """The JSON of the list that `look_at` noted last: {"l":[0.5,0.25]}.

        convert: turns an element and its index into a JSON value, the same for the same arguments.
        """
        elements, n = self._next
        if n == len(elements) == len(self._elements):
            return self._text
        before, self._elements = self._elements, []  # after an error, the next call converts all
        pieces = self._pieces[: n // PIECE]
        for begin in range(n // PIECE * PIECE, len(elements), PIECE):
            piece, old = elements[begin : begin + PIECE], before[begin : begin + PIECE]
            if len(piece) == len(old) and all(map(is_, piece, old)):  # the change was further up
                pieces.append(self._pieces[begin // PIECE])
            else:
                converted = [convert(element, i) for i, element in enumerate(piece, begin)]
                pieces.append(dumped(converted)[1:-1])
        before[n:] = elements[n:]
        framed = [f'{{"{self._tag}":[{pieces[0]}', *pieces[1:]]
        framed[-1] += "]}"
        self._pieces, self._text = pieces, ",".join(framed)
        self._elements = before
        return self._text


def dumped(value: Any) -> str:
    """Compact JSON. Raises ValueError for NaN and infinity."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
