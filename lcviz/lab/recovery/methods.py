"""Methods of saving a training, compared at equal bytes on disk.

All get the same states. LC-Checkpoint writes real chains; the records of the baselines are built in
the same container (header, digests, indices) and counted, but not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import codec
from codec import Coding
from codec.errors import BudgetError
from codec.inspect import (
    CODERS,
    Arrays,
    Parts,
    flatten,
    from_arrays,
    layout_of,
    rules,
    sealed_nbytes,
    unflatten,
)

from .baselines import Full, Scar, TopN

SHARES = (0.01, 0.02, 0.05, 0.10)  # of float32
# Ways to save an optimizer's state. "?": plain SGD has none for the pattern to match.
DEFAULT, EXACT, NONE = "default", "optimizer/*=exact?", "optimizer/*=skip?"


class Saver(Protocol):
    """A method at work in one training."""

    def save(self, step: int, state: Mapping[str, Any]) -> int:
        """Save a checkpoint; returns its bytes on disk."""

    def restore(self) -> dict[str, Any]:
        """The state of the newest checkpoint, in new tensors."""

    def close(self) -> None:
        """Close files."""


@dataclass(frozen=True)
class Method:
    """One method of saving.

    kind: "full", "scar", "topn" or "lc". share: of the float32 size that a checkpoint may take;
    None for "full", and for "lc" with a number of bits. coding: the settings of "lc". moments: how
    "lc" saves the optimizer's state: DEFAULT for the codec's default, or the text of a policy as in
    `codec.inspect.rules`.
    """

    kind: str
    share: float | None = None
    coding: Coding | None = None
    moments: str = DEFAULT

    @property
    def name(self) -> str:
        """Its name in tables, without the share."""
        if self.coding is None:
            return {"full": "full", "scar": "SCAR", "topn": "TOPN"}[self.kind]
        coding = self.coding
        if coding.by_bits:
            keeps = f", {coding.bits or 'all'} bits"
        elif coding.budget is None:
            keeps = f", {coding.target} {getattr(coding, coding.target):g}"
        else:  # named only if the quantizer is not the coder's usual one
            paper = coding.coder == "huffman"
            keeps = "" if coding.uniform != paper else ", steps" if coding.uniform else ", buckets"
        scope = ", per tensor" if self.coding.scope == "tensor" else ""
        return f"LC {CODERS[self.coding.coder].short}{keeps}{scope}"

    def open(self, folder: Path) -> Saver:
        """A saver that is ready for the first state of a training. folder: an empty one."""
        if self.coding is None:
            return _Baseline(self)
        return _Chain(self.coding, folder, self.moments)


def lc(coding: Coding, moments: str = DEFAULT) -> Method:
    """The method LC-Checkpoint; its share is the budget."""
    return Method("lc", coding.budget, coding, moments)


def methods_at(share: float) -> tuple[Method, ...]:
    """At one share of float32: SCAR, TOPN, the paper's LC, and ours with equal steps."""
    paper = Coding(budget=share, coder="huffman", quantizer="exponent")
    return Method("scar", share), Method("topn", share), lc(paper), lc(Coding(budget=share))


class _Chain:
    """LC-Checkpoint: a chain as a user gets it."""

    def __init__(self, coding: Coding, folder: Path, moments: str) -> None:
        self._path = folder / "run.lcc"
        policy = None if moments == DEFAULT else rules([moments])
        self._checkpointer = codec.Checkpointer(
            self._path, **coding.header(), policy=policy, restore_work=None
        )

    def save(self, step: int, state: Mapping[str, Any]) -> int:
        try:
            return self._checkpointer.save(step, state).nbytes
        except BudgetError:  # go on without this checkpoint, as a user would
            return 0

    def restore(self) -> dict[str, Any]:
        return codec.restore(self._path)

    def close(self) -> None:
        self._checkpointer.close()


class _Baseline:
    """Full, SCAR or TOPN."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._tracker: Full | Scar | TopN | None = None
        self._parts = Parts("", {}, ())
        self._track: Arrays = {}

    def save(self, step: int, state: Mapping[str, Any]) -> int:
        parts = flatten(state, lambda _: False)
        first = layout_of(parts.tensors) != layout_of(self._parts.tensors)
        self._parts = parts
        if first or self._method.kind == "full":
            whole = Full(parts.tensors)
            self._tracker, self._track = self._new_tracker(parts.tensors), whole.state
            return sealed_nbytes(step, whole.step(parts.tensors).arrays)
        if self._tracker is None:  # not even the header fits
            return sealed_nbytes(step, {})
        change = self._tracker.step(parts.tensors)
        change.apply(self._track)
        return sealed_nbytes(step, change.arrays)

    def restore(self) -> dict[str, Any]:
        tensors = from_arrays(self._track, layout_of(self._parts.tensors))
        return unflatten(replace(self._parts, tensors=tensors))

    def close(self) -> None:
        pass

    def _new_tracker(self, tensors: Mapping[str, Any]) -> Scar | TopN | None:
        """A tracker that fits the share; None if a record could hold only its header."""
        if self._method.share is None:
            return None
        layout = layout_of(tensors)
        full, most_nbytes = layout.nbytes, int(self._method.share * layout.lossy_nbytes)
        exact: Arrays = {f"t/{t.name}": np.zeros(1) for t in layout.tensors if not t.lossy}
        lossy_arrays: Arrays = {
            "blocks": np.zeros(most_nbytes, np.uint8),
            "values": np.zeros(most_nbytes // 4, np.float32),
        }
        header = header_nbytes(exact | lossy_arrays)
        # As with LC, exact tensors do not count.
        most_nbytes += full - layout.lossy_nbytes + header - header_nbytes(lossy_arrays)
        kind = Scar if self._method.kind == "scar" else TopN
        return kind(tensors, (most_nbytes - header) / full) if most_nbytes > header else None


def header_nbytes(arrays: Arrays) -> int:
    """Bytes of a baseline's record with these arrays that are none of theirs."""
    return sealed_nbytes(10**6, arrays) - sum(array.nbytes for array in arrays.values())
