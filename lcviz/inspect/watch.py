"""The runs named when the server was started, found and read again and again.

All sessions share one `Watch`, so ten visitors cost as much as one. A session that asks while
another one reads gets the runs as they were before. A thread reads each URL, so that nobody waits
for a server that does not answer.

Elsewhere: the places (watch_places), the contents of records (lab.records).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import codec
from codec.errors import ChainNotFoundError
from codec.inspect import Source
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.lab.records import Key, RecordFacts, read_heads

from . import watch_paths
from .watch_paths import Target, is_folder
from .watch_places import Places, changed

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
    """All runs at some places, see `Places`; safe to use from every session's thread."""

    def __init__(
        self,
        places: Sequence[str],
        may_follow: Callable[[Path], None] | None = None,
        open_remote: Callable[[str], Source] | None = None,
    ) -> None:
        self.places = Places(places, may_follow, open_remote)
        self._looking = threading.Lock()  # held by whoever looks; others wait for it only at first
        self._states: dict[Target, _RunState] = {}
        self._states_in_order: tuple[_RunState, ...] | None = None
        self._next = 0.0  # on the clock `time.monotonic`

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
        only = len(runs) == 1 and (runs[0].target,) == self.places.targets
        return runs[0] if only else None

    def _look_around(self) -> None:
        begun = time.monotonic()
        targets = self.places.chains(MOST_RUNS)
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

    def _state_of(self, target: Target) -> _RunState:
        if target not in self._states:
            is_path = isinstance(target, Path)
            run = Watched(self._name(target), target, len(self._states), reached=is_path)
            self._states[target] = _RunState(run)
        return self._states[target]

    def _look(self, state: _RunState) -> None:
        """Read a run again if it may have changed."""
        run, clock = state.run, time.monotonic()
        changed_at = changed(run.folder)
        remote = isinstance(run.target, str)

        def report(heads_so_far: dict[Key, RecordFacts], unread: int) -> None:
            summary = summarize(list(heads_so_far.values()))
            state.run = replace(run, summary=summary, problem="", reached=True, unread=unread)

        unchanged = state.listed[1] == changed_at and time.time_ns() - changed_at > SETTLED_NS
        can_wait = run.folder or (state.heads and not run.problem)
        if unchanged and can_wait and clock - state.listed[0] < DOUBT_SECONDS:
            return
        heads: dict[Key, RecordFacts] = {}
        try:
            noticed = time.time_ns() if remote and run.reached else 0
            reporting = report if remote else None
            chain = self.places.open(run.target)
            heads = read_heads(chain, run.folder, state.heads, noticed, reporting)
        except ChainNotFoundError:
            pass  # no record yet
        except codec.LccError as exc:
            state.run = replace(run, problem=str(exc), reached=True)
            state.listed = clock, changed_at
            return  # the heads that were read stay
        if heads != state.heads or state.run.unread or run.problem or not run.reached:
            summary = summarize(list(heads.values())) if heads else None
            state.run = replace(run, summary=summary, problem="", reached=True)
        state.heads, state.listed = heads, (clock, changed_at)

    def _name(self, target: Target) -> str:
        names = {state.run.name for state in self._states.values()}
        candidates = list(watch_paths.names(target, self.places.targets))
        numbered = f"{candidates[-1]} ({len(names)})"
        return next((name for name in candidates if name not in names), numbered)


def _next_look(begun: float) -> float:
    """When to look again, after a look that began at `begun` and ends now."""
    now = time.monotonic()
    return now + (FRESH_SECONDS and min(max(FRESH_SECONDS, RESTING * (now - begun)), MOST_REST))
