"""The container of a record: one safetensors file that carries its own digest. See FORMAT.md.

Reading follows the format's description: length, header, digest, line, arrays. Everything from a
file is checked before it is used. Each cap gives its reason.

A record may be as large as the state. Writing makes one copy of its arrays, and reading makes none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, Protocol

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from codec.caps import MAX_JSON, MAX_TENSORS, parsed, short, typed
from codec.errors import (
    DigestError,
    ForeignRecordError,
    MalformedRecordError,
    PayloadError,
    TruncatedRecordError,
)
from codec.scheme.pieces import Bytes, StoredVector, Vector
from codec.state.tensors import CARRIER

from . import chunks
from .header import HEX, MORE, Header, digest_of, digest_word, more_of, more_text

_VALID = "a valid safetensors file"
KEY = "lcc"  # the one metadata entry: safetensors writes several in random order
_FIRST = 4096  # bytes to read first: they hold the whole header of most deltas
_MOST_FIRST = 2**18  # bytes to read first of a large file, for which a request takes as long
MAX_LINE = 1000  # characters before the digest: several times what is needed
_DTYPES = {name: CARRIER[name] for name in ("F64", "F32", "F16", "C64", "BOOL")}
_DTYPES |= {f"{kind}{bits}": CARRIER[f"{kind}{bits}"] for kind in "IU" for bits in (64, 32, 16, 8)}
_NAMES = {np.dtype(carrier): name for name, carrier in _DTYPES.items()}
_ALIGNMENT = 8  # bytes: the header of a base is padded to a multiple, as other tools do
# Arrays are sorted by dtype in this order, then by name, as in the safetensors library. If the
# first array is aligned, all are, since each dtype's size divides those before it.
_ORDER = ("U64", "I64", "F64", "C64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8", "BOOL")
# The beginning of every header. The line has no quotes or backslashes; its last word is the digest.
_LINE = re.compile(
    rb'\{"__metadata__":\{"%s":"([ !#-\[\]-~]{1,%d} )([A-Za-z0-9_-]{22})"\}[,}]'
    % (KEY.encode(), MAX_LINE)
)
_NO_DIGEST = digest_word("0" * HEX).encode()  # stands in the line while the digest is computed


# An array, or its parts: vectors of one dtype.
Content = NDArray[Any] | list[NDArray[Any]]


def seal(header: Header, more: Mapping[str, Any], arrays: Mapping[str, Content]) -> bytes:
    """The bytes of a file with its digest.

    Args:
        header: The words of its line.
        more: The fields of the array MORE.
        arrays: Name -> array, or its parts; they are copied once, into the file.
    """
    entries, text = _arranged(header, more, arrays)
    header_bytes = _header_bytes(header, entries)
    body = [view for entry in entries for view in entry.views]
    if text.startswith(chunks.OPENING):
        body[0] = memoryview(chunks.with_head([header_bytes], text))
    line = _LINE.match(header_bytes, 8)
    assert line is not None, "the line is what the header begins with"
    before, after = header_bytes[: line.start(2)], header_bytes[line.end(2) :]
    digest = digest_word(_blake3(before, line.group(2), after, *body)).encode()
    return b"".join((before, digest, after, *body))


def header_fields(
    header: Header, more: Mapping[str, Any], arrays: Mapping[str, Content]
) -> dict[str, Any]:
    """The safetensors header of the file that `seal` makes, but for digests. Arguments as there."""
    return _fields_of(header, _arranged(header, more, arrays, digests=False)[0])


def _arranged(
    header: Header, more: Mapping[str, Any], arrays: Mapping[str, Content], *, digests: bool = True
) -> tuple[list[_Entry], bytes]:
    """The arrays of a file in order, and the text of MORE. digests: whether to compute them."""
    entries = sorted(map(_Entry.of, arrays.items()))
    nbytes = sum(entry.nbytes for entry in entries)
    if chunks.are_needed(nbytes) and header.kind != "base":  # bases have to stay aligned
        entries.sort(key=lambda entry: entry.nbytes > chunks.FEW)
    views = (view for entry in entries for view in entry.views)
    fields = chunks.fields_of(nbytes, views if digests else None)
    if text := more_text({**fields, **more}):
        text += b" " * (-len(text) % _ALIGNMENT) if fields else b""
        own = _Entry.of((MORE, np.frombuffer(text, np.uint8)))
        entries = [own, *entries] if fields else sorted((*entries, own))
    return entries, text


def _header_bytes(header: Header, entries: Sequence[_Entry]) -> bytes:
    """A file's bytes before its arrays, without its digest. entries: of the arrays, in order."""
    text = json_bytes(_fields_of(header, entries))
    if header.kind == "base":
        text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def json_bytes(fields: Mapping[str, Any]) -> bytes:
    """Some fields of a file's header, as it has them."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _fields_of(header: Header, entries: Sequence[_Entry]) -> dict[str, Any]:
    """The safetensors header of a file without its digest. entries: of the arrays, in order."""
    fields: dict[str, Any] = {"__metadata__": {KEY: header.line + _NO_DIGEST.decode()}}
    end = 0
    for entry in entries:
        begin, end = end, end + entry.nbytes
        dtype = _ORDER[entry.order]
        fields[entry.name] = {"dtype": dtype, "shape": entry.shape, "data_offsets": [begin, end]}
    return fields


@dataclass(frozen=True, order=True)
class _Entry:
    """An array in a file's header. order: its dtype's place in _ORDER. views: its bytes."""

    order: int
    name: str
    shape: list[int] = field(compare=False)
    views: list[memoryview] = field(compare=False)
    nbytes: int = field(compare=False)

    @classmethod
    def of(cls, item: tuple[str, Content]) -> _Entry:
        """The entry of a name and its array, or of that array's parts."""
        name, content = item
        parts = content if isinstance(content, list) else [content]
        parts = [np.ascontiguousarray(part).reshape(part.shape) for part in parts]
        shape = list(parts[0].shape) if len(parts) == 1 else [sum(part.size for part in parts)]
        views = [part.reshape(-1).view(np.uint8).data for part in parts]
        order = _ORDER.index(_NAMES[parts[0].dtype])
        return cls(order, name, shape, views, sum(map(len, views)))


class Described(Protocol):
    """An array, or what a file's header says of one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its dtype."""


class FileArrays(dict[str, NDArray[Any]]):
    """The arrays of a file that is in memory: name -> array, read-only."""

    def vector(self, name: str) -> Vector:
        """A vector of bytes that is read piece by piece."""
        return self[name]

    def described(self, name: str) -> Described:
        """Shape and dtype of an array."""
        return self[name]

    def fetch(self, names: Iterable[str]) -> None:
        """Nothing to do: the arrays are in memory."""


class StoredArrays(Mapping[str, NDArray[Any]]):
    """The arrays of a file that stay there until they are taken: name -> array, read-only.

    Each access reads and checks the blocks that it needs, unless they were read before. It raises
    what `chunks.Blocks.fetch` raises.
    """

    def __init__(self, stored: Mapping[str, _Stored], content: chunks.Blocks) -> None:
        self._stored, self._content = stored, content

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._stored[name].array(self._content.read(*self._stored[name].span))

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, name: object) -> bool:
        return name in self._stored

    def vector(self, name: str) -> Vector:
        """A vector of bytes that is read piece by piece. Raises PayloadError for other arrays."""
        stored = self._stored[name]
        if stored.dtype != np.uint8 or len(stored.shape) != 1:
            raise PayloadError(f"{name} are {stored.dtype} of {len(stored.shape)} dimensions")
        return _StoredBytes(self._content, *stored.span)

    def described(self, name: str) -> Described:
        """Shape and dtype of an array, which is not read."""
        return self._stored[name]

    def fetch(self, names: Iterable[str]) -> None:
        """Read the blocks of these arrays, with as few requests as possible."""
        self._content.fetch(self._stored[name].span for name in names)


class _StoredBytes(StoredVector):
    """Bytes of a file that are read when a slice is taken."""

    def __init__(self, content: chunks.Blocks, begin: int, end: int) -> None:
        self._content, self._begin, self.size = content, begin, end - begin

    def __getitem__(self, part: slice) -> Bytes:
        begin, end, _ = part.indices(self.size)
        return self._content.read(self._begin + begin, self._begin + end)

    def fetch(self, spans: Iterable[tuple[int, int]]) -> None:
        self._content.fetch((self._begin + begin, self._begin + end) for begin, end in spans)


@dataclass(frozen=True)
class Unsealed:
    """The content of a file whose digest has been checked.

    Attributes:
        header: The words of its line.
        digest: BLAKE3 of the file, 128 bits, hex. If the beginning alone is read, what it says.
        more: The fields of the array MORE.
        arrays: Name -> array, read-only: a view of the file's bytes if they are aligned.
        entries: The safetensors header: name -> dtype, shape and offsets of that array.
    """

    header: Header
    digest: str
    more: dict[str, Any]
    arrays: FileArrays | StoredArrays
    entries: dict[str, Any]


def unseal(data: bytes, where: str) -> Unsealed:
    """Check the digest of a file, and read it. where: the name for errors.

    Raises:
        RecordError: TruncatedRecordError, ForeignRecordError, DigestError, VersionError or
            MalformedRecordError.
    """
    start, entries = _entries_of(data, len(data), where)
    line, digest = _checked_line(data, start, where)
    header = Header.of_line(line, where)
    stored = _stored_arrays(len(data) - start, entries, where)
    view = np.frombuffer(data, np.uint8)[start:]
    arrays = FileArrays((name, s.array(view[slice(*s.span)])) for name, s in stored.items())
    more = more_of(arrays.pop(MORE, None), where)
    return Unsealed(header, digest, more, arrays, entries)


def unseal_beginning(read: chunks.ReadSpans, nbytes: int, where: str) -> Unsealed:
    """Read and check a file's beginning; its arrays are read, and checked, when they are taken.

    A small file, or one without digests of blocks, is read as a whole.

    Args:
        read: Reads spans of the file.
        nbytes: The file's size.
        where: Its name for errors.

    Raises:
        RecordError: As `unseal`.
        OSError: The file cannot be read.
    """

    def read_on(data: bytes, end: int) -> bytes:
        end = min(end, nbytes)
        data += read([(len(data), end)])[0] if end > len(data) else b""
        if len(data) < end:
            raise TruncatedRecordError(where, f"{nbytes} bytes", f"{len(data)}")
        return data

    first = max(_FIRST + chunks.SMALLEST, min(nbytes >> 8, _MOST_FIRST))
    data = read_on(b"", first if nbytes > chunks.LEAST else nbytes)
    if 8 <= len(data) < (start := 8 + int.from_bytes(data[:8], "little")) <= 8 + MAX_JSON:
        data = read_on(data, start + first)
    start, entries = _entries_of(data, nbytes, where)
    stored = _stored_arrays(nbytes - start, entries, where)
    more_end = start
    if MORE in stored and stored[MORE].begins_a_text:
        more_end += stored[MORE].span[1]
        data = read_on(data, more_end)
    if not data[start:more_end].startswith(chunks.OPENING):
        return unseal(read_on(data, nbytes), where)
    line = _match_of_line(data, start, where)
    fields = more_of(np.frombuffer(data, np.uint8, more_end - start, start), where)
    header_bytes = data[: line.start(2)], _NO_DIGEST, data[line.end(2) : start]
    chunks.check_head(header_bytes, data[start:more_end], fields, where)
    word = line.group(2).decode()
    header = Header.of_line(line.group(1).decode() + word, where)
    digest = digest_of(word, "digest", where)
    del stored[MORE]
    arrays = {name: s.behind(more_end - start) for name, s in stored.items()}
    content = chunks.Blocks(fields, more_end, nbytes - more_end, read, where)
    content.add(data[more_end:])
    return Unsealed(header, digest, fields, StoredArrays(arrays, content), entries)


def check_blocks(data: bytes, where: str) -> None:
    """Raise DigestError if a file has digests of blocks that are not theirs.

    data: a file that `unseal` accepts.
    """
    start, _ = _entries_of(data, len(data), where)
    if not data.startswith(chunks.OPENING, start):
        return
    file = unseal(data, where)
    more_nbytes = file.entries[MORE]["data_offsets"][1]
    line = _match_of_line(data, start, where)
    header_bytes = data[: line.start(2)], _NO_DIGEST, data[line.end(2) : start]
    chunks.check_head(header_bytes, data[start : start + more_nbytes], file.more, where)
    chunks.check_blocks([memoryview(data)[start + more_nbytes :]], file.more, where)


def peek(file: IO[bytes], nbytes: int, where: str) -> tuple[Header, dict[str, Any]]:
    """The words of a file's line, and the entries of its arrays, from its first bytes.

    Fast: arrays are not read and the digest is not checked.

    Args:
        file: At its beginning.
        nbytes: Its size.
        where: Its name for errors.

    Raises:
        RecordError: As `unseal`, except DigestError.
        OSError: The file cannot be read.
    """
    data = file.read(_FIRST)
    start = 8 + int.from_bytes(data[:8], "little")
    if len(data) < start <= 8 + MAX_JSON:
        data += file.read(start - len(data))
    start, entries = _entries_of(data, nbytes, where)
    line = _match_of_line(data, start, where)
    return Header.of_line((line.group(1) + line.group(2)).decode(), where), entries


def _entries_of(data: bytes, nbytes: int, where: str) -> tuple[int, dict[str, Any]]:
    """The offset of the first array byte, and the entries of the header.

    data: the bytes up to that offset, or more. nbytes: of the whole file.
    """
    if nbytes < 8:
        raise TruncatedRecordError(where, "at least 8 bytes", f"{nbytes}")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_JSON:
        raise ForeignRecordError(where, f"a header of at most {MAX_JSON} bytes", f"{length}")
    start = 8 + length
    if min(len(data), nbytes) < start:
        raise TruncatedRecordError(where, f"{start} bytes for the header", f"{nbytes}")
    header = parsed(data[8:start], where, "a safetensors header", ForeignRecordError)
    if len(header) > MAX_TENSORS:
        raise ForeignRecordError(where, f"at most {MAX_TENSORS} tensors", f"{len(header)}")
    try:
        views = [v for k, v in header.items() if k != "__metadata__"]
        end = start + max((typed(v["data_offsets"][1], int) for v in views), default=0)
    except (KeyError, IndexError, TypeError) as exc:
        raise ForeignRecordError(where, "data_offsets for every tensor", short(exc)) from exc
    if nbytes != end:
        raise TruncatedRecordError(where, f"{short(end)} bytes", f"{nbytes}")
    return start, header


def _checked_line(data: bytes, start: int, where: str) -> tuple[str, str]:
    """The line with its digest, and that digest in hex, checked."""
    match = _match_of_line(data, start, where)
    stored = match.group(2).decode()
    view = memoryview(data)
    digest = _blake3(view[: match.start(2)], _NO_DIGEST, view[match.end(2) :])
    if digest_word(digest) != stored:
        raise DigestError(where, f"content of BLAKE3 {stored}", digest_word(digest))
    return match.group(1).decode() + stored, digest


def _match_of_line(data: bytes, start: int, where: str) -> re.Match[bytes]:
    """The match of the line; its digest is the second group."""
    line = _LINE.match(data, 8, start)
    if line is None:
        raise ForeignRecordError(where, "an LC-Checkpoint digest in the header", "none")
    return line


@dataclass(frozen=True)
class _Stored:
    """An array in a file. span: its first byte and the end, counted from the first array byte."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    span: tuple[int, int]

    @property
    def begins_a_text(self) -> bool:
        """Whether it is the file's first array, and can be a text of JSON."""
        begin, end = self.span
        return begin == 0 and end <= MAX_JSON and self.dtype == np.uint8 and len(self.shape) == 1

    def array(self, data: Bytes) -> NDArray[Any]:
        """The array in these bytes, aligned and read-only."""
        flat: NDArray[Any] = np.frombuffer(data.data, self.dtype)
        if not flat.flags.aligned:  # only the header of a base is padded
            flat = flat.copy()
            flat.flags.writeable = False
        return flat.reshape(self.shape)

    def behind(self, nbytes: int) -> _Stored:
        """The same, counted from a byte further on."""
        begin, end = self.span
        return replace(self, span=(begin - nbytes, end - nbytes))


def _stored_arrays(nbytes: int, entries: dict[str, Any], where: str) -> dict[str, _Stored]:
    """Name -> where the array is, checked. nbytes: of all arrays."""
    stored: dict[str, _Stored] = {}
    for name, entry, begin, end in _checked_entries(nbytes, entries, where):
        if entry["dtype"] not in _DTYPES:
            raise MalformedRecordError(where, "a known dtype", short(entry["dtype"]))
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        if math.prod(entry["shape"]) * dtype.itemsize != end - begin:
            actual = f"{end - begin} bytes for {short(entry['shape'])} of {entry['dtype']}"
            raise MalformedRecordError(where, _VALID, actual)
        try:
            shape = np.broadcast_to(np.empty((), dtype), entry["shape"]).shape
        except (ValueError, OverflowError) as exc:  # 65 dimensions; 0 x 2**63 elements
            raise MalformedRecordError(where, "a shape that numpy can hold", short(exc)) from exc
        stored[name] = _Stored(dtype, shape, (begin, end))
    return stored


def _checked_entries(
    nbytes: int, entries: dict[str, Any], where: str
) -> list[tuple[str, dict[str, Any], int, int]]:
    """Name, entry, begin and end of each array, in the order of their bytes.

    Raises:
        MalformedRecordError: An entry is malformed, or the arrays do not fill nbytes without gap or
            overlap.
    """
    spans = []
    try:
        for name, entry in entries.items():
            if name != "__metadata__":
                begin, end = (typed(offset, int) for offset in entry["data_offsets"])
                if any(typed(length, int) < 0 for length in typed(entry["shape"], list)):
                    raise ValueError("a negative length")
                spans.append((name, typed(entry, dict), begin, end))
                typed(entry["dtype"], str)
        spans.sort(key=lambda span: span[2:])
        at = 0
        for name, _, begin, end in spans:
            if begin != at or end < begin:
                raise ValueError(f"{short(name)} from {begin} to {end}, after {at}")
            at = end
        if at != nbytes:
            raise ValueError(f"arrays of {at} bytes in {nbytes}")
    except (KeyError, TypeError, ValueError) as exc:
        raise MalformedRecordError(where, _VALID, short(exc)) from exc
    return spans


def _blake3(*parts: bytes | memoryview) -> str:
    """128 bits, hex."""
    hasher = blake3()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest(HEX // 2)
