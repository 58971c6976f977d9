"""The runs that whoever started the server wants to watch, found and looked at again and again.

A place is a chain's directory, an archive, a URL, or a folder of chains, in which new ones may
appear; none of them has to be there yet. All sessions share one `Watch`: looking costs the same for
one visitor and for ten. Not done here: the arguments (arguments), what records say (heads), the
screen.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import codec
from codec.source import entry_of

from .lab.heads import Account, Head, Key, account, heads
from .ordered import by_numbers

SUFFIX = ".lcc"
DEPTH = 3  # folders below a place, the chain's own among them
MOST_FOLDERS = 2000  # that are looked into: a folder above all data of a machine is a mistake
MOST_RUNS = 200
FRESH_SECONDS = 0.5  # what was found just now is not looked for again
RESTING = 4  # times as long as a look took, the machine is left to whoever trains on it
SETTLED_NS = 3_000_000_000  # a folder that changed longer ago has a later time at its next change
DOUBT_SECONDS = 10.0  # not every file system keeps that time
_URL = re.compile("[a-z][a-z0-9+.-]*://", re.IGNORECASE)
Target = Path | str  # a URL is text


@dataclass(frozen=True)
class Watched:
    """A run as it is now.

    name: short, no two alike, the same as long as the server runs. number: it was the so-and-so-th
    to be found. account: None while there is no record, or with a problem: a sentence.
    """

    name: str
    target: Target
    number: int
    account: Account | None = None
    problem: str = ""

    @property
    def folder(self) -> Path | None:
        """Where records may still come as files; None of an archive or URL."""
        return self.target if isinstance(self.target, Path) and is_folder(self.target) else None

    @property
    def grows(self) -> bool:
        """Whether records may still come."""
        return isinstance(self.target, str) or not self.target.is_file()


@dataclass
class _Known:
    """What was found out about a run. listed: clock and the folder's time at the last listing."""

    now: Watched
    heads: dict[Key, Head] = field(default_factory=dict)
    listed: tuple[float, int] = (-DOUBT_SECONDS, 0)


class Watch:
    """All runs at some places; safe to use from every session's thread.

    may_follow: raises codec.SourceError for a path that is not to be opened; asked of what links
    below a place lead out of it to. Links of a place itself are those of whoever named it.
    """

    def __init__(
        self, places: Sequence[str], may_follow: Callable[[Path], None] | None = None
    ) -> None:
        self.places: tuple[Target, ...] = tuple(map(_place, places))
        self._may_follow = may_follow
        self._lock = threading.Lock()
        self._known: dict[Target, _Known] = {}
        self._found: tuple[Watched, ...] = ()
        self._next = 0.0  # on the clock `time.monotonic`

    def runs(self) -> tuple[Watched, ...]:
        """All runs, those that were found first before those that came later."""
        with self._lock:
            begun = time.monotonic()
            if begun >= self._next:
                every = list(self._targets())
                for target in every:
                    self._look(target)
                gone = set(self._known) - set(every)
                here = [k.now for t, k in self._known.items() if t not in gone]
                self._found = tuple(sorted(here, key=lambda run: run.number))
                now = time.monotonic()
                self._next = now + (FRESH_SECONDS and max(FRESH_SECONDS, RESTING * (now - begun)))
            return self._found

    @property
    def one(self) -> Watched | None:
        """The run, if one was named and none are looked for."""
        found = self.runs()
        alone = len(found) == len(self.places) == 1 and found[0].target == self.places[0]
        return found[0] if alone else None

    def _targets(self) -> Iterator[Target]:
        """Each once, in the order of places and then of names."""
        found: dict[Target, None] = {}
        for place in self.places:
            if isinstance(place, Path) and is_folder(place) and not _is_chain(place):
                for path in _below(place):
                    if self._allowed(path, place):
                        found[path] = None
            else:
                found[place] = None
        yield from list(found)[:MOST_RUNS]

    def _allowed(self, path: Path, place: Path) -> bool:
        inside = os.path.realpath(path).startswith(os.path.join(os.path.realpath(place), ""))
        if inside or self._may_follow is None:
            return True
        try:
            self._may_follow(path)
        except codec.SourceError:
            return False
        return True

    def _look(self, target: Target) -> None:
        known = self._known.get(target)
        if known is None:
            name = self._name(target)
            known = self._known[target] = _Known(Watched(name, target, len(self._known)))
        folder, when = known.now.folder, time.monotonic()
        changed = _changed(folder)
        settled = known.listed[1] == changed and time.time_ns() - changed > SETTLED_NS
        if settled and (known.heads or folder) and when - known.listed[0] < DOUBT_SECONDS:
            return
        found, problem = {}, ""
        try:
            found = heads(codec.Chain(target), folder, known.heads)
        except codec.ChainNotFoundError:
            pass  # not yet
        except codec.LccError as exc:
            problem = str(exc)
        if problem or list(found) != list(known.heads) or known.now.problem:
            told = account(list(found.values())) if found else None
            now = known.now
            known.now = Watched(now.name, target, now.number, told, problem)
            known.heads = found
        known.listed = when, changed

    def _name(self, target: Target) -> str:
        taken = {known.now.name for known in self._known.values()}
        ways = [_printable(name) for name in self._names(target)]
        return next((name for name in ways if name not in taken), f"{ways[-1]} ({len(taken)})")

    def _names(self, target: Target) -> Iterator[str]:
        """From short to long."""
        if isinstance(target, str):
            yield target.rstrip("/").rpartition("/")[2]
            yield target
            return
        for place in self.places:
            if isinstance(place, Path) and place in target.parents:
                yield str(target.relative_to(place))
        yield target.name
        yield str(Path(*target.parts[-2:]))
        yield str(target)


def is_folder(path: Path) -> bool:
    """Whether a directory is there, as far as can be told."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that is too long, or none
        return False


def _place(text: str) -> Target:
    if _URL.match(text):
        return text
    path = Path(text)
    with suppress(RuntimeError):  # no such user: then it is the name of a folder
        path = path.expanduser()
    return Path(os.path.abspath(path)) if "\0" not in text else path


def _is_chain(folder: Path) -> bool:
    """By its name, or because a record lies in it."""
    return folder.name.endswith(SUFFIX) or _look_into(folder)[0]


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


def _below(place: Path) -> Iterator[Path]:
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


def _changed(folder: Path | None) -> int:
    """When something was last put into a folder or taken out of it, ns; 0 if that is not known."""
    try:
        return 0 if folder is None else folder.stat().st_mtime_ns
    except OSError:
        return 0


def _printable(name: str) -> str:
    """Names come from anybody's disk: what cannot be shown is replaced."""
    return "".join(c if c.isprintable() else "\ufffd" for c in name)
