"""The coded alphabets of a record: five arrays that hold them one after another. See FORMAT.md.

Not done here: which tensors share an alphabet (track), what else a record holds (record, merged).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .coding import MAX_LEVELS, Encoded, check
from .errors import PayloadError
from .kernels import MAX_STREAM, UNIT
from .state import Arrays, Layout
from .tables import CodeTable
from .track import Group, alphabet_name, alphabets, family_bits

ARRAYS = frozenset(("sizes", "tables", "levels", "streams", "payload"))


def join(groups: Sequence[Group]) -> Arrays:
    """Name -> array, of groups in record order."""
    coded = [group.encoded for group in groups]
    sizes = [
        (e.k, e.table.classes if e.table else 0, e.table_nbytes, e.stream_elements) for e in coded
    ]
    new = [e.table.packed for e in coded if e.table and not e.cached]
    return {
        "sizes": np.array(sizes, np.uint64).reshape(-1, 4),
        "tables": _joined(new, np.uint8),
        "levels": _joined([e.levels[1:].ravel() for e in coded], np.float32),
        "streams": _joined([e.streams for e in coded], np.uint32),
        "payload": _joined([e.payload for e in coded], np.uint32),
    }


class Joined:
    """Cuts the arrays of a record into groups again.

    bits, scope, coder: settings of the record. Raises PayloadError for arrays of other kinds.
    """

    def __init__(self, arrays: Arrays, bits: int | None, scope: str, coder: str) -> None:
        self._bits, self._scope, self._coder = bits, scope, coder
        self._sizes = taken(arrays["sizes"], np.uint64, "sizes", 2)
        if self._sizes.shape[1] != 4:
            raise PayloadError(f"sizes of shape {self._sizes.shape}")
        self._next = 0
        self._tables, self._levels, self._streams, self._payload = (
            Cut(taken(arrays[name], dtype, name))
            for name, dtype in (
                ("tables", np.uint8), ("levels", np.float32),
                ("streams", np.uint32), ("payload", np.uint32),
            )
        )  # fmt: skip

    def groups(
        self,
        layout: Layout,
        non_finite: Sequence[str],
        sent: Mapping[str, CodeTable],
        columns: int = 0,
    ) -> Iterator[Group]:
        """One group an alphabet. sent: tables that may be used again. columns: see `Encoded`.

        Raises PayloadError for what does not fit together.
        """
        shares = list(alphabets(layout, self._scope, non_finite))
        sizes = self._sizes[self._next : self._next + len(shares)]
        if len(sizes) < len(shares):
            raise PayloadError(f"sizes of shape {self._sizes.shape} for {len(shares)} alphabets")
        self._next += len(shares)
        for tensors, row in zip(shares, sizes.tolist()):
            name = alphabet_name(self._scope, tensors)
            bits = family_bits(tensors, self._bits)
            n = sum(t.size for t in tensors)
            encoded = self._encoded(row, n, bits, name, sent, columns)
            if len(tensors) == 1:
                encoded = replace(encoded, shape=tensors[0].shape)
            check(encoded, n)
            yield Group(tensors, encoded, None)

    def finish(self) -> None:
        """Everything must be used up."""
        if self._next != len(self._sizes):
            raise PayloadError(f"sizes of shape {self._sizes.shape} for {self._next} alphabets")
        for cut in (self._tables, self._levels, self._streams, self._payload):
            cut.finish()

    def _encoded(
        self,
        row: list[int],
        n: int,
        bits: int | None,
        name: str,
        sent: Mapping[str, CodeTable],
        columns: int,
    ) -> Encoded:
        k, classes, table_nbytes, elements = row
        most = MAX_LEVELS if bits is None or columns else 2**bits
        if not 1 <= k <= most:
            raise PayloadError(f"{k} levels, at most {most} are allowed")
        table, cached = None, classes > 0 and table_nbytes == 0
        if cached:
            table = sent.get(name)
            if table is None or table.classes != classes:
                raise PayloadError(f"the code table sent last for {name!r}, but none was")
        elif classes:
            table = CodeTable.unpacked(self._tables.take(table_nbytes), k - 1, classes)
        elif table_nbytes:
            raise PayloadError("a code table for an alphabet that needs none")
        if not UNIT <= elements <= MAX_STREAM:
            raise PayloadError(f"streams of {elements} elements")
        own = self._streams.take(-(-n // elements) if table else 0)
        shape = (k - 1, columns) if columns else (k - 1,)
        levels = self._levels.take((k - 1) * max(columns, 1)).reshape(shape)
        return Encoded(
            payload=self._payload.take(int(((own.astype(np.int64) + 31) >> 5).sum())),
            streams=own,
            stream_elements=elements,
            table=table,
            cached=cached,
            saved_bits=0,
            levels=np.concatenate((np.zeros_like(levels, shape=(1, *shape[1:])), levels)),
            shape=(n,),
            bits=bits,
            coder=self._coder,
        )


class Cut:
    """Takes one piece after another off a joined array."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array, self._at = array, 0

    def take(self, n: int) -> NDArray[Any]:
        """The next n elements."""
        if n > self._array.size - self._at:
            raise PayloadError(f"{n} elements of a stream, only {self._array.size - self._at} left")
        self._at += n
        return self._array[self._at - n : self._at]

    def finish(self) -> None:
        """Nothing may be left."""
        if self._at != self._array.size:
            raise PayloadError("the lengths of the streams are not the sums of their sizes")


def taken(array: NDArray[Any], dtype: Any, name: str, ndim: int = 1) -> NDArray[Any]:
    """An array of a record; raises PayloadError unless it is of this kind."""
    if array.dtype != dtype or array.ndim != ndim:
        raise PayloadError(f"{name} are {array.dtype} of {array.ndim} dimensions")
    return array


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype)
