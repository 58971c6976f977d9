"""Arrays of a record, read piece by piece."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import PayloadError

Bytes = NDArray[np.uint8]


class StoredVector(ABC):
    """Bytes in a file that are read when a slice is taken. size: their number."""

    size: int

    @abstractmethod
    def __getitem__(self, part: slice) -> Bytes: ...

    @abstractmethod
    def fetch(self, spans: Iterable[tuple[int, int]]) -> None:
        """Read these slices, begins and ends, before they are taken."""


Vector = NDArray[Any] | StoredVector


class Pieces:
    """A vector that is read piece by piece. elements: what they are, for messages."""

    def __init__(self, vector: Vector, elements: str) -> None:
        self._vector, self._elements, self._at = vector, elements, 0

    def take(self, n: int) -> NDArray[Any]:
        """The next n elements, a view. Raises PayloadError if there are fewer."""
        self.skip(n)
        return self._vector[self._at - n : self._at]

    def skip(self, n: int) -> None:
        """Leave the next n elements out. Raises PayloadError if there are fewer."""
        if n > self.n_unread:
            raise PayloadError(f"{n} more {self._elements}, only {self.n_unread} left")
        self._at += n

    def fetch(self, spans: Iterable[tuple[int, int]]) -> None:
        """Announce what will be taken next: begins and ends, counted from the next element."""
        if isinstance(self._vector, StoredVector):
            self._vector.fetch((self._at + begin, self._at + end) for begin, end in spans)

    @property
    def n_unread(self) -> int:
        """Number of elements that have not been taken yet."""
        return self._vector.size - self._at

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
