"""The records of a chain by their heads: what many runs take, looked at again and again.

Of a record's file the first bytes are read, once; only a merged one, which stands for several, is
read whole. So damage further behind is not noticed here. Not done here: anything that needs a
record's content (inspection), which chains there are (watching).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import codec
from codec.caps import short, typed
from codec.errors import ChainError, MalformedRecordError, RecordError, VanishedError
from codec.record import record as records
from codec.record.container import peek
from codec.record.merged import steps_of
from codec.record.record import PREFIX
from codec.storage.source import Entry, check_regular
from lcviz.lab.records import AT_ONCE, Keep, stamps

from .rhythm import gap

Key = tuple[Entry, int]  # a record's place and the time of its file's last change, ns


@dataclass(frozen=True)
class Head:
    """What one record says.

    stamp: of its file, ns, 0 if that is not known. steps: those it tells of. keep: None of a base.
    full_nbytes: of the tensors of a base, float32 where lossy. problem: a sentence, "" if all is
    well. passing: the problem is that of a disk or of what lies between, and may be over when it
    is read again.
    """

    entry: Entry
    stamp: int
    steps: tuple[int, ...] = ()
    keep: Keep | None = None
    full_nbytes: int = 0
    problem: str = ""
    passing: bool = False


@dataclass(frozen=True)
class Point:
    """What a chain had come to with one of its records.

    share: bytes of the record against its steps in float32, None of a base. nbytes: of all records
    so far. full_nbytes: of as many full float32 checkpoints.
    """

    step: int
    share: float | None
    nbytes: int
    full_nbytes: int


@dataclass(frozen=True)
class Account:
    """A chain in numbers.

    steps: how many. newest: the last of them, 0 if no record can be read. stamp: when a record was
    written last, ns. nbytes: of all records. delta_nbytes, delta_full, delta_steps: of those that
    are no base, what their steps take in float32, and how many those are. keeps: the settings, the
    newest last. points: one for each record that leads further. gap: seconds between the newest
    records, None if that is not known.
    """

    steps: int
    newest: int
    records: int
    stamp: int
    nbytes: int
    full_nbytes: int
    delta_nbytes: int
    delta_full: int
    delta_steps: int
    keeps: tuple[Keep, ...]
    problems: tuple[str, ...]
    points: tuple[Point, ...]
    gap: float | None = None

    @property
    def times(self) -> float | None:
        """How many times smaller than full checkpoints; None if that is not known."""
        return self.full_nbytes / self.nbytes if self.nbytes and self.full_nbytes else None

    @property
    def share(self) -> float | None:
        """A delta's bytes against float32, on average; None where there is none."""
        return self.delta_nbytes / self.delta_full if self.delta_full else None

    @property
    def step_nbytes(self) -> float | None:
        """Bytes for a step that is no base, on average."""
        return self.delta_nbytes / self.delta_steps if self.delta_steps else None


def heads(
    chain: codec.Chain,
    folder: Path | None,
    known: Mapping[Key, Head],
    noticed: int = 0,
    told: Callable[[dict[Key, Head], int], None] | None = None,
) -> dict[Key, Head]:
    """The heads of all records in the order of their reader; those that are known are not read,
    unless their problem may have passed.

    folder: where they lie as files, None of an archive or URL: there they are read whole. noticed:
    ns, the stamp of new ones there, whose time nobody tells. told: hears after every few what is
    found so far, and how many are still to be read.
    """
    found: dict[Key, Head] = {}
    listed = stamps(chain, folder)
    unread = sum(key not in known for key in listed)
    for key in listed:
        head = known.get(key)
        if head is None or head.passing:
            unread -= head is None
            try:
                head = _head(chain, folder, key[0], key[1] or noticed)
            except VanishedError:  # merged or removed: another look finds what stands there now
                continue
            if told is not None and unread and unread % AT_ONCE == 0:
                told({**found, key: head}, unread)
        found[key] = head
    return found


def _head(chain: codec.Chain, folder: Path | None, entry: Entry, stamp: int) -> Head:
    """Raises VanishedError."""
    try:
        if folder is None or entry.kind == "merged":
            return _whole(chain.read(entry), entry, stamp)
        check_regular(folder / entry.name)
        with (folder / entry.name).open("rb") as file:
            told, header = peek(file, entry.nbytes, entry.name)
    except FileNotFoundError as exc:
        raise VanishedError(f"{entry.name}: is not there any more") from exc
    except VanishedError:
        raise
    except RecordError as exc:
        return Head(entry, stamp, problem=str(exc))
    except ChainError as exc:
        return Head(entry, stamp, problem=str(exc), passing=True)
    except OSError as exc:
        return Head(entry, stamp, problem=f"{entry.name}: cannot be read: {exc}", passing=True)
    if (told["step"], told["kind"]) != (entry.step, entry.kind):
        found = f"{told['kind']} of step {told['step']}"
        wrong = MalformedRecordError(entry.name, f"{entry.kind} of step {entry.step}", found)
        return Head(entry, stamp, problem=str(wrong))
    if entry.kind != "base":
        return Head(entry, stamp, (entry.step,), _keep(told))
    try:
        return Head(entry, stamp, (entry.step,), full_nbytes=_tensors(header))
    except (KeyError, TypeError, ValueError) as exc:
        wrong = MalformedRecordError(entry.name, "data_offsets for every tensor", short(exc))
        return Head(entry, stamp, problem=str(wrong))


def _whole(record: records.Record, entry: Entry, stamp: int) -> Head:
    """Raises MalformedRecordError."""
    if record.kind == "base":
        full = sum(a.nbytes for name, a in record.arrays.items() if name.startswith(PREFIX))
        return Head(entry, stamp, (entry.step,), full_nbytes=full)
    return Head(entry, stamp, steps_of(record), _keep(record.metadata))


def _keep(told: Mapping[str, Any]) -> Keep:
    return Keep(told["bits"], told["budget"], told["scope"], told["coder"])


def _tensors(header: Mapping[str, Any]) -> int:
    """Bytes of a base's tensors, which is what a full checkpoint takes."""
    total = 0
    for name, told in header.items():
        if name.startswith(PREFIX):
            begin, end = (typed(place, int) for place in told["data_offsets"])
            total += end - begin
    return total


def account(every: Sequence[Head]) -> Account:
    """The chain in numbers. every: by the order of its reader; one at least."""
    at: int | None = None
    full = nbytes = whole = delta_nbytes = delta_full = delta_steps = 0
    steps: set[int] = set()
    points = []
    keeps: dict[Keep, None] = {}
    for head in every:
        e = head.entry
        nbytes += e.nbytes
        if head.problem:
            continue
        steps.update(head.steps)
        if at is not None and (e.step < at if e.kind == "base" else e.first <= at):
            continue  # others have told of its steps
        at = e.step
        of_it = full * len(head.steps)
        if e.kind == "base":
            of_it = full = head.full_nbytes
        elif head.keep is not None:
            delta_nbytes += e.nbytes
            delta_full += of_it
            delta_steps += len(head.steps)
            keeps.pop(head.keep, None)
            keeps[head.keep] = None
        whole += of_it
        share = e.nbytes / of_it if of_it and e.kind != "base" else None
        points.append(Point(e.step, share, nbytes, whole))
    return Account(
        len(steps),
        max(steps, default=0),
        len(every),
        max(h.stamp for h in every),
        nbytes,
        whole,
        delta_nbytes,
        delta_full,
        delta_steps,
        tuple(keeps),
        tuple(h.problem for h in every if h.problem),
        tuple(points),
        gap([h.stamp for h in every]),
    )
