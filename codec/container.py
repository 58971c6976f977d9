"""The container of a record: one safetensors file that carries its own digest. See FORMAT.md.

Reading follows the order of the format's description: length, header, digest, metadata,
arrays. Whatever comes from a file is checked before it is used, and every cap below stands
with its reason.

Not done here: what the metadata and arrays mean (record).
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize, serialize
from safetensors import TensorSpec as FileTensor

from .errors import (
    DigestError,
    ForeignRecordError,
    MalformedRecordError,
    TruncatedRecordError,
    VersionError,
)
from .state import CARRIER, Arrays

FORMAT = 1
KEY = "lcc"  # the one metadata entry: safetensors writes several in random order
MAX_HEADER = 16 * 2**20  # bytes; a JSON parser needs about 20 times as much memory
MAX_TENSORS = 100_000  # a header of this many entries still parses within a second
# About twice what so many tensors need; each costs a JSON parser time and memory.
MAX_MARKS = {b"{": 2 * MAX_TENSORS, b"[": 8 * MAX_TENSORS, b",": 30 * MAX_TENSORS}
_DTYPES = {name: CARRIER[name] for name in ("F64", "F32", "F16", "C64", "BOOL")}
_DTYPES |= {f"{kind}{bits}": CARRIER[f"{kind}{bits}"] for kind in "IU" for bits in (64, 32, 16, 8)}
_DIGEST = re.compile(rb'\\"digest\\":\\"([0-9a-f]{64})\\"')


def seal(metadata: dict[str, Any], arrays: Arrays) -> bytes:
    """A file of them; its digest is taken with 64 zeros in its place."""
    text = json.dumps(metadata | {"digest": "0" * 64}, separators=(",", ":"))
    arrays = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}
    tensors = {
        name: FileTensor(
            dtype=a.dtype.name, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes
        )
        for name, a in arrays.items()
    }
    data = bytes(serialize(tensors, metadata={KEY: text}))
    found = _DIGEST.search(data)
    assert found is not None, "the digest's place is in the text above"
    digest = blake3(data).hexdigest().encode()
    return data[: found.start(1)] + digest + data[found.end(1) :]


def unseal(data: bytes, where: str) -> tuple[dict[str, Any], Arrays, str]:
    """Metadata, arrays and digest of a file whose bytes are the ones that were written.

    Raises TruncatedRecordError, ForeignRecordError, DigestError, VersionError or
    MalformedRecordError, each naming ``where``, what was expected and what was found.
    """
    header, start = _read_header(data, where)
    digest = _checked_digest(data, start, where)
    metadata = _read_metadata(header, where)
    if metadata.get("digest") != digest:
        raise MalformedRecordError(where, "the digest in the metadata", "it elsewhere")
    return metadata, _read_arrays(data, header, where), digest


def typed(value: Any, kind: type) -> Any:
    """A value from a file; raises TypeError unless it is exactly of this type."""
    if type(value) is not kind:  # not isinstance: True is an int to Python, but no step
        raise TypeError(f"{short(value)} is no {kind.__name__}")
    return value


def short(value: object) -> str:
    """A value from a file, or an error about one, at a length fit for a message."""
    if isinstance(value, int) and abs(value) >= 2**64:  # Python may refuse to print it
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, KeyError):
        return f"no {value}"
    text = (str if isinstance(value, Exception) else repr)(value)
    return text if len(text) <= 200 else text[:200] + "…"


def _read_header(data: bytes, where: str) -> tuple[dict[str, Any], int]:
    """The parsed header and the offset of the first array byte."""
    if len(data) < 8:
        raise TruncatedRecordError(where, "at least 8 bytes", f"{len(data)}")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER:
        raise ForeignRecordError(where, f"a header of at most {MAX_HEADER} bytes", f"{length}")
    start = 8 + length
    if len(data) < start:
        raise TruncatedRecordError(where, f"{start} bytes for the header", f"{len(data)}")
    text = data[8:start]
    for mark, most in MAX_MARKS.items():
        if (found := text.count(mark)) > most:
            raise ForeignRecordError(where, f"at most {most} of {mark.decode()!r}", f"{found}")
    try:
        header = json.loads(text, object_pairs_hook=_no_duplicates)
        if not isinstance(header, dict):
            raise ValueError("not an object")
    except (ValueError, RecursionError) as exc:
        raise ForeignRecordError(where, "a safetensors header in JSON", short(exc)) from exc
    if len(header) > MAX_TENSORS:
        raise ForeignRecordError(where, f"at most {MAX_TENSORS} tensors", f"{len(header)}")
    try:
        views = [v for k, v in header.items() if k != "__metadata__"]
        end = start + max((typed(v["data_offsets"][1], int) for v in views), default=0)
    except (KeyError, IndexError, TypeError) as exc:
        raise ForeignRecordError(where, "data_offsets for every tensor", short(exc)) from exc
    if len(data) != end:
        raise TruncatedRecordError(where, f"{short(end)} bytes", f"{len(data)}")
    return header, start


def _checked_digest(data: bytes, start: int, where: str) -> str:
    place = _DIGEST.search(data, 8, start)  # the first one: a tensor's name may look like it
    if place is None:
        raise ForeignRecordError(where, "an LC-Checkpoint digest in the header", "none")
    h = blake3(memoryview(data)[: place.start(1)])
    h.update(b"0" * 64)
    h.update(memoryview(data)[place.end(1) :])
    stored, found = place.group(1).decode(), h.hexdigest()
    if found != stored:
        raise DigestError(where, f"content of BLAKE3 {stored}", found)
    return stored


def _read_metadata(header: dict[str, Any], where: str) -> dict[str, Any]:
    try:
        metadata = json.loads(header["__metadata__"][KEY], object_pairs_hook=_no_duplicates)
        version = metadata["format"]
    except (KeyError, TypeError, ValueError, RecursionError) as exc:
        raise ForeignRecordError(where, f"metadata {KEY!r} with a format", short(exc)) from exc
    if type(version) is not int or version != FORMAT:
        found = f"format {short(version)}; update this package"
        raise VersionError(where, f"format {FORMAT}", found)
    assert isinstance(metadata, dict)
    return metadata


def _read_arrays(data: bytes, header: dict[str, Any], where: str) -> Arrays:
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


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result
