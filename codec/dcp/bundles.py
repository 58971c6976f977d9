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
from codec.record.alphabets import ARRAY, nbytes_of
from codec.record.encode import Draft, encode_delta
from codec.record.reason import Reason
from codec.record.record import Record, stored_layout
from codec.record.settings import ChainSettings
from codec.record.track import Track
from codec.scheme.budget import Allowance
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta
from codec.scheme.tracker import Tracker
from codec.state.tensors import Layout, TensorSpec, copy_arrays, same_bits, to_arrays

from .files import BesidePlace, RecordAt

Put = Callable[[Record, bytes], RecordAt]


class Bundle:
    """Chunks whose base is one record, and their track: either all lossy or all exact.

    Args:
        track: The track at record ``at``.
        coding: How deltas of lossy chunks are coded.
        at: The newest record.
        run: The chain's run.
        n: Deltas since the base.
        needs: The records from the base to ``at``.
    """

    def __init__(
        self,
        track: Track,
        coding: Coding,
        at: RecordAt,
        run: str | None,
        n: int,
        needs: tuple[RecordAt, ...],
    ) -> None:
        tensors = track.layout.tensors
        # A budget would only measure the headers of records that are not lossy.
        coding = coding if any(t.lossy for t in tensors) else coding.keeping()
        self.tracker = Tracker.resume(track, coding)
        self.at, self.run, self.n, self.needs = at, run, n, needs
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
        place = BesidePlace(self.n + 1, self.run, self.at.digest, at=self.at)
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
            return WrittenBundle(self, None, self.at, 0, leaving)
        draft = Draft.of_delta("a delta about to be written", place, track, delta)
        at = put(draft.check(track), draft.data)
        # The arrays after the residuals may be as large as the track: they are not kept.
        return WrittenBundle(self, replace(delta, after_residuals={}), at, len(draft.data), leaving)


@dataclass(frozen=True)
class WrittenBundle:
    """A bundle in a save that is not committed yet.

    delta: moves the track at the commit; None for a base, or if nothing has changed. at: the newest
    record. nbytes: of a new record. leaving: names of chunks that leave the bundle.
    """

    bundle: Bundle
    delta: Delta | None
    at: RecordAt
    nbytes: int
    leaving: Collection[str] = ()

    @property
    def budgeted_nbytes(self) -> int:
        """Bytes of its record that count for a budget."""
        if self.delta is None:
            return 0
        moment_nbytes = nbytes_of(group for group in self.delta.groups if group.tensors[0].alone)
        return self.nbytes - moment_nbytes - self.delta.exact_nbytes

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of other directories that a reader needs."""
        return tuple(at.step for at in self.bundle.needs if at != self.at)

    def commit(self) -> Bundle:
        """Move the track, and return the bundle after the save."""
        bundle = self.bundle
        if self.delta is not None:
            bundle.tracker.commit(self.delta)
            bundle.at, bundle.n = self.at, bundle.n + 1
            bundle.needs = (*bundle.needs, self.at)
        bundle.specs = {name: t for name, t in bundle.specs.items() if name not in self.leaving}
        return bundle


def lossy_in(record: Record) -> Callable[[str], bool]:
    """Which chunks of a record are lossy, by name; of a delta, a bundle's chunks are all alike."""
    if record.kind == "base":
        names = {t.name for t in stored_layout(record).tensors if t.lossy}
        return names.__contains__
    is_lossy = ARRAY in record.arrays or "non_finite" in record.more
    return lambda _name: is_lossy


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
    place = BesidePlace(0, settings=settings.field, reason=reason)
    draft = Draft.of_base("a base about to be written", place, track)
    record = draft.check(track)
    at = put(record, draft.data)
    bundle = Bundle(track, settings.coding, at, record.run, 0, (at,))
    return WrittenBundle(bundle, None, at, len(draft.data))


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
    assert replay.run is not None
    assert replay.step is not None
    bundle = Bundle(replay.track, coding, needs[-1], replay.run, replay.step, needs)
    bundle.specs = {name: t for name, t in bundle.specs.items() if name in names}
    return bundle
