"""What a rank keeps between saves: tracks of its chunks.

Chunks that got their base together are a bundle: one track, and at most one record a step, because
a step should cost few files. A chunk that is missing from a save, because its owner has changed,
gets a delta of zeros. Exact chunks have bundles of their own: what has changed becomes a residual
where that is smaller, else it leaves its bundle for a new one, whose base has it whole. Where
nothing has changed no record is written.

The result of a save is kept apart until all ranks have done their part; until then the tracks stay
where they are.

Not done here: when all ranks are done, and where files lie (writer, files).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from codec.chain.replay import Replay
from codec.record.alphabets import nbytes_of
from codec.record.encode import DeltaEncoder, Draft
from codec.record.record import Record
from codec.scheme.budget import Allowance
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta
from codec.scheme.track import Track
from codec.scheme.tracker import Tracker
from codec.state.tensors import Layout, TensorSpec, copy_arrays, same_bits, to_arrays

from .files import BesidePlace, RecordAt

Put = Callable[[Record, bytes], RecordAt]


class Bundle:
    """Chunks whose base is one record, and their track. They are lossy, or none of them is.

    Args:
        track: Where ``at`` leads to.
        coding: How deltas of lossy chunks are coded.
        at: The record that leads to the track.
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
        self._encoder = DeltaEncoder()

    def holds(self, spec: TensorSpec) -> bool:
        """Whether there is a track of this chunk."""
        return self.specs.get(spec.name) == spec

    def delta(
        self,
        values: Mapping[str, Any],
        put: Put,
        allowance: Allowance | None = None,
        whole: Collection[str] = (),
    ) -> WrittenBundle:
        """Write the difference between the track and these values; the track stays where it is.

        An exact chunk that takes more as a residual than whole is left out.

        Args:
            values: Name -> torch tensor, of some or all chunks.
            put: Writes the record.
            allowance: What the record may take of a budget; None without one.
            whole: Names of exact chunks that are left out if they have changed.

        Raises:
            BudgetError: The budget holds nothing of chunks that have changed.
            RecordError: The record cannot be read again. Also what ``put`` raises.
        """
        tracker, track = self.tracker, self.tracker.track
        given = Layout(tuple(t for t in track.layout.tensors if t.name in values))
        place = BesidePlace(self.n + 1, self.run, self.at.digest, at=self.at)
        arrays = track.arrays | to_arrays(values, given)
        left = {name for name in whole if not same_bits(track.arrays[name], arrays[name])}
        arrays |= {name: track.arrays[name] for name in left}
        delta = self._encoder.encode(tracker, place, arrays, allowance=allowance)
        stays = {name: a for name, a in delta.exact.items() if name in delta.non_finite}
        left |= delta.exact.keys() - stays.keys()
        delta = replace(delta, exact=stays)
        if not (delta.groups or delta.exact or delta.residuals):
            return WrittenBundle(self, None, self.at, 0, left)
        draft = Draft.of_delta("a delta about to be written", place, track, delta)
        at = put(draft.check(track), draft.data)
        # What residuals lead to is not kept until the commit: it may be as large as the track.
        return WrittenBundle(self, replace(delta, known={}), at, len(draft.data), left)


@dataclass(frozen=True)
class WrittenBundle:
    """A bundle and the record that it is in after a save.

    delta: moves the track at the commit; None for a base, or if nothing has changed. nbytes: of a
    new record. left: names of chunks that are to be stored whole.
    """

    bundle: Bundle
    delta: Delta | None
    at: RecordAt
    nbytes: int
    left: Collection[str] = ()

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
        return tuple(at.step for at in self.bundle.needs if at != self.at)

    def commit(self) -> Bundle:
        """The bundle as it is after the save."""
        bundle = self.bundle
        if self.delta is not None:
            bundle.tracker.commit(self.delta)
            bundle.at, bundle.n = self.at, bundle.n + 1
            bundle.needs = (*bundle.needs, self.at)
        bundle.specs = {name: t for name, t in bundle.specs.items() if name not in self.left}
        return bundle


def new_bundle(
    specs: Sequence[TensorSpec], values: Mapping[str, Any], coding: Coding, put: Put
) -> WrittenBundle:
    """A new bundle of these chunks, its base written. Raises as `Bundle.delta`."""
    layout = Layout(tuple(specs))
    track = Track.of(layout, copy_arrays(to_arrays(values, layout)))
    draft = Draft.of_base("a base about to be written", BesidePlace(0), track)
    record = draft.check(track)
    at = put(record, draft.data)
    return WrittenBundle(Bundle(track, coding, at, record.run, 0, (at,)), None, at, len(draft.data))


def bundle_of(
    replay: Replay, needs: tuple[RecordAt, ...], names: Collection[str], coding: Coding
) -> Bundle:
    """A bundle whose track was rebuilt from disk.

    Args:
        replay: Has followed ``needs``, see `Bundle`.
        names: The chunks that the step has from there; others were stored elsewhere since.
        coding: See `Bundle`.
    """
    assert replay.track is not None
    assert replay.run is not None
    assert replay.step is not None
    bundle = Bundle(replay.track, coding, needs[-1], replay.run, replay.step, needs)
    bundle.specs = {name: t for name, t in bundle.specs.items() if name in names}
    return bundle
