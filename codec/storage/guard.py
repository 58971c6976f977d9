"""Digests beside files that others wrote, so that damage is found.

    step_100/__0_0.distcp, …    a distributed checkpoint; or a .safetensors or .pt file
    step_100.b3                 the BLAKE3 digest of each file, in the lines of the program b3sum

`b3sum --check step_100.b3` in the directory of the list compares the same digests.

Not done here: chains, whose records carry digests of their own (record).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from codec.caps import short
from codec.errors import SettingsError, SourceError

from .directory import publish
from .entry import entry_of
from .folder import check_regular

SUFFIX = ".b3"
CHUNK = 2**24  # bytes that are read at once; threads share the work of digesting them

_LINE = re.compile(r"(\\?)([0-9a-f]{64})  (.+)")
_ESCAPES = {"\\": "\\\\", "\n": "\\n"}  # those of b3sum

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Guarded:
    """Files and the list of their digests.

    Attributes:
        path: The list's path.
        files: How many files were read.
        nbytes: Their bytes.
        problems: What differs, each with the name of a file or the list.
    """

    path: Path
    files: int
    nbytes: int
    problems: tuple[str, ...] = ()


def list_of(path: Path) -> Path:
    """Where the digests of a file or directory are, or would be."""
    path = _absolute(path)
    return path if _is_list(path) else path.with_name(path.name + SUFFIX)


def is_guarded(path: Path) -> bool:
    """Whether there are digests for a path, which is no chain."""
    try:
        return not is_chain(path) and list_of(path).is_file()
    except (OSError, ValueError):  # a name that is too long for another suffix; the root
        return False


def guard(path: Path, progress: Progress = lambda done, total: None) -> Guarded:
    """Write the digests of a file, or of all files in a directory, beside it.

    Args:
        path: The file or directory.
        progress: Called with (bytes done, bytes in all).

    Raises:
        SettingsError: Nothing is there, it is a chain, or its digests are there already.
        SourceError: A file cannot be read, or a directory in it is a link.
        WriteError: The list cannot be written.
    """
    path = _absolute(path)
    if _is_list(path):
        raise SettingsError(f"{path}: is a list of digests; name the file or directory beside it")
    if is_chain(path):
        raise SettingsError(f"{path}: is a chain, whose records carry their own digests")
    try:
        target = list_of(path)
        is_there = target.exists()
    except (OSError, ValueError) as exc:
        raise SettingsError(f"{path}: no file can be beside it: {exc}") from exc
    if is_there:
        raise SettingsError(
            f"{target}: is there already; verify compares. For new digests, delete it first"
        )
    files, problems = _files(path)
    if problems:
        raise SourceError(f"{path.parent}/{problems[0]}")
    if not files:
        raise SettingsError(f"{path}: there is no file there")
    lines, done, total = [], 0, sum(files.values())
    for name in files:
        try:
            digest, nbytes = _digest(path.parent / name)
        except OSError as exc:
            raise SourceError(f"{path.parent / name}: cannot be read: {exc}") from exc
        lines.append(_line(digest, name))
        done += nbytes
        progress(done, max(total, done))
    text = "".join(lines).encode(errors="surrogateescape")
    publish(target, lambda file: file.write(text))
    return Guarded(target, len(files), done)


def check(path: Path, progress: Progress = lambda done, total: None) -> Guarded:
    """Compare files with the digests beside them.

    Args:
        path: The file or directory, or the list of its digests.
        progress: Called with (bytes done, bytes in all).

    Raises:
        SettingsError: There is no list.
        SourceError: The list cannot be read.
    """
    target = list_of(path)
    path = target.with_suffix("")
    try:
        text = target.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError as exc:
        raise SettingsError(f"{target}: there are no digests; guard writes them") from exc
    except OSError as exc:
        raise SourceError(f"{target}: cannot be read: {exc}") from exc
    expected, problems = _parsed(text, path.name)
    files, unreadable = _files(path)
    problems += unreadable
    done, total = 0, sum(files.values())
    for name, digest in expected.items():
        if name not in files:
            problems.append(f"{name}: is missing")
            continue
        try:
            actual, nbytes = _digest(path.parent / name)
        except OSError as exc:
            problems.append(f"{name}: cannot be read: {exc}")
            continue
        if actual != digest:
            problems.append(
                f"{name}: expected BLAKE3 {digest[:16]}…, found {actual[:16]}… in {nbytes:,} bytes"
            )
        done += nbytes
        progress(done, max(total, done))
    problems += [f"{name}: has no digest in {target.name}" for name in files.keys() - expected]
    return Guarded(target, len(expected), done, tuple(problems))


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # without .., which would lead out of the directory


def _is_list(path: Path) -> bool:
    return path.suffix == SUFFIX and not path.is_dir()


def is_chain(path: Path) -> bool:
    """Whether this is an archive of records, or a directory with records in it."""
    if path.is_dir():
        return any(entry_of(name, 0) for name in os.listdir(path))
    return path.name.endswith(".lcc.zip")


def _parsed(text: str, top: str) -> tuple[dict[str, str], list[str]]:
    """Name -> digest, and the lines that are none. top: the first part of every name."""
    digests: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.split("\n")[:-1] if text.endswith("\n") else [text], 1):
        match = _LINE.fullmatch(line)
        name = _unescaped(match[3]) if match and match[1] else match[3] if match else ""
        parts = name.split("/")
        if not match or parts[0] != top or {"", ".", ".."} & {*parts} or name in digests:
            problems.append(f"{top}{SUFFIX}: line {number} is damaged: {short(line)}")
        else:
            digests[name] = match[2]
    return digests, problems


def _files(path: Path) -> tuple[dict[str, int], list[str]]:
    """Name relative to the directory above -> bytes of each file; and what cannot be looked at."""
    sizes: dict[str, int] = {}
    problems: list[str] = []

    def name_of(place: str | Path) -> str:
        return Path(place).relative_to(path.parent).as_posix()

    def fail(exc: OSError) -> None:
        problems.append(f"{name_of(exc.filename)}: cannot be listed: {exc}")

    places = [path] if path.exists() and not path.is_dir() else []
    for folder, folders, names in os.walk(path, onerror=fail) if path.is_dir() else ():
        places += [Path(folder, name) for name in names]
        problems += [
            f"{name_of(link)}: is a link to a directory, which is not followed"
            for link in (Path(folder, name) for name in folders)
            if link.is_symlink()
        ]
    for place in sorted(places):
        try:
            sizes[name_of(place)] = place.stat().st_size
        except OSError as exc:
            problems.append(f"{name_of(place)}: cannot be read: {exc}")
    return sizes, problems


def _digest(path: Path) -> tuple[str, int]:
    """BLAKE3 of a file, hex, and its bytes. Raises OSError."""
    check_regular(path)
    hasher, nbytes = blake3(max_threads=blake3.AUTO), 0
    chunk = memoryview(bytearray(CHUNK))
    with open(path, "rb", buffering=0) as file:
        while n := file.readinto(chunk):
            hasher.update(chunk[:n])
            nbytes += n
    return hasher.hexdigest(), nbytes


def _line(digest: str, name: str) -> str:
    escaped = re.sub(r"[\\\n]", lambda match: _ESCAPES[match[0]], name)
    mark = "\\" if escaped != name else ""
    return f"{mark}{digest}  {escaped}\n"


def _unescaped(name: str) -> str:
    characters = {escape: character for character, escape in _ESCAPES.items()}
    return re.sub(r"\\[\\n]", lambda match: characters[match[0]], name)
