"""Limits on untrusted input, each with its reason; and its values at a length fit for a message."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from .errors import ForeignRecordError, RecordError

MAX_JSON = 16 * 2**20  # bytes; a JSON parser needs about 20 times as much memory
MAX_TENSORS = 100_000  # a header of this many entries still parses within a second
# About twice what this many tensors need; each costs a JSON parser time and memory.
MAX_MARKS = {"{": 2 * MAX_TENSORS, "[": 6 * MAX_TENSORS, ",": 25 * MAX_TENSORS}


def parsed(text: bytes, where: str, what: str, error: type[RecordError], kind: type = dict) -> Any:
    """The JSON object in a text, or the list if that is the kind.

    where, what: the file and the text in messages. Raises ForeignRecordError if the text is too
    long or has too many brackets or commas, ``error`` if it is no object or has a key twice.
    """
    if len(text) > MAX_JSON:
        raise ForeignRecordError(where, f"{what} of at most {MAX_JSON} bytes", f"{len(text)}")
    for mark, most in MAX_MARKS.items():
        if (found := text.count(mark.encode())) > most:
            raise ForeignRecordError(where, f"at most {most} of {mark!r} in {what}", f"{found}")
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
    """A value from a file, or an error about one, at a length fit for a message."""
    if isinstance(value, int) and abs(value) >= 2**64:  # Python may refuse to print it
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, KeyError):
        return f"no {value}"
    text = (str if isinstance(value, Exception) else repr)(value)
    return text if len(text) <= 200 else text[:200] + "…"


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is there twice")
    return result


def names_of(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and how many more there are, at a length fit for a message."""
    unique = list(dict.fromkeys(names))
    shown = ", ".join(f"{name[:80]!r}" for name in unique[:most])
    return shown + (f" and {len(unique) - most:,} more" if len(unique) > most else "")
