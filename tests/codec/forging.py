"""Records that say something else, with digests that fit: as a forger would make them."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
from blake3 import blake3
from safetensors import TensorSpec, serialize

from codec.record.record import load

Arrays = dict[str, np.ndarray]

LINE = re.compile(rb'\{"__metadata__":\{"lcc":"[^"\\]* ([A-Za-z0-9_-]{22})"\}')
NO_DIGEST = "A" * 22
# Fields that `forge` writes into the line; all others become JSON in the array "more".
IN_LINE = ("format", "kind", "scope", "coder", "step", "run", "parent", "track", "keep", "rest")


def base64_word(digest: str) -> str:
    """32 hex digits as the 22 characters that a record has for them."""
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")


def resign(data: bytes) -> bytes:
    """The same record with the digest that its bytes ask for."""
    place = LINE.match(data, 8)
    if place is None:
        return data
    zeroed = data[: place.start(1)] + NO_DIGEST.encode() + data[place.end(1) :]
    digest = base64_word(blake3(zeroed).hexdigest()[:32]).encode()
    return zeroed[: place.start(1)] + digest + zeroed[place.end(1) :]


def reheaded(data: bytes, header: bytes) -> bytes:
    """The same arrays behind another header."""
    begin = 8 + int.from_bytes(data[:8], "little")
    return resign(len(header).to_bytes(8, "little") + header + data[begin:])


def header_of(data: bytes) -> bytes:
    """The JSON before the arrays."""
    return data[8 : 8 + int.from_bytes(data[:8], "little")]


def parts_of(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """The fields of a record, those of its line as text, and its arrays."""
    record = load(data, "parts")
    return fields_of(record.header.line) | record.more, record.arrays


def fields_of(line: str) -> dict[str, Any]:
    """The words of a line by their names, without the digest."""
    words = line.split()
    if words[1] == "b":
        return dict(zip(("format", "kind", "step", "run", "parent", "track"), words))
    named = dict(zip(("format", "letters", "step", "parent", "track", "keep", "rest"), words))
    letters = named.pop("letters")
    return named | dict(zip(("kind", "scope", "coder"), letters))


def forge(fields: Any, arrays: Arrays) -> bytes:
    """A record of any fields (a mapping, or its line) and arrays, digest right.

    What is no word in the line becomes JSON in the array "more", unless that is given.
    """
    line = fields
    if not isinstance(fields, str):
        more = {name: value for name, value in fields.items() if name not in IN_LINE}
        if more and "more" not in arrays:
            text = json.dumps(more, separators=(",", ":")).encode()
            arrays = arrays | {"more": np.frombuffer(text, np.uint8)}
        line = line_of(fields)
    arrays = {k: np.ascontiguousarray(a).reshape(np.shape(a)) for k, a in arrays.items()}
    tensors = {
        k: TensorSpec(
            dtype=a.dtype.name, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes
        )
        for k, a in arrays.items()
    }
    data = bytes(serialize(tensors, metadata={"lcc": line}))
    # Only the header of a base is padded.
    return resign(data) if line[1:4] == " b " else reheaded(data, header_of(data).rstrip())


def line_of(fields: dict[str, Any]) -> str:
    """Its words, whatever they are, and room for a digest."""
    names = ["step", "run", "parent", "track"]
    letters = str(fields["kind"])
    if "keep" in fields:
        letters += f"{fields['scope']}{fields['coder']}"
        names = ["step", "parent", "track", "keep", *(["rest"] if "rest" in fields else [])]
    words = [f"{fields['format']}", letters, *(f"{fields[name]}" for name in names)]
    return " ".join((*(re.sub(r'[^ -~]|["\\]', "?", word) for word in words), NO_DIGEST))


def refield(path: Path, **fields: Any) -> None:
    """Change fields of a record."""
    its, arrays = parts_of(path.read_bytes())
    path.write_bytes(forge(its | fields, arrays))


def apart(data: np.ndarray, streams: int = 1) -> dict[str, Any]:
    """The only alphabet in an array "c", for `together` to put together; in uniform steps its only
    level is the step size.

    streams: how many it has.
    """
    left = data.tobytes()

    def piece(n: int, dtype: Any = np.uint8) -> np.ndarray:
        nonlocal left
        own, left = left[:n], left[n:]
        return np.frombuffer(own, dtype).copy()

    k, classes, _, nbytes = row = struct.unpack("<HBBH", piece(6).tobytes())
    n_levels = min(k - 2**15 - 1, 1) if k >= 2**15 else k - 1
    found: dict[str, Any] = {
        "row": row,
        "table": piece(nbytes),
        "streams": piece(4 * streams if classes else 0, np.uint32),
        "levels": piece(4 * n_levels, np.float32),
    }
    words = int(((found["streams"].astype(np.int64) + 31) // 32).sum())
    found["payload"] = piece(4 * words, np.uint32)
    assert not left
    return found


def together(alphabet: dict[str, Any]) -> np.ndarray:
    """The bytes of an alphabet, whether or not its row tells the truth."""
    pieces = (alphabet[name].tobytes() for name in ("table", "streams", "levels", "payload"))
    return np.frombuffer(struct.pack("<HBBH", *alphabet["row"]) + b"".join(pieces), np.uint8)


def recoded(arrays: Arrays, others: dict[str, Any]) -> Arrays:
    """Arrays of a record in which others have taken the place of some, or of pieces of the only
    alphabet."""
    alphabet = apart(arrays["c"])
    pieces = {name: others[name] for name in alphabet.keys() & others.keys()}
    whole = {name: array for name, array in others.items() if name not in pieces}
    return arrays | {"c": together(alphabet | pieces)} | whole
