"""What other settings would have saved: a chain that is encoded and counted, but not written.

Bytes, levels and track are those of `codec.Checkpointer` for the same states: a budget also pays
for the header, and code tables are reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codec import Coding, Delta, Tracker
from codec.inspect import (
    DIGEST,
    RUN,
    Arrays,
    Layout,
    Place,
    Track,
    copy_arrays,
    dump_delta,
    edits,
    header_nbytes,
)


class DryRun:
    """A chain of one coding that is encoded but not written.

    Args:
        coding: The codec's settings.
        layout: of every state.
        base: the state that the chain begins with, stored exactly, name -> array; it is copied.
        values: what of it is no tensor, see `codec.state.tree`.
    """

    def __init__(
        self, coding: Coding, layout: Layout, base: Arrays, values: Sequence[str] = ()
    ) -> None:
        self._tracker = Tracker.resume(Track.of(layout, copy_arrays(base), tuple(values)), coding)
        self._known_header: tuple[tuple[object, ...], int] = ((), 0)

    @property
    def layout(self) -> Layout:
        """Of every state."""
        return self._tracker.track.layout

    @property
    def track(self) -> Arrays:
        """What a restart would load; it changes with the next commit."""
        return self._tracker.state

    def prepare(self, step: int, arrays: Arrays, values: Sequence[str] = ()) -> Delta:
        """The delta from the track to a state; the track stays where it is. Raises codec.LccError.

        values: as many as the base's.
        """
        delta = self._tracker.prepare_arrays(arrays, lambda exact: self._header_nbytes(step, exact))
        return replace(delta, values=edits.changes(self._tracker.track.values, values))

    def commit(self, delta: Delta) -> None:
        """Go on from a delta that `prepare` returned last."""
        self._tracker.commit(delta)

    def _header_nbytes(self, step: int, exact: Arrays) -> int:
        """Bytes of a record's header that a budget pays for, as the recorder counts them."""
        coding, digits = self._tracker.coding, len(str(step))
        if coding.budget is None:
            return 0
        key = digits, *exact
        if self._known_header[0] != key:
            self._known_header = key, header_nbytes(digits, self.layout, exact, coding)
        return self._known_header[1]


def record_nbytes(step: int, delta: Delta) -> int:
    """Bytes of a delta's record on disk: digests are as long whatever they say."""
    return len(dump_delta(Place(step, "0" * RUN, "0" * DIGEST), "0" * 32, delta))
