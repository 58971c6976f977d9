"""One record of a chain: what the metadata and arrays of its file mean. See FORMAT.md.

Whatever comes from a file is checked before it is used, and every cap below stands with its
reason. Not done here: the file itself (container), the order of records (chain).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.caps import names_of, short, typed
from codec.errors import InputError, MalformedRecordError, PayloadError, TrackDigestError
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta, alphabets
from codec.scheme.stream import MAX_LEVELS
from codec.scheme.tables import CodeTable
from codec.scheme.track import MAX_TEXT, Track
from codec.state import edits, tree
from codec.state.tensors import Arrays, Layout, TensorSpec, is_storable

from .alphabets import ARRAY, HEAD, WORD, Coded, Cut, join, taken
from .container import seal, unseal
from .diagnosis import differing
from .header import DIGEST, FORMAT, MORE, NEWEST

KINDS = ("base", "delta", "merged")
PREFIX = "t/"  # before every tensor's name, so that no name can collide with ours
VALUES = "values"
SENT = "sent"
PADDING = 8  # bytes at most that safetensors fills a header up with
RUN = 16  # hex digits: enough to tell runs apart
MAX_LENGTHS = 2**26  # of the code tables sent last: a few bytes may stand for thousands
MAX_STEP = 2**63 - 1  # so that every reader's integers hold it
_LINE = re.compile("[^\n]*\n|[^\n]+")
_EDIT = re.compile(rb"^[0-9]+ =", re.MULTILINE)
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")
_HEX_RUN = re.compile(f"[0-9a-f]{{{RUN}}}")
_HEX_BLAKE3, _HEX_XXH3 = re.compile(f"[0-9a-f]{{{DIGEST}}}"), re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Record:
    """A record whose bytes are intact.

    where: name for messages. digest: BLAKE3 of 128 bits, hex, of the file. run: what that of the
    chain's first record begins with. parent: identity of the record before it, None for the first.
    track: xxh3-128, hex, of the rebuilt track. header: where the file has its arrays. replaces:
    identity of the record in whose place it stands, None if there was none.
    """

    where: str
    step: int
    kind: str  # one of KINDS
    digest: str
    run: str
    parent: str | None
    track: str
    nbytes: int
    metadata: dict[str, Any]
    arrays: Arrays
    header: dict[str, Any]
    replaces: str | None = None

    @property
    def exact_nbytes(self) -> int:
        """Bytes of the file that are stored exactly: tensors and values, with their entries in the
        header; in a delta also the names of those that are not finite. All of a base."""
        if self.kind == "base":
            return self.nbytes
        total = 0
        for name, entry in self.header.items():
            if name.startswith((PREFIX, VALUES)) or (name == MORE and self.kind == "delta"):
                begin, end = entry["data_offsets"]
                text = json.dumps({name: entry}, ensure_ascii=False, separators=(",", ":"))
                total += end - begin + len(text.encode()) - 1  # a comma, but no braces
        return total

    @property
    def identity(self) -> str:
        """What the record after it names as its parent."""
        return self.replaces or self.digest


@dataclass(frozen=True)
class Place:
    """Where a record stands.

    run: what the digest of the chain's first record begins with, None for that one itself.
    parent: identity of the record before, None if there is none. replaces: see `Record`.
    """

    step: int
    run: str | None = None
    parent: str | None = None
    replaces: str | None = None

    def metadata(self) -> dict[str, Any]:
        """As a record tells it."""
        told = {"step": self.step, "run": self.run, "parent": self.parent}
        return told | ({"replaces": self.replaces} if self.replaces else {})


def dump_base(place: Place, track: Track) -> bytes:
    """A base record: the track itself, exactly."""
    sent, told = sent_arrays(track.tables)
    layout = track.layout
    arrays = {PREFIX + t.name: track.arrays[t.name] for t in layout.tensors} | sent
    if layout.structure:
        values = values_array(dict(enumerate(track.values)))
        arrays |= {"structure": _text(layout.structure)} | values
    metadata = {
        "format": format_of(arrays),
        "kind": "base",
        **place.metadata(),
        "track": track.digest,
        "layout": [
            [t.name, t.dtype, list(t.shape), t.lossy, t.library, t.family] for t in layout.tensors
        ],
        **told,
    }
    return seal(metadata, arrays)


def dump_delta(place: Place, track_digest: str, delta: Delta) -> bytes:
    """A delta record. track_digest: that of the track it leads to."""
    return _dump_delta(place, track_digest, delta, join(delta.groups) | values_array(delta.values))


def header_nbytes(digits: int, layout: Layout, exact: Arrays, coding: Coding) -> int:
    """Bytes of a delta record that a budget pays for besides code words, tables and levels.

    At most so many, and hardly fewer: it writes a record whose numbers in the header are as long
    as they may get. digits: of the step. exact: the tensors stored exactly, whose own entries do
    not count. coding: has a budget.
    """
    n_alphabets = len(list(alphabets(layout, coding.scope)))
    coded = np.zeros(int((coding.budget or 0) * layout.lossy_nbytes) // WORD, np.uint32)
    arrays: Arrays = {ARRAY: coded} if n_alphabets else {}
    place = Place(10**digits - 1, "0" * RUN, "0" * DIGEST)
    data = _dump_delta(place, "0" * 32, Delta((), exact, (), coding), arrays)
    longest = load(data, "the longest header")
    lossy = longest.nbytes - longest.exact_nbytes - sum(a.nbytes for a in arrays.values())
    return lossy + HEAD * n_alphabets + PADDING


def load(data: bytes, where: str) -> Record:
    """Open a record and check that its bytes are the ones that were written.

    Raises TruncatedRecordError, ForeignRecordError, DigestError, VersionError or
    MalformedRecordError, each naming ``where``, what was expected and what was found.
    """
    metadata, arrays, digest, header = unseal(data, where)
    try:
        step, kind = typed(metadata["step"], int), typed(metadata["kind"], str)
        track = _hex(metadata["track"], _HEX_XXH3)
        run = None if metadata["run"] is None else _hex(metadata["run"], _HEX_RUN)
        parent = None if metadata["parent"] is None else _hex(metadata["parent"], _HEX_BLAKE3)
        replaces = metadata.get("replaces")
        replaces = None if replaces is None else _hex(replaces, _HEX_BLAKE3)
        if kind != "base" and (run is None or parent is None):
            raise TypeError(f"a {kind} without run or parent")
    except (KeyError, TypeError) as exc:
        raise MalformedRecordError(where, "step, kind, run, parent and track", short(exc)) from exc
    if kind not in KINDS:
        raise MalformedRecordError(where, "kind base, delta or merged", short(kind))
    if not 0 <= step <= MAX_STEP:
        raise MalformedRecordError(where, f"a step from 0 to {MAX_STEP}", short(step))
    if metadata["format"] != format_of(arrays):
        found = f"format {metadata['format']}"
        expected = f"format {format_of(arrays)}, by what its values hold"
        raise MalformedRecordError(where, expected, found)
    return Record(
        where,
        step,
        kind,
        digest,
        run or digest[:RUN],
        parent,
        track,
        len(data),
        metadata,
        arrays,
        header,
        replaces,
    )


def base_of(record: Record) -> Track:
    """The track of a base record, checked; its arrays are fresh and writable.

    Raises MalformedRecordError, TrackDigestError.
    """
    where = record.where
    try:
        tensors = tuple(
            TensorSpec(
                typed(name, str),
                typed(dtype, str),
                tuple(typed(d, int) for d in shape),
                typed(lossy, bool),
                typed(library, str),
                typed(family, str),
            )
            for name, dtype, shape, lossy, library, family in record.metadata["layout"]
        )
        layout = Layout(tensors, _told(record.arrays.get("structure")))
    except (KeyError, TypeError, ValueError, PayloadError) as exc:
        expected = "a layout [name, dtype, shape, lossy, library, family]…, and a structure"
        raise MalformedRecordError(where, expected, short(exc)) from exc
    names = {PREFIX + t.name for t in tensors}
    more = {"structure", "values", SENT} & set(record.arrays)
    if len(names) != len(tensors) or names | more != set(record.arrays):
        raise MalformedRecordError(
            where,
            f"one array for each of {len(tensors)} tensors: {_some(names)}",
            _some(record.arrays),
        )
    for t in tensors:
        if not is_storable(t):
            found = f"{t.dtype!r} of {t.library!r}, lossy: {t.lossy}, family {t.family!r}"
            raise MalformedRecordError(where, "a tensor that a state can hold", found[:200])
        check_exact(record.arrays[PREFIX + t.name], t, where)
    state = {t.name: record.arrays[PREFIX + t.name].copy() for t in tensors}
    try:
        told = read_values(record.arrays.get("values"))
        if list(told) != list(range(len(told))) or any(map(edits.is_edit, told.values())):
            raise PayloadError("values are not numbered 0, 1, 2…, or an edit is among them")
        values = tuple(told.values())
        tree.check(layout.structure, len(tensors), values)
    except (PayloadError, tree.StructureError) as exc:
        raise MalformedRecordError(where, "a structure and its values", short(exc)) from exc
    track = Track.of(layout, state, values, sent_by(record))
    check_track(where, record.track, track)
    return track


def sent_arrays(tables: Mapping[str, CodeTable]) -> tuple[Arrays, dict[str, Any]]:
    """Array and metadata that tell which code tables were sent last; nothing where none were."""
    if not tables:
        return {}, {}
    packed = {name: table.packed for name, table in tables.items()}
    told = [[name, t.n_symbols, t.classes, packed[name].size] for name, t in tables.items()]
    return {SENT: np.concatenate(list(packed.values()))}, {SENT: told}


def sent_by(record: Record) -> dict[str, CodeTable]:
    """Alphabet -> code table sent last, of a base or merged record.

    Raises MalformedRecordError.
    """
    told, array = record.metadata.get(SENT, []), record.arrays.get(SENT)
    found: dict[str, CodeTable] = {}
    lengths = 0
    try:
        array = np.empty(0, np.uint8) if array is None else taken(array, np.uint8, SENT)
        cut = Cut(array, f"bytes of {SENT!r}")
        for name, n_symbols, classes, nbytes in typed(told, list):
            if typed(name, str) in found or not 1 <= typed(n_symbols, int) < MAX_LEVELS:
                raise PayloadError(f"{short(n_symbols)} symbols, or {short(name)} twice")
            lengths += 1 + n_symbols * max(typed(classes, int), 0)
            if lengths > MAX_LENGTHS:
                raise PayloadError(f"more than {MAX_LENGTHS} code lengths")
            packed = cut.take(max(typed(nbytes, int), 0))
            found[name] = CodeTable.unpacked(packed, n_symbols, classes)
        cut.finish()
    except (TypeError, ValueError, PayloadError) as exc:
        raise MalformedRecordError(
            record.where, "tables [alphabet, symbols, classes, bytes]…", short(exc)
        ) from exc
    return found


def read_values(array: NDArray[Any] | None) -> dict[int, str]:
    """Number -> change of the values in a record, JSON or an edit (see edits); raises PayloadError
    for what is none.

    array: uint8, lines of number, blank and change, by rising number.
    """
    found: dict[int, str] = {}
    last = -1
    for line in _LINE.finditer(_told(array)):  # one at a time: 64 MiB of them take much more
        number, _, text = line[0].rstrip("\n").partition(" ")
        if not _NUMBER.fullmatch(number) or int(number) <= last:
            raise PayloadError(f"value {short(number)} after {last}")
        try:
            if edits.is_edit(text):
                edits.check_edit(text)
            else:
                tree.check_value(text)
        except (PayloadError, tree.StructureError) as exc:
            raise PayloadError(f"value {number}: {exc}") from exc
        last = int(number)
        found[last] = text
    return found


def delta_of(record: Record, track: Track) -> Delta:
    """The delta of a delta record. track: the one it begins at.

    Raises MalformedRecordError if arrays and layout do not fit. Whether the streams decode
    shows when the delta is applied.
    """
    where, arrays, layout = record.where, record.arrays, track.layout
    try:
        coding = Coding.from_header(record.metadata)
        non_finite = names_in(record.metadata)
    except (KeyError, TypeError, InputError) as exc:
        raise MalformedRecordError(where, "settings within their range", short(exc)) from exc
    whole = frozenset(non_finite)
    stored = [t for t in layout.tensors if not t.lossy or t.name in whole]
    always = {PREFIX + name for name in whole}
    expected = always | {PREFIX + t.name for t in stored} | {ARRAY, "values"}
    lossy = {t.name for t in layout.tensors if t.lossy}
    if not lossy.issuperset(whole) or len(whole) != len(non_finite):
        raise MalformedRecordError(where, "lossy tensors in non_finite", _some(non_finite))
    if not always <= set(arrays) <= expected:
        raise MalformedRecordError(where, f"arrays {_some(expected)}", _some(arrays))
    stored = [t for t in stored if PREFIX + t.name in arrays]
    for t in stored:
        check_exact(arrays[PREFIX + t.name], t, where)
    with _decoding(where):
        coded = Coded(arrays.get(ARRAY), coding)
        groups = tuple(coded.groups(layout, non_finite, track.tables))
        coded.finish()
        values = read_values(arrays.get("values"))
    exact = {t.name: arrays[PREFIX + t.name] for t in stored}
    return Delta(groups, exact, non_finite, coding, None, values)


def check_track(
    where: str, digest: str, track: Track, meant: Mapping[str, int] | None = None
) -> None:
    """Raise TrackDigestError unless this is the digest of the track.

    where: the record, for messages. meant: what its sums should be, if known: the error then
    names the tensor that is off.
    """
    found = track.digest
    if found != digest:
        off = differing(track.sums, meant or {})
        found += f" with another {names_of(off, 1)}" if off else ""
        raise TrackDigestError(where, f"a track of digest {digest}", found)


def apply_checked(record: Record, delta: Delta, track: Track, digest: str | None = None) -> None:
    """Move a track on by a delta of a record, and check its digest.

    What edits have led to is not looked into, see `check_values`.

    Args:
        record: Where the delta was read.
        delta: Its content.
        track: It is of no more use if this raises.
        digest: That of the track after it, if it is not the record's.

    Raises:
        MalformedRecordError: A stream does not decode, or an edit does not fit.
        TrackDigestError: It leads to another track.
    """
    with _decoding(record.where):
        track.apply(delta)
    check_track(record.where, record.track if digest is None else digest, track)


def preview_checked(record: Record, delta: Delta, track: Track, meant: Mapping[str, int]) -> None:
    """What `apply_checked` checks, without moving the track. meant: see `check_track`."""
    with _decoding(record.where):
        after = track.preview(delta)
    check_track(record.where, record.track, after, meant)


@contextmanager
def _decoding(where: str) -> Iterator[None]:
    try:
        yield
    except PayloadError as exc:
        raise MalformedRecordError(where, "streams that decode", short(exc)) from exc


def check_values(where: str, values: Iterable[str]) -> None:
    """Raise MalformedRecordError unless these are values. What edits lead to is checked where a
    state is wanted: after each of them would take far longer than the edits."""
    try:
        for text in values:
            tree.check_value(text)
    except tree.StructureError as exc:
        raise MalformedRecordError(where, "values after their edits", short(exc)) from exc


def check_whole(where: str, track: Track) -> None:
    """Compute the digests of a track anew, and read its values.

    Raises TrackDigestError, MalformedRecordError. where: the record, for messages.
    """
    check_values(where, track.values)
    track.check_whole(where)


def _dump_delta(
    place: Place, track_digest: str, delta: Delta, arrays: dict[str, NDArray[Any]]
) -> bytes:
    metadata = {
        "format": format_of(arrays),
        "kind": "delta",
        **place.metadata(),
        "track": track_digest,
        **delta.coding.header(),
        **named(delta.non_finite),
    }
    return seal(metadata, arrays | {PREFIX + name: a for name, a in delta.exact.items()})


def format_of(arrays: Arrays) -> int:
    """The oldest format that a record with these arrays can have."""
    for name, array in arrays.items():
        if name == "values" or name.startswith("values/"):
            text = array.tobytes()
            if any(number in text for number in (b'{"s":', b'{"a":', b'{"t":')) or (
                b" =" in text and _EDIT.search(text)
            ):
                return NEWEST
    return FORMAT


def check_exact(array: NDArray[Any], spec: TensorSpec, where: str) -> None:
    """Raise MalformedRecordError unless an array can be this tensor's."""
    if array.shape != spec.track_shape or array.dtype != spec.track_dtype:
        raise MalformedRecordError(
            where,
            f"tensor {spec.name!r} as {spec.track_dtype} {spec.track_shape}",
            f"{array.dtype} {array.shape}",
        )


def named(non_finite: Sequence[str]) -> dict[str, Any]:
    """Metadata that tells these names; nothing where there are none."""
    return {"non_finite": list(non_finite)} if non_finite else {}


def names_in(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The names that are told; raises TypeError for what is no list of them."""
    return tuple(typed(name, str) for name in typed(metadata.get("non_finite", []), list))


def as_track(value: Any) -> str:
    """A digest of a track from a file; raises TypeError for what is none."""
    return _hex(value, _HEX_XXH3)


def _hex(value: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise TypeError(f"{short(value)} is no digest")
    return value


def _text(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _told(array: NDArray[Any] | None) -> str:
    """The text in an array of a record, "" without one; raises PayloadError for what is none."""
    if array is None:
        return ""
    data = taken(array, np.uint8, "texts").tobytes()
    if len(data) > MAX_TEXT or not data.isascii():
        raise PayloadError(f"a text of {len(data)} bytes, not of at most {MAX_TEXT} of ASCII")
    return data.decode()


def values_array(values: Mapping[int, str], name: str = "values") -> Arrays:
    """name -> uint8, as `read_values` reads it; nothing where there are no values."""
    lines = "".join(f"{number} {text}\n" for number, text in values.items())
    return {name: _text(lines)} if lines else {}


def _some(names: Iterable[str]) -> str:
    """The first few names, sorted, for a message."""
    names = sorted(names)
    shown = [repr(name) if len(name) <= 80 else repr(name[:80]) + "…" for name in names[:6]]
    return ", ".join(shown) + (" …" if len(names) > 6 else "") or "none"
