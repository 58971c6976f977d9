"""How far a restart would be behind: what a step leaves, as a share of what was trained.

What was trained since the base is ||u - u at the base||, over the lossy weights. A copy of the base
would take as much memory as the weights, so only a sample is kept. A step that adds or removes
lossy weights, or changes their shapes, counts as a base here: its weights are sampled anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from codec.state.tensors import Arrays, Layout, TensorSpec

from . import plain, workers
from .kernels import collect as kernel
from .limits import BLOCK
from .remainder import Remainder, ratio_of
from .twins import twin_of

SAMPLE = 2**16  # elements kept of a large base: 256 KiB


@dataclass(frozen=True)
class Origin:
    """A sample of the lossy weights at the newest base.

    It has all weights of a small model, and every n-th block of BLOCK elements of a larger one.

    Attributes:
        names: The tensors, in layout order: all lossy ones but an optimizer's moments.
        stride: The n of every n-th block; 1 for a small model.
        weights: float32 (m,), the sampled elements, with zeros behind them up to a whole block.
    """

    names: tuple[str, ...] = ()
    stride: int = 1
    weights: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))

    @classmethod
    def of(cls, layout: Layout, arrays: Arrays) -> Origin:
        """Sample a base. arrays: name -> float32, the base's lossy tensors."""
        names = weights_of(layout)
        stride = max(-(-sum(arrays[name].size for name in names) // SAMPLE), 1)
        return cls(names, stride, _sampled([arrays[name] for name in names], stride)[0])

    def moved(self, before: Layout, after: Layout, arrays: Arrays) -> Origin:
        """The origin after a change of the layout.

        The origin stays if the lossy weights keep their names and shapes; else ``arrays`` are
        sampled.
        """
        old_shapes, new_shapes = (
            [(t.name, t.shape) for t in layout.tensors if _is_weight(t)]
            for layout in (before, after)
        )
        return self if old_shapes == new_shapes else Origin.of(after, arrays)

    def behind(self, arrays: Arrays, remainder: Remainder) -> float:
        """What a step leaves, as a share of what was trained since the base.

        Args:
            arrays: Name -> float32, the state that was saved, with the shapes of the sample.
            remainder: The remainder of the step.

        Returns:
            ||u - track|| / ||u - u at the base||. In a large model the denominator is estimated
            from the sample. 0.0 if nothing is left, inf if only the denominator is 0.
        """
        if not self.names or not remainder.left:
            return 0.0
        weights, share = _sampled([arrays[name] for name in self.names], self.stride)
        return ratio_of(remainder.left, _squares_between(weights, self.weights) / share)


def _sampled(
    arrays: Sequence[NDArray[np.float32]], stride: int
) -> tuple[NDArray[np.float32], float]:
    """Every stride-th block of all elements, padded to whole blocks, and their share of them."""
    flat, step, begin = [array.reshape(-1) for array in arrays], stride * BLOCK, 0
    parts = flat
    if stride > 1:
        parts = []
        for array in flat:
            before_block = -begin % step
            if before_block:  # what is left of a block that began in an earlier tensor
                parts.append(array[: max(before_block - (step - BLOCK), 0)])
            rest = array[before_block:]
            whole = rest.size // step * step
            parts += [rest[:whole].reshape(-1, step)[:, :BLOCK].reshape(-1), rest[whole:][:BLOCK]]
            begin += array.size
    sampled = sum(part.size for part in parts)
    parts = [*parts, np.zeros(-sampled % BLOCK, np.float32)]
    return np.concatenate(parts), sampled / max(sum(array.size for array in flat), 1)


@twin_of(plain.squares_between)
def _squares_between(now: NDArray[np.float32], before: NDArray[np.float32]) -> float:
    """See `plain.squares_between`."""
    with workers.scratch() as scratch:
        return float(kernel.squares_between(now, before, scratch.delta))


def weights_of(layout: Layout) -> tuple[str, ...]:
    """The tensors whose distance is measured: all lossy ones but an optimizer's moments."""
    return tuple(t.name for t in layout.tensors if _is_weight(t))


def _is_weight(t: TensorSpec) -> bool:
    return t.lossy and not t.measure
