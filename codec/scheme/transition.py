"""The change from one layout of the track to another, as the first part of a delta.

    a tensor of the same dtype and shape    keeps its array
    a tensor with more rows than before     keeps its rows; the delta holds the new rows
    every other tensor of the new layout    is held whole by the delta
    every other tensor of the old layout    is dropped

Then the track has the new layout, and the rest of the delta is applied as usual. A tensor that the
delta holds whole already has its saved value, so its codes are all zero.

Not done here: when a base is better (saving.recorder), a transition's bytes (record.layouts).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from codec.lazy import lazy
from codec.state import tree
from codec.state.tensors import Arrays, Layout, TensorSpec, same_bits

from .digest import digest


@dataclass(frozen=True)
class Transition:
    """The change from one layout to another.

    Attributes:
        before: The layout that the track has.
        layout: The layout that the track gets.
        arrays: Name -> what the track lacks of a tensor of the new layout, in the tensor's track
            dtype: the whole array, or the rows after those that the track has.
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
            state: The state's arrays, as `state.to_arrays` makes them. The transition copies what
                it needs.
        """
        old_specs = {t.name: t for t in before.tensors}
        missing: Arrays = {}
        for t in layout.tensors:
            old, array = old_specs.get(t.name), state[t.name]
            if old is not None and has_same_array(old, t):
                continue
            if old is not None and has_more_rows(old, t):
                n_rows = old.shape[0]
                # The new rows are enough if the old rows are lossy, because codes change them, or
                # if they are the same. Otherwise the whole tensor takes fewer bytes.
                if t.lossy or same_bits(array[:n_rows], track[t.name]):
                    array = array[n_rows:]
            missing[t.name] = array.copy()
        return cls(before, layout, missing)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    @lazy
    def origins(self) -> tuple[int | None, ...]:
        """The number of the old value in the place of each value of the new structure.

        None if the old structure has no value there. Both structures have passed
        `tree.check_structure`.
        """
        return tree.value_origins(self.before.structure, self.layout.structure)

    def arrays_after(self, track: Arrays, names: Collection[str] | None = None) -> Arrays:
        """Name -> array of the new layout. Arrays that stay are shared, all others are new.

        Args:
            track: Name -> array of the old layout.
            names: The tensors of the new layout to return; None for all.
        """
        after: Arrays = {}
        for t in self.layout.tensors:
            if names is not None and t.name not in names:
                continue
            missing = self.arrays.get(t.name)
            if missing is None:
                after[t.name] = track[t.name]
            elif self._is_whole(t):
                after[t.name] = missing.copy()
            else:
                after[t.name] = np.concatenate((track[t.name], missing))
        return after

    def lacking(self, track: Arrays, names: Collection[str]) -> list[str]:
        """Those of these tensors of the new layout that `arrays_after` cannot make.

        track: name -> array of the old layout; a part of it may lack some.
        """
        tensors = (t for t in self.layout.tensors if t.name in names)
        return [t.name for t in tensors if not self._is_whole(t) and t.name not in track]

    def _is_whole(self, t: TensorSpec) -> bool:
        """Whether the transition has all of a tensor of the new layout."""
        return t.name in self.arrays and self.arrays[t.name].shape == t.track_shape

    def sums_after(self, sums: Mapping[str, int], after: Arrays) -> dict[str, int]:
        """The digests of the lossy tensors of the new layout.

        Rows that stay are not digested again.

        Args:
            sums: The digests of the lossy tensors of the old layout.
            after: From `arrays_after`.
        """
        new_sums: dict[str, int] = {}
        for t in self.layout.tensors:
            if not t.lossy or t.name not in after:
                continue
            missing, old_sum = self.arrays.get(t.name), sums.get(t.name)
            if old_sum is None or self._is_whole(t):
                new_sums[t.name] = digest(after[t.name])
            elif missing is None:
                new_sums[t.name] = old_sum
            else:
                new_sums[t.name] = (old_sum + digest(missing, t.size - missing.size)) % 2**64
        return new_sums

    def values_after(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """The texts of the new layout's values; a new value has the empty text.

        values: JSON texts of the old layout, see `codec.state.tree`.
        """
        if self.before.structure == self.layout.structure:
            return values
        return tuple("" if number is None else values[number] for number in self.origins)


def has_same_array(before: TensorSpec, now: TensorSpec) -> bool:
    """Whether a tensor has the same dtypes and shape as before, and so keeps its array."""
    return _has_same_elements(before, now) and before.shape == now.shape


def has_more_rows(before: TensorSpec, now: TensorSpec) -> bool:
    """Whether a tensor only has more rows than before: a longer first dimension."""
    return (
        _has_same_elements(before, now)
        and before.size > 0
        and len(before.shape) > 0
        and before.shape[1:] == now.shape[1:]
        and before.shape[:1] < now.shape[:1]
    )


def _has_same_elements(before: TensorSpec, now: TensorSpec) -> bool:
    return (before.dtype, before.track_dtype) == (now.dtype, now.track_dtype)
