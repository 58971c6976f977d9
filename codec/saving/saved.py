"""What `Checkpointer.save` returns.

Not done here: saving itself (recorder, background).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from codec.scheme.delta import Delta

STAGES = ("encode", "check", "write", "advance")  # of a save


@dataclass(frozen=True)
class Saved:
    """What one save wrote.

    Attributes:
        step: The number of the checkpoint.
        kind: "base" or "delta"; "skipped" if the previous save was still under way.
        nbytes: Size of the record on disk.
        full_nbytes: Size of the same state uncompressed, with float32 for lossy tensors, without
            the gradients that `codec.rerun` adds.
        seconds: Of the whole save.
        non_finite: Tensors with NaN, infinity or too large a change, stored whole.
        delta: What was encoded; None for a base, and if another process encoded it.
        stages: Seconds of "encode" (up to the record's bytes), "check" (handing them to the system,
            and decoding them), "write" (until they are on disk) and "advance" (of the track).
        commit: The last seconds of "write": the file, already fsynced, gets its name, and the
            directory is fsynced.
        began: When the save began, by `time.perf_counter`, which all processes of a machine share.
        exact_nbytes: The part of nbytes that is stored exactly, and so outside a budget: tensors
            and values with their entries in the header; all of a base.
        lossy_nbytes: The part of full_nbytes that a budget is a share of: the lossy tensors without
            those of moment_nbytes.
        moment_nbytes: The part of nbytes that is lossy, but outside a budget too: an optimizer's
            tensors with bits of their own.
        distance: The share of the change that is carried over to the next checkpoint, in the lossy
            weights: ||u - track after|| / ||u - track before||; 0.0 of a base.
        behind: How far a restart would be behind, as a share of the distance trained since the
            base: ||u - track after|| / ||u - u at the base||; 0.0 of a base. In models of more than
            2**16 lossy weights the denominator is estimated.
        reason: Why the record is a base, one of `codec.inspect.Reason`. Of a delta None; or
            `Reason.KERNELS`: it has run lengths, because the kernels for a context code of so many
            values were not loaded yet. Later deltas take fewer bytes.
    """

    step: int
    kind: str
    nbytes: int
    full_nbytes: int
    seconds: float
    non_finite: tuple[str, ...] = ()
    delta: Delta | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    commit: float = 0.0
    began: float = 0.0
    exact_nbytes: int = 0
    lossy_nbytes: int = 0
    moment_nbytes: int = 0
    distance: float = 0.0
    behind: float = 0.0
    reason: str | None = None

    @property
    def ratio(self) -> float:
        """full_nbytes / nbytes: 30.0 means a record 30 times smaller; inf if skipped."""
        return self.full_nbytes / self.nbytes if self.nbytes else math.inf

    def result(self) -> Saved:
        """This object; for a `PendingSave`, the finished save."""
        return self


class PendingSave(Saved):
    """A save that another process may still be working on.

    `step` is known at once. `result` and all other fields wait for the save and raise its error.
    """

    def __init__(self, step: int, finish: Callable[[], Saved]) -> None:
        self._step, self._finish = step, finish
        self._saved: Saved | None = None

    @property
    def step(self) -> int:
        """The number of the checkpoint."""
        return self._step

    def result(self) -> Saved:
        """Wait, and return what was written.

        Raises:
            LccError: The error of that save.
            LockedError: This process is a fork of the one that saves.
        """
        if self._saved is None:
            self._saved = self._finish()
        return self._saved


def _awaited(name: str) -> Any:
    return property(lambda pending: getattr(pending.result(), name))


for _field in fields(Saved):
    if _field.name != "step":
        setattr(PendingSave, _field.name, _awaited(_field.name))
