"""Chains in the folders below one, and the links among them that lead out of it.

Not done here: what lies in a chain (lab.heads), who may follow a link (within).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import codec
from codec.state.file_steps import by_numbers
from codec.storage.source import entry_of

SUFFIX = ".lcc"
DEPTH = 3  # folders below a place, the chain's own among them
FOREIGN = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".distcp")
MOST_LOOKED = 20  # folders in a place, for the like
MOST_FOLDERS = 2000  # that are looked into: a folder above all data of a machine is a mistake


def is_folder(path: Path) -> bool:
    """Whether a directory is there, as far as can be told."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that is too long, or none
        return False


def is_chain(folder: Path) -> bool:
    """By its name, or because a record lies in it."""
    return folder.name.endswith(SUFFIX) or _look_into(folder)[0]


def can_be_listed(folder: Path) -> bool:
    """Whether we may."""
    try:
        with os.scandir(folder):
            return True
    except OSError:
        return False


def foreign(place: Path) -> str:
    """The name of a checkpoint of another kind in a folder, or in one there; "" if none is seen."""
    folders = [place, *_look_into(place)[1][:MOST_LOOKED]]
    for folder in folders:
        try:
            with os.scandir(folder) as every:
                for item in every:
                    if item.name.endswith(FOREIGN) and not entry_of(item.name, 0):
                        return item.name
        except OSError:  # not ours to read, or gone
            continue
    return ""


def _look_into(folder: Path) -> tuple[bool, list[Path]]:
    """Whether a record lies there, else the folders that do, by their names."""
    folders = []
    try:
        with os.scandir(folder) as every:
            for item in every:
                if entry_of(item.name, 0):
                    return True, []
                if not item.name.startswith(".") and item.is_dir():
                    folders.append(folder / item.name)
    except OSError:  # not ours to read, or gone
        return False, []
    return False, sorted(folders, key=lambda path: by_numbers(path.name))


def below(place: Path) -> Iterator[Path]:
    """Chains in the folders below a place; into chains nobody looks."""
    level, looked = _look_into(place)[1], 1
    for _ in range(DEPTH):
        deeper = []
        for folder in level:
            if folder.name.endswith(SUFFIX):
                yield folder
                continue
            if looked >= MOST_FOLDERS:
                continue
            looked += 1
            is_one, inner = _look_into(folder)
            if is_one:
                yield folder
            deeper += inner
        level = deeper


def leads_out(path: Path, place: Path) -> bool:
    """Whether a path below a place is, links followed, not below it."""
    inside = os.path.join(os.path.realpath(place), "")
    return not os.path.realpath(path).startswith(inside)


def linked_records(folder: Path) -> list[Path]:
    """The records of a chain that are links. Raises codec.ChainError."""
    try:
        with os.scandir(folder) as every:
            found = [item.name for item in every if entry_of(item.name, 0) and item.is_symlink()]
    except OSError as exc:
        raise codec.ChainError(f"{folder}: cannot be listed: {exc}") from exc
    return [folder / name for name in found]
