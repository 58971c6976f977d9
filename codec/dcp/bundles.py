"""What a rank keeps between saves: tracks of its lossy chunks, digests of the others.

Lossy chunks that got their base together are a bundle: one track, one record a step, so that a
step costs few files. A chunk that is not in a save, since its owner has changed, is fed its own
track: a delta of zeros. Other chunks are stored where they have changed, each whole, so that no
chain has to be read for them.

Whatever a save makes is kept apart until it is known that all ranks have done their part; the
tracks stay where they are until then.

Not done here: whether that is known, and where files lie (writer, files).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from codec.chain.replay import Replay
from codec.record import record as records
from codec.record.record import Record
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta
from codec.scheme.track import Track
from codec.scheme.tracker import Tracker
from codec.state.tensors import Arrays, Layout, TensorSpec, copy_arrays, spec_of, to_arrays

from .files import At, BesidePlace

Put = Callable[[Record, bytes], At]


@dataclass(frozen=True)
class Held:
    """Where a chunk that is not lossy was stored: whole, with this digest of its content."""

    spec: TensorSpec
    digest: str
    at: At


class Bundle:
    """Chunks whose base is one record, and their track.

    at: the record that the track stands at. run: the chain's. n: deltas since the base. needs:
    the records from the base to that one.
    """

    def __init__(self, tracker: Tracker, at: At, run: str, n: int, needs: tuple[At, ...]) -> None:
        self.tracker, self.at, self.run, self.n, self.needs = tracker, at, run, n, needs
        self.specs = {t.name: t for t in tracker.track.layout.tensors}

    def holds(self, spec: TensorSpec) -> bool:
        """Whether there is a track of this chunk."""
        return self.specs.get(spec.name) == spec

    def delta(self, values: Mapping[str, Any], put: Put) -> Moved:
        """Write the distance from the track to these values; the track stays where it is.

        values: name -> torch tensor, of some or all chunks. Raises RecordError if what was to be
        written could not be read again, and what ``put`` does.
        """
        tracker, track = self.tracker, self.tracker.track
        given = Layout(tuple(t for t in track.layout.tensors if t.name in values))
        delta = tracker.prepare_arrays(track.arrays | to_arrays(values, given))
        place = BesidePlace(self.n + 1, self.run, self.at.digest, at=self.at)
        data = records.dump_delta(place, track.digest_after(delta), delta)
        record = records.load(data, "a delta about to be written")
        records.preview_checked(record, records.delta_of(record, track), track, delta.sums or {})
        return Moved(self, delta, put(record, data), len(data))


@dataclass(frozen=True)
class Moved:
    """A bundle, and the delta that moves its track once a save is committed; None for a base,
    where it is new."""

    bundle: Bundle
    delta: Delta | None
    at: At
    nbytes: int

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of other directories that a reader needs."""
        return tuple(at.step for at in self.bundle.needs) if self.delta else ()

    def commit(self) -> Bundle:
        """The bundle as it is after the save."""
        bundle = self.bundle
        if self.delta is not None:
            bundle.tracker.commit(self.delta)
            bundle.at, bundle.n = self.at, bundle.n + 1
            bundle.needs = (*bundle.needs, self.at)
        return bundle


def based(
    specs: Sequence[TensorSpec], values: Mapping[str, Any], coding: Coding, put: Put
) -> Moved:
    """A new bundle of these chunks, its base written. Raises as `Bundle.delta`."""
    layout = Layout(tuple(specs))
    track = Track.of(layout, copy_arrays(to_arrays(values, layout)))
    record, data = _base(track)
    at = put(record, data)
    bundle = Bundle(Tracker.resume(track, coding), at, record.run, 0, (at,))
    return Moved(bundle, None, at, len(data))


def resumed(replay: Replay, needs: tuple[At, ...], coding: Coding) -> Bundle:
    """A bundle whose track was rebuilt from disk. needs: as it has them."""
    assert replay.track is not None
    assert replay.run is not None
    assert replay.step is not None
    tracker = Tracker.resume(replay.track, coding)
    return Bundle(tracker, needs[-1], replay.run, replay.step, needs)


def stored(specs: Sequence[TensorSpec], arrays: Arrays, put: Put) -> tuple[At, int]:
    """A record of chunks as they are; where it is, and its bytes. Raises as `Bundle.delta`."""
    record, data = _base(Track.of(Layout(tuple(specs)), arrays))
    return put(record, data), len(data)


def whole_spec(name: str, spec: TensorSpec | None, value: Any) -> TensorSpec:
    """Of a chunk that is not lossy; spec is None for bytes, which become a uint8 tensor."""
    return spec or spec_of(name, value, lossy=False)


def content(array: NDArray[Any]) -> str:
    """Digest of a chunk's bytes."""
    return xxhash.xxh3_128_hexdigest(array.reshape(-1).view(np.uint8).data)


def _base(track: Track) -> tuple[Record, bytes]:
    data = records.dump_base(BesidePlace(0), track)
    record = records.load(data, "a base about to be written")
    records.base_of(record)
    return record, data
