"""The runs named when the server was started, found and read again and again.

A place is a chain's directory, an archive, a URL, or a folder of chains in which new ones may
appear; none of them has to exist yet. All sessions share one `Watch`, so ten visitors cost as much
as one. A session that asks while another one reads gets the runs as they were before. A thread
reads each URL, so that nobody waits for a server that does not answer.

Elsewhere: arguments and chains in folders (watch_paths), the contents of records (lab.records).
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
FRESH_SECONDS = 0.5  # between two looks, at least
RESTING = 4  # pauses are this many times as long as a look: the training needs the machine
MOST_REST = 30.0  # seconds between two looks, at most: a slow server may have recovered
SETTLED_NS = 3_000_000_000  # a folder unchanged for this long gets a later time when it changes
DOUBT_SECONDS = 10.0  # then a folder is listed again: not every file system keeps its time
FIRST_SECONDS = 5.0  # that sessions wait for the first look


@dataclass(frozen=True)
class Watched:
    """A run as it is now.

    name: short, unique, the same as long as the server runs. target: path or URL, which may hold
    secrets; `where` is for the screen. number: rises in the order in which runs were found.
    summary: the last one read, also if there is a problem; None while there is no record. problem:
    a sentence, or "". reached: False for a URL until it has answered. unread: number of records
    that are listed but not in the summary yet.
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
        """Its path or URL, without secrets."""
        return watch_paths.printed(self.target)

    @property
    def folder(self) -> Path | None:
        """Its folder, where records may still come; None of an archive or URL."""
        return self.target if isinstance(self.target, Path) and is_folder(self.target) else None


@dataclass
class _RunState:
    """What was read of a run. Only one thread reads a run at a time; others use `run`.

    listed: `time.monotonic` and the folder's own time, ns, at the last listing. thread: reads a
    URL. next: `time.monotonic` from which another thread may read it.
    """

    run: Watched
    heads: dict[Key, RecordFacts] = field(default_factory=dict)
    listed: tuple[float, int] = (-DOUBT_SECONDS, 0)
    thread: threading.Thread | None = None
    next: float = 0.0

    def forget(self) -> None:
        """Forget all but name and number: the run is gone."""
        self.run = replace(self.run, summary=None, problem="")
        self.heads, self.listed = {}, (-DOUBT_SECONDS, 0)


class Watch:
    """All runs at some places; safe to use from every session's thread.

    Args:
        places: Paths and URLs.
        may_follow: Raises SourceError for a path that must not be opened. It is asked about
            folders and records below a place that are links out of it; a place itself may be a
            link.

    Attributes:
        places: The places without secrets.
    """

    def __init__(
        self, places: Sequence[str], may_follow: Callable[[Path], None] | None = None
    ) -> None:
        self._places: tuple[Target, ...] = tuple(dict.fromkeys(map(watch_paths.target_of, places)))
        self.places = tuple(map(watch_paths.printed, self._places))
        self._paths = [place for place in self._places if isinstance(place, Path)]
        self._may_follow = may_follow
        self._looking = threading.Lock()  # held by whoever looks; others wait for it only at first
        self._states: dict[Target, _RunState] = {}
        self._states_in_order: tuple[_RunState, ...] | None = None
        self._next = 0.0  # on the clock `time.monotonic`

    @property
    def missing(self) -> tuple[str, ...]:
        """Paths on this machine where nothing exists yet."""
        return tuple(str(path) for path in self._paths if not os.path.exists(path))

    @property
    def foreign(self) -> tuple[str, ...]:
        """For each place with checkpoints of another kind: the name of one of them."""
        return tuple(filter(None, map(watch_paths.foreign, self._paths)))

    def runs(self) -> tuple[Watched, ...]:
        """All runs, in the order in which they were found."""
        if self._looking.acquire(timeout=FIRST_SECONDS if self._states_in_order is None else 0):
            try:
                if time.monotonic() >= self._next:
                    self._look_around()
            finally:
                self._looking.release()
        return tuple(state.run for state in self._states_in_order or ())

    @property
    def only_run(self) -> Watched | None:
        """The run, if the only place is a run; None if there are more places, or it is a folder."""
        runs = self.runs()
        only = len(runs) == len(self._places) == 1 and runs[0].target == self._places[0]
        return runs[0] if only else None

    def chain(self, run: Watched) -> codec.Chain:
        """A run's chain as it is now. Raises what codec.Chain raises, and SourceError if a record
        is a link that must not be followed."""
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
        for target, state in self._states.items():
            if state.heads and target not in targets:
                state.forget()
        states = [self._state_of(target) for target in targets]
        for state in states:
            if isinstance(state.run.target, str):
                busy = state.thread is not None and state.thread.is_alive()
                if not busy and time.monotonic() >= state.next:
                    state.thread = threading.Thread(
                        target=self._look_remotely, args=(state,), daemon=True
                    )
                    state.thread.start()
            else:
                self._look(state)
        self._states_in_order = tuple(sorted(states, key=lambda state: state.run.number))
        self._next = _next_look(begun)

    def _look_remotely(self, state: _RunState) -> None:
        begun = time.monotonic()
        try:
            self._look(state)
        finally:
            state.next = _next_look(begun)

    def _targets(self) -> list[Target]:
        """The targets of all runs, by place and then by name.

        Of too many, those that are places and those that changed last, which include all that are
        being written.
        """
        targets: dict[Target, None] = {}
        for place in self._places:
            if isinstance(place, Path) and is_folder(place) and not watch_paths.is_chain(place):
                if not watch_paths.can_be_listed(place):
                    targets[place] = None  # shown as a run, with the reason
                for path in watch_paths.chains_below(place):
                    if self._allowed(path, place):
                        targets[path] = None
            else:
                targets[place] = None
        if len(targets) <= MOST_RUNS:
            return list(targets)
        newest = sorted(targets, key=lambda target: -_changed(target))
        places_first = sorted(newest, key=lambda target: target not in self._places)
        chosen = set(places_first[:MOST_RUNS])
        return [target for target in targets if target in chosen]

    def _place_above(self, target: Target) -> Path | None:
        """The place below which a run was found; None if the run is itself a place."""
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

    def _state_of(self, target: Target) -> _RunState:
        state = self._states.get(target)
        if state is None:
            is_path = isinstance(target, Path)
            run = Watched(self._name(target), target, len(self._states), reached=is_path)
            state = self._states[target] = _RunState(run)
        return state

    def _look(self, state: _RunState) -> None:
        """Read a run again if it may have changed."""
        run, clock = state.run, time.monotonic()
        changed = _changed(run.folder)
        remote = isinstance(run.target, str)

        def report(heads_so_far: dict[Key, RecordFacts], unread: int) -> None:
            summary = summarize(list(heads_so_far.values()))
            state.run = replace(run, summary=summary, problem="", reached=True, unread=unread)

        unchanged = state.listed[1] == changed and time.time_ns() - changed > SETTLED_NS
        can_wait = run.folder or (state.heads and not run.problem)
        if unchanged and can_wait and clock - state.listed[0] < DOUBT_SECONDS:
            return
        heads: dict[Key, RecordFacts] = {}
        try:
            noticed = time.time_ns() if remote and run.reached else 0
            reporting = report if remote else None
            heads = read_heads(self.chain(run), run.folder, state.heads, noticed, reporting)
        except ChainNotFoundError:
            pass  # no record yet
        except codec.LccError as exc:
            state.run = replace(run, problem=str(exc), reached=True)
            state.listed = clock, changed
            return  # the heads that were read stay
        if heads != state.heads or state.run.unread or run.problem or not run.reached:
            summary = summarize(list(heads.values())) if heads else None
            state.run = replace(run, summary=summary, problem="", reached=True)
        state.heads, state.listed = heads, (clock, changed)

    def _name(self, target: Target) -> str:
        names = {state.run.name for state in self._states.values()}
        candidates = list(watch_paths.names(target, self._places))
        numbered = f"{candidates[-1]} ({len(names)})"
        return next((name for name in candidates if name not in names), numbered)


def _next_look(begun: float) -> float:
    """When to look again, after a look that began at `begun` and ends now."""
    now = time.monotonic()
    return now + (FRESH_SECONDS and min(max(FRESH_SECONDS, RESTING * (now - begun)), MOST_REST))


def _changed(folder: Target | None) -> int:
    """When something was last put into a folder or taken out of it, ns; 0 if that is not known."""
    try:
        return folder.stat().st_mtime_ns if isinstance(folder, Path) else 0
    except (OSError, ValueError):
        return 0
