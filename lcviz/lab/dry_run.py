"""What other settings would have saved: a chain that is encoded and counted, but not written.

Bytes, levels and track are those of `codec.Checkpointer` for the same states: a budget also pays
for the header, and code tables are reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from codec.record.header import DIGEST
from codec.record.record import RUN, Place, dump_delta, header_nbytes
from codec.scheme.track import Step, Tracker
from codec.state import edits
from codec.state.tensors import Arrays, Layout, copy_arrays


@dataclass(frozen=True)
class CodecChoice:
    """What can be chosen of the codec: see `codec.Tracker`. With a budget bits is None."""

    bits: int | None = 2
    scope: str = "model"
    coder: str = "runlength"
    budget: float | None = None

    @property
    def text(self) -> str:
        """In words."""
        if self.budget is not None:
            keeps = f"a budget of {100 * self.budget:.3g} % of float32,"
        elif self.bits is None:
            keeps = "all"
        else:
            keeps = f"{self.bits} bit{'s' if self.bits > 1 else ''},"
        over = "the whole model" if self.scope == "model" else "each tensor"
        coder = "run-length" if self.coder == "runlength" else "Huffman"
        return f"{keeps} buckets over {over}, {coder}"


class DryRun:
    """A chain of one choice that is encoded but not written.

    Args:
        choice: the codec's settings.
        layout: of every state.
        base: the state that the chain begins with, stored exactly, name -> array; it is copied.
        values: what of it is no tensor, see `codec.state.tree`.
    """

    def __init__(
        self, choice: CodecChoice, layout: Layout, base: Arrays, values: Sequence[str] = ()
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
        """What a restart would load; it changes with the next commit."""
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
            found = header_nbytes(len(str(step)), t.layout, exact, t.scope, t.coder, t.budget)
            self._known_header = key, found
        return self._known_header[1]


def record_nbytes(step: int, delta: Step) -> int:
    """Bytes of a delta's record on disk: digests are as long whatever they say."""
    return len(dump_delta(Place(step, "0" * RUN, "0" * DIGEST), "0" * 32, delta))
