"""One record of a chain as bytes: a safetensors file with digests. See FORMAT.md.

Reading follows the order of the format's description: length, header, digest, metadata,
arrays, streams. Whatever comes from a file is checked before it is used, and every cap below
stands with its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from blake3 import blake3
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize, serialize
from safetensors import TensorSpec as FileTensor

from .coding import MAX_LEVELS, Encoded, check
from .errors import (
    DigestError,
    ForeignRecordError,
    InputError,
    MalformedRecordError,
    PayloadError,
    TrackDigestError,
    TruncatedRecordError,
    VersionError,
)
from .kernels import MAX_STREAM, UNIT
from .state import CARRIER, Arrays, Layout, TensorSpec, is_storable
from .tables import CodeTable
from .track import (
    Group,
    Step,
    alphabet_name,
    alphabets,
    apply_with_digests,
    check_settings,
    digest_sums,
    look,
)

FORMAT = 1
KEY = "lcc"  # the one metadata entry: safetensors writes several in random order
PREFIX = "t/"  # before every tensor's name, so that no name can collide with ours
MAX_HEADER = 16 * 2**20  # bytes; a JSON parser needs about 20 times as much memory
MAX_TENSORS = 100_000  # a header of this many entries still parses within a second
MAX_STEP = 2**63 - 1  # so that every reader's integers hold it
_HEX_BLAKE3, _HEX_XXH3 = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{32}")
_DIGEST = re.compile(rb'\\"digest\\":\\"([0-9a-f]{64})\\"')


@dataclass(frozen=True)
class Record:
    """A record whose bytes are intact.

    where: name for messages. digest: BLAKE3, hex, of the file. parent: digest of the
    record before it, None for a base. track: xxh3-128, hex, of the rebuilt track.
    """

    where: str
    step: int
    kind: str  # "base" or "delta"
    digest: str
    parent: str | None
    track: str
    nbytes: int
    metadata: dict[str, Any]
    arrays: Arrays


def dump_base(step: int, layout: Layout, state: Arrays, sums: Mapping[str, int]) -> bytes:
    """A base record: the track itself, exactly.

    state: name -> array of its track dtype. sums: digests of the lossy tensors.
    """
    metadata = {
        "format": FORMAT,
        "kind": "base",
        "step": step,
        "track": track_digest(layout, state, sums),
        "framework": layout.framework,
        "layout": [[t.name, t.dtype, list(t.shape), t.lossy] for t in layout.tensors],
    }
    return _dump(metadata, {PREFIX + t.name: state[t.name] for t in layout.tensors})


def dump_delta(step: int, parent: str, track: str, delta: Step) -> bytes:
    """A delta record. parent: digest of the record before; track: digest after this step."""
    coded = [group.encoded for group in delta.groups]
    sizes = [
        (e.levels.size, e.table.classes if e.table else 0, e.table_nbytes, e.stream_elements)
        for e in coded
    ]
    new = [e.table.packed for e in coded if e.table and not e.cached]
    arrays = {
        "sizes": np.array(sizes, np.uint64).reshape(-1, 4),
        "tables": _joined(new, np.uint8),
        "levels": _joined([e.levels[1:] for e in coded], np.float32),
        "streams": _joined([e.streams for e in coded], np.uint32),
        "payload": _joined([e.payload for e in coded], np.uint32),
    }
    return _dump_delta(step, parent, track, delta, arrays)


def overhead(layout: Layout, state: Arrays, scope: str, coder: str, budget: float) -> int:
    """Bytes of a delta record that fits the budget, but for payload, tables, levels and exact
    tensors: at most so many, and hardly fewer.

    Found by writing one whose numbers in the header are as long as they may get.
    """
    n_alphabets = len(list(alphabets(layout, scope)))
    n_streams = n_alphabets + layout.nbytes // 4 // UNIT
    arrays: dict[str, NDArray[Any]] = {
        "sizes": np.zeros((n_alphabets, 4), np.uint64),
        "tables": np.zeros(min(n_alphabets, 9) * 100, np.uint8),
        "levels": np.zeros(min(n_alphabets, 9) * 100, np.float32),
        "streams": np.zeros(n_streams, np.uint32),
        "payload": np.zeros(int(budget * layout.nbytes) // 4, np.uint32),
    }
    exact = {t.name: state[t.name] for t in layout.tensors if not t.lossy}
    step = Step((), exact, (), None, scope, coder, budget)
    data = _dump_delta(MAX_STEP, "0" * 64, "0" * 32, step, arrays)
    counted = [*exact.values(), *(arrays[name] for name in arrays if name != "sizes")]
    return len(data) - sum(array.nbytes for array in counted)


def load(data: bytes, where: str) -> Record:
    """Open a record and check that its bytes are the ones that were written.

    Raises TruncatedRecordError, ForeignRecordError, DigestError, VersionError or
    MalformedRecordError, each naming ``where``, what was expected and what was found.
    """
    header, start = _read_header(data, where)
    digest = _checked_digest(data, start, where)
    metadata = _read_metadata(header, where)
    if metadata.get("digest") != digest:
        raise MalformedRecordError(where, "the digest in the metadata", "it elsewhere")
    try:
        step, kind = _typed(metadata["step"], int), _typed(metadata["kind"], str)
        track = _hex(metadata["track"], _HEX_XXH3)
        parent = _hex(metadata["parent"], _HEX_BLAKE3) if kind == "delta" else None
    except (KeyError, TypeError) as exc:
        raise MalformedRecordError(where, "step, kind, track and parent", _short(exc)) from exc
    if kind not in ("base", "delta"):
        raise MalformedRecordError(where, "kind base or delta", _short(kind))
    if not 0 <= step <= MAX_STEP:
        raise MalformedRecordError(where, f"a step from 0 to {MAX_STEP}", _short(step))
    arrays = _read_arrays(data, header, where)
    return Record(where, step, kind, digest, parent, track, len(data), metadata, arrays)


def base_of(record: Record) -> tuple[Layout, Arrays, dict[str, int]]:
    """Layout, state and digests of its lossy tensors of a base record, all checked.

    The arrays are fresh and writable. Raises MalformedRecordError, TrackDigestError.
    """
    where = record.where
    try:
        tensors = tuple(
            TensorSpec(
                _typed(name, str),
                _typed(dtype, str),
                tuple(_typed(d, int) for d in shape),
                _typed(lossy, bool),
            )
            for name, dtype, shape, lossy in record.metadata["layout"]
        )
        layout = Layout(tensors, _typed(record.metadata["framework"], str))
    except (KeyError, TypeError, ValueError) as exc:
        expected = "a framework and a layout [name, dtype, shape, lossy]…"
        raise MalformedRecordError(where, expected, _short(exc)) from exc
    if layout.framework not in ("numpy", "torch"):
        raise MalformedRecordError(where, "framework numpy or torch", _short(layout.framework))
    names = {PREFIX + t.name for t in tensors}
    if len(names) != len(tensors) or names != set(record.arrays):
        raise MalformedRecordError(
            where, f"one array for each of {len(tensors)} tensors: {_some(names)}",
            _some(record.arrays),
        )  # fmt: skip
    for t in tensors:
        if not is_storable(t, layout.framework):
            found = f"{t.dtype!r}, lossy: {t.lossy}"
            raise MalformedRecordError(where, f"a dtype of {layout.framework}", found[:200])
        _check_exact(record.arrays[PREFIX + t.name], t, where)
    state = {t.name: record.arrays[PREFIX + t.name].copy() for t in tensors}
    sums = digest_sums(layout, state)
    check_track(record, layout, state, sums)
    return layout, state, sums


def delta_of(record: Record, layout: Layout, tables: Mapping[str, CodeTable]) -> Step:
    """The step of a delta record. layout: that of the chain's base. tables: last sent ones.

    Raises MalformedRecordError if arrays and layout do not fit. Whether the streams decode
    shows when the step is applied.
    """
    where, meta, arrays = record.where, record.metadata, record.arrays
    try:
        bits, scope, coder = meta["bits"], meta["scope"], meta["coder"]
        budget = meta["budget"]
        non_finite = tuple(_typed(name, str) for name in _typed(meta["non_finite"], list))
        check_settings(bits, scope, coder, budget)
    except KeyError as exc:
        raise MalformedRecordError(
            where, "bits, budget, scope, coder, non_finite", _short(exc)
        ) from exc
    except (TypeError, InputError) as exc:
        raise MalformedRecordError(where, "settings within their range", _short(exc)) from exc
    whole = frozenset(non_finite)
    stored = [t for t in layout.tensors if not t.lossy or t.name in whole]
    ours = {"sizes", "tables", "levels", "streams", "payload"}
    expected = ours | {PREFIX + t.name for t in stored}
    lossy = {t.name for t in layout.tensors if t.lossy}
    if not lossy.issuperset(whole) or len(whole) != len(non_finite):
        raise MalformedRecordError(where, "lossy tensors in non_finite", _some(non_finite))
    if expected != set(arrays):
        raise MalformedRecordError(where, f"arrays {_some(expected)}", _some(arrays))
    for t in stored:
        _check_exact(arrays[PREFIX + t.name], t, where)
    try:
        groups = tuple(_read_groups(arrays, layout, non_finite, bits, scope, coder, tables))
    except PayloadError as exc:
        raise MalformedRecordError(where, "streams that decode", _short(exc)) from exc
    exact = {t.name: arrays[PREFIX + t.name] for t in stored}
    return Step(groups, exact, non_finite, bits, scope, coder, budget)


def track_digest(layout: Layout, state: Arrays, sums: Mapping[str, int]) -> str:
    """xxh3-128, hex, over name, dtype, shape and content of every tensor in layout order.

    The content of a lossy tensor is its digest, that of another one its bytes.
    """
    h = xxhash.xxh3_128()
    for t in layout.tensors:
        h.update(json.dumps([t.name, t.dtype, t.shape]).encode())
        if t.lossy:
            h.update(sums[t.name].to_bytes(8, "little"))
        else:
            h.update(state[t.name].reshape(-1).view(np.uint8).data)
    return h.hexdigest()


def check_track(record: Record, layout: Layout, state: Arrays, sums: Mapping[str, int]) -> None:
    """Raise TrackDigestError unless ``state`` is the track this record was saved with."""
    found = track_digest(layout, state, sums)
    if found != record.track:
        raise TrackDigestError(record.where, f"a track of digest {record.track}", found)


def apply_checked(
    record: Record,
    layout: Layout,
    step: Step,
    state: Arrays,
    sums: Mapping[str, int],
    *,
    change: bool = True,
) -> dict[str, int]:
    """Apply a record's step, or only look what it would do, and check the digest after it.

    state, sums: the track before it and its digests. Returns the digests after it. Raises
    MalformedRecordError if a stream does not decode, TrackDigestError; if ``change``, the
    track is then of no more use.
    """
    try:
        after = (apply_with_digests if change else look)(step, state, sums)
    except PayloadError as exc:
        raise MalformedRecordError(record.where, "streams that decode", _short(exc)) from exc
    check_track(record, layout, state | step.exact, after)
    return after


def check_whole(where: str, layout: Layout, state: Arrays, sums: Mapping[str, int]) -> None:
    """Raise TrackDigestError unless all values together have the digests that were followed."""
    found = digest_sums(layout, state)
    for name, expected in sums.items():
        if found[name] != expected:
            raise TrackDigestError(
                where, f"{name!r} with digest {expected:016x}", f"{found[name]:016x}"
            )


def _dump_delta(
    step: int, parent: str, track: str, delta: Step, arrays: dict[str, NDArray[Any]]
) -> bytes:
    metadata = {
        "format": FORMAT,
        "kind": "delta",
        "step": step,
        "parent": parent,
        "track": track,
        "bits": delta.bits,
        "budget": delta.budget,
        "scope": delta.scope,
        "coder": delta.coder,
        "non_finite": list(delta.non_finite),
    }
    return _dump(metadata, arrays | {PREFIX + name: a for name, a in delta.exact.items()})


def _dump(metadata: dict[str, Any], arrays: Arrays) -> bytes:
    """Serialize, then put in the digest of the file taken with 64 zeros in its place."""
    text = json.dumps(metadata | {"digest": "0" * 64}, separators=(",", ":"))
    arrays = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}
    tensors = {
        name: FileTensor(
            dtype=a.dtype.name, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes
        )
        for name, a in arrays.items()
    }
    data = bytes(serialize(tensors, metadata={KEY: text}))
    found = _DIGEST.search(data)
    assert found is not None, "the digest's place is in the text above"
    digest = blake3(data).hexdigest().encode()
    return data[: found.start(1)] + digest + data[found.end(1) :]


def _read_header(data: bytes, where: str) -> tuple[dict[str, Any], int]:
    """The parsed header and the offset of the first array byte."""
    if len(data) < 8:
        raise TruncatedRecordError(where, "at least 8 bytes", f"{len(data)}")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER:
        raise ForeignRecordError(where, f"a header of at most {MAX_HEADER} bytes", f"{length}")
    start = 8 + length
    if len(data) < start:
        raise TruncatedRecordError(where, f"{start} bytes for the header", f"{len(data)}")
    try:
        header = json.loads(data[8:start], object_pairs_hook=_no_duplicates)
        if not isinstance(header, dict):
            raise ValueError("not an object")
    except (ValueError, RecursionError) as exc:
        raise ForeignRecordError(where, "a safetensors header in JSON", _short(exc)) from exc
    if len(header) > MAX_TENSORS:
        raise ForeignRecordError(where, f"at most {MAX_TENSORS} tensors", f"{len(header)}")
    try:
        views = [v for k, v in header.items() if k != "__metadata__"]
        end = start + max((_typed(v["data_offsets"][1], int) for v in views), default=0)
    except (KeyError, IndexError, TypeError) as exc:
        raise ForeignRecordError(where, "data_offsets for every tensor", _short(exc)) from exc
    if len(data) != end:
        raise TruncatedRecordError(where, f"{_short(end)} bytes", f"{len(data)}")
    return header, start


def _checked_digest(data: bytes, start: int, where: str) -> str:
    place = _DIGEST.search(data, 8, start)  # the first one: a tensor's name may look like it
    if place is None:
        raise ForeignRecordError(where, "an LC-Checkpoint digest in the header", "none")
    h = blake3(memoryview(data)[: place.start(1)])
    h.update(b"0" * 64)
    h.update(memoryview(data)[place.end(1) :])
    stored, found = place.group(1).decode(), h.hexdigest()
    if found != stored:
        raise DigestError(where, f"content of BLAKE3 {stored}", found)
    return stored


def _read_metadata(header: dict[str, Any], where: str) -> dict[str, Any]:
    try:
        metadata = json.loads(header["__metadata__"][KEY], object_pairs_hook=_no_duplicates)
        version = metadata["format"]
    except (KeyError, TypeError, ValueError, RecursionError) as exc:
        raise ForeignRecordError(where, f"metadata {KEY!r} with a format", _short(exc)) from exc
    if type(version) is not int or version != FORMAT:
        found = f"format {_short(version)}; update this package"
        raise VersionError(where, f"format {FORMAT}", found)
    assert isinstance(metadata, dict)
    return metadata


def _read_arrays(data: bytes, header: dict[str, Any], where: str) -> Arrays:
    try:
        tensors = deserialize(data)
    except SafetensorError as exc:
        raise MalformedRecordError(where, "a valid safetensors file", _short(exc)) from exc
    arrays: Arrays = {}
    for name, view in tensors:
        if view["dtype"] not in CARRIER:
            raise MalformedRecordError(where, "a known dtype", repr(view["dtype"]))
        flat: NDArray[Any] = np.frombuffer(view["data"], CARRIER[view["dtype"]])
        try:
            arrays[name] = flat.reshape(view["shape"])
        except (ValueError, OverflowError) as exc:  # 65 dimensions; 0 x 2**63 elements
            raise MalformedRecordError(where, "a shape that numpy can hold", _short(exc)) from exc
    return arrays


def _read_groups(
    arrays: Arrays,
    layout: Layout,
    non_finite: tuple[str, ...],
    bits: int | None,
    scope: str,
    coder: str,
    tables: Mapping[str, CodeTable],
) -> Iterable[Group]:
    """Cut the joined streams into one group an alphabet; everything must be used up."""
    shares = list(alphabets(layout, scope, non_finite))
    sizes = _taken(arrays["sizes"], np.uint64, "sizes", 2)
    if sizes.shape != (len(shares), 4):
        raise PayloadError(f"sizes of shape {sizes.shape} for {len(shares)} alphabets")
    packed, levels, streams, payload = (
        _Cut(_taken(arrays[name], dtype, name))
        for name, dtype in (
            ("tables", np.uint8), ("levels", np.float32),
            ("streams", np.uint32), ("payload", np.uint32),
        )
    )  # fmt: skip
    most = MAX_LEVELS if bits is None else 2**bits
    for tensors, (k, classes, table_nbytes, elements) in zip(shares, sizes.tolist()):
        if not 1 <= k <= most:
            raise PayloadError(f"{k} levels, at most {most} are allowed")
        n = sum(t.size for t in tensors)
        table, cached = None, classes > 0 and table_nbytes == 0
        if cached:
            name = alphabet_name(scope, tensors)
            table = tables.get(name)
            if table is None or table.classes != classes:
                raise PayloadError(f"the code table sent last for {name!r}, but none was")
        elif classes:
            table = CodeTable.unpacked(packed.take(table_nbytes), k - 1, classes)
        elif table_nbytes:
            raise PayloadError("a code table for an alphabet that needs none")
        if not UNIT <= elements <= MAX_STREAM:
            raise PayloadError(f"streams of {elements} elements")
        own = streams.take(-(-n // elements) if table else 0)
        encoded = Encoded(
            payload=payload.take(int(((own.astype(np.int64) + 31) >> 5).sum())),
            streams=own,
            stream_elements=elements,
            table=table,
            cached=cached,
            saved_bits=0,
            levels=np.concatenate((np.zeros(1, np.float32), levels.take(k - 1))),
            shape=tensors[0].shape if len(tensors) == 1 else (n,),
            bits=bits,
            coder=coder,
        )
        check(encoded, n)
        yield Group(tensors, encoded, None)
    for cut in (packed, levels, streams, payload):
        cut.finish()


class _Cut:
    """Takes one piece after another off a joined array."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array, self._at = array, 0

    def take(self, n: int) -> NDArray[Any]:
        """The next n elements."""
        if n > self._array.size - self._at:
            raise PayloadError(f"{n} elements of a stream, only {self._array.size - self._at} left")
        self._at += n
        return self._array[self._at - n : self._at]

    def finish(self) -> None:
        """Nothing may be left."""
        if self._at != self._array.size:
            raise PayloadError("the lengths of the streams are not the sums of their sizes")


def _taken(array: NDArray[Any], dtype: Any, name: str, ndim: int = 1) -> NDArray[Any]:
    if array.dtype != dtype or array.ndim != ndim:
        raise PayloadError(f"{name} are {array.dtype} of {array.ndim} dimensions")
    return array


def _check_exact(array: NDArray[Any], spec: TensorSpec, where: str) -> None:
    if array.shape != spec.shape or array.dtype != spec.track_dtype:
        raise MalformedRecordError(
            where,
            f"tensor {spec.name!r} as {spec.track_dtype} {spec.shape}",
            f"{array.dtype} {array.shape}",
        )


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:  # not isinstance: True is an int to Python, but no step
        raise TypeError(f"{_short(value)} is no {kind.__name__}")
    return value


def _hex(value: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise TypeError(f"{_short(value)} is no digest")
    return value


def _short(value: object) -> str:
    """A value from a file, or an error about one, at a length fit for a message."""
    if isinstance(value, int) and abs(value) >= 2**64:  # Python may refuse to print it
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, KeyError):
        return f"no {value}"
    text = (str if isinstance(value, Exception) else repr)(value)
    return text if len(text) <= 200 else text[:200] + "…"


def _joined(parts: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _some(names: Iterable[str]) -> str:
    """The first few names, sorted, for a message."""
    names = sorted(names)
    shown = [repr(name) if len(name) <= 80 else repr(name[:80]) + "…" for name in names[:6]]
    return ", ".join(shown) + (" …" if len(names) > 6 else "") or "none"
