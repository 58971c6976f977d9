"""Digests beside files that others wrote, so that damage is found.

    step_100/__0_0.distcp, …    a distributed checkpoint; or a .safetensors or .pt file
    step_100.b3                 the BLAKE3 digest of each file, in the lines of the program b3sum

`b3sum --check step_100.b3` in the directory of the list compares the same digests.

Not done here: chains, whose records carry digests of their own (record).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from codec.caps import short
from codec.errors import SettingsError, SourceError

from .directory import publish
from .source import check_regular, entry_of

SUFFIX = ".b3"
CHUNK = 2**24  # bytes that are read at once; threads share the work of digesting them

_LINE = re.compile(r"(\\?)([0-9a-f]{64})  (.+)")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}  # those of b3sum

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
    path = path.absolute()
    return path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)


def guard(path: Path, progress: Progress = lambda done, total: None) -> Guarded:
    """Write the digests of a file, or of all files in a directory, beside it.

    Args:
        path: The file or directory.
        progress: Called with (bytes done, bytes in all).

    Raises:
        SettingsError: Nothing is there, it is a chain, or its digests are there already.
        SourceError: A file cannot be read.
        WriteError: The list cannot be written.
    """
    path, target = path.absolute(), list_of(path)
    if path == target:
        raise SettingsError(f"{path}: is a list of digests; name the file or directory beside it")
    if target.exists():
        raise SettingsError(
            f"{target}: is there already; verify compares. For new digests, delete it first"
        )
    files = dict(_files(path))
    if not files:
        raise SettingsError(f"{path}: there is no file there")
    if any(entry_of(name.rpartition("/")[2], 0) for name in files):
        raise SettingsError(f"{path}: holds a chain, whose records carry their own digests")
    lines, done, total = [], 0, sum(files.values())
    for name in files:
        try:
            digest, nbytes = _digest(path.parent / name)
        except OSError as exc:
            raise SourceError(f"{path.parent / name}: cannot be read: {exc}") from exc
        lines.append(_line(digest, name))
        done += nbytes
        progress(done, max(total, done))
    text = "".join(lines).encode()
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
        text = target.read_bytes().decode()
    except FileNotFoundError as exc:
        raise SettingsError(f"{target}: there are no digests; guard writes them") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise SourceError(f"{target}: cannot be read: {exc}") from exc
    expected, problems = _parsed(text, path.name)
    files = dict(_files(path))
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


def _files(path: Path) -> Iterator[tuple[str, int]]:
    """Name relative to the directory above, and bytes, of each file, sorted.

    Raises SourceError if a directory or file cannot be looked at.
    """

    def fail(exc: OSError) -> None:
        raise exc

    try:
        if not path.is_dir():
            if path.exists():
                yield path.name, path.stat().st_size
            return
        names = [
            Path(folder, name).relative_to(path.parent).as_posix()
            for folder, _, files in os.walk(path, onerror=fail)
            for name in files
        ]
        for name in sorted(names):
            yield name, (path.parent / name).stat().st_size
    except OSError as exc:
        raise SourceError(f"{path}: cannot be read: {exc}") from exc


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
    escaped = re.sub(r"[\\\n\r]", lambda match: _ESCAPES[match[0]], name)
    mark = "\\" if escaped != name else ""
    return f"{mark}{digest}  {escaped}\n"


def _unescaped(name: str) -> str:
    characters = {escape: character for character, escape in _ESCAPES.items()}
    return re.sub(r"\\[\\nr]", lambda match: characters[match[0]], name)
