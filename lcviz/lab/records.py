"""The records of a chain, each read once, at one of two depths; nothing is decoded.

- `read_heads` reads the first bytes of each file: cheap enough to watch many runs, also behind
  URLs. It does not notice damage further back.
- `read_contents` reads all bytes, checks their digests and that each record follows the one before.

A record never changes once it has its name, so its facts stay true while its file is the same.
`chain_summary` gives the chain in numbers, from either depth.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import codec
from codec import Coding, Encoded
from codec.errors import (
    ChainError,
    MalformedRecordError,
    ParentError,
    RecordError,
    VanishedError,
)
from codec.inspect import (
    GRADIENTS,
    PREFIX,
    CodeTable,
    Entry,
    Layout,
    Record,
    Rest,
    Track,
    base_of,
    check_regular,
    delta_of,
    describe_moments,
    following,
    peek,
    short,
    state_nbytes,
    typed,
)

AT_ONCE = 20  # records between two reports of progress
MOST_RETRIES = 20  # unreadable records that one call tries again

Key = tuple[Entry, int]  # a record, and the time of its file's last change, ns; 0 if unknown


@dataclass(frozen=True)
class Context:
    """What the next record may refer to.

    layout, step, run, identity: of the last usable record; layout is None before any. tables: the
    newest code tables. last: identity of the last readable record. failed: the record before could
    not be read, so the gap that follows is not reported again.
    """

    layout: Layout | None = None
    tables: Mapping[str, CodeTable] = field(default_factory=dict)
    step: int | None = None
    run: str | None = None
    identity: str | None = None
    last: str | None = None
    failed: bool = False


@dataclass(frozen=True)
class RecordFacts:
    """What is known of one record.

    stamp: when its file last changed, ns, 0 if unknown. coding: None for a base. rest: what its
    step leaves out of the lossy weights; None for a base, and if the record does not say it.
    full_nbytes: of the state, float32 where lossy; from heads only bases have it, and a step counts
    as large as the base before it. problem: a sentence, "" if there is none. passing: whether the
    disk or network failed, so that reading again may help.

    From contents only: digest, parent, identity, replaces: hex; None if the record cannot be read.
    exact_nbytes: bytes of the file stored exactly. levels: number of levels other than 0 in all
    alphabets; None if unknown. tables, tables_reused: how many code tables it needs, and how many
    of these it reuses. moments: of a base, which moments of an optimizer are lossy, as a sentence;
    "" if none. reached: whether records lead up to it without a gap. before: what it may refer to.
    """

    entry: Entry
    stamp: int
    coding: Coding | None = None
    full_nbytes: int = 0
    problem: str = ""
    passing: bool = False
    digest: str | None = None
    parent: str | None = None
    identity: str | None = None
    replaces: str | None = None
    exact_nbytes: int = 0
    levels: int | None = None
    tables: int = 0
    tables_reused: int = 0
    moments: str = ""
    rest: Rest | None = None
    reached: bool = False
    before: Context = field(default=Context(), compare=False, repr=False)

    @property
    def key(self) -> Key:
        """Identifies the record; a changed file has another key."""
        return self.entry, self.stamp


@dataclass(frozen=True)
class Catalogue:
    """The contents of a chain's records, in reading order.

    listed: how many records the chain has in all. end: what the next record may refer to.
    """

    records: tuple[RecordFacts, ...] = ()
    listed: int = 0
    end: Context = field(default=Context(), compare=False, repr=False)


def list_records(chain: codec.Chain, folder: Path | None) -> list[Key]:
    """The keys of a chain's records. folder: of their files; None for an archive or URL."""
    keys = []
    for entry in chain.entries:
        stamp = 0
        if folder is not None:
            with suppress(OSError):  # the error is reported when the record is read
                stamp = os.stat(folder / entry.name).st_ctime_ns
        keys.append((entry, stamp))
    return keys


def read_heads(
    chain: codec.Chain,
    folder: Path | None,
    known_heads: Mapping[Key, RecordFacts],
    noticed: int = 0,
    report: Callable[[dict[Key, RecordFacts], int], None] | None = None,
) -> dict[Key, RecordFacts]:
    """The heads of all records in reading order.

    Args:
        chain: The chain.
        folder: Where its records lie as files; None for an archive or URL.
        known_heads: From earlier calls. Only those whose problem may be over are read again.
        noticed: Stamp, ns, of new records of an archive or URL, which have no other.
        report: Called after every few records with the heads so far and how many are unread.
    """
    heads: dict[Key, RecordFacts] = {}
    keys = list_records(chain, folder)
    unread = sum(key not in known_heads for key in keys)
    for key in keys:
        head = known_heads.get(key)
        if head is None or head.passing:
            unread -= head is None
            try:
                head = _head(chain, folder, key[0], key[1] or noticed)
            except VanishedError:  # removed: the next call does not list it
                continue
            if report is not None and unread and unread % AT_ONCE == 0:
                report({**heads, key: head}, unread)
        heads[key] = head
    return heads


def _head(chain: codec.Chain, folder: Path | None, entry: Entry, stamp: int) -> RecordFacts:
    """The head of one record. Raises VanishedError."""
    empty = RecordFacts(entry, stamp)
    try:
        if folder is None:
            return _facts_of(chain.part("*").read(entry), empty)
        check_regular(folder / entry.name)
        with (folder / entry.name).open("rb") as file:
            header, arrays = peek(file, entry.nbytes, entry.name)
        if (header.step, header.kind) != (entry.step, entry.kind):
            stored = f"{header.kind} of step {header.step}"
            named = f"{entry.kind} of step {entry.step}"
            raise MalformedRecordError(entry.name, named, stored)
        if entry.kind == "delta":
            return replace(empty, coding=header.coding, rest=header.rest)
        return replace(empty, full_nbytes=_tensor_nbytes(arrays, entry.name))
    except FileNotFoundError as exc:
        raise VanishedError(f"{entry.name}: is gone") from exc
    except VanishedError:
        raise
    except RecordError as exc:
        return replace(empty, problem=str(exc))
    except ChainError as exc:
        return replace(empty, problem=str(exc), passing=True)
    except OSError as exc:
        return replace(empty, problem=f"{entry.name}: cannot be read: {exc}", passing=True)


def _tensor_nbytes(entries: Mapping[str, Any], where: str) -> int:
    """Bytes of a base's tensors in a full checkpoint, see `state_nbytes`.

    Raises MalformedRecordError.
    """
    total = 0
    try:
        for name, entry in entries.items():
            if _is_of_state(name):
                begin, end = (typed(place, int) for place in entry["data_offsets"])
                total += end - begin
    except (KeyError, TypeError, ValueError) as exc:
        raise MalformedRecordError(where, "data_offsets for every tensor", short(exc)) from exc
    return total


def _is_of_state(name: str) -> bool:
    """Whether an array of a base is a tensor of the state that was saved, see `state_nbytes`."""
    return name.startswith(PREFIX) and not name.startswith(f"{PREFIX}{GRADIENTS}/")


def _facts_of(record: Record, facts: RecordFacts) -> RecordFacts:
    """``facts`` with what an intact record says by itself. Raises MalformedRecordError."""
    base = record.kind == "base"
    full = _tensor_nbytes(record.entries, record.where) if base else 0
    return replace(
        facts,
        coding=record.coding,
        rest=record.rest,
        full_nbytes=full,
        digest=record.digest,
        parent=record.parent,
        identity=record.identity,
        replaces=record.replaces,
        exact_nbytes=record.exact_nbytes,
    )


def read_contents(
    chain: codec.Chain, listed: Sequence[Key], catalogue: Catalogue
) -> Iterator[Catalogue]:
    """Read the records that ``catalogue`` lacks; yield a longer one after every few of them.

    The last catalogue is complete, unless a record was removed meanwhile: then list
    again. If a record that a disk failed to give can be read now, all after it are read again.
    """
    n_same, retries = 0, MOST_RETRIES
    for read_before, key in zip(catalogue.records, listed):
        if read_before.key != key:
            break
        if read_before.passing and retries:
            if _can_be_read(chain, read_before.entry):
                break
            retries -= 1
        n_same += 1
    records = list(catalogue.records[:n_same])
    context = catalogue.records[n_same].before if n_same < len(catalogue.records) else catalogue.end
    for i, (entry, stamp) in enumerate(listed[n_same:], 1):
        try:
            facts, context = _content(chain, entry, stamp, context)
        except VanishedError:
            break
        records.append(facts)
        if i % AT_ONCE == 0:
            yield Catalogue(tuple(records), len(listed), context)
    yield Catalogue(tuple(records), len(listed), context)


def read_all(chain: codec.Chain) -> tuple[RecordFacts, ...]:
    """All records of a chain to which none is added."""
    *_, catalogue = read_contents(chain, list_records(chain, None), Catalogue())
    return catalogue.records


def _can_be_read(chain: codec.Chain, entry: Entry) -> bool:
    """Whether the disk answers: with the record's bytes, intact or damaged, or that it is gone."""
    try:
        chain.read(entry)
    except (RecordError, VanishedError):
        return True
    except ChainError:
        return False
    return True


def _content(
    chain: codec.Chain, entry: Entry, stamp: int, before: Context
) -> tuple[RecordFacts, Context]:
    """The facts of one record, and what the next may refer to. Raises VanishedError."""
    facts = RecordFacts(entry, stamp, before=before)
    try:
        record = chain.read(entry)
        facts = _facts_of(record, facts)
        return _in_order(record, facts, before)
    except VanishedError:
        raise
    except (RecordError, ChainError) as exc:
        passing = not isinstance(exc, RecordError | ParentError)
        return replace(facts, problem=str(exc), passing=passing), replace(before, failed=True)


def _in_order(record: Record, facts: RecordFacts, before: Context) -> tuple[RecordFacts, Context]:
    """`_content` of a record whose bytes are intact. Raises RecordError, ParentError."""
    identity, told = record.identity, before.failed or record.parent == before.identity
    try:
        record = following(
            record, facts.entry.name, before.run, record.parent if told else before.last
        )
    except ParentError as exc:
        if record.kind == "base":
            raise
        facts = replace(facts, problem=str(exc))
    after = Context(before.layout, before.tables, record.step, record.run, identity, identity)
    if record.kind == "base":
        track = base_of(record)
        after = replace(after, layout=track.layout, tables=track.tables)
        moments = describe_moments(track.layout.tensors)
        moments = moments[:1].upper() + moments[1:]
        return replace(facts, reached=True, moments=moments), after
    facts = replace(facts, full_nbytes=state_nbytes(before.layout) if before.layout else 0)
    if before.layout is not None and record.parent == before.identity:
        encoded, tables, layout = _alphabets(record, before.layout, before.tables)
        facts = replace(_counted(facts, encoded), reached=True, full_nbytes=state_nbytes(layout))
        return facts, replace(after, tables=tables, layout=layout)
    if before.layout is not None:  # after a gap a record still shows what it holds
        with suppress(RecordError):  # its table may have been lost with the gap
            facts = _counted(facts, _alphabets(record, before.layout, before.tables)[0])
    return facts, replace(before, last=identity, failed=False)


def _alphabets(
    record: Record, layout: Layout, sent: Mapping[str, CodeTable]
) -> tuple[list[Encoded], Mapping[str, CodeTable], Layout]:
    """A delta's encodings, and the newest tables and the layout after it."""
    delta = delta_of(record, Track(layout, {}, {}, dict(sent)))
    after = delta.transition.layout if delta.transition else layout
    return [g.encoded for g in delta.groups], {**sent, **delta.tables}, after


def _counted(facts: RecordFacts, encoded: Sequence[Encoded]) -> RecordFacts:
    return replace(
        facts,
        levels=sum(e.k - 1 for e in encoded),
        tables=sum(e.table is not None for e in encoded),
        tables_reused=sum(e.cached for e in encoded),
    )
