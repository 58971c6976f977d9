"""One writer at a time in an object store, where no operating system knows which one is alive.

A writer that opens a chain puts a random token into the object WRITER, and reads it before each
change. A new writer that takes over puts its own token there, and the old one stops writing. One
request puts a record under its final name, on condition that the name is free; a second one asks
for its size. A store shows an object whole or not at all, so nothing is ever renamed. If an answer
is lost, the object is read and compared. A writer that closes a chain removes its token, unless a
request of it may still arrive: then the chain looks as if the writer had been killed.

Reading the token and putting a record are two requests, so a writer may finish a put after another
one has taken over, and a request that was given up may arrive late. Therefore the record after a
take-over, or after a save with an unknown end, has to be a base (`unsettled`): a late record before
it is one more step. For LATE seconds after a take-over, each save first sets aside unknown records
after that base, and nothing is removed for good (`contested`). Until that save, or if the new
writer ends before it, a restart may load a step of the old one. A store without conditions can also
lose the race of two puts of one name.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Iterable, Sequence
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

from .directory import Store, aside_names, write_errors
from .remote import Remote, UnsupportedError
from .source import entry_of

WRITER = ".writer"
MAX_TOKEN = 4096  # bytes: it is a line
LOOK = 60.0  # seconds between two listings for missing records: each is one more request
LATE = 900.0  # seconds: longer than stores and their libraries keep a request alive


class LeasedStore(Store):
    """A Store in a directory of an fsspec filesystem, see above.

    takes_over: also from a writer that has not closed the chain and may have been killed; without
    it that raises LockedError. Raises LockedError, WriteError.
    """

    def __init__(self, remote: Remote, *, takes_over: bool = False) -> None:
        self._remote = remote
        self._doubtful = self._unsettled = False
        self._contested_until = 0.0
        self._looked = time.monotonic()  # when missing records were last looked for
        self._known: set[str] = set()  # names that belong here, once something is published
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
                    f"{remote.where}: {_who(before)} writes here, or was killed, or closed it not "
                    "knowing what became of its newest save: close it first; if it is gone, "
                    f"resume=True takes over, or delete {WRITER} there"
                )
            if before is not None:  # that writer may still be saving
                self._unsettled, self._contested_until = True, time.monotonic() + LATE
                remote.put(WRITER, self._token)
            self._conditional = self._is_conditional()
        except OSError as exc:
            self.close()
            raise WriteError(f"{remote.where}: cannot be written to: {exc}") from exc

    @property
    def doubtful(self) -> bool:
        """See `Store`."""
        return self._doubtful

    @property
    def unsettled(self) -> bool:
        """See `Store`."""
        return self._unsettled or self._doubtful

    @property
    def contested(self) -> bool:
        """See `Store`."""
        return time.monotonic() < self._contested_until

    def publish(self, name: str, data: bytes) -> float:
        """Add a record, see `Store.publish`."""
        self._unsettled, self._doubtful = self.unsettled, False
        self._check()
        if self._first is None:
            entry = entry_of(name, len(data))
            assert entry is not None, "a record's name"
            self._first, self._known = entry.step, set(self._remote.listed)
        self._set_late_aside()
        self._doubtful = True  # in case this is interrupted
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
        if not arrived:
            self._compare(name, data, failure, refused)
        self._unsettled = self._doubtful = False
        self._known.add(name)
        return synced or time.perf_counter()

    def missing(self, names: Sequence[str]) -> list[str]:
        """The records that are gone, see `Store.missing`. Lists at most once in LOOK seconds."""
        if time.monotonic() < self._looked + LOOK:
            return []
        self._looked = time.monotonic()
        try:
            there = self._remote.sizes()
        except ChainNotFoundError:
            there = {}
        except ChainError:  # unknown: the next look tries again
            return []
        gone = [name for name in names if name not in there]
        return gone if gone and self._is_gone(gone[0]) else []

    def _is_gone(self, name: str) -> bool:
        """Whether the store says that this record does not exist. A listing may be out of date."""
        try:
            self._remote.nbytes(name)
        except FileNotFoundError:
            return True
        except OSError:
            pass
        return False

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
                if self._remote.read(free) == data:  # put now, or before an interruption
                    break
                if is_new:
                    raise OSError("its copy differs")
            self._remote.remove(name)

    def remove(self, names: Iterable[str]) -> None:
        """Delete records, see `Store.remove`."""
        self._check()
        with write_errors(self._remote.where, "could not be tidied up"):
            for name in names:
                self._remote.remove(name)

    def close(self) -> None:
        """Let others write. If the token cannot be removed, or a record may still arrive, the next
        writer has to take over."""
        with suppress(OSError):
            if self._writer() == self._token:
                with suppress(ChainError):
                    self._set_late_aside()
                if not self.unsettled:
                    self._remote.remove(WRITER)
        self._closed = True

    def _writer(self) -> bytes | None:
        """The token of the current writer; None if there is none."""
        try:
            return self._remote.read(WRITER, MAX_TOKEN)
        except FileNotFoundError:
            return None

    def _claim(self) -> bytes | None:
        """Put the token where there is none; returns that of another writer that was faster."""
        try:
            self._remote.create(WRITER, self._token, conditional=True)
        except UnsupportedError:
            self._remote.put(WRITER, self._token)
        except FileExistsError:
            found = self._writer() or b""  # it may be closed by now
            return None if found == self._token else found
        return None

    def _is_conditional(self) -> bool:
        """Whether the store refuses to overwrite. This is tried: some stores ignore conditions."""
        try:
            self._remote.create(WRITER, self._token, conditional=True)
        except FileExistsError:
            return True
        except UnsupportedError:
            return False
        return False

    def _check(self) -> None:
        """Raise LockedError if another writer has taken over, WriteError if that is unknown or this
        writer is closed."""
        where = self._remote.where
        if self._closed:
            raise WriteError(f"{where}: this writer is closed; open the place anew")
        with write_errors(where, "cannot be reached, nothing was changed"):
            found = self._writer()
        if found is None:
            raise LockedError(
                f"{where}: {WRITER}, which names the current writer, was deleted: another one may "
                "have written and gone; what was saved stands, open the chain anew to go on"
            )
        if found != self._token:
            raise LockedError(
                f"{where}: {_who(found)} has taken over; what was saved stands, and this writer "
                "writes nothing more"
            )

    def _set_late_aside(self) -> None:
        """Set aside what the writer before put after this one had listed the records. Raises
        LockedError, WriteError."""
        if self._first is None or not self.contested:
            return
        try:
            late = sorted(set(self._remote.sizes()) - self._known)
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
                f"{self._remote.where}: {name} came from the writer before, after this one had "
                "opened the chain; it was set aside"
            )

    def _compare(self, name: str, data: bytes, failure: OSError | None, refused: bool) -> None:
        """Find out how a put ended. Raises StepOrderError, WriteError unless the record is there.

        refused: the store refused it, so nothing is on its way.
        """
        where = f"{self._remote.where}/{name}"
        found: bytes | None = None
        try:
            found = self._remote.read(name)
        except FileNotFoundError:
            pass
        except OSError:  # an earlier try of what was refused may have arrived
            refused = False
        if found == data:  # only the answer was lost
            return
        if found is not None and not (len(found) < len(data) and data.startswith(found)):
            self._doubtful = False
            text = f"{where}: exists already, and records are never overwritten"
            raise StepOrderError(text) from failure
        if refused:
            self._doubtful = False
            text = f"{where}: could not be written, nothing was changed: {failure}"
            raise WriteError(text) from failure
        raise WriteError(
            f"{where}: was not saved, or the answer was lost; the next save removes what there is "
            f"of it: {failure or 'it was cut short'}"
        ) from failure


def _who(token: bytes) -> str:
    """Names the writer of a token, as far as it says."""
    try:
        owner = json.loads(token)
        return f"another writer (process {short(owner['process'])} on {short(owner['host'])})"
    except (ValueError, TypeError, KeyError, RecursionError):
        return "another writer"
