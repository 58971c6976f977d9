"""The fields `head` and `chunks`, by which a reader of a few tensors checks what it reads.

The digest of a file covers all of it. A record whose arrays take more than LEAST bytes therefore
begins with the array `more`, which has two more fields. See FORMAT.md.

    head     BLAKE3 of the record's beginning: the file's header and this array
    chunks   BLAKE3 of every block of the other arrays

A block is a piece of the file, whatever array it lies in. A chunk is another thing: a box
of a tensor, in codec.dcp.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from blake3 import blake3

from codec.caps import short, typed
from codec.errors import DigestError, MalformedRecordError, TruncatedRecordError
from codec.scheme import workers
from codec.scheme.pieces import Bytes

from .header import HEX, digest_word

DIGEST_NBYTES = HEX // 2
SMALLEST = 2**14  # bytes of a block, at least
MOST_BLOCKS = 2**10  # of a record: in a larger one the blocks grow, and threads share them
LEAST = 2 * SMALLEST  # bytes of a record's arrays: up to here, it has no blocks
LEAST_SHARED_NBYTES = 2**16  # of a block: a smaller one takes no longer than handing it to a thread
FEW = 2**12  # bytes of an array: up to here, it comes before larger ones, mostly in one block
HEAD, CHUNKS = "head", "chunks"
_NO_HEAD = digest_word("0" * HEX)  # stands in the field `head` while its digest is computed
OPENING = f'{{"{HEAD}":"'.encode()  # how `more` begins in a record with blocks

Span = tuple[int, int]  # begin and end
ReadSpans = Callable[[Sequence[Span]], Sequence[bytes]]  # reads spans of a file


def block_nbytes(nbytes: int) -> int:
    """Bytes of every block but the last. nbytes: of the arrays without `more`."""
    size = SMALLEST
    while size * MOST_BLOCKS < nbytes:
        size *= 2
    return size


def are_needed(nbytes: int) -> bool:
    """Whether a record has digests of blocks. nbytes: of the arrays without `more`."""
    return nbytes > LEAST


def fields_of(nbytes: int, views: Iterable[memoryview] | None) -> dict[str, str]:
    """The two fields, which come first in `more`; {} for a small record.

    Args:
        nbytes: Of all arrays but `more`.
        views: These bytes, in order; None for zeros in place of the digests.
    """
    if not are_needed(nbytes):
        return {}
    size = block_nbytes(nbytes)
    blank = bytes(DIGEST_NBYTES * -(-nbytes // size))
    digests = blank if views is None else b"".join(_digests(views, size))
    return {HEAD: _NO_HEAD, CHUNKS: base64.b64encode(digests).decode()}


def with_head(header: Iterable[bytes], more: bytes) -> bytes:
    """The bytes of `more` with its field `head`.

    Args:
        header: The file's bytes before the arrays, with zeros for the file's digest.
        more: With `fields_of`.
    """
    begin, end = len(OPENING), len(OPENING) + len(_NO_HEAD)
    return more[:begin] + _head_digest(header, more).encode() + more[end:]


class Blocks:
    """The arrays of a file, read in blocks that are checked.

    Args:
        fields: Those of the array `more`.
        start: Where the other arrays begin in the file.
        nbytes: How many bytes they take.
        read: Reads spans of the file.
        where: The file's name in messages.

    Raises:
        MalformedRecordError: The fields are not those of so many bytes.
    """

    def __init__(
        self, fields: Mapping[str, Any], start: int, nbytes: int, read: ReadSpans, where: str
    ) -> None:
        self._start, self._nbytes, self._read, self._where = start, nbytes, read, where
        self._size = block_nbytes(nbytes)
        try:
            digests = base64.b64decode(typed(fields[CHUNKS], str), validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error) as exc:
            raise MalformedRecordError(where, "digests of blocks in base64", short(exc)) from exc
        n = -(-nbytes // self._size)
        if len(digests) != n * DIGEST_NBYTES:
            expected = f"{n * DIGEST_NBYTES} bytes of digests for {n} blocks"
            raise MalformedRecordError(where, expected, f"{len(digests)}")
        self._digests = digests
        self._blocks: dict[int, bytes] = {}

    def add(self, data: bytes) -> None:
        """Take the blocks that are whole in the first bytes of the arrays. Raises DigestError."""
        for i in range(len(data) // self._size):
            self._take(i, data[i * self._size : (i + 1) * self._size])

    def fetch(self, spans: Iterable[Span]) -> None:
        """Read all blocks of these spans of the arrays that were not read before.

        Raises:
            DigestError: A block is damaged.
            TruncatedRecordError: The file ends too early.
            OSError: The file cannot be read.
        """
        size = self._size
        wanted = {i for begin, end in spans for i in range(begin // size, -(-end // size))}
        runs = list(_runs(sorted(wanted - self._blocks.keys())))
        in_file = [
            (self._start + first * size, self._start + min(last * size, self._nbytes))
            for first, last in runs
        ]
        for (first, last), data in zip(runs, self._read(in_file) if in_file else (), strict=True):
            expected = min(last * size, self._nbytes) - first * size
            if len(data) != expected:
                raise TruncatedRecordError(self._where, f"{expected} bytes", f"{len(data)}")
            for i in range(first, last):
                self._take(i, data[(i - first) * size : (i - first + 1) * size])

    def read(self, begin: int, end: int) -> Bytes:
        """Bytes of the arrays. Raises what `fetch` raises."""
        if begin >= end:
            return np.empty(0, np.uint8)
        self.fetch([(begin, end)])
        size = self._size
        first, last = begin // size, -(-end // size)
        data = b"".join(self._blocks[i] for i in range(first, last))
        return np.frombuffer(data, np.uint8, end - begin, begin - first * size)

    def _take(self, i: int, block: bytes) -> None:
        expected = self._digests[i * DIGEST_NBYTES : (i + 1) * DIGEST_NBYTES]
        actual = blake3(block).digest(DIGEST_NBYTES)
        if actual != expected:
            what = (
                f"block {i} of {len(self._digests) // DIGEST_NBYTES} with BLAKE3 {expected.hex()}"
            )
            raise DigestError(self._where, what, actual.hex())
        self._blocks[i] = block


def check_head(header: Iterable[bytes], more: bytes, fields: Mapping[str, Any], where: str) -> None:
    """Raise DigestError unless header and `more` have the digest in the field `head`.

    header, more: see `with_head`. fields: those of ``more``.
    """
    actual = _head_digest(header, more)
    if fields.get(HEAD) != actual:
        what = f"a header and {CHUNKS!r} of BLAKE3 {short(fields.get(HEAD))}"
        raise DigestError(where, what, actual)


def check_blocks(views: Iterable[memoryview], fields: Mapping[str, Any], where: str) -> None:
    """Raise DigestError unless a file's blocks have their digests.

    views: the bytes of all arrays but `more`. fields: those of `more`.
    """
    views = list(views)
    expected = fields_of(sum(map(len, views)), views).get(CHUNKS)
    if fields.get(CHUNKS) != expected:
        raise DigestError(where, "the digests of its blocks", "others")


def _head_digest(header: Iterable[bytes], more: bytes) -> str:
    """The digest in the field `head`; arguments as `with_head`."""
    hasher = blake3()
    begin, end = len(OPENING), len(OPENING) + len(_NO_HEAD)
    for data in (*header, more[:begin], _NO_HEAD.encode(), more[end:]):
        hasher.update(data)
    return digest_word(hasher.hexdigest(DIGEST_NBYTES))


def _digests(views: Iterable[memoryview], size: int) -> list[bytes]:
    """The digest of each block."""
    cut = list(_cut(views, size))
    digests = [b""] * len(cut)
    pieces = workers.pieces(len(cut), least=1 if size >= LEAST_SHARED_NBYTES else len(cut))

    def work(i: int, _scratch: workers.Scratch) -> None:
        for number in range(*pieces[i]):
            hasher = blake3()
            for view in cut[number]:
                hasher.update(view)
            digests[number] = hasher.digest(DIGEST_NBYTES)

    workers.spread(work, len(pieces))
    return digests


def _cut(views: Iterable[memoryview], size: int) -> Iterator[list[memoryview]]:
    """The bytes of each block."""
    block: list[memoryview] = []
    room = size
    for view in views:
        at = 0
        while at < len(view):
            block.append(view[at : at + room])
            at, room = at + len(block[-1]), room - len(block[-1])
            if not room:
                yield block
                block, room = [], size
    if block:
        yield block


def _runs(numbers: Sequence[int]) -> Iterator[Span]:
    """Rising numbers as runs of neighbours."""
    begin = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            yield numbers[begin], numbers[i - 1] + 1
            begin = i
