"""The container of a record: one safetensors file that carries its own digest. See FORMAT.md.

Reading follows the format's description: length, header, digest, line, arrays. Everything from a
file is checked before it is used. Each cap gives its reason.

A record may be as large as the state. Writing makes one copy of its arrays, and reading makes none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from codec.caps import MAX_JSON, MAX_TENSORS, parsed, short, typed
from codec.errors import DigestError, ForeignRecordError, MalformedRecordError, TruncatedRecordError
from codec.state.tensors import CARRIER, Arrays

from .header import HEX, MORE, Header, digest_word, more_array, more_of

_VALID = "a valid safetensors file"
KEY = "lcc"  # the one metadata entry: safetensors writes several in random order
_FIRST = 4096  # bytes to read first: they hold the whole header of most deltas
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
    entries: list[tuple[int, str, list[int], list[NDArray[Any]]]] = []
    for name, content in {**arrays, **more_array(more)}.items():
        parts = content if isinstance(content, list) else [content]
        parts = [np.ascontiguousarray(part).reshape(part.shape) for part in parts]
        shape = list(parts[0].shape) if len(parts) == 1 else [sum(part.size for part in parts)]
        dtype = _NAMES[parts[0].dtype]
        entries.append((_ORDER.index(dtype), name, shape, parts))
    entries.sort(key=lambda entry: entry[:2])
    fields: dict[str, Any] = {"__metadata__": {KEY: header.line + _NO_DIGEST.decode()}}
    end = 0
    for order, name, shape, parts in entries:
        begin, end = end, end + sum(part.nbytes for part in parts)
        fields[name] = {"dtype": _ORDER[order], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    if header.kind == "base":
        text += b" " * (-len(text) % _ALIGNMENT)
    head = len(text).to_bytes(8, "little") + text
    line = _LINE.match(head, 8)
    assert line is not None, "the line is what the header begins with"
    body = [part.reshape(-1).view(np.uint8).data for *_, parts in entries for part in parts]
    before, after = head[: line.start(2)], head[line.end(2) :]
    digest = digest_word(_blake3(before, line.group(2), after, *body)).encode()
    return b"".join((before, digest, after, *body))


@dataclass(frozen=True)
class Unsealed:
    """The content of a file whose digest has been checked.

    Attributes:
        header: The words of its line.
        digest: BLAKE3 of the file, 128 bits, hex.
        more: The fields of the array MORE.
        arrays: Name -> array, read-only: a view of the file's bytes if they are aligned.
        entries: The safetensors header: name -> dtype, shape and offsets of that array.
    """

    header: Header
    digest: str
    more: dict[str, Any]
    arrays: Arrays
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
    arrays = _read_arrays(data, start, entries, where)
    more = more_of(arrays.pop(MORE, None), where)
    return Unsealed(header, digest, more, arrays, entries)


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


def _read_arrays(data: bytes, start: int, entries: dict[str, Any], where: str) -> Arrays:
    """Name -> array, aligned. start: offset of the first array byte."""
    arrays: Arrays = {}
    for name, entry, begin, end in _checked_entries(len(data) - start, entries, where):
        if entry["dtype"] not in _DTYPES:
            raise MalformedRecordError(where, "a known dtype", short(entry["dtype"]))
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        if math.prod(entry["shape"]) * dtype.itemsize != end - begin:
            actual = f"{end - begin} bytes for {short(entry['shape'])} of {entry['dtype']}"
            raise MalformedRecordError(where, _VALID, actual)
        n = (end - begin) // dtype.itemsize
        flat: NDArray[Any] = np.frombuffer(data, dtype, n, start + begin)
        if not flat.flags.aligned:  # only the header of a base is padded
            flat = flat.copy()
        try:
            arrays[name] = flat.reshape(entry["shape"])
        except (ValueError, OverflowError) as exc:  # 65 dimensions; 0 x 2**63 elements
            raise MalformedRecordError(where, "a shape that numpy can hold", short(exc)) from exc
    return arrays


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
