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
from typing import IO, Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from codec.caps import MAX_JSON, MAX_TENSORS, parsed, short, typed
from codec.errors import DigestError, ForeignRecordError, MalformedRecordError, TruncatedRecordError
from codec.state.tensors import CARRIER, Arrays

from .header import COMPACT, DIGEST, MORE, line_of, more_of, written

_VALID = "a valid safetensors file"
KEY = "lcc"  # the one metadata entry: safetensors writes several in random order
BRIEF = {"coded": "c"}  # names of arrays in the format COMPACT
_FIRST = 4096  # bytes: most headers of deltas, whole
MAX_LINE = 1000  # characters before the digest: several times what version 1 needs
_DTYPES = {name: CARRIER[name] for name in ("F64", "F32", "F16", "C64", "BOOL")}
_DTYPES |= {f"{kind}{bits}": CARRIER[f"{kind}{bits}"] for kind in "IU" for bits in (64, 32, 16, 8)}
_NAMES = {np.dtype(own): name for name, own in _DTYPES.items()}
_ALIGNMENT = 8  # bytes: safetensors pads a header to a multiple of it
# The order of a file's arrays: by these, then by name. It is that of the safetensors library, and
# keeps every array aligned, since each dtype's size divides those before it.
_ORDER = ("U64", "I64", "F64", "C64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8", "BOOL")
# How every header begins: a line without quotes or backslashes, whose last word is the digest.
_LINE = re.compile(
    rb'\{"__metadata__":\{"%s":"([ !#-\[\]-~]{1,%d} )([0-9a-f]{%d})"\}[,}]'
    % (KEY.encode(), MAX_LINE, DIGEST)
)


# An array; or its parts, vectors of one dtype.
Content = NDArray[Any] | list[NDArray[Any]]


def seal(metadata: dict[str, Any], arrays: Mapping[str, Content]) -> bytes:
    """The bytes of a file with its digest. Parts of an array are joined here, without a copy."""
    line, more = written(metadata)
    compact = metadata["format"] == COMPACT
    entries: list[tuple[int, str, list[int], list[NDArray[Any]]]] = []
    for name, content in {**arrays, **more}.items():
        parts = content if isinstance(content, list) else [content]
        parts = [np.ascontiguousarray(part).reshape(part.shape) for part in parts]
        shape = list(parts[0].shape) if len(parts) == 1 else [sum(part.size for part in parts)]
        dtype = _NAMES[parts[0].dtype]
        name = BRIEF.get(name, name) if compact else name
        entries.append((_ORDER.index(dtype), name, shape, parts))
    entries.sort(key=lambda entry: entry[:2])
    header: dict[str, Any] = {"__metadata__": {KEY: line}}
    end = 0
    for order, name, shape, parts in entries:
        begin, end = end, end + sum(part.nbytes for part in parts)
        header[name] = {"dtype": _ORDER[order], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    if not compact:
        text += b" " * (-len(text) % _ALIGNMENT)
    head = len(text).to_bytes(8, "little") + text
    found = _LINE.match(head, 8)
    assert found is not None, "the line is what the header begins with"
    body = [part.reshape(-1).view(np.uint8).data for *_, parts in entries for part in parts]
    before, after = head[: found.start(2)], head[found.end(2) :]
    digest = _blake3(before, found.group(2), after, *body)
    return b"".join((before, digest, after, *body))


def unseal(data: bytes, where: str) -> tuple[dict[str, Any], Arrays, str, dict[str, Any]]:
    """Metadata, arrays, digest and header of a file; its bytes are checked by the digest.

    The arrays are views of ``data``, which cannot be written to. ``where`` is the name for errors.

    Raises:
        RecordError: TruncatedRecordError, ForeignRecordError, DigestError, VersionError or
            MalformedRecordError.
    """
    start, header = _header_of(data, len(data), where)
    line, digest = _checked_line(data, start, where)
    metadata = line_of(line, where)
    arrays = _read_arrays(data, start, header, where)
    if metadata["format"] == COMPACT:
        arrays, header = _named(arrays, where), _named(header, where)
    metadata |= more_of(arrays.pop(MORE, None), where)
    return metadata, arrays, digest, header


def peek(file: IO[bytes], nbytes: int, where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The entries of a file's line, and its header, from its first bytes.

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
    start, header = _header_of(data, nbytes, where)
    place = _place_of_line(data, start, where)
    return line_of((place.group(1) + place.group(2)).decode(), where), header


def _header_of(data: bytes, nbytes: int, where: str) -> tuple[int, dict[str, Any]]:
    """The offset of the first array byte, and the header before it.

    data: at least the bytes up to there. nbytes: of the whole file.
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
    """The line, and the file's digest at its end, checked."""
    place = _place_of_line(data, start, where)
    stored = place.group(2)
    view = memoryview(data)
    found = _blake3(view[: place.start(2)], DIGEST * b"0", view[place.end(2) :])
    if found != stored:
        raise DigestError(where, f"content of BLAKE3 {stored.decode()}", found.decode())
    return (place.group(1) + stored).decode(), stored.decode()


def _place_of_line(data: bytes, start: int, where: str) -> re.Match[bytes]:
    """The match of the line; its digest is the second group."""
    place = _LINE.match(data, 8, start)
    if place is None:
        raise ForeignRecordError(where, "an LC-Checkpoint digest in the header", "none")
    return place


def _named(entries: dict[str, Any], where: str) -> dict[str, Any]:
    """The entries of a file of the format COMPACT by the names of older ones."""
    if not BRIEF.keys().isdisjoint(entries):
        found = ", ".join(sorted(BRIEF.keys() & entries.keys()))
        raise MalformedRecordError(
            where, f"brief names of arrays, {', '.join(BRIEF.values())}", found
        )
    long = {brief: name for name, brief in BRIEF.items()}
    return {long.get(name, name): entry for name, entry in entries.items()}


def _read_arrays(data: bytes, start: int, header: dict[str, Any], where: str) -> Arrays:
    """Name -> array, aligned. start: of the arrays' bytes."""
    arrays: Arrays = {}
    for name, entry, begin, end in _checked_entries(len(data) - start, header, where):
        if entry["dtype"] not in _DTYPES:
            raise MalformedRecordError(where, "a known dtype", short(entry["dtype"]))
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        if math.prod(entry["shape"]) * dtype.itemsize != end - begin:
            found = f"{end - begin} bytes for {short(entry['shape'])} of {entry['dtype']}"
            raise MalformedRecordError(where, _VALID, found)
        n = (end - begin) // dtype.itemsize
        flat: NDArray[Any] = np.frombuffer(data, dtype, n, start + begin)
        if not flat.flags.aligned:  # the format COMPACT has no padding
            flat = flat.copy()
        try:
            arrays[name] = flat.reshape(entry["shape"])
        except (ValueError, OverflowError) as exc:  # 65 dimensions; 0 x 2**63 elements
            raise MalformedRecordError(where, "a shape that numpy can hold", short(exc)) from exc
    return arrays


def _checked_entries(
    nbytes: int, header: dict[str, Any], where: str
) -> list[tuple[str, dict[str, Any], int, int]]:
    """Name, entry, begin and end of each array, one after another over all of these bytes.

    Raises:
        MalformedRecordError: They leave a gap or overlap, or an entry is no array's.
    """
    found = []
    try:
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = (typed(offset, int) for offset in entry["data_offsets"])
                if any(typed(length, int) < 0 for length in typed(entry["shape"], list)):
                    raise ValueError("a negative length")
                found.append((name, typed(entry, dict), begin, end))
                typed(entry["dtype"], str)
        found.sort(key=lambda one: one[2:])
        at = 0
        for name, _, begin, end in found:
            if begin != at or end < begin:
                raise ValueError(f"{short(name)} from {begin} to {end}, after {at}")
            at = end
        if at != nbytes:
            raise ValueError(f"arrays of {at} bytes in {nbytes}")
    except (KeyError, TypeError, ValueError) as exc:
        raise MalformedRecordError(where, _VALID, short(exc)) from exc
    return found


def _blake3(*parts: bytes | memoryview) -> bytes:
    h = blake3()
    for part in parts:
        h.update(part)
    return h.hexdigest(DIGEST // 2).encode()
