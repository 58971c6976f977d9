"""The runs named when the server was started, found and read again and again.

A place is a chain's directory, an archive, a URL, or a folder of chains in which new ones may
appear; none of them has to be there yet. All sessions share one `Watch`, so ten visitors cost as
much as one. A session that asks while another one reads gets what was found before. Each URL is
read by a thread of its own: nobody waits for a server that does not answer.

Not done here: arguments, and chains in folders (watch_paths), what records say (lab.records).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import codec
from codec.errors import ChainNotFoundError, SourceError
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.lab.records import Key, RecordFacts, read_heads

from . import watch_paths
from .watch_paths import Target, is_folder

MOST_RUNS = 200
FRESH_SECONDS = 0.5  # what was found just now is not looked for again
RESTING = 4  # times as long as a look took, the machine is left to the training
SETTLED_NS = 3_000_000_000  # a folder that changed longer ago has a later time at its next change
DOUBT_SECONDS = 10.0  # not every file system keeps that time
MOST_REST = 30.0  # seconds: a server that did not answer for long may do so by now
FIRST_SECONDS = 5.0  # that others wait for the first look of all


@dataclass(frozen=True)
class Watched:
    """A run as it is now.

    name: short, unique, the same as long as the server runs. number: the order in which runs were
    found. summary: None while there is no record; if there is a problem, a sentence, it is the last
    one known. reached: False of a URL until it has answered. unread: records that are listed but
    not in the summary yet. target: a whole URL may hold secrets; `where` is for the screen.
    """

    name: str
    target: Target = field(repr=False)
    number: int
    summary: Summary | None = None
    problem: str = ""
    reached: bool = True
    unread: int = 0

    @property
    def where(self) -> str:
        """Where it lies, without secrets."""
        return watch_paths.printed(self.target)

    @property
    def folder(self) -> Path | None:
        """Where records may still come as files; None of an archive or URL."""
        return self.target if isinstance(self.target, Path) and is_folder(self.target) else None


@dataclass
class _Known:
    """What is known of a run. Only one thread reads it at a time; others take what is `now`.

    listed: clock and the folder's time at the last listing. thread: of a URL, the one that reads
    it; next: when another one may, on the clock `time.monotonic`.
    """

    now: Watched
    heads: dict[Key, RecordFacts] = field(default_factory=dict)
    listed: tuple[float, int] = (-DOUBT_SECONDS, 0)
    thread: threading.Thread | None = None
    next: float = 0.0

    def forget(self) -> None:
        """All but its name and number: it is gone."""
        self.now = replace(self.now, summary=None, problem="")
        self.heads, self.listed = {}, (-DOUBT_SECONDS, 0)


class Watch:
    """All runs at some places; safe to use from every session's thread.

    Args:
        places: Paths and URLs.
        may_follow: Raises SourceError for a path that must not be opened. Asked about
            folders and records below a place that are links out of it; a place itself may be one.

    Attributes:
        places: The same without secrets.
    """

    def __init__(
        self, places: Sequence[str], may_follow: Callable[[Path], None] | None = None
    ) -> None:
        self._places: tuple[Target, ...] = tuple(dict.fromkeys(map(watch_paths.target_of, places)))
        self.places = tuple(map(watch_paths.printed, self._places))
        self._paths = [place for place in self._places if isinstance(place, Path)]
        self._may_follow = may_follow
        self._turn = threading.Lock()  # held by whoever looks; others wait for it only at first
        self._known: dict[Target, _Known] = {}
        self._found: tuple[_Known, ...] | None = None
        self._next = 0.0  # on the clock `time.monotonic`

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths of this machine where nothing is yet."""
        return tuple(str(path) for path in self._paths if not os.path.exists(path))

    @property
    def foreign(self) -> tuple[str, ...]:
        """Checkpoints of other kinds in folders here: the name of one for each folder."""
        return tuple(filter(None, map(watch_paths.foreign, self._paths)))

    def runs(self) -> tuple[Watched, ...]:
        """All runs, those that were found first before those that came later."""
        if self._turn.acquire(timeout=FIRST_SECONDS if self._found is None else 0):
            try:
                if time.monotonic() >= self._next:
                    self._look_around()
            finally:
                self._turn.release()
        return tuple(known.now for known in self._found or ())

    @property
    def one(self) -> Watched | None:
        """The run, if one was named and none are looked for."""
        found = self.runs()
        alone = len(found) == len(self._places) == 1 and found[0].target == self._places[0]
        return found[0] if alone else None

    def chain(self, run: Watched) -> codec.Chain:
        """A run's records as they are now. Raises what codec.Chain does, SourceError if one is a
        link that is not to be followed."""
        chain, folder = codec.Chain(run.target), run.folder
        place = self._place_above(run.target)
        if folder is None or place is None or self._may_follow is None:
            return chain
        for path in watch_paths.linked_records(folder):
            if not self._allowed(path, place):
                raise SourceError(
                    f"{path.name}: is a link to what this server does not open; put the record "
                    "itself there"
                )
        return chain

    def _look_around(self) -> None:
        begun = time.monotonic()
        targets = self._targets()
        for target, known in self._known.items():
            if known.heads and target not in targets:
                known.forget()
        every = [self._known_of(target) for target in targets]
        for known in every:
            if isinstance(known.now.target, str):
                busy = known.thread is not None and known.thread.is_alive()
                if not busy and time.monotonic() >= known.next:
                    known.thread = threading.Thread(
                        target=self._look_afar, args=(known,), daemon=True
                    )
                    known.thread.start()
            else:
                self._look(known)
        self._found = tuple(sorted(every, key=lambda known: known.now.number))
        self._next = _rested(begun)

    def _look_afar(self, known: _Known) -> None:
        begun = time.monotonic()
        try:
            self._look(known)
        finally:
            known.next = _rested(begun)

    def _targets(self) -> list[Target]:
        """Each once, in the order of places and then of names; of too many those that changed last,
        which include all that is being written."""
        found: dict[Target, None] = {}
        for place in self._places:
            if isinstance(place, Path) and is_folder(place) and not watch_paths.is_chain(place):
                if not watch_paths.can_be_listed(place):
                    found[place] = None  # as a run it says why
                for path in watch_paths.chains_below(place):
                    if self._allowed(path, place):
                        found[path] = None
            else:
                found[place] = None
        if len(found) <= MOST_RUNS:
            return list(found)
        newest = sorted(found, key=lambda target: -_changed(target))
        kept = set(sorted(newest, key=lambda target: target not in self._places)[:MOST_RUNS])
        return [target for target in found if target in kept]

    def _place_above(self, target: Target) -> Path | None:
        """The folder below which a run was found; None of one that was named itself."""
        if isinstance(target, str) or target in self._places:
            return None
        return next((path for path in self._paths if path in target.parents), None)

    def _allowed(self, path: Path, place: Path) -> bool:
        if self._may_follow is None or not watch_paths.leads_out(path, place):
            return True
        try:
            self._may_follow(path)
        except SourceError:
            return False
        return True

    def _known_of(self, target: Target) -> _Known:
        known = self._known.get(target)
        if known is None:
            here = isinstance(target, Path)
            now = Watched(self._name(target), target, len(self._known), reached=here)
            known = self._known[target] = _Known(now)
        return known

    def _look(self, known: _Known) -> None:
        now, when = known.now, time.monotonic()
        changed = _changed(now.folder)
        afar = isinstance(now.target, str)

        def report(some: dict[Key, RecordFacts], unread: int) -> None:
            so_far = summarize(list(some.values()))
            known.now = replace(now, summary=so_far, problem="", reached=True, unread=unread)

        settled = known.listed[1] == changed and time.time_ns() - changed > SETTLED_NS
        told = now.folder or (known.heads and not now.problem)
        if settled and told and when - known.listed[0] < DOUBT_SECONDS:
            return
        found: dict[Key, RecordFacts] = {}
        try:
            noticed = time.time_ns() if afar and now.reached else 0
            hear = report if afar else None
            found = read_heads(self.chain(now), now.folder, known.heads, noticed, hear)
        except ChainNotFoundError:
            pass  # not yet
        except codec.LccError as exc:
            known.now = replace(now, problem=str(exc), reached=True)
            known.listed = when, changed
            return  # what was read is still what it was
        if found != known.heads or known.now.unread or now.problem or not now.reached:
            new = summarize(list(found.values())) if found else None
            known.now = replace(now, summary=new, problem="", reached=True)
        known.heads, known.listed = found, (when, changed)

    def _name(self, target: Target) -> str:
        taken = {known.now.name for known in self._known.values()}
        ways = list(watch_paths.names(target, self._places))
        return next((name for name in ways if name not in taken), f"{ways[-1]} ({len(taken)})")


def _rested(begun: float) -> float:
    """When to look again, after a look that began then and has ended now."""
    now = time.monotonic()
    return now + (FRESH_SECONDS and min(max(FRESH_SECONDS, RESTING * (now - begun)), MOST_REST))


def _changed(folder: Target | None) -> int:
    """When something was last put into a folder or taken out of it, ns; 0 if that is not known."""
    try:
        return folder.stat().st_mtime_ns if isinstance(folder, Path) else 0
    except (OSError, ValueError):
        return 0
