"""One writer at a time in an object store, where no operating system knows which writer is alive.

A writer that opens a chain puts a random token into the object WRITER, and reads it before each
change. A new writer that takes over puts its own token there, and the old writer stops. One request
puts a record under its final name, on condition that the name is free; a second request asks for
its size. A store shows an object whole or not at all, so nothing is ever renamed. If an answer is
lost, the object is read and compared. A writer that closes a chain removes its token, unless one of
its requests may still arrive: then the chain looks as if the writer had been killed.

Reading the token and putting a record are two requests. So a writer may finish a put after another
writer has taken over, and a request that was given up may arrive late. Therefore the record after a
take-over, or after a save with an unknown end, has to be a base (`may_gain_records`): a record that
arrives late then lies before that base, and no later record builds on it. For LATE seconds after a
take-over, each save first sets aside unknown records after that base, and nothing is removed for
good (`has_rival`). Until that save, or if the new writer ends before it, a restart may load a step
of the old writer. In a store without conditions, one of two puts of the same name may overwrite the
other. A removal that was given up may arrive late too: its name is not used again.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from codec.caps import short
from codec.errors import (
    ChainError,
    ChainNotFoundError,
    LockedError,
    StepOrderError,
    WriteError,
    warn,
)

from .directory import Store, aside_names, chain_names, write_errors
from .entry import entry_of
from .remote import Remote, UnsupportedError

WRITER = ".writer"
MAX_TOKEN = 4096  # bytes; a token is one line
LOOK = 60.0  # seconds between two listings for missing records: each is one more request
LATE = 900.0  # seconds: longer than stores and their libraries keep a request alive

_log = logging.getLogger(__name__)


class LeasedStore(Store):
    """A Store in a directory of an fsspec filesystem, see above.

    takes_over: take the chain over from a writer that has not closed it and may have been killed;
    without it, such a chain raises LockedError. Raises LockedError, WriteError.
    """

    def __init__(self, remote: Remote, *, takes_over: bool = False) -> None:
        self._remote = remote
        self._may_gain_records = False  # a put that was given up may still arrive
        self._late_removals: set[str] = set()  # names whose removal may still arrive
        self._rival_until = 0.0  # by time.monotonic
        self._listed_at = time.monotonic()  # when missing records were last looked for
        self._names: set[str] = set()  # of the chain's records, once this writer publishes one
        self._first: int | None = None  # the first step that was published
        self._closed = False
        owner = {"host": socket.gethostname(), "process": os.getpid()}
        self._token = json.dumps({"token": secrets.token_hex(16)} | owner).encode()
        try:
            remote.make()
            before = self._writer()
            if before is None:
                before = self._claim()
            if before is not None and not takes_over:
                raise LockedError(
                    f"{remote.where}: {_describe_writer(before)} writes here, or was killed, or "
                    "closed the chain without knowing whether its newest save arrived: close it "
                    f"first; if it is gone, resume=True takes over, or delete {WRITER} there"
                )
            if before is not None:  # that writer may still be saving
                self._may_gain_records, self._rival_until = True, time.monotonic() + LATE
                remote.put(WRITER, self._token)
            self._conditional = self._is_conditional()
        except BaseException as exc:
            self.close()
            if not isinstance(exc, OSError):
                raise
            raise WriteError(f"{remote.where}: cannot be written to: {exc}") from exc

    @property
    def may_gain_records(self) -> bool:
        """See `Store`."""
        return self._may_gain_records

    @property
    def has_rival(self) -> bool:
        """See `Store`."""
        return time.monotonic() < self._rival_until

    def publish(self, name: str, data: bytes, check: Callable[[], object] = lambda: None) -> float:
        """Add a record, see `Store.publish`. Refuses names whose removal may still arrive."""
        check()
        self._check()
        if name in self._late_removals:
            raise WriteError(
                f"{self._remote.where}/{name}: the store has not answered whether it removed an "
                "earlier record of this name, and may still do so; nothing was changed; save "
                "another step"
            )
        if self._first is None:
            entry = entry_of(name, len(data))
            assert entry is not None, "a record's name"
            self._first, self._names = entry.step, set(self._remote.listed)
        self._set_late_aside()
        might_gain_before, self._may_gain_records = self._may_gain_records, True
        failure: OSError | None = None
        refused, arrived, synced = False, False, 0.0
        try:
            self._remote.create(name, data, conditional=self._conditional)
        except OSError as exc:
            failure, refused = exc, isinstance(exc, PermissionError | FileNotFoundError)
        else:
            synced = time.perf_counter()
            try:
                arrived = self._remote.nbytes(name) == len(data)
            except OSError as exc:
                failure = exc
        if not arrived and (why := self._why_absent(name, data, failure, refused)):
            self._may_gain_records = might_gain_before
            raise why from failure
        self._may_gain_records = False
        self._names.add(name)
        return synced or time.perf_counter()

    def withdraw(self, name: str, data: bytes) -> None:
        """Delete the record if it holds these bytes, or their beginning, see `Store.withdraw`.

        If the store refuses to delete, it stays, and the next record must be a base.
        """
        self._check()
        where = f"{self._remote.where}/{name}"
        with write_errors(where, "may be left of a failed save: not removed"):
            try:
                if data.startswith(self._remote.read_whole(name)):
                    self._delete(name)
            except FileNotFoundError:
                pass
            except PermissionError as exc:
                self._may_gain_records = True
                _log.warning(
                    "%s stays, though its save failed; the next record is a base: %s", where, exc
                )

    def missing(self, names: Sequence[str]) -> list[str]:
        """The records that are gone, see `Store.missing`. Lists at most once in LOOK seconds."""
        if time.monotonic() < self._listed_at + LOOK:
            return []
        self._listed_at = time.monotonic()
        try:
            present = self._remote.sizes()
        except ChainNotFoundError:
            present = {}
        except ChainError:  # unknown: the next look tries again
            return []
        missing = [name for name in names if name not in present]
        return missing if missing and self._is_gone(missing[0]) else []

    def _is_gone(self, name: str) -> bool:
        """Whether the store says that this record does not exist. A listing may be out of date."""
        try:
            self._remote.nbytes(name)
        except FileNotFoundError:
            return True
        except OSError:
            pass
        return False

    def share(self, names: Iterable[str], other: str) -> str:
        """Copy records within the store, see `Store.share`."""
        self._check()
        where = self._remote.where
        with write_errors(f"{where}/{other}.lcc", "could not be made"):
            new = next(name for name in chain_names(other) if not self._remote.holds_files(name))
            self._remote.make(new)
            for name in names:
                self._remote.copy(name, f"{new}/{name}")
                if self._remote.nbytes(f"{new}/{name}") != self._remote.nbytes(name):
                    raise OSError(f"the copy of {name} has another size")
        return f"{where}/{new}"

    def set_aside(self, name: str) -> None:
        """Copy a record to another name, then delete it, see `Store.set_aside`."""
        self._check()
        with write_errors(f"{self._remote.where}/{name}", "could not be set aside"):
            data = self._remote.read_whole(name)
            for free in aside_names(name):
                is_new = True
                try:
                    self._remote.create(free, data, conditional=self._conditional)
                except FileExistsError:
                    is_new = False
                if self._remote.read(free, len(data)) == data:  # put now, or before an interruption
                    break
                if is_new:
                    raise OSError("its copy differs")
            self._delete(name)

    def remove(self, names: Iterable[str]) -> None:
        """Delete records, see `Store.remove`."""
        self._check()
        with write_errors(self._remote.where, "records could not be removed"):
            for name in names:
                self._delete(name)

    def _delete(self, name: str) -> None:
        """Delete a record. Raises OSError; unless the store refuses, it may still be deleted."""
        others, self._late_removals = self._late_removals, self._late_removals | {name}
        try:
            self._remote.remove(name)
        except (FileNotFoundError, PermissionError):
            self._late_removals = others
            raise
        self._late_removals = others

    def close(self) -> None:
        """Let others write.

        The next writer must take over if the token cannot be removed, or if a request to put or
        remove a record may still arrive.
        """
        with suppress(OSError):
            if self._writer() == self._token:
                with suppress(ChainError):
                    self._set_late_aside()
                if not self.may_gain_records and not self._late_removals:
                    self._remote.remove(WRITER)
        self._closed = True

    def _writer(self) -> bytes | None:
        """The token of the current writer; None if there is none."""
        try:
            return self._remote.read(WRITER, MAX_TOKEN)
        except FileNotFoundError:
            return None

    def _claim(self) -> bytes | None:
        """Put the token where there is none; returns the token of a writer that was faster."""
        try:
            self._remote.put_new(WRITER, self._token)
        except FileExistsError:
            return self._writer() or b""  # that writer may have closed the chain by now
        return None

    def _is_conditional(self) -> bool:
        """Find out by trying whether the store refuses to overwrite: some ignore conditions."""
        try:
            self._remote.create(WRITER, self._token, conditional=True)
        except FileExistsError:
            return True
        except UnsupportedError:
            return False
        return False  # it has overwritten the token with itself

    def _check(self) -> None:
        """Check that this writer may write.

        Raises LockedError if another writer has taken over, WriteError if this writer is closed or
        the store cannot be reached.
        """
        where = self._remote.where
        if self._closed:
            raise WriteError(f"{where}: this writer is closed; open the chain again")
        with write_errors(where, "cannot be reached, nothing was changed"):
            current = self._writer()
        if current is None:
            raise LockedError(
                f"{where}: {WRITER}, which names the current writer, was deleted: another writer "
                "may have come and gone; what was saved stands; open the chain again to go on"
            )
        if current != self._token:
            raise LockedError(
                f"{where}: {_describe_writer(current)} has taken over; what was saved stands, and "
                "this writer writes nothing more"
            )

    def _set_late_aside(self) -> None:
        """Set aside records that the previous writer put after this writer had listed them.

        Raises LockedError, WriteError.
        """
        if self._first is None or not self.has_rival:
            return
        try:
            late = sorted(set(self._remote.sizes()) - self._names)
        except ChainNotFoundError:  # nothing is there, so nothing came late
            return
        except ChainError as exc:
            raise WriteError(f"{exc}; nothing was changed") from exc
        for name in late:
            entry = entry_of(name, 0)
            if entry is None or entry.step < self._first:
                continue
            self.set_aside(name)
            warn(
                f"{self._remote.where}: {name} came from the previous writer after this one had "
                "opened the chain; it was set aside"
            )

    def _why_absent(
        self, name: str, data: bytes, failure: OSError | None, refused: bool
    ) -> ChainError | None:
        """Find out how a put ended: None if the record is there, the error to raise if it is not.

        refused: the store refused it, so nothing is on its way. Raises WriteError if nobody knows.
        """
        where = f"{self._remote.where}/{name}"
        stored: bytes | None = None
        try:
            stored = self._remote.read(name, len(data))
        except FileNotFoundError:
            pass
        except OSError:  # an earlier attempt of the refused request may have arrived
            refused = False
        if stored == data:  # only the answer was lost
            return None
        if stored is not None and not data.startswith(stored):
            return StepOrderError(f"{where}: exists already, and records are never overwritten")
        if refused and stored is None:
            return WriteError(f"{where}: could not be written, nothing was changed: {failure}")
        raise WriteError(
            f"{where}: was not saved, or the answer was lost; the next save finds out: "
            f"{failure or 'it was cut short'}"
        ) from failure


def _describe_writer(token: bytes) -> str:
    """The writer of a token in words, as far as the token says."""
    try:
        owner = json.loads(token)
        return f"another writer (process {short(owner['process'])} on {short(owner['host'])})"
    except (ValueError, TypeError, KeyError, RecursionError):
        return "another writer"
