"""What a rank keeps between saves: tracks of its chunks.

Chunks whose base is one record form a bundle. It has one track and writes at most one record a
step, so that a step has few files. A chunk that is missing from a save, because its owner has
changed, gets a delta of zeros. Exact chunks have separate bundles: a changed chunk is stored as a
residual if that is smaller; otherwise it leaves its bundle for a new one, whose base stores it
whole. If nothing has changed, no record is written.

A track moves only at the commit, after all ranks have written their part of the save.

Not done here: when all ranks are done, and where files lie (writer, files).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from codec.chain.replay import Replay
from codec.record.alphabets import nbytes_of
from codec.record.encode import Draft, encode_delta
from codec.record.reason import Reason
from codec.record.record import Place, Record
from codec.record.settings import ChainSettings
from codec.record.track import Track
from codec.scheme.budget import Allowance
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta
from codec.scheme.tracker import Tracker
from codec.state.tensors import Layout, TensorSpec, copy_arrays, same_bits, to_arrays

from .files import RecordAt

Put = Callable[[Record, bytes], RecordAt]


class Bundle:
    """Chunks whose base is one record, and their track: either all lossy or all exact.

    Args:
        track: The track at the newest record.
        coding: How deltas of lossy chunks are coded.
        run: The chain's run.
        identity: That of the newest record.
        needs: The records from the base to the newest.
    """

    def __init__(
        self,
        track: Track,
        coding: Coding,
        run: str | None,
        identity: str | None,
        needs: tuple[RecordAt, ...],
    ) -> None:
        tensors = track.layout.tensors
        # A budget would only measure the headers of records that are not lossy.
        coding = coding if any(t.lossy for t in tensors) else coding.keeping()
        self.tracker = Tracker.resume(track, coding)
        self.run, self.identity, self.needs = run, identity, needs
        self.specs = {t.name: t for t in tensors}

    def holds(self, spec: TensorSpec) -> bool:
        """Whether the bundle has a track of this chunk."""
        return self.specs.get(spec.name) == spec

    def delta(
        self,
        values: Mapping[str, Any],
        put: Put,
        allowance: Allowance | None = None,
        whole_if_changed: Collection[str] = (),
    ) -> WrittenBundle:
        """Write the difference between the track and these values; the track does not move.

        An exact chunk leaves the bundle if its residual would be larger than the whole chunk.

        Args:
            values: Name -> torch tensor, of some or all chunks.
            put: Writes the record.
            allowance: The record's part of a budget; None without a budget.
            whole_if_changed: Names of exact chunks that leave the bundle if they have changed.

        Raises:
            BudgetError: The budget is too small for any change of these chunks.
            RecordError: The record cannot be read again. Also what ``put`` raises.
        """
        tracker, track = self.tracker, self.tracker.track
        layout = Layout(tuple(t for t in track.layout.tensors if t.name in values))
        place = Place(len(self.needs), self.run, self.identity)
        arrays = track.arrays | to_arrays(values, layout)
        leaving = {
            name for name in whole_if_changed if not same_bits(track.arrays[name], arrays[name])
        }
        arrays |= {name: track.arrays[name] for name in leaving}
        delta = encode_delta(tracker, place, arrays, allowance=allowance)
        non_finite = {name: a for name, a in delta.exact.items() if name in delta.non_finite}
        leaving |= delta.exact.keys() - non_finite.keys()
        delta = replace(delta, exact=non_finite)
        if not (delta.groups or delta.exact or delta.residuals):
            return WrittenBundle(self, None, self.needs, self.identity, 0, leaving)
        draft = Draft.of_delta("a delta about to be written", place, track, delta)
        record = draft.check(track)
        needs = (*self.needs, put(record, draft.data))
        return WrittenBundle(self, delta.lean, needs, record.digest, record.nbytes, leaving)


@dataclass(frozen=True)
class WrittenBundle:
    """A bundle in a save that is not committed yet.

    delta: moves the track at the commit; None for a base, or if nothing has changed. needs,
    identity: of the bundle after the commit. nbytes: of a new record. leaving: names of chunks that
    leave the bundle.
    """

    bundle: Bundle
    delta: Delta | None
    needs: tuple[RecordAt, ...]
    identity: str | None
    nbytes: int
    leaving: Collection[str] = ()

    @property
    def budgeted_nbytes(self) -> int:
        """Bytes of its record that count for a budget."""
        if self.delta is None:
            return 0
        moment_nbytes = nbytes_of(group for group in self.delta.groups if group.tensors[0].measure)
        return self.nbytes - moment_nbytes - self.delta.exact_nbytes

    def commit(self) -> Bundle:
        """Move the track, and return the bundle after the save."""
        bundle = self.bundle
        if self.delta is not None:
            bundle.tracker.commit(self.delta)
        bundle.needs, bundle.identity = self.needs, self.identity
        bundle.specs = {name: t for name, t in bundle.specs.items() if name not in self.leaving}
        return bundle


def new_bundle(
    specs: Sequence[TensorSpec],
    values: Mapping[str, Any],
    settings: ChainSettings,
    reason: Reason,
    put: Put,
) -> WrittenBundle:
    """A new bundle of these chunks, its base written. Raises as `Bundle.delta`."""
    layout = Layout(tuple(specs))
    track = Track.of(layout, copy_arrays(to_arrays(values, layout)))
    place = Place(0, settings=settings.field, reason=reason)
    draft = Draft.of_base("a base about to be written", place, track)
    record = draft.check(track)
    needs = (put(record, draft.data),)
    bundle = Bundle(track, settings.coding, record.run, record.digest, needs)
    return WrittenBundle(bundle, None, needs, record.digest, record.nbytes)


def bundle_of(
    replay: Replay, needs: tuple[RecordAt, ...], names: Collection[str], coding: Coding
) -> Bundle:
    """A bundle whose track was rebuilt from disk.

    Args:
        replay: Has read the records ``needs``, see `Bundle`.
        names: The chunks that the step reads from here; others have left the bundle.
        coding: See `Bundle`.
    """
    assert replay.track is not None
    bundle = Bundle(replay.track, coding, replay.run, replay.identity, needs)
    bundle.specs = {name: t for name, t in bundle.specs.items() if name in names}
    return bundle
