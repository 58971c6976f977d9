"""A jump: one record from the state at a step to the state many steps later.

    00000100-00000164.jump.safetensors      from step 100, which it does not hold, to step 164

It holds, bit for bit, the change of every array that differs between the two steps. Lossy tensors
are coded like exact ones, as residuals. A value that many deltas change is in it once. In the
file it is a merged record of one step whose layout is `Layout.exact`. A jump holds no step that
other records lack: chains restore without it, only from more bytes.

Not done here: when a jump is written (saving.jumps), which way leads over it (chain.route).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from codec.errors import MalformedRecordError, TrackDigestError
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta
from codec.scheme.remainder import Rest
from codec.scheme.tables import CodeTable
from codec.scheme.track import Track, after_changes, digest_sums
from codec.scheme.tracker import Tracker
from codec.state import edits
from codec.state.tensors import same_bits

from .exact import ExactPart
from .merged import Layer, Merged, MergedStep, dump, merged_of
from .record import Place, Record, check_track, decoding, load


def dump_jump(
    place: Place, before: Track, after: Track, coding: Coding, rest: Rest | None = None
) -> bytes:
    """The bytes of a jump.

    Args:
        place: Its last step; the identities of the records at both steps, as ``parent`` and
            ``replaces``; and the step that it jumps from.
        before: The track at the step that it jumps from.
        after: The track at its last step, of the same layout.
        coding: Of the deltas between.
        rest: Of the last step, see `Header`.
    """
    layout = after.layout.exact
    delta = Tracker.resume(_as_exact(before), coding).prepare_arrays(after.arrays)
    delta = replace(delta, values=edits.changes(before.values, after.values))
    step = MergedStep(place.step, after.digest, ExactPart.of(delta))
    return dump(place, Merged((Layer((), (step,), ()),), coding, after.tables, rest), layout)


def check_jump(data: bytes, where: str, before: Track, after: Track) -> None:
    """Read a jump from its bytes, and compare where it leads. Neither track changes.

    Raises:
        RecordError: The record cannot be read, or does not lead to the track after it.
    """
    record = load(data, where)
    delta, content = _content_of(record, before)
    with decoding(where):
        decoded = delta.exact_after(before.arrays)
        for name, expected in after.arrays.items():
            array = decoded[name] if name in decoded else before.arrays[name]
            if not same_bits(array, expected):
                raise TrackDigestError(where, "the tensors that were encoded", f"another {name!r}")
        if after_changes(before.values, delta.values) != after.values:
            raise TrackDigestError(where, "the values that were encoded", "others")
    if not has_tables(content.tables, after.tables):
        raise TrackDigestError(where, "the code tables that were encoded", "others")


def has_tables(tables: Mapping[str, CodeTable], needed: Mapping[str, CodeTable]) -> bool:
    """Whether there are all code tables that are needed, and the same."""

    def content(table: CodeTable) -> tuple[int, int, bytes]:
        return table.n_symbols, table.classes, table.packed.tobytes()

    return all(name in tables and content(tables[name]) == content(t) for name, t in needed.items())


def apply_jump(record: Record, track: Track) -> None:
    """Advance a track by a jump, and check its digest. track: useless if this raises.

    Raises:
        MalformedRecordError: A stream does not decode, or an edit does not fit.
        TrackDigestError: The jump leads to another track.
    """
    delta, merged = _content_of(record, track)
    moving = _as_exact(track)
    with decoding(record.where):
        moving.apply(delta)
    track.values, track.tables = moving.values, dict(merged.tables)
    track.sums = digest_sums(track.layout, track.arrays)
    check_track(record.where, record.track, track)


def _as_exact(track: Track) -> Track:
    """A track with the same arrays, all of them exact."""
    return Track(track.layout.exact, track.arrays, {}, track.values, selection=track.selection)


def _content_of(record: Record, track: Track) -> tuple[Delta, Merged]:
    """The change of the exact tensors, and the whole content. Raises MalformedRecordError."""
    content = merged_of(record, track.layout.exact, track.selection)
    if record.jumps_from is None or len(content.steps) != 1:
        actual = f"{len(content.steps)} steps from {record.jumps_from}"
        raise MalformedRecordError(record.where, "a jump of one step", actual)
    ((_, delta),) = content.single_steps()
    return delta, content
