"""What --run names: paths, or URLs, whose secrets no screen shows.

Not done here: looking whether anything lies there (watching).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import codec
from codec.storage.location import Location, fit_to_show
from codec.storage.source import entry_of

Target = Path | str  # a URL is text


def place_of(text: str) -> Target:
    """A path, or what is no path: opening it may say what is wrong with it.

    Of a record (a shell's star names all of them) its folder.
    """
    try:
        path = Location(text).path
    except codec.SettingsError:
        return text
    if isinstance(path, str):
        return text
    with suppress(RuntimeError):  # no such user: then it is the name of a folder
        path = path.expanduser()
    if "\0" in str(path):
        return path
    path = Path(os.path.abspath(path))
    return path.parent if entry_of(path.name, 0) else path


def shown(target: Target) -> str:
    """Without what a URL may have of secrets."""
    try:
        return str(target if isinstance(target, Path) else Location(target))
    except codec.SettingsError:
        return fit_to_show(target) if isinstance(target, str) else str(target)


def names(target: Target, places: Sequence[Target]) -> Iterator[str]:
    """What a run below one of these places may be called, from short to long."""
    if isinstance(target, str):
        yield shown(target).rstrip("/").rpartition("/")[2]
        yield shown(target)
        return
    for place in places:
        if isinstance(place, Path) and place in target.parents:
            yield str(target.relative_to(place))
    yield target.name
    yield str(Path(*target.parts[-2:]))
    yield str(target)


def printable(name: str) -> str:
    """Names come from anybody's disk: what cannot be shown is replaced."""
    return "".join(c if c.isprintable() else "\ufffd" for c in name)
