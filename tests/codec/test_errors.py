"""The tree of errors: as drawn, and documented."""

from __future__ import annotations

import inspect
import pickle
import re

import codec
from codec import errors


def test_tree_is_as_drawn() -> None:
    """The drawing at the top of errors.py names every class below its parent."""
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if got := re.match(r"([|`\- ]*)([A-Z]\w+Error)\b", line):
            depth = len(got[1]) // 3
            above[depth:] = [got[2]]
            drawn[got[2]] = above[depth - 1] if depth else "Exception"
    real = {
        name: cls.__bases__[0].__name__
        for name, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, Exception) and not issubclass(cls, Warning)
    }
    assert drawn == real


def test_every_error_is_documented() -> None:
    assert all(cls.__doc__ for _, cls in inspect.getmembers(errors, inspect.isclass))
    for name in ("LccError", "SettingsError", "RecordError", "ChainError", "WriteError"):
        assert getattr(codec, name) is getattr(errors, name)


def test_every_error_reaches_another_process() -> None:
    """With its parts: a background save pickles it."""
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.LccError):
            error = kind(*"abc"[: 3 if issubclass(kind, errors.RecordError) else 1])
            error.add_note("note")
            other = pickle.loads(pickle.dumps(error))
            assert (type(other), str(other), vars(other)) == (kind, str(error), vars(error))


def test_input_errors_are_value_errors() -> None:
    assert issubclass(errors.InputError, ValueError)
    assert not issubclass(codec.RecordError, ValueError)
    assert issubclass(errors.SkippedRecordWarning, UserWarning)
