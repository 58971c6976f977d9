"""The track of a chain: arrays and code tables, and the values that are not tensors.

Its digest covers all of it. A part of it has the tensors that a selection names.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from codec.caps import names_of
from codec.errors import StateMismatchError
from codec.scheme.delta import Delta
from codec.scheme.limits import LOOK
from codec.scheme.measures import dithered
from codec.scheme.track import ArrayTrack
from codec.scheme.transition import Transition
from codec.state.selection import Selection
from codec.state.tensors import COPIED, Arrays, Layout, from_arrays
from codec.state.tree import Parts, unflatten

from .values import after_changes

HASHED = 2**16  # characters of a text that are encoded at once, so that the copy stays in the cache


@dataclass
class Track(ArrayTrack):
    """The state that a restart would load.

    Attributes:
        values: JSON texts of the values that are not tensors, see `codec.state.tree`.
        selection: Which tensors ``arrays`` has; None for all.
    """

    values: tuple[str, ...] = ()
    selection: Selection | None = None

    # Values, changes, and the values after them, of the last call: a save needs them three times.
    _ahead: tuple[Any, Any, tuple[str, ...]] = field(
        default=((), {}, ()), init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, layout: Layout, arrays: Arrays, values: tuple[str, ...] = ()) -> Self:
        """The track of a base. It takes the arrays over and computes their digests."""
        track = super().of(layout, arrays)
        track.values = values
        return track

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
        return moved._digest_with(delta, delta.sums or {}, self._values_after(delta))

    def preview(self, delta: Delta, encoded: Delta | None = None) -> Preview:
        """The track after a delta; this track does not change. See `after`; it raises the same."""
        moved = self.moved(delta.transition)
        sums, _ = moved.after(delta, LOOK, encoded)
        return Preview(moved._digest_with(delta, sums, self._values_after(delta)), sums)

    def apply(self, delta: Delta) -> None:
        """Move on by a delta. Raises what `after` raises; the arrays are then useless."""
        values = self._values_after(delta)
        super().apply(delta)
        self.values = values

    def moved(self, transition: Transition | None, names: Collection[str] | None = None) -> Self:
        """See `ArrayTrack.moved`; a part gets the tensors that the selection names.

        Raises StateMismatchError if the part lacks rows of one of them.
        """
        if transition is None:
            return self
        if self.selection is not None:
            names = self.selection.names(transition.layout)
            if lacking := transition.lacking(self.arrays, names):
                raise StateMismatchError(
                    f"the state's structure has changed: {names_of(lacking)} is now a part of "
                    f"{names_of(self.selection.patterns)}, but was not read before; restore the "
                    "whole state"
                )
        moved = super().moved(transition, names)
        moved.values = transition.values_after(self.values)
        return moved

    def restore(self, dither: int | None = None) -> dict[Any, Any]:
        """The state or the part of it as saved: nested, in its libraries and dtypes, in new arrays.

        dither: The seed of noise on an optimizer's moments, see `dithered`; None for no noise.

        Raises:
            DTypeError: A tensor came from torch and torch is not installed.
            StructureError: After its edits, a text is not a valid value.
            SettingsError: A pattern of the selection matches nothing.
        """
        if self.selection is not None:
            return self.selection.state_of(self.arrays, self.layout, self.values)
        arrays = self.arrays
        if dither is not None:
            arrays = arrays | dithered(self.layout, arrays, dither)
        tensors = from_arrays(arrays, self.layout)
        return unflatten(Parts(self.layout.structure, tensors, self.values))

    def _values_after(self, delta: Delta) -> tuple[str, ...]:
        """The values after a delta. Raises PayloadError for an edit that does not fit."""
        values = delta.transition.values_after(self.values) if delta.transition else self.values
        before, changes, after = self._ahead
        if before is not values or changes != delta.values:
            after = after_changes(values, delta.values)
            self._ahead = values, dict(delta.values), after
        return after

    def _digest_with(self, delta: Delta, sums: Mapping[str, int], values: tuple[str, ...]) -> str:
        """The digest of the track after a delta with these sums and values."""
        after: Mapping[str, NDArray[Any]] = self.arrays | delta.exact
        if delta.residuals:
            after = ChainMap(delta.exact_after(self.arrays), self.arrays)  # type: ignore[arg-type]
        return _digest(self.layout, after, sums, values)


class Preview(NamedTuple):
    """The track after a delta; the fields are attributes of `Track`."""

    digest: str
    sums: dict[str, int]


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
