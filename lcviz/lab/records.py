"""The records of a chain, each read once: what they say of themselves before anything is decoded.

A record is immutable once it has its name, so what was read of it stays true while the file is the
same: `read_on` reads only what a listing has beyond that. Its order, and which record may follow
which, are those of codec.chain.replay.

Not done here: decoding (tensors, exponents, words), checking the rebuilt tracks (codec.verify).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import codec
from codec.errors import ChainError, RecordError, VanishedError
from codec.record.merged import merged_of, steps_of
from codec.record.record import Record, base_of, delta_of, tables_of
from codec.scheme.stream import Encoded
from codec.scheme.tables import CodeTable
from codec.state.tensors import Layout
from codec.storage.source import Entry

AT_ONCE = 20  # records between two looks of whoever waits
MOST_AGAIN = 20  # records that could not be read are tried again in one look


@dataclass(frozen=True)
class Keep:
    """The settings a delta or merged record was written with."""

    bits: int | None
    budget: float | None
    scope: str
    coder: str


@dataclass(frozen=True)
class Place:
    """Where a reader of the chain is: what the next record may refer to.

    layout: of the last base, None before any. tables: code tables sent last. step, run, identity:
    of the record that was last usable. last: identity of the record that was last readable.
    failed: the record before could not be read, so that a gap after it is no news.
    """

    layout: Layout | None = None
    tables: Mapping[str, CodeTable] = field(default_factory=dict)
    step: int | None = None
    run: str | None = None
    identity: str | None = None
    last: str | None = None
    failed: bool = False

    def is_past(self, entry: Entry) -> bool:
        """Whether other records have led past this one already."""
        if self.step is None:
            return False
        return entry.step < self.step if entry.kind == "base" else entry.first <= self.step


@dataclass(frozen=True)
class Facts:
    """What one record says.

    steps: those it tells of. digest, parent, identity, track: hex, None if it cannot be read, and
    parent also for the first. levels: other than 0, of all its alphabets; None if that is not
    known. exact_nbytes: what of the file is stored exactly. tables, again: code tables it needs,
    and how many of them were sent before. full_nbytes: of one step's track, float32 where lossy.
    problem: a sentence, "" if all is well. passing: it is that of a disk or of what lies between,
    and may be over when it is read again. reached: records lead up to it without a gap. aside:
    others tell of its steps as well.
    """

    entry: Entry
    steps: tuple[int, ...]
    digest: str | None = None
    parent: str | None = None
    identity: str | None = None
    replaces: str | None = None
    track: str | None = None
    keep: Keep | None = None
    levels: int | None = None
    exact_nbytes: int = 0
    tables: int = 0
    again: int = 0
    full_nbytes: int = 0
    problem: str = ""
    passing: bool = False
    reached: bool = False
    aside: bool = False


@dataclass(frozen=True)
class Read:
    """A record that was read. stamp: of its file, ns; another one is another record."""

    stamp: int
    facts: Facts
    before: Place
    after: Place

    @property
    def key(self) -> tuple[Entry, int]:
        """By which anything found out about it can be kept."""
        return self.facts.entry, self.stamp


@dataclass(frozen=True)
class Catalogue:
    """The records of a chain in the order of its reader. listed: how many there are in all."""

    records: tuple[Read, ...] = ()
    listed: int = 0

    @property
    def facts(self) -> tuple[Facts, ...]:
        """Of every record."""
        return tuple(r.facts for r in self.records)


@dataclass(frozen=True)
class Overview:
    """A chain in numbers.

    steps: told by any record. reached: those that records lead to without a gap. kinds: kind ->
    records. nbytes: of all records, base_nbytes: of the bases. full_nbytes: as many full
    float32 checkpoints. keeps: the settings, those of the newest record last. tables, again: as
    in `Facts`, summed. problems: sentences.
    """

    steps: tuple[int, ...]
    reached: tuple[int, ...]
    kinds: Mapping[str, int]
    nbytes: int
    base_nbytes: int
    step_nbytes: float
    full_nbytes: int
    one_full_nbytes: int
    keeps: tuple[Keep, ...]
    tables: int
    again: int
    problems: tuple[str, ...]


def stamps(chain: codec.Chain, folder: Path | None) -> list[tuple[Entry, int]]:
    """Every record that is listed, and the time of its file's last change, ns; 0 in an archive."""
    if folder is None:
        return [(e, 0) for e in chain.entries]
    found = []
    for e in chain.entries:
        try:
            found.append((e, os.stat(folder / e.name).st_ctime_ns))
        except OSError:  # reading it will say what is wrong
            found.append((e, 0))
    return found


def read_on(
    chain: codec.Chain, listed: Sequence[tuple[Entry, int]], known: Catalogue
) -> Iterator[Catalogue]:
    """Read what ``known`` has not, and yield the catalogue after every few records.

    The last one is whole, unless a record was merged or removed meanwhile: then list anew. What a
    disk did not give before is asked for again, and with it comes all that follows.
    """
    same, again = 0, MOST_AGAIN
    for have, wanted in zip(known.records, listed):
        if have.key != wanted:
            break
        if have.facts.passing and again:
            if _can_be_read(chain, have.facts.entry):
                break
            again -= 1
        same += 1
    records = list(known.records[:same])
    place = records[-1].after if records else Place()
    for i, (entry, stamp) in enumerate(listed[same:], 1):
        try:
            facts, after = _look(chain, entry, place)
        except VanishedError:
            break
        records.append(Read(stamp, facts, place, after))
        place = after
        if i % AT_ONCE == 0:
            yield Catalogue(tuple(records), len(listed))
    yield Catalogue(tuple(records), len(listed))


def _can_be_read(chain: codec.Chain, entry: Entry) -> bool:
    """Whether a disk gives a record's bytes, be they damaged, or knows that it is gone."""
    try:
        chain.read(entry)
    except (RecordError, VanishedError):
        return True
    except ChainError:
        return False
    return True


def _look(chain: codec.Chain, entry: Entry, before: Place) -> tuple[Facts, Place]:
    """One record, and where a reader is after it. Raises VanishedError."""
    facts = Facts(entry, (entry.step,) if entry.kind != "merged" else (entry.first, entry.step))
    try:
        record = chain.read(entry)
        facts = replace(
            facts,
            digest=record.digest,
            parent=record.parent,
            identity=record.identity,
            replaces=record.replaces,
            track=record.track,
            exact_nbytes=record.exact_nbytes,
        )
        if record.kind == "merged":
            facts = replace(facts, steps=steps_of(record))
        if before.is_past(entry):
            return replace(facts, aside=True, reached=True), before
        return _placed(record, facts, before)
    except VanishedError:
        raise
    except (RecordError, ChainError) as exc:
        passing = not isinstance(exc, RecordError | codec.ParentError)
        return replace(facts, problem=str(exc), passing=passing), replace(before, failed=True)


def _placed(record: Record, facts: Facts, before: Place) -> tuple[Facts, Place]:
    """As `_look`, for a record whose bytes are intact. Raises RecordError, ParentError."""
    name = facts.entry.name
    if record.run != (before.run or record.run):
        raise codec.ParentError(
            f"{name}: is of the run {record.run}, the records before it are of {before.run}"
        )
    here = Place(before.layout, before.tables, record.step, record.run, record.identity)
    here = replace(here, last=record.identity)
    if record.kind == "base":
        layout = base_of(record)[0]
        here = replace(here, layout=layout, tables=tables_of(record))
        return replace(facts, full_nbytes=layout.nbytes, reached=True), here
    meta = record.metadata
    facts = replace(
        facts,
        keep=Keep(meta["bits"], meta["budget"], meta["scope"], meta["coder"]),
        full_nbytes=before.layout.nbytes if before.layout else 0,
    )
    if before.layout is not None and record.parent == before.identity:
        encoded, tables = _alphabets(record, before.layout, before.tables)
        return replace(_counted(facts, encoded), reached=True), replace(here, tables=tables)
    if not before.failed and record.parent != before.last:
        missing = f"{name}: the record before it, digest {record.parent}, is missing"
        facts = replace(facts, problem=missing)
    if before.layout is not None:  # what follows a gap can still be looked at, if not restored
        with suppress(RecordError):  # it may refer to a table that was lost
            facts = _counted(facts, _alphabets(record, before.layout, before.tables)[0])
    return facts, replace(before, last=record.identity, failed=False)


def _alphabets(
    record: Record, layout: Layout, sent: Mapping[str, CodeTable]
) -> tuple[list[Encoded], Mapping[str, CodeTable]]:
    """The encodings of a delta or merged record, and the tables sent last after it."""
    if record.kind == "delta":
        delta = delta_of(record, layout, dict(sent))
        return [g.encoded for g in delta.groups], {**sent, **delta.tables}
    merged = merged_of(record, layout)
    return [g.encoded for layer in merged.layers for g in layer.groups], merged.tables


def _counted(facts: Facts, encoded: Sequence[Encoded]) -> Facts:
    return replace(
        facts,
        levels=sum(e.k - 1 for e in encoded),
        tables=sum(e.table is not None for e in encoded),
        again=sum(e.cached for e in encoded),
    )


def overview(catalogue: Catalogue) -> Overview:
    """The chain in numbers, from what its records say."""
    every = catalogue.facts
    steps = sorted({s for f in every for s in f.steps})
    reached = {s for f in every if f.reached and not f.aside for s in f.steps}
    used = [f for f in every if not f.aside]
    deltas = [f for f in used if f.entry.kind != "base"]
    kinds: dict[str, int] = {}
    for f in every:
        kinds[f.entry.kind] = kinds.get(f.entry.kind, 0) + 1
    newest_first = dict.fromkeys(f.keep for f in reversed(deltas) if f.keep)
    lost = _lost_before_base(every)
    return Overview(
        tuple(steps),
        tuple(sorted(reached)),
        kinds,
        sum(f.entry.nbytes for f in every),
        sum(f.entry.nbytes for f in every if f.entry.kind == "base"),
        sum(f.entry.nbytes for f in deltas) / max(sum(len(f.steps) for f in deltas), 1),
        sum(f.full_nbytes * len(f.steps) for f in used),
        max((f.full_nbytes for f in every), default=0),
        tuple(newest_first)[::-1],
        sum(f.tables for f in every),
        sum(f.again for f in every),
        tuple(f.problem for f in every if f.problem) + ((lost,) if lost else ()),
    )


def _lost_before_base(every: Sequence[Facts]) -> str:
    """Whether records are missing before the newest base, as a sentence.

    Before older ones they may have been removed by a compaction that was interrupted.
    """
    bases = [i for i, f in enumerate(every) if f.entry.kind == "base" and not f.problem]
    if not bases or not bases[-1] or every[bases[-1] - 1].problem:
        return ""
    base, known = every[bases[-1]], {f.identity for f in every[: bases[-1]]}
    if base.parent is None or known & {base.parent, base.replaces} - {None}:
        return ""
    return f"{base.entry.name}: the record before it, digest {base.parent}, is missing"
