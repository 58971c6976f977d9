"""Follows a chain that another process writes: verified states, and modules updated in place.

A follower has a track of its own. It applies the records that are new, and compares the track with
the digest in each. Only then it touches a module. If no record has the last applied one as its
parent, because the chain was compacted, rewound or begun anew, it reads from the newest base on.

Not done here: the way around damaged records (chain), applying a record to a track (replay).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from codec.errors import (
    ChainError,
    ChainNotFoundError,
    RecordError,
    RerunNeededError,
    SettingsError,
    StateMismatchError,
    VersionError,
)
from codec.record.container import FileArrays
from codec.state.modules import Into, ModuleLoader
from codec.state.selection import Only, Selection
from codec.storage.location import Location

from .chain import Chain, deltas_between
from .replay import Position, Replay

EVERY = 1.0  # seconds between two looks at the chain
RESTING = 10  # after a failed search, wait so many times as long as it took

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Update:
    """A newer step that a follower has reached.

    Attributes:
        step: Its number.
        before: The step that the follower was at; None for the first update. It is larger than
            ``step`` if the chain was rewound.
        records: How many records were read for it.
        nbytes: Their bytes.
        seconds: From the look at the chain until the step was verified and loaded.
        position: The replay at this step, with its track, and the newest delta if one was read.
            Valid until the follower reads a newer record. The arrays of its record are left out.
    """

    step: int
    before: int | None
    records: int
    nbytes: int
    seconds: float
    position: Position = field(repr=False)
    _moves: list[int] = field(repr=False)
    _n_moves: int = field(repr=False)

    @property
    def state(self) -> dict[Any, Any]:
        """The state in new memory, or its part, as `codec.restore` returns it.

        Raises:
            StateMismatchError: The follower has read a newer record since.
            RecordError, DTypeError: As `codec.restore` raises them.
        """
        if self._moves[0] != self._n_moves:
            raise StateMismatchError(
                f"the follower keeps one state, and has read records after step {self.step}: read "
                "the state before the next update"
            )
        return self.position.whole()


class Follower:
    """Keeps the newest verified state of a chain.

    Not for several threads at once. Call `codec.warm_up` first: else the first delta takes as long
    as loading the kernels.

    Attributes:
        newest: The last update; None before the first one.

    Args:
        source: The chain's directory or URL, see `Chain`. It may not exist yet.
        into: The module that each update is loaded into. Its state_dict is the saved state, or one
            of the dicts in it, found by its keys. A dict of names in the state and modules loads
            several. None loads nothing.
        only: The tensors and values to read, see `Chain.part`: "model" leaves the optimizer out.
        storage_options: See `Chain`.

    Raises:
        SettingsError: The source is neither a path nor a URL, ``into`` is no module, or ``only`` is
            no pattern.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Location,
        into: Into | None = None,
        *,
        only: Only | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(source, Location):
            source = Location(source, storage_options)
        self._location = source.absolute()
        self._loader = None if into is None else ModuleLoader(into)
        self._chain: Chain | None = None
        self._selection = None if only is None else Selection(only)
        self._replay = Replay(self._selection)
        self._at: Position | None = None  # the newest that was verified; it may not be loaded yet
        self._moves = [0]  # how often the track has changed
        # The error of the last search for a way to the newest step, and when to search again.
        self._failed: tuple[Exception, float] | None = None
        self.newest: Update | None = None

    @property
    def step(self) -> int | None:
        """The step that was reached last; None before the first one."""
        return self.newest.step if self.newest else None

    def update(self) -> Update | None:
        """Go to the newest step, and load it.

        Returns:
            None if there is no newer step.

        Raises:
            ChainNotFoundError: There is no chain yet.
            RecordError, ChainError: A newer step cannot be reached. The module has its old weights.
                The chain is searched again after RESTING times the seconds that the search took.
            StateMismatchError: The state does not fit the module, which has its old weights.
            RerunNeededError: The chain holds gradients in place of states.
        """
        begin = time.perf_counter()
        chain = self._listed()
        n_read, nbytes_read = chain.n_read, chain.nbytes_read
        position = self._advanced(chain) or self._restarted(chain)
        if position is not None:  # without arrays: a base's are as large as the track
            self._settle(replace(position, record=replace(position.record, arrays=FileArrays())))
        if self._at is None or (self.newest and self.newest.position is self._at):
            return None
        self._at.check_state()
        if self._loader:
            self._loader.load(self._at.track.layout, self._at.track.arrays)
        self.newest = Update(
            self._at.step,
            self.step,
            chain.n_read - n_read,
            chain.nbytes_read - nbytes_read,
            time.perf_counter() - begin,
            self._at,
            self._moves,
            self._moves[0],
        )
        return self.newest

    def _settle(self, position: Position) -> None:
        """Be at a position. It may hold the same state as before, in another record."""
        before, self._at = self._at, position
        if before is None or self.newest is None or self.newest.position is not before:
            return
        if (before.step, before.record.track) == (position.step, position.record.track):
            self.newest = replace(self.newest, position=position)

    def _listed(self) -> Chain:
        """The chain with a new listing."""
        if self._chain is None:
            chain = Chain(self._location)
            self._chain = chain.part(self._selection) if self._selection else chain
        else:
            self._chain.refresh()
        return self._chain

    def _advanced(self, chain: Chain) -> Position | None:
        """The last position that records lead to from the track; None if there is none."""
        replay, entries = self._replay, chain.entries
        if replay.track is None or replay.step is None:
            return None
        if any(e.kind == "base" and e.step > replay.step for e in entries):
            return None  # what comes after a base builds on it
        reached, way = None, deltas_between(entries, replay.step)
        chain.expect(way)
        try:
            for entry in way:
                record = chain.read(entry)
                self._moves[0] += 1
                reached = replay.advance(entry, record)
        except (RecordError, ChainError) as exc:
            _log.debug("%s: does not continue from step %s: %s", chain.where, replay.step, exc)
            if self._replay.track is None:  # the record failed half-way
                return None
        return reached

    def _restarted(self, chain: Chain) -> Position | None:
        """The newest position of the chain, from a base on; None if the follower is there.

        Raises RecordError, ChainError.
        """
        if self._is_newest(chain):
            return None
        begin = time.monotonic()
        if self._failed and begin < self._failed[1]:
            raise self._failed[0]
        position, reason = chain.newest()
        if reason is not None and self._at is not None and position.step <= self._at.step:
            now = time.monotonic()
            self._failed = reason, now + RESTING * (now - begin)
            raise reason
        if reason is not None:
            _log.warning("%s: step %d, not the newest: %s", chain.where, position.step, reason)
        self._failed = None
        self._moves[0] += 1
        self._replay = Replay.at(position)
        return position

    def _is_newest(self, chain: Chain) -> bool:
        """Whether the follower has the chain's newest step."""
        at = self._at
        if at is None or at.step != chain.steps[-1] or at.entry not in chain.entries:
            return False
        with suppress(RecordError, ChainError):  # else another record has taken its name
            return chain.identity_of(at.entry) == at.record.identity
        return True


def follow(
    source: str | os.PathLike[str],
    into: Into | None = None,
    *,
    only: Only | None = None,
    every: float = EVERY,
    timeout: float | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[Update]:
    """Yield an update whenever a chain has a newer step, verified and loaded.

        for update in codec.follow("s3://bucket/run.lcc", model):
            evaluate(model, update.step)

    A server calls `Follower.update` between two requests instead. While no newer step can be read,
    a warning is logged and the module keeps its weights.

    Args:
        source: The chain's directory or URL. It may not exist yet.
        into: See `Follower`.
        only: See `Follower`.
        every: Seconds between two looks at the chain, each of which lists it.
        timeout: The iteration ends after so many seconds without a newer step; None for never.
        storage_options: See `Chain`.

    Raises:
        SettingsError: ``every`` or ``timeout`` is no number of seconds; see also `Follower`.
        StateMismatchError: The state does not fit the module.
        RerunNeededError: The chain holds gradients in place of states.
        VersionError: A newer version of this package writes the chain.
    """
    for name, seconds in (("every", every), ("timeout", 0.0 if timeout is None else timeout)):
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not is_number or not 0 <= seconds < float("inf"):
            raise SettingsError(f"{name} is a number of seconds, 0 or more; got {seconds!r}")
    follower = Follower(source, into, only=only, storage_options=storage_options)
    return _updates(follower, every, timeout)


def _updates(follower: Follower, every: float, timeout: float | None) -> Iterator[Update]:
    reached_at, last_warning = time.monotonic(), ""
    while True:
        try:
            update = follower.update()
        except (RerunNeededError, VersionError):
            raise
        except ChainNotFoundError:
            update = None
        except (RecordError, ChainError) as exc:
            update = None
            if str(exc) != last_warning:
                last_warning = str(exc)
                _log.warning("step %s stays: %s", follower.step, exc)
        if update is not None:
            yield update
            reached_at = time.monotonic()
        elif timeout is not None and time.monotonic() - reached_at >= timeout:
            return
        else:
            time.sleep(every)
