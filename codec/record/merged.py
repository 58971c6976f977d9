"""Several deltas in one record, which still restores each of their steps bit by bit.

Float addition is not associative, so levels are never summed: a code stands for one level of each
delta, and restoring adds them one after the other, in one pass over memory. Most elements have
zeros only. A *layer* is a row of neighbouring deltas that are coded together; a record holds one or
more. See FORMAT.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from codec.caps import short, typed
from codec.errors import InputError, MalformedRecordError, PayloadError
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta, Group
from codec.scheme.remainder import Rest
from codec.scheme.residual import Residual
from codec.scheme.tables import CodeTable
from codec.state import edits
from codec.state.tensors import Arrays, Layout

from .alphabets import ARRAY, coded, groups_of, words_of
from .container import Content, seal
from .header import REST
from .record import (
    MAX_STEP,
    PREFIX,
    TABLES,
    Place,
    Record,
    by_steps,
    check_exact,
    check_need,
    non_finite_entry,
    non_finite_names,
    oldest_format,
    table_arrays,
    tables_of,
    track_digest,
)
from .residuals import RESIDUALS, read_residual, residual_parts
from .small import SMALL, joined, read_small, split_small
from .values import VALUES, read_values, values_array

MAX_STEPS = 4096  # of a record: a decoder keeps 1,024 levels for each of them
_NUMBER = "(0|[1-9][0-9]{0,3})"
_EXACT = re.compile(f"{re.escape(PREFIX)}{_NUMBER}/(.*)", re.DOTALL)
_RESIDUAL = re.compile(f"{re.escape(RESIDUALS)}{_NUMBER}/(.*)", re.DOTALL)
_VALUES = re.compile(f"{VALUES}/{_NUMBER}")
_SMALL = re.compile(f"{SMALL}/{_NUMBER}")


@dataclass(frozen=True)
class Moment:
    """One step of a merged record, without its codes.

    Attributes:
        step: Its number.
        track: Digest of the track after it.
        exact: Tensors that it stores as they are, as in `Delta`.
        values: Changes of what is no tensor, as in `Delta`.
        residuals: Name -> what leads to an exact tensor from its array before this step.
    """

    step: int
    track: str
    exact: Arrays
    values: Mapping[int, str]
    residuals: Mapping[str, Residual] = field(default_factory=dict)

    @classmethod
    def of(cls, step: int, track: str, delta: Delta) -> Moment:
        """The exact part of a delta of one step. track: the digest of the track after it."""
        residuals = {name: one for name, (one,) in delta.residuals.items()}
        return cls(step, track, delta.exact, delta.values, residuals)


@dataclass(frozen=True)
class Layer:
    """Neighbouring steps, coded together.

    Attributes:
        groups: Encodings whose levels have one column for each moment.
        moments: The steps.
        non_finite: As in `Delta`; a step that has such tensors is a layer of its own.
    """

    groups: tuple[Group, ...]
    moments: tuple[Moment, ...]
    non_finite: tuple[str, ...]

    def part(self, begin: int, end: int, coding: Coding) -> Delta:
        """Moments ``begin`` to ``end`` - 1 as one delta."""
        groups = tuple(
            replace(g, encoded=replace(g.encoded, levels=g.encoded.levels[:, begin:end]))
            for g in self.groups
        )
        exact: Arrays = {}
        residuals: dict[str, tuple[Residual, ...]] = {}
        changes: dict[int, list[str]] = {}
        for moment in self.moments[begin:end]:
            exact |= moment.exact
            residuals = {name: own for name, own in residuals.items() if name not in moment.exact}
            for name, residual in moment.residuals.items():
                residuals[name] = (*residuals.get(name, ()), residual)
            for number, change in moment.values.items():
                changes.setdefault(number, []).append(change)
        values = {number: edits.composed(own) for number, own in changes.items()}
        return Delta(groups, exact, self.non_finite, coding, None, values, residuals)


@dataclass(frozen=True)
class Merged:
    """The content of a merged record.

    tables: code tables that the next delta may use again. rest: what the last step leaves, see
    `Delta`.
    """

    layers: tuple[Layer, ...]
    coding: Coding
    tables: Mapping[str, CodeTable]
    rest: Rest | None = None

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The steps of all layers."""
        return tuple(m for layer in self.layers for m in layer.moments)

    def parts(self, step: int | None = None) -> list[tuple[Moment, Delta]]:
        """The fewest deltas that lead to ``step`` (None: the last), each with its last moment."""
        found = []
        for layer in self.layers:
            inside = [i for i, m in enumerate(layer.moments, 1) if step is None or m.step <= step]
            if inside:
                part = layer.part(0, inside[-1], self.coding)
                found.append((layer.moments[inside[-1] - 1], part))
        return found

    def every(self) -> list[tuple[Moment, Delta]]:
        """One delta for each moment."""
        return [
            (moment, layer.part(i, i + 1, self.coding))
            for layer in self.layers
            for i, moment in enumerate(layer.moments)
        ]


def dump(place: Place, merged: Merged, layout: Layout | None = None) -> bytes:
    """The bytes of a merged record.

    place.step: that of the last moment. layout: see `record.dump_delta`.
    """
    tables, tables_entry = table_arrays(merged.tables)
    groups = [group for layer in merged.layers for group in layer.groups]
    arrays: dict[str, Content] = {**coded(groups), **tables}
    for i, moment in enumerate(merged.moments):
        no_small: Arrays = {}
        exact, small = moment.exact, no_small
        if layout:
            exact, small = split_small(moment.exact, layout, f"{SMALL}/{i}")
        arrays |= {f"{PREFIX}{i}/{name}": array for name, array in exact.items()} | small
        arrays |= residual_parts(moment.residuals, f"{RESIDUALS}{i}/")
        arrays |= values_array(moment.values, f"{VALUES}/{i}")
    uniform = merged.coding.uniform or by_steps(merged.tables, groups)
    metadata = {
        "format": oldest_format(arrays, uniform),
        "kind": "merged",
        **place.metadata(),
        "track": merged.moments[-1].track,
        **merged.coding.header(),
        REST: merged.rest,
        "layers": [
            {
                "steps": [[moment.step, moment.track] for moment in layer.moments],
                **non_finite_entry(layer.non_finite),
            }
            for layer in merged.layers
        ],
        **tables_entry,
    }
    return seal(metadata, arrays)


def steps_of(record: Record) -> tuple[int, ...]:
    """The steps of a merged record, rising. Raises MalformedRecordError."""
    return tuple(tracks_of(record))


def tracks_of(record: Record) -> dict[int, str]:
    """Step -> digest of the track after it, for each step of any record. Raises
    MalformedRecordError."""
    if record.kind != "merged":
        return {record.step: record.track}
    return {step: track for steps, _ in _layers_of(record) for step, track in steps}


def merged_of(record: Record, layout: Layout) -> Merged:
    """The content of a merged record. layout: that of the record before it.

    Raises:
        MalformedRecordError: Arrays and layout do not fit. Whether the streams decode shows only
            when a step is applied.
    """
    where, arrays = record.where, record.arrays
    described = _layers_of(record)
    try:
        coding = Coding.from_header(record.metadata)
    except (KeyError, InputError) as exc:
        raise MalformedRecordError(where, "settings within their range", short(exc)) from exc
    lossy = {t.name for t in layout.tensors if t.lossy}
    whole = [names for steps, names in described for _ in steps]  # of each moment
    exact: list[Arrays] = [{} for _ in whole]
    residuals: list[dict[str, Residual]] = [{} for _ in whole]
    values: list[dict[int, str]] = [{} for _ in whole]
    small: dict[int, Arrays] = {}
    specs = {t.name: t for t in layout.tensors}
    try:
        for name, array in arrays.items():
            if name in (ARRAY, TABLES):
                continue
            if found := _EXACT.fullmatch(name):
                i, own = int(found[1]), found[2]
                if i >= len(whole) or own not in specs or (own in lossy and own not in whole[i]):
                    raise PayloadError(f"an array {short(name)}")
                check_exact(array, specs[own], where)
                exact[i][own] = array
            elif found := _RESIDUAL.fullmatch(name):
                i, own = int(found[1]), found[2]
                if i >= len(whole) or own not in specs or f"{PREFIX}{i}/{own}" in arrays:
                    raise PayloadError(f"an array {short(name)}")
                residuals[i][own] = read_residual(array, specs[own], short(name))
            elif (found := _VALUES.fullmatch(name)) and int(found[1]) < len(whole):
                values[int(found[1])] = read_values(array)
            elif (found := _SMALL.fullmatch(name)) and int(found[1]) < len(whole):
                small[int(found[1])] = read_small(array, layout, name)
            else:
                raise PayloadError(f"an array {short(name)}")
        for i, of_step in small.items():
            exact[i] = joined(exact[i], of_step)
            if twice := of_step.keys() & residuals[i].keys():
                raise PayloadError(f"{short(min(twice))} in {SMALL!r} and as a residual")
        for i, names in enumerate(whole):
            if not set(names) <= lossy & set(exact[i]) or len(set(names)) != len(names):
                raise PayloadError(f"no array of {short(names)}, which is not finite")
        words = words_of(arrays)
        form = record.metadata["format"]
        layers, first = [], 0
        tables: dict[str, CodeTable] = {}
        for steps, names in described:
            moments = tuple(
                Moment(step, track, exact[i], values[i], residuals[i])
                for i, (step, track) in enumerate(steps, first)
            )
            groups = tuple(groups_of(words, coding, layout, names, tables, len(steps), form=form))
            tables |= Delta(groups, {}, (), coding).tables
            layers.append(Layer(groups, moments, names))
            first += len(steps)
        words.finish()
    except PayloadError as exc:
        raise MalformedRecordError(where, "layers that decode", short(exc)) from exc
    sent = tables_of(record)
    every = [group for layer in layers for group in layer.groups]
    check_need(record, coding.uniform or by_steps(sent, every))
    return Merged(tuple(layers), coding, sent, record.metadata.get(REST))


def _layers_of(record: Record) -> list[tuple[list[tuple[int, str]], tuple[str, ...]]]:
    """Steps with their digests, and names in non_finite, of each layer: checked."""
    found = []
    last, total = -1, 0
    try:
        for layer in typed(record.metadata["layers"], list):
            steps = [
                (typed(step, int), track_digest(track))
                for step, track in typed(layer["steps"], list)
            ]
            names = non_finite_names(layer)
            total += len(steps)
            if not steps or total > MAX_STEPS or (names and len(steps) > 1):
                raise ValueError(f"a layer of {len(steps)} steps")
            for step, _ in steps:
                if not last < step <= MAX_STEP:
                    raise ValueError(f"step {short(step)} after {last}")
                last = step
            found.append((steps, names))
        if last != record.step or found[-1][0][-1][1] != record.track:
            raise ValueError(f"layers that end at step {last}")
    except (KeyError, TypeError, ValueError) as exc:
        expected = "layers of rising steps and their tracks"
        raise MalformedRecordError(record.where, expected, short(exc)) from exc
    return found
