"""What a rank keeps between saves: tracks of its lossy chunks, digests of the others.

Lossy chunks that got their base together are a bundle: one track, and one record a step, because a
step should cost few files. A chunk that is missing from a save, because its owner has changed, gets
a delta of zeros. Other chunks are stored whole when they change: no chain is read for them.

The result of a save is kept apart until all ranks have done their part; until then the tracks stay
where they are.

Not done here: when all ranks are done, and where files lie (writer, files).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from codec.chain.replay import Replay
from codec.record.alphabets import nbytes_of
from codec.record.encode import DeltaEncoder, Draft
from codec.record.record import Record
from codec.scheme.budget import Allowance
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta
from codec.scheme.track import Track
from codec.scheme.tracker import Tracker
from codec.state.tensors import Arrays, Layout, TensorSpec, copy_arrays, spec_of, to_arrays

from .files import BesidePlace, RecordAt

Put = Callable[[Record, bytes], RecordAt]


@dataclass(frozen=True)
class StoredChunk:
    """Where a chunk that is not lossy is stored, and the digest of its content."""

    spec: TensorSpec
    digest: str
    at: RecordAt


class Bundle:
    """Chunks whose base is one record, and their track.

    Args:
        tracker: Holds the track.
        at: The record that leads to the track.
        run: The chain's run.
        n: Deltas since the base.
        needs: The records from the base to ``at``.
    """

    def __init__(
        self, tracker: Tracker, at: RecordAt, run: str | None, n: int, needs: tuple[RecordAt, ...]
    ) -> None:
        self.tracker, self.at, self.run, self.n, self.needs = tracker, at, run, n, needs
        self.specs = {t.name: t for t in tracker.track.layout.tensors}
        self._encoder = DeltaEncoder()

    def holds(self, spec: TensorSpec) -> bool:
        """Whether there is a track of this chunk."""
        return self.specs.get(spec.name) == spec

    def delta(
        self, values: Mapping[str, Any], put: Put, allowance: Allowance | None = None
    ) -> WrittenBundle:
        """Write the difference between the track and these values; the track stays where it is.

        Args:
            values: Name -> torch tensor, of some or all chunks.
            put: Writes the record.
            allowance: What the record may take of a budget; None without one.

        Raises:
            BudgetError: The budget holds nothing of chunks that have changed.
            RecordError: The record cannot be read again. Also what ``put`` raises.
        """
        tracker, track = self.tracker, self.tracker.track
        given = Layout(tuple(t for t in track.layout.tensors if t.name in values))
        place = BesidePlace(self.n + 1, self.run, self.at.digest, at=self.at)
        arrays = track.arrays | to_arrays(values, given)
        delta = self._encoder.encode(tracker, place, arrays, allowance=allowance)
        draft = Draft.of_delta("a delta about to be written", place, track, delta)
        return WrittenBundle(self, delta, put(draft.check(track), draft.data), len(draft.data))


@dataclass(frozen=True)
class WrittenBundle:
    """A bundle and its new record. delta: moves the track at the commit; None for a base."""

    bundle: Bundle
    delta: Delta | None
    at: RecordAt
    nbytes: int

    @property
    def budgeted_nbytes(self) -> int:
        """Bytes of its record that a budget pays for."""
        if self.delta is None:
            return 0
        alone = nbytes_of(group for group in self.delta.groups if group.tensors[0].alone)
        return self.nbytes - alone - self.delta.exact_nbytes

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


def new_bundle(
    specs: Sequence[TensorSpec], values: Mapping[str, Any], coding: Coding, put: Put
) -> WrittenBundle:
    """A new bundle of these chunks, its base written. Raises as `Bundle.delta`."""
    layout = Layout(tuple(specs))
    track = Track.of(layout, copy_arrays(to_arrays(values, layout)))
    record, data = _base(track)
    at = put(record, data)
    bundle = Bundle(Tracker.resume(track, coding), at, record.run, 0, (at,))
    return WrittenBundle(bundle, None, at, len(data))


def bundle_of(replay: Replay, needs: tuple[RecordAt, ...], coding: Coding) -> Bundle:
    """A bundle whose track was rebuilt from disk. needs: see `Bundle`."""
    assert replay.track is not None
    assert replay.run is not None
    assert replay.step is not None
    tracker = Tracker.resume(replay.track, coding)
    return Bundle(tracker, needs[-1], replay.run, replay.step, needs)


def store_whole(specs: Sequence[TensorSpec], arrays: Arrays, put: Put) -> tuple[RecordAt, int]:
    """Write a record of whole chunks; returns where it lies, and its bytes."""
    record, data = _base(Track.of(Layout(tuple(specs)), arrays))
    return put(record, data), len(data)


def whole_spec(name: str, spec: TensorSpec | None, value: Any) -> TensorSpec:
    """Of a chunk that is not lossy; spec is None for bytes, which become a uint8 tensor."""
    return spec or spec_of(name, value, lossy=False)


def content_digest(array: NDArray[Any]) -> str:
    """Digest of a chunk's bytes."""
    return xxhash.xxh3_128_hexdigest(array.reshape(-1).view(np.uint8).data)


def _base(track: Track) -> tuple[Record, bytes]:
    draft = Draft.of_base("a base about to be written", BesidePlace(0), track)
    return draft.check(track), draft.data
