"""A chain that is made and counted, but not written: what other settings would have saved.

Bytes, levels and track are those of `codec.Checkpointer` for the same states: a budget pays for the
header, too, and code tables that were sent before are used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from codec.record import record as records
from codec.record.header import DIGEST
from codec.record.record import RUN, Place
from codec.scheme.track import Step, Tracker
from codec.state import edits
from codec.state.tensors import Arrays, Layout, copy_arrays


class Choice(Protocol):
    """What can be chosen of the codec: see `codec.Tracker`."""

    @property
    def bits(self) -> int | None:
        """x of priority promotion, None for all buckets."""

    @property
    def scope(self) -> str:
        """Of an alphabet."""

    @property
    def coder(self) -> str:
        """Its name."""

    @property
    def budget(self) -> float | None:
        """A share of float32 instead of bits."""


class Unwritten:
    """The chain of one choice.

    base: the state that it begins with, stored exactly, name -> array; it is copied. values: what
    of it is no tensor, see `codec.state.tree`.
    """

    def __init__(
        self, choice: Choice, layout: Layout, base: Arrays, values: Sequence[str] = ()
    ) -> None:
        c = choice
        self._tracker = Tracker.resume(
            layout, copy_arrays(base), {}, c.bits, c.scope, c.coder, c.budget
        )
        self._values = tuple(values)
        self._known_header: tuple[tuple[object, ...], int] = ((), 0)

    @property
    def layout(self) -> Layout:
        """Of every state."""
        return self._tracker.layout

    @property
    def track(self) -> Arrays:
        """What a restart would have now; it changes with the next commit."""
        return self._tracker.state

    def prepare(self, step: int, arrays: Arrays, values: Sequence[str] = ()) -> Step:
        """The delta from the track to a state; the track stays where it is. Raises codec.LccError.

        values: as many as the base's.
        """
        changed = edits.changes(self._values, values)
        delta = self._tracker.prepare_arrays(arrays, lambda exact: self._header_nbytes(step, exact))
        return replace(delta, values=changed)

    def commit(self, delta: Step, values: Sequence[str] = ()) -> None:
        """Go on from a delta that `prepare` returned last."""
        self._tracker.commit(delta)
        self._values = tuple(values)

    def _header_nbytes(self, step: int, exact: Arrays) -> int:
        """Bytes of a record's header that a budget pays for, as the recorder counts them."""
        t = self._tracker
        if t.budget is None:
            return 0
        key = len(str(step)), *exact
        if self._known_header[0] != key:
            found = records.header_nbytes(
                len(str(step)), t.layout, exact, t.scope, t.coder, t.budget
            )
            self._known_header = key, found
        return self._known_header[1]


def record_nbytes(step: int, delta: Step) -> int:
    """Bytes of a delta's record on disk: digests are as long whatever they say."""
    return len(records.dump_delta(Place(step, "0" * RUN, "0" * DIGEST), "0" * 32, delta))
