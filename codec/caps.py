"""Limits on untrusted input, each with its reason; and its values, shortened for messages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .errors import RecordError

MAX_JSON = 16 * 2**20  # bytes; a JSON parser needs about 20 times as much memory
MAX_TENSORS = 100_000  # a header of this many entries still parses within a second
# About twice the marks that this many tensors need; each mark costs a parser time and memory.
MAX_MARKS = {"{": 2 * MAX_TENSORS, "[": 6 * MAX_TENSORS, ",": 25 * MAX_TENSORS}


def parsed(text: bytes, where: str, what: str, error: type[RecordError], kind: type = dict) -> Any:
    """The JSON object in a text, or the array if kind is list.

    where, what: names of the file and of the text in messages. Raises ``error`` if the text is too
    long, has too many brackets or commas, is no such JSON, or has an object with a key twice.
    """
    if len(text) > MAX_JSON:
        raise error(where, f"{what} of at most {MAX_JSON} bytes", f"{len(text)}")
    for mark, most in MAX_MARKS.items():
        if (n := text.count(mark.encode())) > most:
            raise error(where, f"at most {most} of {mark!r} in {what}", f"{n}")
    try:
        value = json.loads(text.decode(), object_pairs_hook=_no_duplicates)
        if not isinstance(value, kind):
            raise ValueError("not an object" if kind is dict else "not an array")
    except (ValueError, RecursionError) as exc:
        raise error(where, f"{what} in JSON", short(exc)) from exc
    return value


def typed(value: Any, kind: type) -> Any:
    """A value from a file. Raises TypeError unless it is exactly of this type."""
    if type(value) is not kind:  # not isinstance: in Python, True is an int
        raise TypeError(f"{short(value)} is no {kind.__name__}")
    return value


def short(value: object) -> str:
    """A value from a file, or an error about such a value, shortened for a message."""
    if isinstance(value, int) and abs(value) >= 2**64:  # Python may refuse to print it
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, KeyError):
        return f"no {value}"
    text = (str if isinstance(value, Exception) else repr)(value)
    return text if len(text) <= 200 else text[:200] + "…"


def printable(text: str) -> str:
    """A text from a file for a terminal: what is not printable is escaped as in repr."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a key is there twice")
    return entries


def names_of(names: Iterable[str], most: int = 3) -> str:
    """The first few names, shortened for a message, and how many more there are."""
    unique = list(dict.fromkeys(names))
    listed = ", ".join(f"{name[:80]!r}" for name in unique[:most])
    return listed + (f" and {len(unique) - most:,} more" if len(unique) > most else "")
