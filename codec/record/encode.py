"""Encodes a record, reads it again from its own bytes, and compares, before it is written.

The recorder, DCP's writer and compaction use it.

Not done here: what follows a failed check (saving.recorder).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from codec.scheme.budget import Allowance
from codec.scheme.delta import Delta
from codec.scheme.tracker import Tracker
from codec.scheme.transition import Transition
from codec.state import edits
from codec.state.tensors import Arrays

from . import record
from .record import Place, Record
from .track import Track


def encode_delta(
    tracker: Tracker[Track],
    place: Place,
    arrays: Arrays,
    values: Sequence[str] = (),
    allowance: Allowance | None = None,
    transition: Transition | None = None,
) -> Delta:
    """Encode the difference between a state and the track, which does not change.

    A budget also pays for the record's header.

    Args:
        tracker: Has the track and the settings.
        place: The new record's. Its header grows with the digits of the step.
        arrays: Name -> array, as `state.to_arrays` makes them with the state's layout.
        values: JSON texts of the state's values that are not tensors, in the layout's order.
        allowance: See `Tracker.prepare_arrays`.
        transition: From the track's layout to the state's; None if they are the same.

    Raises:
        BudgetError: The budget is too small for any change of the lossy tensors.
    """
    if transition is not None:
        tracker = Tracker.resume(tracker.track.moved(transition), tracker.coding)
    track, longest = tracker.track, record.longest_place(place)
    header = partial(record.header_nbytes, longest, track.layout, tracker.coding, transition)
    delta = tracker.prepare_arrays(arrays, header, allowance)
    return replace(delta, values=edits.changes(track.values, values), transition=transition)


@dataclass(frozen=True)
class Draft:
    """A record that is not written yet.

    Attributes:
        name: The record, for messages.
        data: Its bytes.
        delta: The delta in it; None for a base.
    """

    name: str
    data: bytes
    delta: Delta | None = None

    @classmethod
    def of_base(cls, name: str, place: Place, track: Track) -> Draft:
        """A base: the track itself, exactly."""
        return cls(name, record.dump_base(place, track))

    @classmethod
    def of_delta(cls, name: str, place: Place, track: Track, delta: Delta) -> Draft:
        """A delta from `encode_delta`. track: the one before it."""
        digest = track.digest_after(delta)
        layout = delta.transition.layout if delta.transition else track.layout
        return cls(name, record.dump_delta(place, digest, delta, layout), delta)

    def check(self, track: Track) -> Record:
        """Read the record from its bytes and decode it.

        Args:
            track: The one before a delta; it does not change.

        Returns:
            The record as read.

        Raises:
            RecordError: The record cannot be read; for example, its header is too long.
            TrackDigestError: The record does not lead to the state that was encoded.
        """
        read = record.load(self.data, self.name)
        if self.delta is None:
            record.base_of(read, fresh=False)
        else:
            delta = record.delta_of(read, track)
            record.preview_checked(read, delta, track, self.delta)
        return read
