"""The way from one layout of the track to another, as the first part of a delta.

    a tensor of the same dtype and shape    keeps its array
    the same with more rows                 keeps its rows; the new ones are given
    every other tensor of the new layout    is given whole
    every other one of the old layout       goes

Then the delta is applied to the track in its new layout, as to any other. A tensor that was given
is where it was saved, so its part of the delta is zero.

Not done here: when a base is better (saving.recorder), its bytes (record.layouts).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codec.state import tree
from codec.state.tensors import Arrays, Layout, TensorSpec, same_bits

from .stream import digest


@dataclass(frozen=True)
class Transition:
    """The way from one layout to another.

    Attributes:
        before: The layout that the track has.
        layout: The layout that it gets.
        arrays: Name -> what the track lacks of a tensor of the new layout, in its track dtype: the
            whole array, or the rows that come after those that the track has.
    """

    before: Layout
    layout: Layout
    arrays: Arrays

    @classmethod
    def between(cls, before: Layout, track: Arrays, layout: Layout, state: Arrays) -> Transition:
        """The transition from a track to the layout of a state.

        Args:
            before: The track's layout.
            track: The track's arrays.
            layout: The state's layout.
            state: The state's arrays, as `state.to_arrays` makes them. What is needed is copied.
        """
        old = {t.name: t for t in before.tensors}
        given: Arrays = {}
        for t in layout.tensors:
            was, array = old.get(t.name), state[t.name]
            if was is not None and has_same_array(was, t):
                continue
            if was is not None and has_more_rows(was, t):
                n_rows = was.shape[0]
                # Lossy rows that have changed are in the delta; of exact ones the whole is shorter.
                if t.lossy or same_bits(array[:n_rows], track[t.name]):
                    array = array[n_rows:]
            given[t.name] = array.copy()
        return cls(before, layout, given)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    @cached_property
    def origins(self) -> tuple[int | None, ...]:
        """For each value of the new structure the number of the value that stood in its place
        before; None where there was none.

        Both structures have passed `tree.check_structure`.
        """
        return tree.value_origins(self.before.structure, self.layout.structure)

    def arrays_after(self, track: Arrays) -> Arrays:
        """Name -> array of the new layout. Arrays that stay are shared, all others are new.

        track: name -> array of the layout before.
        """
        after: Arrays = {}
        for t in self.layout.tensors:
            given = self.arrays.get(t.name)
            if given is None:
                after[t.name] = track[t.name]
            elif given.shape == t.track_shape:
                after[t.name] = given.copy()
            else:
                after[t.name] = np.concatenate((track[t.name], given))
        return after

    def sums_after(self, sums: Mapping[str, int], after: Arrays) -> dict[str, int]:
        """The digests of the lossy tensors of the new layout; those of rows that stay are not
        computed again.

        Args:
            sums: Of the lossy tensors of the layout before.
            after: From `arrays_after`.
        """
        found: dict[str, int] = {}
        for t in self.layout.tensors:
            if not t.lossy:
                continue
            given, known = self.arrays.get(t.name), sums.get(t.name)
            if known is None or (given is not None and given.shape == t.track_shape):
                found[t.name] = digest(after[t.name])
            elif given is None:
                found[t.name] = known
            else:
                found[t.name] = (known + digest(given, t.size - given.size)) % 2**64
        return found

    def values_after(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """The texts of the new layout's values: of a new one the empty text.

        values: JSON texts of the layout before, see `codec.state.tree`.
        """
        if self.before.structure == self.layout.structure:
            return values
        return tuple("" if number is None else values[number] for number in self.origins)


def has_same_array(before: TensorSpec, now: TensorSpec) -> bool:
    """Whether a tensor can go on with the array that it had."""
    return _has_same_elements(before, now) and before.shape == now.shape


def has_more_rows(before: TensorSpec, now: TensorSpec) -> bool:
    """Whether a tensor has the elements that it had and others after them: more rows, its first
    dimension, of the same size."""
    return (
        _has_same_elements(before, now)
        and before.size > 0
        and len(before.shape) > 0
        and before.shape[1:] == now.shape[1:]
        and before.shape[:1] < now.shape[:1]
    )


def _has_same_elements(before: TensorSpec, now: TensorSpec) -> bool:
    return (before.dtype, before.track_dtype) == (now.dtype, now.track_dtype)
