"""Values that are not tensors, as lines of a record: number, blank, and JSON or an edit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.caps import short
from codec.errors import MalformedRecordError, PayloadError
from codec.scheme.pieces import checked
from codec.state import edits, tree
from codec.state.tensors import Arrays

VALUES = "values"
MAX_TEXT = 2**26  # bytes of a structure or of values: it limits the memory that parsing takes
_LINE = re.compile("[^\n]*\n|[^\n]+")
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")


def text_array(text: str) -> NDArray[np.uint8]:
    """An ASCII text as an array of a record."""
    return np.frombuffer(text.encode(), np.uint8)


def text_of(array: NDArray[Any] | None) -> str:
    """The text in an array; "" for None. Raises PayloadError."""
    if array is None:
        return ""
    data = checked(array, np.uint8, "texts").tobytes()
    if len(data) > MAX_TEXT or not data.isascii():
        raise PayloadError(f"a text of {len(data)} bytes, not of at most {MAX_TEXT} of ASCII")
    return data.decode()


def values_array(values: Mapping[int, str]) -> Arrays:
    """VALUES -> the array that `read_values` reads; {} if there are no values."""
    lines = "".join(f"{number} {text}\n" for number, text in values.items())
    return {VALUES: text_array(lines)} if lines else {}


def read_values(array: NDArray[Any] | None) -> dict[int, str]:
    """Number -> change of each value: JSON, or an edit (see `codec.state.edits`).

    Args:
        array: uint8, lines by rising number; None if the record has no values.

    Raises:
        PayloadError: A line is malformed.
    """
    changes: dict[int, str] = {}
    last = -1
    for line in _LINE.finditer(text_of(array)):  # splitting 64 MiB would take far more memory
        if not line[0].endswith("\n"):
            raise PayloadError("values that do not end with a line feed")
        number, _, text = line[0][:-1].partition(" ")
        if not _NUMBER.fullmatch(number) or int(number) <= last:
            raise PayloadError(f"value {short(number)} after {last}")
        check = edits.check_edit if edits.is_edit(text) else tree.check_value
        try:
            check(text)
        except (PayloadError, tree.StructureError) as exc:
            raise PayloadError(f"value {number}: {exc}") from exc
        last = int(number)
        changes[last] = text
    return changes


def after_changes(values: Sequence[str], changes: Mapping[int, str]) -> tuple[str, ...]:
    """The values after these changes. Raises PayloadError for an edit that does not fit."""
    if changes and max(changes) >= len(values):
        raise PayloadError(f"a change of value {max(changes)}, but there are {len(values)}")
    new_values = list(values)
    for number, change in changes.items():
        new_values[number] = edits.applied(new_values[number], change, MAX_TEXT)
    return tuple(new_values)


def check_values(where: str, values: Iterable[str]) -> None:
    """Raise MalformedRecordError unless these texts are values.

    The texts that edits make are checked only when a state is restored: a check after each edit
    would take far longer than the edits.
    """
    try:
        for text in values:
            tree.check_value(text)
    except tree.StructureError as exc:
        raise MalformedRecordError(where, "values after their edits", short(exc)) from exc
