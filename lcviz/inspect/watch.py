"""The runs that whoever started the server wants to watch, found and looked at again and again.

A place is a chain's directory, an archive, a URL, or a folder of chains, in which new ones may
appear; none of them has to be there yet. All sessions share one `Watch`: looking costs the same for
one visitor and for ten. Whoever asks while another one looks gets what was found before, and every
URL is looked at by a thread of its own: of places that do not answer nothing waits.

Not done here: the arguments (arguments), what they name (places), finding chains in folders
(folders), what records say (heads), the screen.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import codec

from .folders import below, can_be_listed, foreign, is_chain, is_folder, leads_out, linked_records
from .heads import Account, Head, Key, account, heads
from .places import Target, names, place_of, printable, shown

MOST_RUNS = 200
FRESH_SECONDS = 0.5  # what was found just now is not looked for again
RESTING = 4  # times as long as a look took, the machine is left to whoever trains on it
SETTLED_NS = 3_000_000_000  # a folder that changed longer ago has a later time at its next change
DOUBT_SECONDS = 10.0  # not every file system keeps that time
MOST_REST = 30.0  # seconds: a server that did not answer for long may do so by now
FIRST_SECONDS = 5.0  # so long others wait for the first look of all


@dataclass(frozen=True)
class Watched:
    """A run as it is now.

    name: short, no two alike, the same as long as the server runs. number: it was the so-and-so-th
    to be found. account: None while there is no record; with a problem, which is a sentence, that
    of before. reached: False of a URL until something has been heard of it. unread: records that
    were listed and have not been read yet, which the account lacks. target: of a URL the whole of
    it, which may hold secrets: `where` is for the screen.
    """

    name: str
    target: Target = field(repr=False)
    number: int
    account: Account | None = None
    problem: str = ""
    reached: bool = True
    unread: int = 0

    @property
    def where(self) -> str:
        """Where it lies, as everybody may know."""
        return shown(self.target)

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
    """What was found out about a run. listed: clock and the folder's time at the last listing.

    Only one thread looks at it at a time; others take what is `now`. thread: of a URL the one that
    looks, and next: when another one may, on the clock `time.monotonic`.
    """

    now: Watched
    heads: dict[Key, Head] = field(default_factory=dict)
    listed: tuple[float, int] = (-DOUBT_SECONDS, 0)
    thread: threading.Thread | None = None
    next: float = 0.0

    def forget(self) -> None:
        """All but its name and number: it is not there any more."""
        self.now = replace(self.now, account=None, problem="")
        self.heads, self.listed = {}, (-DOUBT_SECONDS, 0)


class Watch:
    """All runs at some places; safe to use from every session's thread.

    places: as everybody may know them. may_follow: raises codec.SourceError for a path that is not
    to be opened; asked of what links below a place lead out of it to, of folders and of records.
    Links of a place itself are those of whoever named it.
    """

    def __init__(
        self, places: Sequence[str], may_follow: Callable[[Path], None] | None = None
    ) -> None:
        self._places: tuple[Target, ...] = tuple(dict.fromkeys(map(place_of, places)))
        self.places = tuple(map(shown, self._places))
        self._may_follow = may_follow
        self._turn = threading.Lock()  # of whoever looks; nobody waits for it but at first
        self._known: dict[Target, _Known] = {}
        self._found: tuple[_Known, ...] | None = None
        self._next = 0.0  # on the clock `time.monotonic`

    @property
    def missing(self) -> tuple[str, ...]:
        """The places of this machine where nothing is yet."""
        paths = [place for place in self._places if isinstance(place, Path)]
        return tuple(str(path) for path in paths if not os.path.exists(path))

    @property
    def foreign(self) -> tuple[str, ...]:
        """Checkpoints of other kinds that lie in folders here: the name of one for each."""
        folders = [place for place in self._places if isinstance(place, Path)]
        return tuple(filter(None, map(foreign, folders)))

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
        for path in linked_records(folder):
            if not self._allowed(path, place):
                raise codec.SourceError(
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
        """Each once, in the order of places and then of names; of too many those that changed
        last, among which is what is being written."""
        found: dict[Target, None] = {}
        for place in self._places:
            if isinstance(place, Path) and is_folder(place) and not is_chain(place):
                if not can_be_listed(place):
                    found[place] = None  # as a run it says why
                for path in below(place):
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
        return next((p for p in self._places if isinstance(p, Path) and p in target.parents), None)

    def _allowed(self, path: Path, place: Path) -> bool:
        if self._may_follow is None or not leads_out(path, place):
            return True
        try:
            self._may_follow(path)
        except codec.SourceError:
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

        def hear(some: dict[Key, Head], unread: int) -> None:
            so_far = account(list(some.values()))
            known.now = replace(now, account=so_far, problem="", reached=True, unread=unread)

        settled = known.listed[1] == changed and time.time_ns() - changed > SETTLED_NS
        told = now.folder or (known.heads and not now.problem)
        if settled and told and when - known.listed[0] < DOUBT_SECONDS:
            return
        found, problem = {}, ""
        try:
            noticed = time.time_ns() if afar and now.reached else 0
            found = heads(self.chain(now), now.folder, known.heads, noticed, hear if afar else None)
        except codec.ChainNotFoundError:
            pass  # not yet
        except codec.LccError as exc:
            problem = str(exc)
        if problem:
            known.now = replace(now, problem=problem, reached=True)
        elif found != known.heads or known.now.unread or now.problem or not now.reached:
            new = account(list(found.values())) if found else None
            known.now = replace(now, account=new, problem="", reached=True)
        if not problem:  # else what was read is still what it was
            known.heads = found
        known.listed = when, changed

    def _name(self, target: Target) -> str:
        taken = {known.now.name for known in self._known.values()}
        ways = [printable(name) for name in names(target, self._places)]
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
