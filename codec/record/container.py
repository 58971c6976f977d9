"""The container of a record: one safetensors file that carries its own digest. See FORMAT.md.

Reading follows the format's description: length, header, digest, line, arrays. Everything from a
file is checked before it is used. Each cap gives its reason.
"""

from __future__ import annotations

import re
from typing import IO, Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize, serialize
from safetensors import TensorSpec as FileTensor

from codec.caps import MAX_JSON, MAX_TENSORS, parsed, short, typed
from codec.errors import DigestError, ForeignRecordError, MalformedRecordError, TruncatedRecordError
from codec.state.tensors import CARRIER, Arrays

from .header import COMPACT, DIGEST, MORE, line_of, more_of, written

KEY = "lcc"  # the one metadata entry: safetensors writes several in random order
BRIEF = {"coded": "c"}  # names of arrays in the format COMPACT
_FIRST = 4096  # bytes: most headers of deltas, whole
MAX_LINE = 1000  # characters before the digest: several times what version 1 needs
_DTYPES = {name: CARRIER[name] for name in ("F64", "F32", "F16", "C64", "BOOL")}
_DTYPES |= {f"{kind}{bits}": CARRIER[f"{kind}{bits}"] for kind in "IU" for bits in (64, 32, 16, 8)}
# How every header begins: a line without quotes or backslashes, whose last word is the digest.
_LINE = re.compile(
    rb'\{"__metadata__":\{"%s":"([ !#-\[\]-~]{1,%d} )([0-9a-f]{%d})"\}[,}]'
    % (KEY.encode(), MAX_LINE, DIGEST)
)


def seal(metadata: dict[str, Any], arrays: Arrays) -> bytes:
    """The bytes of a file with its digest."""
    line, more = written(metadata)
    arrays = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()} | more
    if metadata["format"] == COMPACT:
        arrays = {BRIEF.get(name, name): array for name, array in arrays.items()}
    tensors = {
        name: FileTensor(
            dtype=a.dtype.name, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes
        )
        for name, a in arrays.items()
    }
    data = serialize(tensors, metadata={KEY: line})
    if metadata["format"] == COMPACT:
        data = _without_padding(data)
    found = _LINE.match(data, 8)
    assert found is not None, "the line is what the header begins with"
    view = memoryview(data)
    return b"".join((view[: found.start(2)], _blake3(data), view[found.end(2) :]))


def unseal(data: bytes, where: str) -> tuple[dict[str, Any], Arrays, str, dict[str, Any]]:
    """Metadata, arrays, digest and header of a file; its bytes are checked by the digest.

    Every array is an aligned copy. ``where`` is the name for errors.

    Raises:
        RecordError: TruncatedRecordError, ForeignRecordError, DigestError, VersionError or
            MalformedRecordError.
    """
    start, header = _header_of(data, len(data), where)
    line, digest = _checked_line(data, start, where)
    metadata = line_of(line, where)
    arrays = _read_arrays(data, where)
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


def _without_padding(data: bytes) -> bytes:
    """The same file without the spaces that end its header."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = data[8:end].rstrip(b" ")
    return b"".join((len(header).to_bytes(8, "little"), header, memoryview(data)[end:]))


def _named(entries: dict[str, Any], where: str) -> dict[str, Any]:
    """The entries of a file of the format COMPACT by the names of older ones."""
    if not BRIEF.keys().isdisjoint(entries):
        found = ", ".join(sorted(BRIEF.keys() & entries.keys()))
        raise MalformedRecordError(
            where, f"brief names of arrays, {', '.join(BRIEF.values())}", found
        )
    long = {brief: name for name, brief in BRIEF.items()}
    return {long.get(name, name): entry for name, entry in entries.items()}


def _read_arrays(data: bytes, where: str) -> Arrays:
    try:
        tensors = deserialize(data)
    except SafetensorError as exc:
        raise MalformedRecordError(where, "a valid safetensors file", short(exc)) from exc
    arrays: Arrays = {}
    for name, view in tensors:
        if view["dtype"] not in _DTYPES:
            raise MalformedRecordError(where, "a known dtype", repr(view["dtype"]))
        flat: NDArray[Any] = np.frombuffer(view["data"], _DTYPES[view["dtype"]])
        try:
            arrays[name] = flat.reshape(view["shape"])
        except (ValueError, OverflowError) as exc:  # 65 dimensions; 0 x 2**63 elements
            raise MalformedRecordError(where, "a shape that numpy can hold", short(exc)) from exc
    return arrays


def _blake3(*parts: bytes | memoryview) -> bytes:
    h = blake3()
    for part in parts:
        h.update(part)
    return h.hexdigest(DIGEST // 2).encode()
