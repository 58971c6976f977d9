"""The track: the state that a restart would load, and what the next delta builds on.

    delta_t = u_t - track_{t-1}        track_t = track_{t-1} + dequantize(quantize(delta_t))

The difference is taken to the track, not to u_{t-1}: what one checkpoint leaves out stays in the
next delta (Chen et al., "On Efficient Constructions of Checkpoints", ICML 2020).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from codec.caps import names_of
from codec.errors import PayloadError, SettingsError, StateMismatchError, TrackDigestError
from codec.state import edits
from codec.state.moments import bounded
from codec.state.selection import Selection, number_of_tensor
from codec.state.tensors import COPIED, Arrays, Layout, TensorSpec, copy_arrays, from_arrays
from codec.state.tree import Parts, unflatten

from .delta import Delta
from .digest import digest
from .limits import CHANGE, LOOK
from .origin import Origin
from .stream import advance
from .survivors import Segments
from .tables import CodeTable
from .transition import Transition

HASHED = 2**16  # characters of a text that are encoded at once, so that the copy stays in the cache
MAX_TEXT = 2**26  # bytes of a structure or of values: it limits the memory that parsing takes


@dataclass
class Track:
    """The state that a restart would load.

    Attributes:
        layout: Names, dtypes and shapes of its tensors, and the structure around them.
        arrays: Name -> array of the tensor's track dtype, C-contiguous and writable.
        sums: Name -> digest of a lossy tensor (64 bits, see FORMAT.md). A delta changes it by a
            difference, so it costs no pass over the tensor.
        values: JSON texts of the values that are not tensors, see `codec.state.tree`.
        tables: Alphabet -> the code table sent last.
        origin: A sample of the base's lossy weights.
        selection: Which tensors ``arrays`` has; None for all. The origin is then empty.
    """

    layout: Layout
    arrays: Arrays
    sums: dict[str, int]
    values: tuple[str, ...] = ()
    tables: dict[str, CodeTable] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin)
    selection: Selection | None = None
    # Values, changes, and the values after them, of the last call: a save needs them three times.
    _ahead: tuple[Sequence[str], Mapping[int, str], tuple[str, ...]] = field(
        default=((), {}, ()), init=False, repr=False, compare=False
    )
    _segments: dict[str, Segments] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(
        cls,
        layout: Layout,
        arrays: Arrays,
        values: tuple[str, ...] = (),
        tables: Mapping[str, CodeTable] | None = None,
        selection: Selection | None = None,
    ) -> Track:
        """The track of a base. It takes the arrays over and computes their digests."""
        sums = digest_sums(layout, arrays)
        origin = Origin() if selection else Origin.of(layout, arrays)
        return cls(layout, arrays, sums, values, dict(tables or {}), origin, selection)

    def copy(self) -> Track:
        """A track with copies of the arrays."""
        arrays = copy_arrays(self.arrays)
        return replace(self, arrays=arrays, sums=dict(self.sums), tables=dict(self.tables))

    @property
    def digest(self) -> str:
        """xxh3-128, hex, over name, dtype, shape and content of every tensor in layout order, then
        the structure and every value.

        For a lossy tensor its digest stands for the content, for an exact tensor its bytes.
        """
        return _digest(self.layout, self.arrays, self.sums, self.values)

    def digest_after(self, delta: Delta) -> str:
        """The digest of the track after a delta that was just encoded, from its `sums`."""
        moved = self.moved(delta.transition)
        return moved._digest_with(delta, delta.sums or {}, moved._values_after(delta))

    def preview(self, delta: Delta) -> Preview:
        """The digests, values and tables after a delta; this track does not change.

        Raises:
            StateMismatchError: The delta is of other tensors.
            PayloadError: The delta is damaged.
        """
        moved = self.moved(delta.transition)
        sums, values, tables = moved._after(delta, LOOK)
        return Preview(moved._digest_with(delta, sums, values), sums, values, tables)

    def apply(self, delta: Delta) -> None:
        """Move on by a delta. Raises what `preview` raises; the arrays are then useless."""
        moved = self.moved(delta.transition)
        after = moved._after(delta, CHANGE)
        for name, array in delta.exact_after(moved.arrays).items():
            moved.arrays[name][...] = array
        self.layout, self.arrays, self.origin = moved.layout, moved.arrays, moved.origin
        self.sums, self.values, self.tables = after

    def moved(self, transition: Transition | None) -> Track:
        """The track in the layout after a transition; this track if there is no transition.

        Arrays that stay are shared. This track does not change.
        """
        if transition is None:
            return self
        names = self.selection.names(transition.layout) if self.selection else None
        if self.selection and names and (lacking := transition.lacking(self.arrays, names)):
            raise StateMismatchError(
                f"the state's structure has changed: {names_of(lacking)} is now a part of "
                f"{names_of(self.selection.patterns)}, but was not read before; restore the whole "
                "state"
            )
        arrays = transition.arrays_after(self.arrays, names)
        sums = transition.sums_after(self.sums, arrays)
        values = transition.values_after(self.values)
        origin = self.origin
        if self.selection is None:
            origin = origin.moved(self.layout, transition.layout, arrays)
        tables = dict(self.tables)
        return Track(transition.layout, arrays, sums, values, tables, origin, self.selection)

    def check_whole(self, where: str) -> None:
        """Compute every digest anew and compare it. where: the record, for messages.

        Raises:
            TrackDigestError: A tensor does not have the digest in `sums`.
        """
        sums = digest_sums(self.layout, self.arrays)
        for name, expected in self.sums.items():
            if sums[name] != expected:
                expected_text = f"{name!r} with digest {expected:016x}"
                raise TrackDigestError(where, expected_text, f"{sums[name]:016x}")

    def restore(self) -> dict[Any, Any]:
        """The state or the part of it as saved: nested, in its libraries and dtypes, in new arrays.

        Lossy second moments of Adam are raised to what the first moments imply, see `moments`.

        Raises:
            DTypeError: A tensor came from torch and torch is not installed.
            StructureError: After its edits, a text is not a valid value.
            SettingsError: A pattern of the selection matches nothing.
        """
        arrays = bounded(self.arrays, self.layout, self.values)
        if self.selection is not None:
            return self.selection.state_of(arrays, self.layout, self.values)
        tensors = from_arrays(arrays, self.layout)
        return unflatten(Parts(self.layout.structure, tensors, self.values))

    @property
    def is_part(self) -> bool:
        """Whether it has only some of the state's tensors, and so no digest."""
        return len(self.arrays) < len(self.layout.tensors)

    def tensor(self, name: str) -> Any:
        """A tensor as it was saved, in a new array. Raises SettingsError if there is none."""
        number = number_of_tensor(name, self.layout)
        if number is None:
            raise SettingsError(f"{name!r} is no tensor of the state, but has some in it")
        spec = self.layout.tensors[number]
        arrays = bounded(self.arrays, self.layout, self.values)
        return from_arrays({spec.name: arrays[spec.name]}, Layout((spec,)))[spec.name]

    def segments(self, tensors: Sequence[TensorSpec]) -> Segments:
        """The arrays of an alphabet's tensors as the kernels take them, to be changed in place.

        A tensor outside of the selection is decoded into memory that nobody reads. The others are
        kept for the next call, because looking up an array's address takes a microsecond.
        """
        if self.selection is None:
            arrays = [self.arrays[t.name] for t in tensors]
        else:
            own = self.arrays
            arrays = [
                own[t.name] if t.name in own else np.zeros(t.shape, np.float32) for t in tensors
            ]
        segments = self._segments.get(tensors[0].name)
        if segments is None or not _are_same(segments.arrays[0], arrays):
            segments = self._segments[tensors[0].name] = Segments(arrays)
        return segments

    def _after(self, delta: Delta, mode: int) -> _After:
        """Sums, values and tables after a delta. mode: CHANGE moves the lossy arrays, too."""
        values = self._values_after(delta)
        sums = dict(self.sums)
        for group in delta.groups:
            changes = advance(group.encoded, self.segments(group.tensors), mode)
            for t, change in zip(group.tensors, changes.tolist()):
                if t.name in sums:
                    sums[t.name] = (sums[t.name] + change) % 2**64
        sums |= {name: digest(delta.exact[name]) for name in delta.non_finite}
        return sums, values, {**self.tables, **delta.tables}

    def _values_after(self, delta: Delta) -> tuple[str, ...]:
        """The values after a delta. Raises PayloadError for an edit that does not fit."""
        before, changes, after = self._ahead
        if before is not self.values or changes != delta.values:
            after = after_changes(self.values, delta.values)
            self._ahead = self.values, dict(delta.values), after
        return after

    def _digest_with(self, delta: Delta, sums: Mapping[str, int], values: tuple[str, ...]) -> str:
        """The digest of the track after a delta with these sums and values."""
        after: Mapping[str, NDArray[Any]] = self.arrays | delta.exact
        if delta.residuals:
            after = ChainMap(delta.exact_after(self.arrays), self.arrays)  # type: ignore[arg-type]
        return _digest(self.layout, after, sums, values)


@dataclass(frozen=True)
class Preview:
    """The track after a delta; the attributes are those of `Track`."""

    digest: str
    sums: dict[str, int]
    values: tuple[str, ...]
    tables: dict[str, CodeTable]


_After = tuple[dict[str, int], tuple[str, ...], dict[str, CodeTable]]


def _digest(
    layout: Layout,
    arrays: Mapping[str, NDArray[Any]],
    sums: Mapping[str, int],
    values: Sequence[str],
) -> str:
    """See `Track.digest`. Each exact array is read once."""
    h = xxhash.xxh3_128()
    pending: list[bytes] = []
    for t, tensor_text in zip(layout.tensors, layout.digest_texts):
        pending.append(tensor_text)
        if t.lossy:
            pending.append(sums[t.name].to_bytes(8, "little"))
        elif t.track_nbytes <= COPIED:
            pending.append(arrays[t.name].tobytes())
        else:
            h.update(b"".join(pending))
            pending.clear()
            h.update(arrays[t.name].reshape(-1).view(np.uint8).data)
    h.update(b"".join(pending))
    for text in (layout.structure, *values):
        h.update(len(text).to_bytes(8, "little"))
        for begin in range(0, len(text), HASHED):
            h.update(text[begin : begin + HASHED].encode())
    return h.hexdigest()


def digest_sums(layout: Layout, arrays: Arrays) -> dict[str, int]:
    """The digest of every lossy tensor in ``arrays``, computed from all of its elements."""
    return {t.name: digest(arrays[t.name]) for t in layout.tensors if t.lossy and t.name in arrays}


def _are_same(first: Sequence[object], second: Sequence[object]) -> bool:
    """Whether two sequences hold the same objects in the same order."""
    return len(first) == len(second) and all(map(is_, first, second))


def after_changes(values: Sequence[str], changes: Mapping[int, str]) -> tuple[str, ...]:
    """The values after these changes. Raises PayloadError for an edit that does not fit."""
    if changes and max(changes) >= len(values):
        raise PayloadError(f"a change of value {max(changes)}, but there are {len(values)}")
    new_values = list(values)
    for number, change in changes.items():
        new_values[number] = edits.applied(new_values[number], change, MAX_TEXT)
    return tuple(new_values)
