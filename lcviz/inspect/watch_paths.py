"""Which chains to watch: the arguments of the dashboard, what they name, and chains in folders.

    streamlit run app.py -- --run run.lcc
    streamlit run app.py -- --run runs --run other/run.lcc

What is wrong becomes a sentence for the page; nothing here ends the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import codec
from codec.console import Parser, UsageError
from codec.inspect import Location, by_numbers, entry_of, fit_to_show

USAGE = "After “streamlit run app.py --” write --run PATH, as often as you like"
SUFFIX = ".lcc"
DEPTH = 3  # levels of folders below a place, the chain's own included
FOREIGN = (".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".distcp")
MOST_SEARCHED = 20  # folders in a place that are searched for other checkpoints
MOST_FOLDERS = 2000  # searched for chains: a place above all data of a machine is a mistake
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*:/.*", re.DOTALL)  # may hold secrets, to its very end

Target = Path | str  # a URL is text


@dataclass(frozen=True)
class WatchArguments:
    """runs: paths or URLs as they were given, each once. problem: a sentence, or ""."""

    runs: tuple[str, ...] = ()
    problem: str = ""


def parse_arguments(arguments: Sequence[str]) -> WatchArguments:
    """The runs that the arguments after -- name; none if anything in them is wrong."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--run", nargs="+", action="extend", default=[])
    parser.add_argument("more", nargs="*")  # a path without --run can mean only that
    try:
        options = parser.parse_args(list(arguments))
        runs = [run.strip() for run in (*options.run, *options.more)]
        if not all(runs):
            parser.error("argument --run: an empty path")
    except UsageError as exc:
        return WatchArguments(problem=f"Wrong arguments: {_URL.sub('…', str(exc))}. {USAGE}.")
    return WatchArguments(tuple(dict.fromkeys(runs)))


def target_of(text: str) -> Target:
    """A path, or the text itself if it is a URL or names nothing: opening it says what is wrong.

    A record stands for its folder: a shell's star names all records of a chain.
    """
    try:
        path = Location(text).path
    except codec.SettingsError:
        return text
    if isinstance(path, str):
        return text
    with suppress(RuntimeError):  # ~name, but no such user: then it is the name of a folder
        path = path.expanduser()
    if "\0" in str(path):
        return path
    path = Path(os.path.abspath(path))
    return path.parent if entry_of(path.name, 0) else path


def printed(target: Target) -> str:
    """A path or URL without the secrets that a URL may have."""
    try:
        return str(target if isinstance(target, Path) else Location(target))
    except codec.SettingsError:
        return fit_to_show(target) if isinstance(target, str) else str(target)


def names(target: Target, places: Sequence[Target]) -> Iterator[str]:
    """Names for a run at or below one of these places, from short to long, all printable."""
    if isinstance(target, str):
        candidates = [printed(target).rstrip("/").rpartition("/")[2], printed(target)]
    else:
        places_above = [p for p in places if isinstance(p, Path) and p in target.parents]
        candidates = [str(target.relative_to(place)) for place in places_above]
        candidates += [target.name, str(Path(*target.parts[-2:])), str(target)]
    for name in candidates:
        yield "".join(c if c.isprintable() else "\ufffd" for c in name)


def is_folder(path: Path) -> bool:
    """Whether the path is a directory; False if that cannot be told."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that is too long, or none
        return False


def is_chain(folder: Path) -> bool:
    """Whether a folder is a chain: by its name, or because it holds a record."""
    return folder.name.endswith(SUFFIX) or _listing(folder)[0]


def can_be_listed(folder: Path) -> bool:
    """Whether the server may list a folder."""
    try:
        with os.scandir(folder):
            return True
    except OSError:
        return False


def foreign(place: Path) -> str:
    """The name of another kind of checkpoint in a folder or one level below; "" if none is seen."""
    for folder in (place, *_listing(place)[1][:MOST_SEARCHED]):
        with suppress(OSError), os.scandir(folder) as entries:  # not ours to read, or gone
            for entry in entries:
                if entry.name.endswith(FOREIGN) and not entry_of(entry.name, 0):
                    return entry.name
    return ""


def _listing(folder: Path) -> tuple[bool, list[Path]]:
    """Whether a folder holds a record; if not, the folders in it, sorted by name."""
    folders = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry_of(entry.name, 0):
                    return True, []
                if not entry.name.startswith(".") and entry.is_dir():
                    folders.append(folder / entry.name)
    except OSError:  # not ours to read, or gone
        return False, []
    return False, sorted(folders, key=lambda path: by_numbers(path.name))


def chains_below(place: Path) -> Iterator[Path]:
    """Chains in the folders below a place; chains themselves are not searched."""
    level, searched = _listing(place)[1], 1
    for _ in range(DEPTH):
        deeper = []
        for folder in level:
            if folder.name.endswith(SUFFIX):
                yield folder
            elif searched < MOST_FOLDERS:
                searched += 1
                holds_record, subfolders = _listing(folder)
                if holds_record:
                    yield folder
                deeper += subfolders
        level = deeper


def leads_out(path: Path, place: Path) -> bool:
    """Whether a path below a place lies elsewhere once links are followed."""
    inside = os.path.join(os.path.realpath(place), "")
    return not os.path.realpath(path).startswith(inside)


def linked_records(folder: Path) -> list[Path]:
    """The records of a chain that are links. Raises codec.ChainError."""
    try:
        with os.scandir(folder) as entries:
            names = [
                entry.name for entry in entries if entry_of(entry.name, 0) and entry.is_symlink()
            ]
    except OSError as exc:
        raise codec.ChainError(f"{folder}: cannot be listed: {exc}") from exc
    return [folder / name for name in names]
