"""The track: the arrays that a restart would load, and what the next delta builds on.

    delta_t = u_t - track_{t-1}        track_t = track_{t-1} + dequantize(quantize(delta_t))

The difference is taken to the track, not to u_{t-1}: what one checkpoint leaves out stays in the
next delta (Chen et al., "On Efficient Constructions of Checkpoints", ICML 2020).

Not done here: values that are not tensors, digests of a whole track, parts (record.track).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Self

import numpy as np
from numpy.typing import NDArray

from codec.caps import names_of
from codec.errors import StreamError, TrackDigestError
from codec.state.family import OCTAVES, ROOTS
from codec.state.moments import second_of
from codec.state.tensors import Arrays, Layout, TensorSpec, copy_arrays

from .delta import Delta
from .digest import digest
from .limits import CHANGE
from .origin import Origin
from .stream import advance
from .survivors import Segments
from .tables import CodeTable
from .transition import Transition


@dataclass
class ArrayTrack:
    """The arrays of a track, and its code tables.

    Attributes:
        layout: Names, dtypes and shapes of its tensors, and the structure around them.
        arrays: Name -> array of the tensor's track dtype, C-contiguous and writable. A part of a
            track lacks some of the tensors.
        sums: Name -> digest of a lossy tensor (64 bits, see FORMAT.md). A delta changes it by a
            difference, so it costs no pass over the tensor.
        tables: Alphabet -> the code table sent last.
        origin: A sample of the base's lossy weights; empty in a part.
    """

    layout: Layout
    arrays: Arrays
    sums: dict[str, int]
    tables: dict[str, CodeTable] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin)
    _segments: dict[str, Segments] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, layout: Layout, arrays: Arrays) -> Self:
        """The track of a base. It takes the arrays over and computes their digests."""
        track = cls(layout, arrays, digest_sums(layout, arrays))
        if not track.is_part:
            track.origin = Origin.of(layout, arrays)
        return track

    def copy(self) -> Self:
        """A track with copies of the arrays."""
        arrays = copy_arrays(self.arrays)
        return replace(self, arrays=arrays, sums=dict(self.sums), tables=dict(self.tables))

    @property
    def is_part(self) -> bool:
        """Whether it has only some of the state's tensors, and so no digest."""
        return len(self.arrays) < len(self.layout.tensors)

    def after(
        self, delta: Delta, mode: int, encoded: Delta | None = None
    ) -> tuple[dict[str, int], dict[str, CodeTable]]:
        """Sums and tables after a delta in this layout.

        Args:
            delta: The delta.
            mode: CHANGE moves the lossy arrays, LOOK does not.
            encoded: What the delta was before it was written and read. Moments with the same codes
                take their sums from it, and are not moved again.

        Raises:
            StateMismatchError: The delta is of other tensors.
            PayloadError: The delta is damaged.
        """
        sums, ahead = dict(self.sums), MomentTracks(self, mode)
        repeated = encoded.sums if encoded and delta.repeats_moments(encoded) else None
        for group in delta.in_order:
            names = [t.name for t in group.tensors]
            if repeated and group.tensors[0].measure:
                sums |= {name: repeated[name] for name in names}
                continue
            if mode == CHANGE and delta.sums and delta.after.keys() >= set(names):
                self._segments.pop(names[0], None)  # it would keep the arrays before alive
                self.arrays |= {name: delta.after.pop(name) for name in names}
                sums |= {name: delta.sums[name] for name in names}
                continue
            segments = ahead.segments(group.tensors)
            changes = advance(group.encoded, segments, ahead.mode_of(group.tensors))
            for t, change in zip(group.tensors, changes.tolist()):
                if t.name in sums:
                    sums[t.name] = (sums[t.name] + change) % 2**64
        sums |= {name: digest(delta.exact[name]) for name in delta.non_finite}
        return sums, {**self.tables, **delta.tables}

    def apply(self, delta: Delta) -> None:
        """Move on by a delta. Raises what `after` raises; the arrays are then useless.

        A delta that has `Delta.after` must be the one that was encoded for this track.
        """
        moved = self.moved(delta.transition)
        after = moved.after(delta, CHANGE)
        for name, array in delta.exact_after(moved.arrays).items():
            if name in delta.after:
                moved.arrays[name] = delta.after.pop(name)
            else:
                moved.arrays[name][...] = array
        self.layout, self.arrays, self.origin = moved.layout, moved.arrays, moved.origin
        self.sums, self.tables = after

    def moved(self, transition: Transition | None, names: Collection[str] | None = None) -> Self:
        """The track in the layout after a transition; this track if there is no transition.

        Arrays that stay are shared. This track does not change.

        names: the tensors that a part of the track then has; None for all.
        """
        if transition is None:
            return self
        arrays = transition.arrays_after(self.arrays, names)
        sums = transition.sums_after(self.sums, arrays)
        origin, layout = self.origin, transition.layout
        if names is None:
            origin = origin.moved(self.layout, layout, arrays)
        tables = dict(self.tables)
        return replace(self, layout=layout, arrays=arrays, sums=sums, tables=tables, origin=origin)

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

    def segments(self, tensors: Sequence[TensorSpec]) -> Segments:
        """The arrays of an alphabet's tensors as the kernels take them, to be changed in place.

        A tensor that a part lacks is decoded into memory that nobody reads. The others are kept for
        the next call, because looking up an array's address takes a microsecond.
        """
        arrays = [self.lossy_array(t) for t in tensors]
        segments = self._segments.get(tensors[0].name)
        if segments is None or not _are_same(segments.arrays[0], arrays):
            segments = self._segments[tensors[0].name] = Segments(arrays)
        return segments

    def lossy_array(self, spec: TensorSpec) -> NDArray[np.float32]:
        """Its array; zeros if a part lacks it."""
        array = self.arrays.get(spec.name)
        return np.zeros(spec.shape, np.float32) if array is None else array


class MomentTracks:
    """Which arrays a delta moves. Its alphabets are asked for in `Delta.in_order`.

    mode: CHANGE moves the track; LOOK does not. First moments need the second ones after the delta,
    so with LOOK copies of these are moved.
    """

    def __init__(self, track: ArrayTrack, mode: int) -> None:
        self._track, self.mode = track, mode
        self.copies: Arrays = {}

    def mode_of(self, tensors: Sequence[TensorSpec]) -> int:
        """How the segments of an alphabet are moved: second moments, or their copies, always."""
        return CHANGE if tensors[0].measure == OCTAVES else self.mode

    def segments(self, tensors: Sequence[TensorSpec]) -> Segments:
        """The arrays of an alphabet as kernels take them, with second moments if they need any."""
        measure = tensors[0].measure
        if measure == OCTAVES and self.mode != CHANGE:
            copies = {t.name: self._track.lossy_array(t).copy() for t in tensors}
            self.copies |= copies
            return Segments(list(copies.values()))
        if measure == ROOTS:
            return Segments(
                [self._track.lossy_array(t) for t in tensors], (), self._seconds(tensors)
            )
        return self._track.segments(tensors)

    def _seconds(self, tensors: Sequence[TensorSpec]) -> list[NDArray[np.float32]]:
        pairs = [(t, second_of(t.name)) for t in tensors]
        own, arrays = self._track.arrays, ChainMap(self.copies, self._track.arrays)
        if lacking := [t.name for t, name in pairs if t.name in own and name not in arrays]:
            raise StreamError(f"no second moment beside {names_of(lacking)}")
        # A part lacks the first moment: nobody reads the result, so any second one will do.
        return [arrays[n] if t.name in own else np.zeros(t.shape, np.float32) for t, n in pairs]


def digest_sums(layout: Layout, arrays: Arrays) -> dict[str, int]:
    """The digest of every lossy tensor in ``arrays``, computed from all of its elements."""
    return {t.name: digest(arrays[t.name]) for t in layout.tensors if t.lossy and t.name in arrays}


def _are_same(first: Sequence[object], second: Sequence[object]) -> bool:
    """Whether two sequences hold the same objects in the same order."""
    return len(first) == len(second) and all(map(is_, first, second))
