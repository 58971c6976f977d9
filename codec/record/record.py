"""One record of a chain: what the metadata and arrays of its file mean. See FORMAT.md.

Everything from a file is checked before it is used. Each cap below gives its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.caps import names_of, short, typed
from codec.errors import InputError, MalformedRecordError, PayloadError, TrackDigestError
from codec.scheme.budget import Allowance
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta, Group, alphabets
from codec.scheme.runlength import MAX_TOKENS
from codec.scheme.stream import MAX_LEVELS
from codec.scheme.tables import CodeTable
from codec.scheme.track import Preview, Track
from codec.scheme.transition import Transition
from codec.state import edits, tree
from codec.state.tensors import Arrays, Layout, TensorSpec, copy_arrays

from .alphabets import ARRAY, HEAD, WORD, Pieces, checked, coded, groups_of, words_of
from .container import Content, seal, unseal
from .diagnosis import differing
from .header import COMPACT, DIGEST, LONGEST_REST, MORE, RESIDUAL, REST, UNIFORM
from .layouts import (
    LAYOUT,
    STRUCTURE,
    check_new_values,
    check_storable,
    entries_of,
    has_transition,
    is_of_transition,
    read_transition,
    specs_of,
    transition_arrays,
)
from .residuals import RESIDUALS, has_residuals, read_residual, residual_parts
from .small import SMALL, joined, read_small, split_small
from .values import VALUES, check_values, format_of, read_values, text_array, text_of, values_array

KINDS = ("base", "delta", "merged")
PREFIX = "t/"  # before every tensor's name, which can then not be one of our own
TABLES = "sent"  # the code tables that a later delta may use again
PADDING = 8  # bytes: safetensors pads a header by fewer
OFFSETS = 3  # numbers in the header's entry of an array: length, begin, end
RUN = 16  # hex digits: enough to tell runs apart
MAX_LENGTHS = 2**26  # of all code tables: a few bytes may stand for thousands of code lengths
MAX_STEP = 2**63 - 1  # fits into the integers of every reader
_HEX_RUN = re.compile(f"[0-9a-f]{{{RUN}}}")
_HEX_BLAKE3, _HEX_XXH3 = re.compile(f"[0-9a-f]{{{DIGEST}}}"), re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Record:
    """A record whose bytes are intact.

    Attributes:
        where: Name for messages.
        step: Its step; the last one of a merged record.
        kind: One of KINDS.
        digest: BLAKE3 of the file, 128 bits, hex.
        run: The first digits of the digest of the chain's first record; None where the format
            leaves that to the parent.
        parent: Identity of the record before it, None for the first.
        track: Digest of the track after it, xxh3-128, hex.
        nbytes: Bytes of the file.
        metadata: Name -> value, of the header's line and the array "more".
        arrays: Name -> array.
        header: Name -> where the file has that array.
        replaces: Identity of the record in whose place it stands, None if there was none.
    """

    where: str
    step: int
    kind: str
    digest: str
    run: str | None
    parent: str | None
    track: str
    nbytes: int
    metadata: dict[str, Any]
    arrays: Arrays
    header: dict[str, Any]
    replaces: str | None = None

    @property
    def exact_nbytes(self) -> int:
        """Bytes of tensors and values stored exactly, with their entries in the header.

        In a delta the names in non_finite count too. All of a base is exact.
        """
        if self.kind == "base":
            return self.nbytes
        total = 0
        for name, entry in self.header.items():
            own = self.kind == "delta" and (name == MORE or is_of_transition(name))
            if own or name.startswith((PREFIX, RESIDUALS, VALUES, SMALL)):
                total += _entry_nbytes(name, entry)
        return total

    @property
    def has_transition(self) -> bool:
        """Whether it is a delta whose layout is not that of the record before it."""
        return self.kind == "delta" and has_transition(self.arrays)

    def in_run(self, run: str | None) -> Record:
        """The same, of this run unless its own line says otherwise. run: that of the records
        before it."""
        return replace(self, run=self.run or run)

    @property
    def identity(self) -> str:
        """What the next record names as its parent."""
        return self.replaces or self.digest


@dataclass(frozen=True)
class Place:
    """Where a record stands in its chain. The attributes are those of `Record`; run is None for
    the first record itself."""

    step: int
    run: str | None = None
    parent: str | None = None
    replaces: str | None = None

    def metadata(self) -> dict[str, Any]:
        """The entries of a record's metadata."""
        entries = {"step": self.step, "run": self.run, "parent": self.parent}
        return entries | ({"replaces": self.replaces} if self.replaces else {})


def dump_base(place: Place, track: Track) -> bytes:
    """A base record: the track itself, exactly."""
    tables, tables_entry = table_arrays(track.tables)
    layout = track.layout
    arrays = {PREFIX + t.name: track.arrays[t.name] for t in layout.tensors} | tables
    if layout.structure:
        values = values_array(dict(enumerate(track.values)))
        arrays |= {STRUCTURE: text_array(layout.structure)} | values
    metadata = {
        "format": UNIFORM if by_steps(track.tables) else format_of(arrays),
        "kind": "base",
        **place.metadata(),
        "track": track.digest,
        LAYOUT: entries_of(layout),
        **tables_entry,
    }
    return seal(metadata, arrays)


def dump_delta(place: Place, digest: str, delta: Delta, layout: Layout | None = None) -> bytes:
    """A delta record.

    Args:
        place: Of the record.
        digest: Of the track after the delta.
        delta: The record's content.
        layout: Of that track. Without it, each small tensor gets an array of its own, see `small`.
    """
    arrays: dict[str, Content] = {**coded(delta.groups), **values_array(delta.values)}
    return _dump_delta(place, digest, delta, arrays, layout)


def longest_place(place: Place) -> Place:
    """A place whose metadata are as long as those of this one: numbers are the longest ones."""
    return replace(place, step=10 ** len(str(place.step)) - 1, run="0" * RUN, parent="0" * DIGEST)


def header_nbytes(
    place: Place,
    layout: Layout,
    exact: Arrays,
    coding: Coding,
    allowance: Allowance,
    transition: Transition | None = None,
) -> int:
    """Bytes of a delta record that a budget pays for besides code words, tables and levels.

    An upper bound, and a close one: it is measured on a record whose header has the longest
    numbers possible.

    Args:
        place: See `longest_place`.
        layout: The track's.
        exact: The tensors stored exactly; their own entries do not count.
        coding: Has a budget.
        allowance: Of the record.
        transition: What the record begins with; its bytes do not count, as those of exact tensors.
    """
    shares = list(alphabets(layout, coding.scope))
    n_alphabets = sum(not tensors[0].alone for tensors in shares)
    words = np.zeros(int(allowance.nbytes) // WORD, np.uint32)
    arrays: Arrays = {ARRAY: words} if shares else {}
    empty = Delta((), exact, (), coding, transition=transition, rest=LONGEST_REST)
    data = _dump_delta(place, "0" * 32, empty, arrays, layout)
    longest = load(data, "the longest header")
    lossy = longest.nbytes - longest.exact_nbytes - sum(a.nbytes for a in arrays.values())
    if MORE in longest.header:  # the place's own, such as parent_at
        lossy += _entry_nbytes(MORE, longest.header[MORE])
    # Offsets have more digits where the record takes the most that it may, and where tensors that
    # are alone, on top of the budget, lie there too.
    most = max(words.nbytes, int(min(allowance.most, layout.lossy_nbytes)))
    whole = most + sum(t.track_nbytes for t in layout.tensors if t.alone)
    digits = len(str(whole)) - len(str(words.nbytes))
    padding = 0 if longest.metadata["format"] == COMPACT else PADDING
    return lossy + HEAD * n_alphabets + padding + OFFSETS * digits


def _entry_nbytes(name: str, entry: Mapping[str, Any]) -> int:
    """Bytes of an array and of its entry in the header."""
    begin, end = entry["data_offsets"]
    text = json.dumps({name: entry}, ensure_ascii=False, separators=(",", ":"))
    return int(end - begin + len(text.encode()) - 1)  # a comma, but no braces


def load(data: bytes, where: str) -> Record:
    """Open a record and check that its bytes are the ones that were written.

    Raises:
        RecordError: TruncatedRecordError, ForeignRecordError, DigestError, VersionError or
            MalformedRecordError. Each names ``where``, what was expected and what was found.
    """
    metadata, arrays, digest, header = unseal(data, where)
    try:
        step, kind = typed(metadata["step"], int), typed(metadata["kind"], str)
        track = _hex(metadata["track"], _HEX_XXH3)
        run = None if metadata["run"] is None else _hex(metadata["run"], _HEX_RUN)
        parent = None if metadata["parent"] is None else _hex(metadata["parent"], _HEX_BLAKE3)
        replaces = metadata.get("replaces")
        replaces = None if replaces is None else _hex(replaces, _HEX_BLAKE3)
        known = run is not None or metadata["format"] == COMPACT
        if kind != "base" and (not known or parent is None):
            raise TypeError(f"a {kind} without run or parent")
    except (KeyError, TypeError) as exc:
        raise MalformedRecordError(where, "step, kind, run, parent and track", short(exc)) from exc
    if kind not in KINDS:
        raise MalformedRecordError(where, "kind base, delta or merged", short(kind))
    if not 0 <= step <= MAX_STEP:
        raise MalformedRecordError(where, f"a step from 0 to {MAX_STEP}", short(step))
    oldest = oldest_format(arrays)
    if metadata["format"] not in (oldest, COMPACT, UNIFORM if oldest < UNIFORM else oldest):
        found = f"format {metadata['format']}"
        expected = f"format {oldest}, by what its arrays and values hold"
        raise MalformedRecordError(where, expected, found)
    return Record(
        where,
        step,
        kind,
        digest,
        digest[:RUN] if kind == "base" and run is None else run,
        parent,
        track,
        len(data),
        metadata,
        arrays,
        header,
        replaces,
    )


def stored_layout(record: Record) -> Layout:
    """The layout that a base record names. Raises MalformedRecordError."""
    try:
        tensors = specs_of(record.metadata[LAYOUT])
        return Layout(tensors, text_of(record.arrays.get(STRUCTURE)))
    except (KeyError, TypeError, ValueError, PayloadError) as exc:
        expected = "a layout [name, dtype, shape, lossy, library, family]…, and a structure"
        raise MalformedRecordError(record.where, expected, short(exc)) from exc


def base_of(record: Record, *, fresh: bool = True) -> Track:
    """The track of a base record, checked.

    fresh: whether its arrays are its own and writable, or those of the record, only to be read.
    Raises MalformedRecordError, TrackDigestError.
    """
    where, layout = record.where, stored_layout(record)
    tensors = layout.tensors
    names = {PREFIX + t.name for t in tensors}
    more = {STRUCTURE, VALUES, TABLES} & set(record.arrays)
    if len(names) != len(tensors) or names | more != set(record.arrays):
        raise MalformedRecordError(
            where,
            f"one array for each of {len(tensors)} tensors: {_some(names)}",
            _some(record.arrays),
        )
    check_storable(tensors, where)
    for t in tensors:
        check_exact(record.arrays[PREFIX + t.name], t, where)
    state = {t.name: record.arrays[PREFIX + t.name] for t in tensors}
    state = copy_arrays(state) if fresh else state
    try:
        by_number = read_values(record.arrays.get(VALUES))
        values = tuple(by_number.values())
        if list(by_number) != list(range(len(values))) or any(map(edits.is_edit, values)):
            raise PayloadError("values are not numbered 0, 1, 2…, or an edit is among them")
        tree.check(layout.structure, len(tensors), values)
    except (PayloadError, tree.StructureError) as exc:
        raise MalformedRecordError(where, "a structure and its values", short(exc)) from exc
    tables = tables_of(record)
    check_need(record, by_steps(tables))
    track = Track.of(layout, state, values, tables)
    check_track(where, record.track, track)
    return track


def by_steps(tables: Mapping[str, CodeTable], groups: Iterable[Group] = ()) -> bool:
    """Whether no format before UNIFORM holds these code tables and groups."""
    wide = any(table.n_symbols >= MAX_LEVELS for table in tables.values())
    return wide or any(group.encoded.uniform for group in groups)


def oldest_format(arrays: Mapping[str, Content], uniform: bool = False) -> int:
    """The format of a delta or merged record with these arrays.

    uniform: whether it has uniform steps, or its settings ask for them.
    """
    if uniform:
        return COMPACT
    return RESIDUAL if has_residuals(arrays) else format_of(arrays)


def check_need(record: Record, needed: bool) -> None:
    """Raise MalformedRecordError for UNIFORM and COMPACT where an older format would do."""
    if record.metadata["format"] in (UNIFORM, COMPACT) and not needed:
        found = f"format {record.metadata['format']}, without uniform steps"
        raise MalformedRecordError(record.where, "the oldest format that holds it", found)


def table_arrays(tables: Mapping[str, CodeTable]) -> tuple[Arrays, dict[str, Any]]:
    """Array and metadata of the code tables last used; nothing where there are none."""
    if not tables:
        return {}, {}
    packed = [table.packed for table in tables.values()]
    entries = [
        [name, table.n_symbols, table.classes, own.size]
        for (name, table), own in zip(tables.items(), packed)
    ]
    return {TABLES: np.concatenate(packed)}, {TABLES: entries}


def tables_of(record: Record) -> dict[str, CodeTable]:
    """Alphabet -> the code table last used, of a base or merged record.

    Raises MalformedRecordError.
    """
    entries, array = record.metadata.get(TABLES, []), record.arrays.get(TABLES)
    found: dict[str, CodeTable] = {}
    lengths = 0
    most = MAX_TOKENS if record.metadata["format"] >= UNIFORM else MAX_LEVELS
    try:
        array = np.empty(0, np.uint8) if array is None else checked(array, np.uint8, TABLES)
        pieces = Pieces(array, f"bytes of {TABLES!r}")
        for name, n_symbols, classes, nbytes in typed(entries, list):
            if typed(name, str) in found or not 1 <= typed(n_symbols, int) < most:
                raise PayloadError(f"{short(n_symbols)} symbols, or {short(name)} twice")
            lengths += 1 + n_symbols * max(typed(classes, int), 0)
            if lengths > MAX_LENGTHS:
                raise PayloadError(f"more than {MAX_LENGTHS} code lengths")
            packed = pieces.take(max(typed(nbytes, int), 0))
            found[name] = CodeTable.unpacked(packed, n_symbols, classes)
        pieces.finish()
    except (TypeError, ValueError, PayloadError) as exc:
        raise MalformedRecordError(
            record.where, "tables [alphabet, symbols, classes, bytes]…", short(exc)
        ) from exc
    return found


def delta_of(record: Record, track: Track) -> Delta:
    """The delta of a delta record. track: the one it starts from.

    Raises:
        MalformedRecordError: Arrays and layout do not fit. Whether the streams decode shows only
            when the delta is applied.
    """
    where, arrays = record.where, record.arrays
    transition = read_transition(arrays, track.layout, where)
    layout = transition.layout if transition else track.layout
    try:
        coding = Coding.from_header(record.metadata)
        non_finite = non_finite_names(record.metadata)
    except (KeyError, TypeError, InputError) as exc:
        raise MalformedRecordError(where, "settings within their range", short(exc)) from exc
    lossy = {t.name for t in layout.tensors if t.lossy}
    names = frozenset(non_finite)
    if not names <= lossy or len(names) != len(non_finite):
        raise MalformedRecordError(where, "lossy tensors in non_finite", _some(non_finite))
    always = {PREFIX + name for name in names}
    whole = [t for t in layout.tensors if not t.lossy or t.name in names]
    expected = {PREFIX + t.name for t in whole} | {ARRAY, VALUES, SMALL}
    expected |= {RESIDUALS + t.name for t in whole if not t.lossy}
    expected |= set(filter(is_of_transition, arrays))
    if not always <= set(arrays) <= expected:
        raise MalformedRecordError(where, f"arrays {_some(expected)}", _some(arrays))
    exact = {t.name: arrays[PREFIX + t.name] for t in whole if PREFIX + t.name in arrays}
    for t in whole:
        if t.name in exact:
            check_exact(exact[t.name], t, where)
    with _decoding(where):
        residuals = {
            t.name: (read_residual(arrays[name], t, name),)
            for t in whole
            if (name := RESIDUALS + t.name) in arrays
        }
        if SMALL in arrays:
            exact = joined(exact, read_small(arrays[SMALL], layout, SMALL))
        if twice := residuals.keys() & exact.keys():
            raise PayloadError(f"a residual of {short(min(twice))}, which is stored whole, too")
        words = words_of(arrays)
        groups = tuple(
            groups_of(
                words, coding, layout, non_finite, track.tables, form=record.metadata["format"]
            )
        )
        words.finish()
        values = read_values(arrays.get(VALUES))
    check_need(record, coding.uniform or by_steps({}, groups))
    if transition:
        check_new_values(transition, values, where)
    rest = record.metadata.get(REST)
    return Delta(
        groups,
        exact,
        non_finite,
        coding,
        None,
        values,
        residuals,
        transition=transition,
        rest=rest,
    )


def check_track(
    where: str, digest: str, track: Track | Preview, meant: Mapping[str, int] | None = None
) -> None:
    """Raise TrackDigestError unless this is the digest of the track.

    Args:
        where: The record, for messages.
        digest: The expected one.
        track: What is checked.
        meant: What its sums should be, if known: the error then names the tensor that differs.
    """
    found = track.digest
    if found != digest:
        off = differing(track.sums, meant or {})
        found += f" with another {names_of(off, 1)}" if off else ""
        raise TrackDigestError(where, f"a track of digest {digest}", found)


def apply_checked(record: Record, delta: Delta, track: Track, digest: str | None = None) -> None:
    """Advance a track by a delta of a record, and check its digest.

    The texts that edits lead to are not checked, see `check_values`.

    Args:
        record: Where the delta was read.
        delta: Its content.
        track: Of no more use if this raises.
        digest: The expected one, if not the record's.

    Raises:
        MalformedRecordError: A stream does not decode, or an edit does not fit.
        TrackDigestError: The delta leads to another track.
    """
    with _decoding(record.where):
        track.apply(delta)
    check_track(record.where, record.track if digest is None else digest, track)


def preview_checked(record: Record, delta: Delta, track: Track, meant: Mapping[str, int]) -> None:
    """The checks of `apply_checked`; the track stays as it is. meant: see `check_track`."""
    with _decoding(record.where):
        after = track.preview(delta)
    check_track(record.where, record.track, after, meant)


@contextmanager
def _decoding(where: str) -> Iterator[None]:
    try:
        yield
    except PayloadError as exc:
        raise MalformedRecordError(where, "streams that decode", short(exc)) from exc


def check_whole(where: str, track: Track) -> None:
    """Compute all digests of a track anew, and parse its values. where: the record, for messages.

    Raises TrackDigestError, MalformedRecordError.
    """
    check_values(where, track.values)
    track.check_whole(where)


def _dump_delta(
    place: Place,
    digest: str,
    delta: Delta,
    arrays: Mapping[str, Content],
    layout: Layout | None,
) -> bytes:
    uniform = delta.coding.uniform or by_steps({}, delta.groups)
    exact, small = split_small(delta.exact, layout) if layout else (delta.exact, {})
    arrays = {**arrays, **small} | {PREFIX + name: a for name, a in exact.items()}
    arrays |= residual_parts({name: one for name, (one,) in delta.residuals.items()})
    arrays |= transition_arrays(delta.transition)
    metadata = {
        "format": oldest_format(arrays, uniform),
        "kind": "delta",
        **place.metadata(),
        "track": digest,
        **delta.coding.header(),
        REST: delta.rest,
        **non_finite_entry(delta.non_finite),
    }
    return seal(metadata, arrays)


def check_exact(array: NDArray[Any], spec: TensorSpec, where: str) -> None:
    """Raise MalformedRecordError unless an array can be this tensor's."""
    if array.shape != spec.track_shape or array.dtype != spec.track_dtype:
        raise MalformedRecordError(
            where,
            f"tensor {spec.name!r} as {spec.track_dtype} {spec.track_shape}",
            f"{array.dtype} {array.shape}",
        )


def non_finite_entry(non_finite: Sequence[str]) -> dict[str, Any]:
    """The metadata of these names; nothing where there are none."""
    return {"non_finite": list(non_finite)} if non_finite else {}


def non_finite_names(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in non_finite. Raises TypeError."""
    return tuple(typed(name, str) for name in typed(metadata.get("non_finite", []), list))


def track_digest(value: Any) -> str:
    """A digest of a track from a file. Raises TypeError."""
    return _hex(value, _HEX_XXH3)


def _hex(value: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise TypeError(f"{short(value)} is no digest")
    return value


def _some(names: Iterable[str]) -> str:
    """The first few names, sorted, for a message."""
    names = sorted(names)
    shown = [repr(name) if len(name) <= 80 else repr(name[:80]) + "…" for name in names[:6]]
    return ", ".join(shown) + (" …" if len(names) > 6 else "") or "none"
