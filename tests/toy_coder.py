"""A coder of one's own: zlib's, with a kind of payload of its own."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from codec.errors import StreamError
from codec.scheme.coders import RUNLENGTH
from codec.scheme.payload import Alphabet, Matrices, Payload, Row
from codec.scheme.pieces import Pieces
from codec.scheme.survivors import Survivors

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Zipped(Payload):
    """All codes, compressed by zlib. The row has the number of bytes."""

    TITLE: ClassVar[str] = "zip"
    CLASSES: ClassVar[Sequence[int]] = (250,)
    SHARED: ClassVar[bool] = True

    code: Array
    size: int

    @classmethod
    def of(cls, s: Survivors, matrices: Matrices, levels: Array, uniform: bool) -> Self:
        code = np.frombuffer(zlib.compress(s.all_codes.tobytes(), 9), np.uint8)
        return cls(code, code.size)

    @property
    def data(self) -> Array:
        return self.code

    @property
    def data_nbytes(self) -> int:
        return self.size

    @property
    def row(self) -> Row:
        return Row(0, 250, 1, self.size)

    @classmethod
    def take_head(cls, row: Row, head: Pieces, alphabet: Alphabet) -> Self:
        return cls(np.empty(0, np.uint8), row.size)

    def with_data(self, data: Array) -> Self:
        return replace(self, code=data)

    def check(self, n: int, k: int) -> None:
        if self.code.size != self.size or k < 2:
            raise StreamError(f"a zip of {self.code.size} bytes")

    def codes(self, n: int, levels: Array, uniform: bool) -> Array:
        return np.frombuffer(zlib.decompress(self.code.tobytes()), np.uint16)

    def element_bits(self, n: int, levels: Array, uniform: bool) -> Array:
        return np.full(n, self.bits / n)


TOY = replace(
    RUNLENGTH, name="toy", letter="t", title="Toy coder", short="toy code", direct=Zipped.of
)
