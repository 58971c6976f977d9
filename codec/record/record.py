"""One record of a chain: the meaning of its file's metadata and arrays. See FORMAT.md.

Everything from a file is checked before it is used. Each cap below gives its reason.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codec import version
from codec.caps import names_of, short, typed
from codec.errors import MalformedRecordError, PayloadError, TrackDigestError
from codec.scheme.budget import Allowance
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta, alphabets
from codec.scheme.payload import ROW_NBYTES
from codec.scheme.pieces import Pieces, checked
from codec.scheme.remainder import Rest
from codec.scheme.runlength import MAX_TOKENS
from codec.scheme.tables import CodeTable
from codec.scheme.transition import Transition
from codec.state import edits, tree
from codec.state.selection import Selection
from codec.state.tensors import Arrays, Layout, copy_arrays

from .alphabets import ARRAY, alphabet_bytes, coded, groups_of, heads_of, tables_in
from .chunks import ReadSpans
from .container import (
    Content,
    Unsealed,
    header_fields,
    json_bytes,
    seal,
    unseal,
    unseal_beginning,
)
from .exact import PREFIX, check_exact, exact_arrays, read_exact_part
from .header import HEX, LONGEST_REST, MORE, RUN, Header, digest_word, hex_of_digest
from .layouts import (
    LAYOUT,
    STRUCTURE,
    check_new_values,
    check_storable,
    entries_of,
    read_layout,
    read_transition,
    specs_of,
    transition_arrays,
)
from .reason import Reason
from .track import Preview, Track
from .values import VALUES, check_values, read_values, text_array, text_of, values_array

WRITTEN_BY = "writer"
REASON = "reason"
SETTINGS = "settings"  # a field of the array MORE, see the module `settings`
TABLES = "sent"  # the code tables that a later delta may reuse
OFFSETS = 3  # numbers in the header's entry of an array: length, begin, end
MAX_LENGTHS = 2**26  # of all code tables: a few bytes may stand for thousands of code lengths

_SHORT = re.compile("[ -~]{1,64}")


@dataclass(frozen=True)
class Record(Unsealed):
    """A record whose bytes are intact.

    Attributes:
        where: The record's name, for messages.
        header: The words of its line.
        digest: BLAKE3 of the file, 128 bits, hex. If the beginning alone is read, what it says.
        run: The first digits of the digest of the chain's first record; None in deltas, whose run
            is their parent's.
        nbytes: Bytes of the file.
        replaces: Identity of the record that this one replaces; None if there was none.
        writer: Program and version that wrote it; None if it does not say, as in deltas.
    """

    where: str
    run: str | None
    nbytes: int
    replaces: str | None = None
    writer: str | None = None

    @property
    def step(self) -> int:
        """Its step."""
        return self.header.step

    @property
    def kind(self) -> str:
        """ "base" or "delta"."""
        return self.header.kind

    @property
    def parent(self) -> str | None:
        """Identity of the record before it, in hex; None for the first."""
        return self.header.parent

    @property
    def track(self) -> str:
        """Digest of the track after it, xxh3-128, hex."""
        return self.header.track

    @property
    def coding(self) -> Coding | None:
        """The settings of a delta; None for a base."""
        return self.header.coding

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that a resuming writer uses, see `settings`; {} if it holds none."""
        field = self.more.get(SETTINGS)
        return field if isinstance(field, dict) else {}

    @property
    def reason(self) -> str | None:
        """Why it is a base, see `Reason`; None if it is none, or does not say."""
        text = self.more.get(REASON)
        return text if isinstance(text, str) and _SHORT.fullmatch(text) else None

    @property
    def rest(self) -> Rest | None:
        """How much of the lossy weights' change it leaves out; None if unknown."""
        return self.header.rest

    @property
    def exact_nbytes(self) -> int:
        """Bytes of tensors and values stored exactly, with their entries in the header.

        In a delta the names in non_finite count too. All of a base is exact.
        """
        if self.kind == "base":
            return self.nbytes
        coded = (ARRAY, "__metadata__")
        exact = ((name, entry) for name, entry in self.entries.items() if name not in coded)
        return sum(_entry_nbytes(name, entry) for name, entry in exact)

    def in_run(self, run: str | None) -> Record:
        """The same record, in this run unless its line names one. run: the parent's."""
        return replace(self, run=self.run or run)

    @property
    def identity(self) -> str:
        """The digest by which the next record names its parent."""
        return self.replaces or self.digest


@dataclass(frozen=True)
class Place:
    """The place of a record in its chain. The attributes are those of `Record`.

    run: None for the first record. settings: None if those of an earlier record still hold. reason:
    why the record is a base; None for a delta.
    """

    step: int
    run: str | None = None
    parent: str | None = None
    replaces: str | None = None
    settings: Mapping[str, Any] | None = None
    reason: Reason | None = None

    def more(self) -> dict[str, Any]:
        """The fields of the array MORE that describe the place."""
        replaces = digest_word(self.replaces) if self.replaces else None
        fields = {"replaces": replaces, SETTINGS: self.settings or None, REASON: self.reason}
        return {name: value for name, value in fields.items() if value is not None}


def dump_base(place: Place, track: Track) -> bytes:
    """A base record: the track itself, exactly."""
    tables, tables_entry = table_arrays(track.tables)
    layout = track.layout
    arrays = {PREFIX + t.name: track.arrays[t.name] for t in layout.tensors} | tables
    if layout.structure:
        values = values_array(dict(enumerate(track.values)))
        arrays |= {STRUCTURE: text_array(layout.structure)} | values
    header = Header(place.step, place.run, place.parent, track.digest)
    more = {WRITTEN_BY: version.WRITER, **place.more(), LAYOUT: entries_of(layout), **tables_entry}
    return seal(header, more, arrays)


def dump_delta(place: Place, digest: str, delta: Delta, layout: Layout | None = None) -> bytes:
    """The bytes of a delta record.

    Args:
        place: The record's step, run and parent.
        digest: Digest of the track after the delta.
        delta: The record's content.
        layout: The layout of the track after the delta. Small exact tensors then share one array,
            see the module `small`; None to give each an array.
    """
    return seal(*_file_of(place, digest, delta, coded(delta.groups), layout))


def longest_place(place: Place) -> Place:
    """A place with the longest run, parent and step; the step has as many digits as this one's.

    It has no settings: a budget does not pay for them.
    """
    longest = {"step": 10 ** len(str(place.step)) - 1, "run": "0" * RUN, "parent": "0" * HEX}
    return replace(place, **longest, settings=None)


def header_nbytes(
    place: Place,
    layout: Layout,
    coding: Coding,
    transition: Transition | None,
    exact: Arrays,
    allowance: Allowance,
) -> int:
    """Bytes of a delta record that a budget pays for besides code words, tables and levels.

    An upper bound, and a close one: of a header with the longest numbers possible.

    Args:
        place: See `longest_place`.
        layout: The track's.
        coding: Has a budget.
        transition: The record's; its bytes do not count.
        exact: The tensors stored exactly; their bytes and entries do not count either.
        allowance: The record's.
    """
    by_alphabet = list(alphabets(layout, coding.scope))
    n_alphabets = sum(not tensors[0].measure for tensors in by_alphabet)
    payload = np.empty(int(allowance.nbytes), np.uint8)  # nobody reads or writes it
    arrays: Arrays = {ARRAY: payload} if by_alphabet else {}
    empty = Delta((), exact, (), coding, transition=transition, rest=LONGEST_REST)
    entries = header_fields(*_file_of(place, "0" * HEX, empty, arrays, layout))
    nbytes = 8 + len(json_bytes({"__metadata__": entries["__metadata__"]})) - payload.size
    nbytes += sum(_entry_nbytes(name, entries[name]) for name in (ARRAY, MORE) if name in entries)
    # Offsets have more digits if the record takes all bytes that it may, and if the array also has
    # moments, which the budget does not pay for.
    most_nbytes = max(payload.nbytes, int(min(allowance.most, layout.lossy_nbytes)))
    most_nbytes += sum(t.track_nbytes for t in layout.tensors if t.measure)
    more_digits = len(str(most_nbytes)) - len(str(payload.nbytes))
    return nbytes + ROW_NBYTES * n_alphabets + OFFSETS * more_digits


def _entry_nbytes(name: str, entry: Mapping[str, Any]) -> int:
    """Bytes of an array and of its entry in the header."""
    begin, end = entry["data_offsets"]
    return int(end - begin + len(json_bytes({name: entry})) - 1)  # a comma, but no braces


def load(data: bytes, where: str) -> Record:
    """Open a record, and check that its bytes are those that were written.

    Raises:
        RecordError: TruncatedRecordError, ForeignRecordError, DigestError, VersionError or
            MalformedRecordError. Each names ``where``, what was expected and what was found.
    """
    return _record_of(unseal(data, where), len(data), where)


def load_parts(read: ReadSpans, nbytes: int, where: str) -> Record:
    """Open a record of which only some tensors will be read, see `container.unseal_beginning`."""
    return _record_of(unseal_beginning(read, nbytes, where), nbytes, where)


def _record_of(file: Unsealed, nbytes: int, where: str) -> Record:
    header, replaces = file.header, file.more.get("replaces")
    try:
        replaces = None if replaces is None else hex_of_digest(replaces)
    except TypeError as exc:
        raise MalformedRecordError(where, "the identity that it replaces", short(exc)) from exc
    writer = file.more.get(WRITTEN_BY)
    if writer is not None and not (isinstance(writer, str) and _SHORT.fullmatch(writer)):
        raise MalformedRecordError(where, "a program and its version", short(writer))
    is_first = header.kind == "base" and header.run is None
    run = file.digest[:RUN] if is_first else header.run
    return Record(
        **vars(file), where=where, run=run, nbytes=nbytes, replaces=replaces, writer=writer
    )


def stored_layout(record: Record) -> Layout:
    """The layout of a base record. Raises MalformedRecordError."""
    try:
        tensors = specs_of(record.more[LAYOUT])
        return Layout(tensors, text_of(record.arrays.get(STRUCTURE)))
    except (KeyError, TypeError, ValueError, PayloadError) as exc:
        expected = "a layout [name, dtype, shape, lossy, library, family]…, and a structure"
        raise MalformedRecordError(record.where, expected, short(exc)) from exc


def layout_after(record: Record, before: Layout | None) -> Layout:
    """The layout of the track after a record, of which only the arrays about it are read.

    Args:
        record: The record.
        before: The layout before it; None for a base.

    Raises:
        MalformedRecordError: The record has no layout, or one that no state can have.
    """
    if record.kind != "base":
        assert before is not None, "only a base comes first"
        return read_layout(record.arrays, before, record.where) or before
    layout = stored_layout(record)
    check_storable(layout.tensors, record.where)
    try:
        tree.check_structure(layout.structure, len(layout.tensors))
    except tree.StructureError as exc:
        raise MalformedRecordError(record.where, "a structure", short(exc)) from exc
    return layout


def base_of(record: Record, *, fresh: bool = True, selection: Selection | None = None) -> Track:
    """The track of a base record, checked.

    Args:
        record: The base.
        fresh: True for new, writable arrays; False for those of the record, which are read-only.
        selection: The tensors to read; None for all.

    Raises:
        MalformedRecordError: Arrays and layout do not fit.
        TrackDigestError: The track does not have the digest in the record.
    """
    layout = stored_layout(record) if selection is None else layout_after(record, None)
    where, tensors = record.where, layout.tensors
    names = {PREFIX + t.name for t in tensors}
    optional = {STRUCTURE, VALUES, TABLES} & set(record.arrays)
    if len(names) != len(tensors) or names | optional != set(record.arrays):
        raise MalformedRecordError(
            where,
            f"one array for each of {len(tensors)} tensors: {names_of(sorted(names))}",
            names_of(sorted(record.arrays)) or "none",
        )
    check_storable(tensors, where)
    for t in tensors:
        check_exact(record.arrays.described(PREFIX + t.name), t, where)
    selected: Collection[str] = selection.names(layout) if selection else layout.numbers
    record.arrays.fetch([PREFIX + t.name for t in tensors if t.name in selected])
    state = {t.name: record.arrays[PREFIX + t.name] for t in tensors if t.name in selected}
    state = copy_arrays(state) if fresh else state
    try:
        by_number = read_values(record.arrays.get(VALUES))
        values = tuple(by_number.values())
        if list(by_number) != list(range(len(values))) or any(map(edits.is_edit, values)):
            raise PayloadError("values are not numbered 0, 1, 2…, or an edit is among them")
        tree.check(layout.structure, len(tensors), values)
    except (PayloadError, tree.StructureError) as exc:
        raise MalformedRecordError(where, "a structure and its values", short(exc)) from exc
    track = Track.of(layout, state, values)
    track.tables, track.selection = tables_of(record), selection
    check_track(where, record.track, track)
    return track


def table_arrays(tables: Mapping[str, CodeTable]) -> tuple[Arrays, dict[str, Any]]:
    """Array and metadata of the last code tables, each {} if there are none."""
    if not tables:
        return {}, {}
    packed = [table.packed for table in tables.values()]
    entries = [
        [name, table.n_symbols, table.classes, packed_table.size]
        for (name, table), packed_table in zip(tables.items(), packed)
    ]
    return {TABLES: np.concatenate(packed)}, {TABLES: entries}


def tables_of(record: Record) -> dict[str, CodeTable]:
    """Alphabet -> its last code table, of a base. Raises MalformedRecordError."""
    entries, array = record.more.get(TABLES, []), record.arrays.get(TABLES)
    tables: dict[str, CodeTable] = {}
    lengths = 0
    try:
        array = np.empty(0, np.uint8) if array is None else checked(array, np.uint8, TABLES)
        pieces = Pieces(array, f"bytes of {TABLES!r}")
        for name, n_symbols, classes, nbytes in typed(entries, list):
            if typed(name, str) in tables or not 1 <= typed(n_symbols, int) < MAX_TOKENS:
                raise PayloadError(f"{short(n_symbols)} symbols, or {short(name)} twice")
            lengths += 1 + n_symbols * max(typed(classes, int), 0)
            if lengths > MAX_LENGTHS:
                raise PayloadError(f"more than {MAX_LENGTHS} code lengths")
            packed = pieces.take(max(typed(nbytes, int), 0))
            tables[name] = CodeTable.unpacked(packed, n_symbols, classes)
        pieces.finish()
    except (TypeError, ValueError, PayloadError) as exc:
        raise MalformedRecordError(
            record.where, "tables [alphabet, symbols, classes, bytes]…", short(exc)
        ) from exc
    return tables


def delta_of(record: Record, track: Track) -> Delta:
    """The delta of a delta record. track: the one before it.

    Raises:
        MalformedRecordError: Arrays and layout do not fit. Whether the streams decode shows only
            when the delta is applied.
    """
    where, arrays, coding = record.where, record.arrays, record.coding
    assert coding is not None, "of a delta record"
    transition = read_transition(arrays, track.layout, where, track.selection)
    layout = transition.layout if transition else track.layout
    selected = track.selection.names(layout) if track.selection else None
    try:
        names = typed(record.more.get("non_finite", []), list)
        non_finite = tuple(typed(name, str) for name in names)
    except TypeError as exc:
        raise MalformedRecordError(where, "names of tensors in non_finite", short(exc)) from exc
    with decoding(where):
        part = read_exact_part(arrays, layout, non_finite, where, selected)
        data = alphabet_bytes(arrays)
        heads = heads_of(data, coding, layout, non_finite, track.tables)
        groups = groups_of(heads, data, selected)
        data.finish()
    if selected is not None:
        non_finite = tuple(name for name in non_finite if name in selected)
    if transition:
        check_new_values(transition, part.values, where)
    return Delta(
        groups,
        part.exact,
        non_finite,
        coding,
        None,
        part.values,
        part.residuals,
        transition=transition,
        rest=record.rest,
        all_tables=tables_in(heads) if track.selection else None,
    )


def check_track(
    where: str, digest: str, track: Track | Preview, sums: Mapping[str, int] | None = None
) -> None:
    """Raise TrackDigestError unless this is the digest of the track.

    Args:
        where: The record, for messages.
        digest: The expected digest.
        track: The track to check; a part of one has no digest, and passes.
        sums: The expected sums, if known: the error then names a tensor that differs.
    """
    if isinstance(track, Track) and track.is_part:
        return
    if track.digest != digest:
        names = [name for name, digest in (sums or {}).items() if track.sums.get(name) != digest]
        actual = track.digest + (f" with another {names_of(names, 1)}" if names else "")
        raise TrackDigestError(where, f"a track of digest {digest}", actual)


def apply_checked(record: Record, delta: Delta, track: Track) -> None:
    """Advance a track by the delta of a record, and check its digest.

    The texts that edits make are not checked, see `check_values`.

    Args:
        record: The delta's record.
        delta: The delta to apply.
        track: Useless if this raises.

    Raises:
        MalformedRecordError: A stream does not decode, or an edit does not fit.
        TrackDigestError: The delta leads to another track.
    """
    with decoding(record.where):
        track.apply(delta)
    check_track(record.where, record.track, track)


def preview_checked(
    record: Record, delta: Delta, track: Track, encoded: Delta | None = None
) -> None:
    """The checks of `apply_checked`, but the track does not change. encoded: see `Track.after`."""
    with decoding(record.where):
        after = track.preview(delta, encoded)
    check_track(record.where, record.track, after, encoded.sums if encoded else None)


@contextmanager
def decoding(where: str) -> Iterator[None]:
    """Turn a PayloadError into a MalformedRecordError."""
    try:
        yield
    except PayloadError as exc:
        raise MalformedRecordError(where, "streams that decode", short(exc)) from exc


def check_whole(where: str, track: Track) -> None:
    """Check all digests of a track anew, and parse its values. where: the record, for messages.

    Raises TrackDigestError, MalformedRecordError.
    """
    check_values(where, track.values)
    track.check_whole(where)


def _file_of(
    place: Place,
    digest: str,
    delta: Delta,
    arrays: Mapping[str, Content],
    layout: Layout | None,
) -> tuple[Header, dict[str, Any], dict[str, Content]]:
    """What `seal` makes a delta record of. arrays: The coded alphabets. Else as `dump_delta`."""
    header = Header(place.step, None, place.parent, digest, delta.coding, delta.rest)
    non_finite = {"non_finite": list(delta.non_finite)} if delta.non_finite else {}
    exact = exact_arrays(delta, layout)
    more = {**place.more(), **non_finite}
    return header, more, {**arrays, **exact, **transition_arrays(delta.transition)}
