"""Several deltas in one record, which still restores each of their steps bit by bit.

Float addition is not associative, so levels are never summed: a code stands for one level of each
delta, and restoring adds them one after the other, in one pass over memory. For most elements all
of them are 0. A *layer* is a row of neighbouring deltas that are coded together; a record holds one
or more. See FORMAT.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from codec import version
from codec.caps import short, typed
from codec.errors import MalformedRecordError, PayloadError
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta, Group
from codec.scheme.remainder import Rest
from codec.scheme.residual import Residual
from codec.scheme.tables import CodeTable
from codec.state import edits
from codec.state.selection import Selection
from codec.state.tensors import Arrays, Layout

from .alphabets import (
    ARRAY,
    Head,
    alphabet_bytes,
    coded,
    groups_of,
    heads_of,
    tables_in,
)
from .container import Content, seal
from .exact import ExactPart, arrays_by_index, arrays_of, read_exact_part
from .header import MAX_STEP, Header, digest_word, hex_of_digest
from .record import (
    TABLES,
    WRITTEN_BY,
    Place,
    Record,
    non_finite_entry,
    non_finite_names,
    table_arrays,
    tables_of,
)

MAX_STEPS = 4096  # of a record: a decoder keeps up to 511 levels for each step


@dataclass(frozen=True)
class MergedStep:
    """One step of a merged record, without its codes.

    Attributes:
        number: The step's number.
        track: Digest of the track after the step.
        part: What the step stores besides its codes.
    """

    number: int
    track: str
    part: ExactPart


@dataclass(frozen=True)
class Layer:
    """Neighbouring steps, coded together.

    Attributes:
        groups: Encodings whose levels have one column for each step.
        steps: The steps.
        non_finite: As in `Delta`; a step that has such tensors is a layer by itself.
    """

    groups: tuple[Group, ...]
    steps: tuple[MergedStep, ...]
    non_finite: tuple[str, ...]

    def delta(self, begin: int, end: int, coding: Coding) -> Delta:
        """The steps from index ``begin`` to ``end`` - 1 as one delta."""
        groups = tuple(
            replace(g, encoded=replace(g.encoded, levels=g.encoded.levels[:, begin:end]))
            for g in self.groups
        )
        exact: Arrays = {}
        residuals: dict[str, tuple[Residual, ...]] = {}
        changes: dict[int, list[str]] = {}
        for step in self.steps[begin:end]:
            exact |= step.part.exact
            for name in step.part.exact:
                residuals.pop(name, None)
            for name, residual in step.part.residuals.items():
                residuals[name] = (*residuals.get(name, ()), residual)
            for number, change in step.part.values.items():
                changes.setdefault(number, []).append(change)
        values = {number: edits.composed(texts) for number, texts in changes.items()}
        return Delta(groups, exact, self.non_finite, coding, None, values, residuals)


@dataclass(frozen=True)
class Merged:
    """The content of a merged record.

    tables: code tables that the next delta may reuse. rest: of the last step, as in `Delta`.
    """

    layers: tuple[Layer, ...]
    coding: Coding
    tables: Mapping[str, CodeTable]
    rest: Rest | None = None

    @property
    def steps(self) -> tuple[MergedStep, ...]:
        """The steps of all layers."""
        return tuple(step for layer in self.layers for step in layer.steps)

    def parts(self, number: int | None = None) -> list[tuple[MergedStep, Delta]]:
        """The fewest deltas that lead to a step, each with its last step.

        number: of the step to lead to; None for the last.
        """
        parts = []
        for layer in self.layers:  # steps rise
            n = sum(number is None or step.number <= number for step in layer.steps)
            if n:
                parts.append((layer.steps[n - 1], layer.delta(0, n, self.coding)))
        return parts

    def single_steps(self) -> list[tuple[MergedStep, Delta]]:
        """One delta for each step."""
        return [
            (step, layer.delta(i, i + 1, self.coding))
            for layer in self.layers
            for i, step in enumerate(layer.steps)
        ]


def dump(place: Place, merged: Merged, layout: Layout | None = None) -> bytes:
    """The bytes of a merged record.

    place.step: the number of the last step. layout: see `record.dump_delta`.
    """
    tables, tables_entry = table_arrays(merged.tables)
    groups = [group for layer in merged.layers for group in layer.groups]
    arrays: dict[str, Content] = {**coded(groups), **tables}
    for i, step in enumerate(merged.steps):
        arrays |= step.part.arrays(layout, i)
    track = merged.steps[-1].track
    header = Header("merged", place.step, None, place.parent, track, merged.coding, merged.rest)
    entries = [
        {
            "steps": [[step.number, digest_word(step.track)] for step in layer.steps],
            **non_finite_entry(layer.non_finite),
        }
        for layer in merged.layers
    ]
    more = {WRITTEN_BY: version.WRITER, **place.more(), "layers": entries, **tables_entry}
    return seal(header, more, arrays)


def steps_of(record: Record) -> tuple[int, ...]:
    """The numbers of the steps of a record, rising. Raises MalformedRecordError."""
    return tuple(tracks_of(record))


def tracks_of(record: Record) -> dict[int, str]:
    """Number of each step of any record -> digest of the track after it.

    Raises MalformedRecordError.
    """
    if record.kind != "merged":
        return {record.step: record.track}
    return {number: track for entry in _layer_entries(record) for number, track in entry.steps}


def merged_of(record: Record, layout: Layout, selection: Selection | None = None) -> Merged:
    """The content of a merged record.

    Args:
        record: The merged record.
        layout: That of the record before it.
        selection: The tensors to read; None for all.

    Raises:
        MalformedRecordError: Arrays and layout do not fit. Whether the streams decode shows only
            when a step is applied.
    """
    assert record.coding is not None, "of a merged record"
    entries = _layer_entries(record)
    selected = selection.names(layout) if selection else None
    try:
        steps = _read_steps(record, layout, entries, selected)
        layers = _read_layers(record, record.coding, layout, entries, steps, selected)
    except PayloadError as exc:
        raise MalformedRecordError(record.where, "layers that decode", short(exc)) from exc
    return Merged(layers, record.coding, tables_of(record), record.rest)


class _LayerEntry(NamedTuple):
    """An entry of the field "layers".

    steps: number of each step, and digest of the track after it. non_finite: as in `Delta`.
    """

    steps: list[tuple[int, str]]
    non_finite: tuple[str, ...]


def _layer_entries(record: Record) -> list[_LayerEntry]:
    """The checked entries of the field "layers". Raises MalformedRecordError."""
    entries: list[_LayerEntry] = []
    last, total = -1, 0
    try:
        for layer in typed(record.more["layers"], list):
            steps = [
                (typed(number, int), hex_of_digest(track))
                for number, track in typed(layer["steps"], list)
            ]
            names = non_finite_names(layer)
            total += len(steps)
            if not steps or total > MAX_STEPS or (names and len(steps) > 1):
                raise ValueError(f"a layer of {len(steps)} steps")
            for number, _ in steps:
                if not last < number <= MAX_STEP:
                    raise ValueError(f"step {short(number)} after {last}")
                last = number
            entries.append(_LayerEntry(steps, names))
        if last != record.step or entries[-1].steps[-1][1] != record.track:
            raise ValueError(f"layers that end at step {last}")
    except (KeyError, TypeError, ValueError) as exc:
        expected = "layers of rising steps and their tracks"
        raise MalformedRecordError(record.where, expected, short(exc)) from exc
    return entries


def _read_steps(
    record: Record,
    layout: Layout,
    entries: Sequence[_LayerEntry],
    selected: Collection[str] | None,
) -> list[MergedStep]:
    """The steps of all layers. Raises PayloadError, MalformedRecordError."""
    steps = [(*step, entry.non_finite) for entry in entries for step in entry.steps]
    names = [name for name in record.arrays if name not in (ARRAY, TABLES)]
    stored = arrays_of(record.arrays, names, selected, merged=True)
    return [
        MergedStep(
            number, track, read_exact_part(arrays, layout, non_finite, record.where, selected)
        )
        for (number, track, non_finite), arrays in zip(steps, arrays_by_index(stored, len(steps)))
    ]


def _selected(names: Sequence[str], selected: Collection[str] | None) -> tuple[str, ...]:
    return tuple(name for name in names if selected is None or name in selected)


def _read_layers(
    record: Record,
    coding: Coding,
    layout: Layout,
    entries: Sequence[_LayerEntry],
    steps: Iterable[MergedStep],
    selected: Collection[str] | None,
) -> tuple[Layer, ...]:
    """The layers of these entries and steps. Raises PayloadError."""
    data = alphabet_bytes(record.arrays)
    heads: list[tuple[Head, ...]] = []  # of each layer
    tables: dict[str, CodeTable] = {}
    for entry in entries:
        columns = len(entry.steps)
        heads.append(heads_of(data, coding, layout, entry.non_finite, tables, columns))
        tables |= tables_in(heads[-1])
    remaining = iter(steps)
    layers = tuple(
        Layer(
            groups_of(layer_heads, data, selected),
            tuple(islice(remaining, len(entry.steps))),
            _selected(entry.non_finite, selected),
        )
        for layer_heads, entry in zip(heads, entries)
    )
    data.finish()
    return layers
