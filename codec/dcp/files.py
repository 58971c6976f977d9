"""Files of a step: its records, and the marks that say it is whole.

    run/step-9/__0_5f0c….base.safetensors      <- parent of
    run/step-10/__0_a81b….delta.safetensors

A record names the directory and file of its parent. Both must be names, not paths, and its digest
shows whether it is the right file. Directories that move together stay readable.

Not done here: where files lie (stores), what is in a record (record), which records a chunk is in
(bundles).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from codec.caps import printable, short
from codec.chain.replay import Replay
from codec.errors import ChainError, DigestError, MalformedRecordError, ParentError
from codec.record import record as records
from codec.record.container import check_blocks
from codec.record.record import Place, Record
from codec.storage.source import Entry

from .stores import METADATA, Run, Step

MAX_BUFFERED = 2**28  # bytes of records in memory on the way to a base; others are read twice
DIGITS = 16  # of a digest in a file's name: no two records of a step share one
PARENT = "parent_at"
_FILE = re.compile(r"__[0-9]{1,9}_[0-9a-f]{16}\.(?:base|delta)\.safetensors")
_MARK = re.compile(r"(?:__[0-9]{1,9})?\.metadata")


@dataclass(frozen=True)
class RecordAt:
    """Where a record is: the names of its step's directory and of its file, and its digest."""

    step: str
    file: str
    digest: str


@dataclass(frozen=True)
class BesidePlace(Place):
    """A place whose parent record, ``at``, lies in another directory."""

    at: RecordAt | None = None

    def more(self) -> dict[str, Any]:
        """See `Place`."""
        return super().more() | ({PARENT: [self.at.step, self.at.file]} if self.at else {})


def mark_of(rank: int | None) -> str:
    """The file that says a step is whole: DCP's, or that of a rank that saved by itself."""
    return METADATA if rank is None else f"__{rank}{METADATA}"


def marks(step: Step) -> list[str]:
    """The files that say that a step is whole, or a rank's part of it. Raises OSError."""
    return marks_among(step.files())


def marks_among(files: Iterable[str]) -> list[str]:
    """Those of these files that are marks."""
    return sorted(name for name in files if _MARK.fullmatch(name))


def is_of(name: str, rank: int | None) -> bool:
    """Whether a file is a record of this rank; of any rank if it is None."""
    return bool(_FILE.fullmatch(name)) and (rank is None or name.startswith(f"__{rank}_"))


def write(step: Step, rank: int, record: Record, data: bytes) -> RecordAt:
    """Write a record into its step's directory, durably. Raises WriteError."""
    name = f"__{rank}_{record.digest[:DIGITS]}.{record.kind}.safetensors"
    step.run.write(step.name, name, data)
    return RecordAt(step.name, name, record.digest)


def read(run: Run, at: RecordAt, why: str = "", *, thoroughly: bool = False) -> Record:
    """Read a record.

    Args:
        run: The directory that holds the steps' directories.
        at: The record.
        why: Who needs it, for messages.
        thoroughly: Also check the digests that only readers of parts of a record use.

    Raises:
        ParentError: The record is missing.
        ChainError: The disk cannot read it.
        RecordError: It is damaged, or has another digest.
    """
    where = f"{run}/{printable(at.step)}/{at.file}"
    with _reading(run, at, why):
        data = run.read(at.step, at.file)
    record = _checked(records.load(data, where), at, why)
    if thoroughly:
        check_blocks(data, where)
    return record


def nbytes_of(run: Run, at: RecordAt) -> int:
    """A record's size. Raises ParentError if it is missing, ChainError if nobody answers."""
    with _reading(run, at):
        return run.nbytes(at.step, at.file)


def parent_of(run: Run, at: RecordAt) -> RecordAt | None:
    """The record that this one builds on, None for a base. Raises as `read_beginning`."""
    record = read_beginning(run, at)
    return None if record.kind == "base" else _parent(record)


def settings_before(run: Run, at: RecordAt) -> Mapping[str, Any]:
    """The settings in the base that a record builds on. Raises as `read_beginning`."""
    while (parent := parent_of(run, at)) is not None:
        at = parent
    return read_beginning(run, at).settings


def read_beginning(run: Run, at: RecordAt) -> Record:
    """A record of which only the beginning is read, and checked. Raises as `read`."""
    where = f"{run}/{printable(at.step)}/{at.file}"
    with _reading(run, at):
        nbytes = run.nbytes(at.step, at.file)
        record = records.load_parts(
            lambda spans: run.read_spans(at.step, at.file, spans), nbytes, where
        )
    return _checked(record, at)


@contextmanager
def _reading(run: Run, at: RecordAt, why: str = "") -> Iterator[None]:
    where = f"{run}/{printable(at.step)}/{at.file}"
    try:
        yield
    except FileNotFoundError as exc:
        raise ParentError(f"{where}: is missing{_describe_missing(run, [at.step])}{why}") from exc
    except OSError as exc:
        raise ChainError(f"{where}: cannot be read: {exc}") from exc
    except ChainError as exc:  # of a file's size
        if not isinstance(exc.__cause__, FileNotFoundError):
            raise
        raise ParentError(f"{where}: is missing{_describe_missing(run, [at.step])}{why}") from exc


def _checked(record: Record, at: RecordAt, why: str = "") -> Record:
    if record.digest != at.digest:
        raise DigestError(record.where, f"the record of digest {at.digest}{why}", record.digest)
    return record


def check_steps_exist(run: Run, steps: Iterable[str], where: Step) -> None:
    """Raise ParentError, with their names, if directories of steps are missing."""
    if missing := run.removed_among(steps):
        raise ParentError(f"{where}: cannot be read{_describe_missing(run, missing)}")


def all_exist(run: Run, records: Iterable[RecordAt]) -> bool:
    """Whether the files of these records exist; a directory may be a new one with an old name.

    Raises ChainError if nobody answers.
    """
    return run.exist((at.step, at.file) for at in records)


def rebuild(
    run: Run, at: RecordAt, *, thoroughly: bool = False
) -> tuple[Replay, tuple[RecordAt, ...]]:
    """Rebuild the track at a record, and check the digests of files, parents and tracks.

    thoroughly: see `read`.

    Returns:
        The replay, and the records from the base to this one.

    Raises:
        ChainError, RecordError: As for `read`, for each record back to the base.
    """
    record, needs, free = read(run, at, thoroughly=thoroughly), [at], MAX_BUFFERED
    deltas: list[Record | None] = []  # from this record to the base; None: to be read again
    while record.kind != "base":
        free -= record.nbytes
        deltas.append(record if free >= 0 else None)
        needs.append(_parent(record))
        why = f"; {record.where} builds on it"
        record = read(run, needs[-1], why, thoroughly=thoroughly)
    replay = Replay()
    for need in reversed(needs):
        if need is not needs[-1]:  # the base was read last
            record = deltas.pop() or read(run, need)
        entry = Entry(record.step, record.kind, record.where, record.nbytes)
        replay.advance(entry, record)
    assert replay.track is not None, "a base and deltas lead to a track"
    records.check_whole(record.where, replay.track)
    return replay, tuple(reversed(needs))


def is_name(text: Any) -> bool:
    """Whether a directory can have this name: it is not empty and not a path."""
    return (
        isinstance(text, str) and text not in ("", ".", "..") and not {"/", "\\", "\0"} & set(text)
    )


def _parent(record: Record) -> RecordAt:
    parent = record.more.get(PARENT)
    pair = parent if isinstance(parent, list) and len(parent) == 2 else ["", ""]
    fits = is_name(pair[0]) and isinstance(pair[1], str) and _FILE.fullmatch(pair[1])
    if record.kind != "delta" or not fits or record.parent is None:
        raise MalformedRecordError(
            record.where, "a delta that names its parent's directory and file", short(parent)
        )
    return RecordAt(pair[0], pair[1], record.parent)


def _describe_missing(run: Run, steps: Iterable[str]) -> str:
    missing = run.removed_among(steps)
    if not missing:
        return ""
    names = ", ".join(map(printable, missing[:10]))
    names += f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    return f": {run} no longer holds {names}; put back what was moved or removed from there"
