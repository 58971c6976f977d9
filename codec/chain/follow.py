"""Follows a chain that another process writes: verified states, and modules updated in place.

A follower has a track of its own. It reads the records that are new, checks that each leads to the
digest in it, and only then touches a module. Where the records do not lead on from its track,
because the chain was compacted or taken back or began again, it starts from the newest base.

Not done here: the way around damaged records (chain), applying a record to a track (replay).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from codec.errors import (
    ChainError,
    ChainNotFoundError,
    RecordError,
    RerunNeededError,
    SettingsError,
    VersionError,
)
from codec.state.modules import Into, ModuleLoader
from codec.storage.location import Location
from codec.storage.source import Entry

from .chain import Chain
from .replay import Position, Replay
from .route import following, next_entry

EVERY = 1.0  # seconds between two looks at the chain

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Update:
    """A newer step that a follower has reached.

    Attributes:
        step: Its number.
        before: The step before the update; None for the first one. It is larger than ``step`` if
            the chain was taken back.
        records: How many records were read for it, and ``nbytes`` their bytes.
        nbytes: See ``records``.
        seconds: From the look at the chain until the step was verified and loaded.
        position: The replay at this step, valid until the follower goes on: its track, and the
            newest delta if one was read.
    """

    step: int
    before: int | None
    records: int
    nbytes: int
    seconds: float
    position: Position = field(repr=False)

    @property
    def state(self) -> dict[Any, Any]:
        """The whole state in new memory, as `codec.restore` returns it.

        Valid until the follower goes on. Raises what `Position.whole` raises.
        """
        return self.position.whole()


class Follower:
    """Keeps the newest verified state of a chain.

    Attributes:
        step: The step that was reached last; None before the first one.

    Args:
        source: The chain's directory, archive or URL, see `Chain`. It may not exist yet.
        into: The module that each update is loaded into. Its state_dict is the saved state, or one
            of the values in it, found by its keys. A mapping of names in the state to modules loads
            several. None loads nothing.
        storage_options: See `Chain`.

    Raises:
        SettingsError: The source is neither a path nor a URL; no module is given.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Location,
        into: Into | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._place = source if isinstance(source, Location) else Location(source, storage_options)
        self._loader = None if into is None else ModuleLoader(into)
        self._chain: Chain | None = None
        self._replay = Replay()
        self._entry: Entry | None = None  # that led to the step
        self._digest: str | None = None  # of the track at the step
        # The records among which no newer step was reached, and why.
        self._failed: tuple[tuple[Entry, ...], Exception] | None = None
        self.step: int | None = None

    def update(self) -> Update | None:
        """Go to the newest step, and load it.

        Returns:
            None if there is no newer step.

        Raises:
            ChainNotFoundError: There is no chain yet.
            RecordError, ChainError: A newer step cannot be reached. The module has its old weights;
                the records are read again when the chain has changed.
            StateMismatchError: The state does not fit the module, which has its old weights.
            RerunNeededError: The chain holds gradients in place of states.
        """
        begin = time.perf_counter()
        chain = self._listed()
        n_read, nbytes_read = chain.n_read, chain.nbytes_read
        position = self._advanced(chain) or self._restarted(chain)
        if position is None:
            return None
        position.check_state()
        if self._loader:
            track = position.track
            self._loader.load(track.layout, track.arrays)
        before, self.step = self.step, position.step
        self._entry, self._digest = position.entry, position.record.track
        n_read, nbytes_read = chain.n_read - n_read, chain.nbytes_read - nbytes_read
        seconds = time.perf_counter() - begin
        return Update(self.step, before, n_read, nbytes_read, seconds, position)

    def _listed(self) -> Chain:
        """The chain with a new listing."""
        if self._chain is None:
            self._chain = Chain(self._place)
        else:
            self._chain.refresh()
        return self._chain

    def _advanced(self, chain: Chain) -> Position | None:
        """The last position behind the track; None if no record leads on from it."""
        replay, entries = self._replay, chain.entries
        if replay.track is None or replay.step is None:
            return None
        if any(e.kind == "base" and e.step > replay.step for e in entries):
            return None  # what comes after a base builds on it
        reached = None
        try:
            entry = next_entry(entries, replay.step, None)
            chain.expect(following(entries, entry, None))
            while entry is not None:
                *_, reached = replay.advance(entry, chain.read(entry))
                entry = next_entry(entries, replay.step, None)
        except (RecordError, ChainError) as exc:
            _log.debug("%s: does not lead on from step %s: %s", chain.where, replay.step, exc)
            if self._replay.track is None:  # the record failed half-way
                return None
        return reached

    def _restarted(self, chain: Chain) -> Position | None:
        """The newest position of the chain, from a base on; None if it was reached before.

        Raises RecordError, ChainError.
        """
        if self._is_at(chain.entries[-1], chain):
            return None
        if self._failed and self._failed[0] == chain.entries:
            raise self._failed[1]
        position, reason = chain.newest()
        if reason is not None and self.step is not None and position.step <= self.step:
            self._failed = chain.entries, reason
            raise reason
        self._failed = None
        self._replay = Replay.at(position)
        return position

    def _is_at(self, newest: Entry, chain: Chain) -> bool:
        """Whether the chain's newest record leads to the track, perhaps since it was merged."""
        if newest.step != self.step:
            return False
        if newest != self._entry:
            with suppress(RecordError, ChainError):
                if chain.read(newest).track == self._digest:
                    self._entry = newest
        return newest == self._entry


def follow(
    source: str | os.PathLike[str],
    into: Into | None = None,
    *,
    every: float = EVERY,
    timeout: float | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[Update]:
    """Yield an update whenever a chain has a newer step, verified and loaded.

        for update in codec.follow("s3://bucket/run.lcc", model):
            evaluate(model, update.step)

    Whoever serves requests calls `Follower.update` between two of them instead. While no newer step
    can be read, a warning is logged and the module keeps its weights.

    Args:
        source: The chain's directory or URL. It may not exist yet.
        into: See `Follower`.
        every: Seconds between two looks at the chain.
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
    follower = Follower(source, into, storage_options=storage_options)
    return _updates(follower, every, timeout)


def _updates(follower: Follower, every: float, timeout: float | None) -> Iterator[Update]:
    newest, said = time.monotonic(), ""
    while True:
        try:
            update = follower.update()
        except (RerunNeededError, VersionError):
            raise
        except ChainNotFoundError:
            update = None
        except (RecordError, ChainError) as exc:
            update = None
            if str(exc) != said:
                said = str(exc)
                _log.warning("step %s stays: %s", follower.step, exc)
        if update is not None:
            yield update
            newest = time.monotonic()
        elif timeout is not None and time.monotonic() - newest >= timeout:
            return
        else:
            time.sleep(every)
