"""A record that is about to be written: encoded, read again from its own bytes, and compared.

The recorder, DCP's writer and compaction encode and check their records here.

Not done here: what to do about a record that fails its check (diagnosis, saving.recorder).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from codec.scheme.budget import Allowance
from codec.scheme.delta import Delta
from codec.scheme.track import Track
from codec.scheme.tracker import Tracker
from codec.scheme.transition import Transition
from codec.state import edits
from codec.state.tensors import Arrays

from . import record
from .record import Place, Record


class DeltaEncoder:
    """Encodes deltas for records: a budget also pays for the record's header."""

    def __init__(self) -> None:
        self._header: tuple[tuple[Any, ...], int] = ((), 0)  # the newest one's key and bytes

    def encode(
        self,
        tracker: Tracker,
        place: Place,
        arrays: Arrays,
        values: Sequence[str] = (),
        allowance: Allowance | None = None,
        transition: Transition | None = None,
    ) -> Delta:
        """Encode the difference between a state and the track, which stays where it is.

        Args:
            tracker: Its track and settings.
            place: Of the new record; the digits of its step count.
            arrays: Name -> array, as `state.to_arrays` makes them with the state's layout.
            values: JSON texts of what is no tensor, as many as that layout has.
            allowance: See `Tracker.prepare_arrays`.
            transition: From the track's layout to the state's; None if they are the same.

        Raises:
            BudgetError: The budget holds nothing of lossy tensors that have changed.
        """
        if transition is not None:
            tracker = Tracker.resume(tracker.track.moved(transition), tracker.coding)
        track, coding = tracker.track, tracker.coding

        def header_nbytes(exact: Arrays) -> int:
            if coding.budget is None:
                return 0
            longest = record.longest_place(place)
            key = (longest, coding, track.layout, allowance, transition is None, *exact)
            if self._header[0] != key or transition is not None:
                own = allowance or Allowance.of(coding.budget, track.layout)
                nbytes = record.header_nbytes(longest, track.layout, exact, coding, own, transition)
                self._header = key, nbytes
            return self._header[1]

        delta = tracker.prepare_arrays(arrays, header_nbytes, allowance)
        changes = edits.changes(track.values, values)
        return replace(delta, values=changes, transition=transition)


@dataclass(frozen=True)
class Draft:
    """A record that is not written yet.

    Attributes:
        name: For messages.
        data: Its bytes.
        delta: What was encoded; None for a base.
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
        """A delta that `DeltaEncoder` has encoded. track: where it begins."""
        digest = track.digest_after(delta)
        return cls(name, record.dump_delta(place, digest, delta, track.layout), delta)

    def check(self, track: Track) -> Record:
        """Read the record from its bytes and decode it.

        Args:
            track: Where a delta begins; it stays there.

        Returns:
            The record as it was read.

        Raises:
            RecordError: It cannot be read again; its header is too long, say.
            TrackDigestError: It does not lead to the state that was encoded.
        """
        found = record.load(self.data, self.name)
        if self.delta is None:
            record.base_of(found, fresh=False)
        else:
            delta = record.delta_of(found, track)
            record.preview_checked(found, delta, track, self.delta.sums or {})
        return found
