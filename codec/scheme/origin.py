"""How far a restart would be behind: what a step leaves, as a share of what was trained.

What was trained since the base is ||u - u at the base||, over the lossy weights. A copy of the base
would take as much memory as the weights, so only a sample is kept. A step that adds or removes
lossy weights, or changes their shapes, counts as a base here: its weights are sampled anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from codec.state.tensors import Arrays, Layout, TensorSpec

from . import kernels
from .kernels import BLOCK
from .remainder import Remainder, ratio_of
from .survivors import Segments

SAMPLE = 2**16  # elements kept of a large base: 256 KiB


@dataclass(frozen=True)
class Origin:
    """A sample of the lossy weights at the newest base.

    It has all weights of a small model, and every n-th block of BLOCK elements of a larger one.

    Attributes:
        names: The tensors, in layout order: all lossy ones but an optimizer's moments.
        stride: The n of every n-th block; 1 for a small model.
        weights: float32 (blocks, BLOCK), the sampled elements.
    """

    names: tuple[str, ...] = ()
    stride: int = 1
    weights: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, BLOCK), np.float32))

    @classmethod
    def of(cls, layout: Layout, arrays: Arrays) -> Origin:
        """Sample a base. arrays: name -> float32, the base's lossy tensors."""
        names = weights_of(layout)
        segments = Segments([arrays[name] for name in names])
        stride = max(-(-segments.n // SAMPLE), 1)
        weights = np.zeros((-(-segments.n // (stride * BLOCK)), BLOCK), np.float32)
        if segments.n:
            kernels.sample_blocks(segments.tracks, segments.starts, stride, weights)
        return cls(names, stride, weights)

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
        segments = Segments([arrays[name] for name in self.names])
        if not segments.n or not remainder.left:
            return 0.0
        delta = np.empty((2, BLOCK), np.float32)
        sample = segments.tracks, segments.starts, self.stride, self.weights, delta
        last = len(self.weights) - 1
        sampled = last * BLOCK + min(BLOCK, segments.n - last * self.stride * BLOCK)
        return ratio_of(remainder.left, kernels.moved_since(*sample) * segments.n / sampled)


def weights_of(layout: Layout) -> tuple[str, ...]:
    """The tensors whose distance is measured: all lossy ones but an optimizer's moments."""
    return tuple(t.name for t in layout.tensors if _is_weight(t))


def _is_weight(t: TensorSpec) -> bool:
    return t.lossy and not t.alone
