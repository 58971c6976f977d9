"""Arrays of a record, read piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import PayloadError

Bytes = NDArray[np.uint8]


class Pieces:
    """A vector that is read piece by piece. elements: what they are, for messages."""

    def __init__(self, array: NDArray[Any], elements: str) -> None:
        self._array, self._elements, self._at = array, elements, 0

    def take(self, n: int) -> NDArray[Any]:
        """The next n elements, a view. Raises PayloadError if there are fewer."""
        if n > self.n_unread:
            raise PayloadError(f"{n} more {self._elements}, only {self.n_unread} left")
        self._at += n
        return self._array[self._at - n : self._at]

    @property
    def n_unread(self) -> int:
        """Number of elements that have not been taken yet."""
        return self._array.size - self._at

    def finish(self) -> None:
        """Raise PayloadError if there are unread elements."""
        if self.n_unread:
            raise PayloadError(f"{self.n_unread} unread {self._elements} at the end")


def checked(array: NDArray[Any], dtype: Any, name: str) -> NDArray[Any]:
    """The same array. Raises PayloadError unless it is a vector of this dtype."""
    if array.dtype != dtype or array.ndim != 1:
        raise PayloadError(f"{name} are {array.dtype} of {array.ndim} dimensions")
    return array


def aligned(data: Bytes, dtype: Any) -> NDArray[Any]:
    """Bytes as numbers of a dtype: a view, or a copy if their address is not aligned for it."""
    array = data.view(dtype)
    return array if array.flags.aligned else array.copy()


def number_of(n: int) -> bytes:
    """A number from 0 on: 7 bits a byte, lowest first; the eighth is set in all but the last."""
    digits = []
    while n > 127:
        digits.append(n & 127 | 128)
        n >>= 7
    return bytes((*digits, n))


def take_number(data: Pieces, most: int) -> int:
    """The next `number_of`, of at most so many bytes. Raises PayloadError."""
    n = 0
    for i in range(most):
        digit = int(data.take(1)[0])
        n |= (digit & 127) << 7 * i
        if digit < 128:
            return n
    raise PayloadError(f"a number of more than {most} bytes")
