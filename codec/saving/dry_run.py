"""A chain that is encoded and counted, but not written: what other settings would have saved.

Bytes, levels and track are those of `codec.Checkpointer` for the same states: a budget also pays
for the header, and code tables are reused.

Also here: the bytes of a record of other methods, for a comparison with theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from codec.record.container import seal
from codec.record.encode import encode_delta
from codec.record.header import HEX, Header
from codec.record.record import Place, dump_delta, longest_place
from codec.record.track import Track
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta
from codec.scheme.tracker import Tracker
from codec.state.tensors import Arrays, Layout, copy_arrays


class DryRun:
    """A chain of one coding that is encoded but not written.

    Args:
        coding: The codec's settings.
        layout: Of every state.
        base: The state that the chain begins with, stored exactly, name -> array; it is copied.
        values: Its values that are not tensors, see `codec.state.tree`.
    """

    def __init__(
        self, coding: Coding, layout: Layout, base: Arrays, values: Sequence[str] = ()
    ) -> None:
        self._tracker = Tracker.resume(Track.of(layout, copy_arrays(base), tuple(values)), coding)

    @property
    def layout(self) -> Layout:
        """Of every state."""
        return self._tracker.track.layout

    @property
    def track(self) -> Arrays:
        """What a restart would load; it changes with the next commit."""
        return self._tracker.state

    def prepare(self, step: int, arrays: Arrays, values: Sequence[str] = ()) -> Delta:
        """The delta from the track to a state; the track does not change. Raises codec.LccError.

        values: as many as the base's.
        """
        return encode_delta(self._tracker, Place(step), arrays, values)

    def commit(self, delta: Delta) -> None:
        """Apply the delta that `prepare` returned last to the track."""
        self._tracker.commit(delta)


def record_nbytes(step: int, delta: Delta, layout: Layout) -> int:
    """Bytes of a delta's record on disk; all digests are equally long. layout: of its track."""
    return len(dump_delta(longest_place(Place(step)), "0" * HEX, delta, layout))


def sealed_nbytes(step: int, arrays: Arrays) -> int:
    """Bytes of a delta record of these arrays; all digests are equally long."""
    digest = "0" * HEX
    return len(seal(Header(step, None, digest, digest, Coding(None)), {}, arrays))
