"""One writer at a time where no operating system can say whether he lives: an object store.

Who opens a chain writes a random token to the object WRITER, and looks at it before each change:
once another one has taken the chain over it holds his, and nothing is written any more. A record
is put under its final name by one request, on condition that the name is free, and its size is
asked for afterwards: a store shows an object whole or not at all, so nothing is ever renamed. If an
answer is lost, what is there is read and compared. Who closes a chain removes his token, unless
something of his may still come: then it is as if he had been killed.

What remains possible, for a look and a put are two requests: a writer that was just taken over
from may finish the put he is at; so may a request of one's own that was given up. So the record
after a take-over, or after a save of which nobody knows, is to be a base (`unsettled`): what comes
late before it is one step more. For LATE seconds after a take-over each save looks first for
records after that base that nobody here has written and sets them aside, and none is removed for
good (`contested`). Until that look, or if the new writer ends before it, a step of the one before
may be what restores. A store that knows no conditions can lose the race of two puts of one name as
well.

Not done here: how files are read and put (remote).
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import socket
import time
from collections.abc import Iterable
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

from .directory import SET_ASIDE
from .remote import Remote, UnsupportedError
from .source import entry_of

WRITER = ".writer"
MOST_TOKEN = 4096  # bytes: it is a line
LATE = 900.0  # seconds: longer than stores and their libraries keep a request alive


class Fenced:
    """A Store in a directory of a filesystem of fsspec's, see above.

    takes_over: also from a writer that has not closed the chain, which may have been killed;
    without it that is a LockedError. Raises LockedError, WriteError.
    """

    def __init__(self, remote: Remote, *, takes_over: bool = False) -> None:
        self._remote = remote
        self.doubtful = self._unsettled = False
        self._contested_until = 0.0
        self._known: set[str] = set()  # names that belong here, once something is published
        self._first: int | None = None  # the first step that was
        self._closed = False
        told = {"host": socket.gethostname(), "process": os.getpid()}
        self._token = json.dumps({"token": secrets.token_hex(16)} | told).encode()
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
            if before is not None:  # whoever that was may be at work on one
                self._unsettled, self._contested_until = True, time.monotonic() + LATE
                remote.put(WRITER, self._token)
            self._conditional = self._is_conditional()
        except OSError as exc:
            self.close()
            raise WriteError(f"{remote.where}: cannot be written to: {exc}") from exc

    @property
    def contested(self) -> bool:
        """See `Store`."""
        return time.monotonic() < self._contested_until

    @property
    def unsettled(self) -> bool:
        """See `Store`."""
        return self._unsettled or self.doubtful

    def publish(self, name: str, data: bytes) -> float:
        """Add a record, see `Store`."""
        self._unsettled, self.doubtful = self.unsettled, False
        self._check()
        if self._first is None:
            entry = entry_of(name, len(data))
            assert entry is not None, "a record's name"
            self._first, self._known = entry.step, set(self._remote.listed)
        self._set_late_aside()
        self.doubtful = True  # should this be interrupted
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
        self._unsettled = self.doubtful = False
        self._known.add(name)
        return synced or time.perf_counter()

    def set_aside(self, name: str) -> None:
        """A copy of it under another name, then delete it. Raises LockedError, WriteError."""
        self._check()
        try:
            data = self._remote.read_whole(name)
            for i in itertools.count(1):
                free, there = f"{name}{SET_ASIDE}{'' if i == 1 else f'-{i}'}", False
                try:
                    self._remote.create(free, data, conditional=self._conditional)
                except FileExistsError:
                    there = True
                if self._remote.read(free) == data:  # put now, or before this was interrupted
                    break
                if not there:
                    raise OSError("its copy reads otherwise")
            self._remote.remove(name)
        except OSError as exc:
            where = self._remote.where
            raise WriteError(f"{where}/{name}: could not be set aside: {exc}") from exc

    def remove(self, names: Iterable[str]) -> None:
        """Delete records, see `Store`."""
        self._check()
        try:
            for name in names:
                self._remote.remove(name)
        except OSError as exc:
            raise WriteError(f"{self._remote.where}: could not be tidied up: {exc}") from exc

    def close(self) -> None:
        """Let others write; where the token cannot be removed, or something of this writer or the
        one before may still come, the next one has to take over."""
        with suppress(OSError):
            if self._writer() == self._token:
                with suppress(ChainError):
                    self._set_late_aside()
                if not self.unsettled:
                    self._remote.remove(WRITER)
        self._closed = True

    def __enter__(self) -> Fenced:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _writer(self) -> bytes | None:
        """What tells who writes here; None if nobody does."""
        try:
            return self._remote.read(WRITER, MOST_TOKEN)
        except FileNotFoundError:
            return None

    def _claim(self) -> bytes | None:
        """Put the token where there is none; returns that of another one who was faster."""
        try:
            self._remote.create(WRITER, self._token, conditional=True)
        except UnsupportedError:
            self._remote.put(WRITER, self._token)
        except FileExistsError:
            found = self._writer() or b""  # he may have closed it by now
            return None if found == self._token else found
        return None

    def _is_conditional(self) -> bool:
        """Whether the store refuses to put what is there already: tried, for some ignore what
        they are asked."""
        try:
            self._remote.create(WRITER, self._token, conditional=True)
        except FileExistsError:
            return True
        except UnsupportedError:
            return False
        return False

    def _check(self) -> None:
        """Raises LockedError if the chain is another's by now, WriteError if nobody says or this
        writer is closed."""
        where = self._remote.where
        if self._closed:
            raise WriteError(f"{where}: this writer is closed; open the place anew")
        try:
            found = self._writer()
        except OSError as exc:
            raise WriteError(f"{where}: cannot be reached, nothing was changed: {exc}") from exc
        if found is None:
            raise LockedError(
                f"{where}: {WRITER}, which says who writes here, was deleted: another one may have "
                "written and gone; what was saved stands, open the chain anew to go on"
            )
        if found != self._token:
            raise LockedError(
                f"{where}: {_who(found)} has taken over; what was saved stands, and nothing more "
                "is written by this one"
            )

    def _set_late_aside(self) -> None:
        """What the writer before finished after this one had looked. Raises LockedError,
        WriteError."""
        if self._first is None or not self.contested:
            return
        try:
            late = sorted(set(self._remote.sizes()) - self._known)
        except ChainNotFoundError:  # nothing is there, so nothing that came late
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
        """Find out what became of a put. Raises StepOrderError, WriteError unless it is there.

        refused: that is what was answered, so that nothing is on its way.
        """
        where = f"{self._remote.where}/{name}"
        try:
            found: bytes | None = self._remote.read(name)
        except FileNotFoundError:
            found = None
        except OSError:  # what was refused may have been tried before
            found, refused = None, False
        if found == data:  # only the answer was lost
            return
        if found is not None and not (len(found) < len(data) and data.startswith(found)):
            self.doubtful = False
            text = f"{where}: exists already, and records are never overwritten"
            raise StepOrderError(text) from failure
        if refused:
            self.doubtful = False
            text = f"{where}: could not be written, nothing was changed: {failure}"
            raise WriteError(text) from failure
        raise WriteError(
            f"{where}: was not saved, or nobody could say so; the next save removes what there is "
            f"of it: {failure or 'it was cut short'}"
        ) from failure


def _who(token: bytes) -> str:
    """Who wrote a token, as far as it tells."""
    try:
        told = json.loads(token)
        return f"another writer (process {short(told['process'])} on {short(told['host'])})"
    except (ValueError, TypeError, KeyError, RecursionError):
        return "another writer"
