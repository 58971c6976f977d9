"""How far a restart would be behind: the rest of a step as a share of what was trained.

What was trained since the base is ||u - u at the base||, over the lossy weights. A copy of the base
would take as much memory as the weights, so a sample of it is remembered. A step after which there
are other lossy weights, or weights of other shapes, counts as a base here.
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

SAMPLE = 2**16  # elements that are remembered of a base: 256 KiB


@dataclass(frozen=True)
class Origin:
    """A sample of the lossy weights as they were at the newest base.

    Small models are remembered whole, of larger ones every n-th block of BLOCK elements.

    Attributes:
        names: The tensors, in layout order: all lossy ones but an optimizer's moments.
        stride: n.
        weights: float32 (blocks, BLOCK), the remembered elements.
    """

    names: tuple[str, ...] = ()
    stride: int = 1
    weights: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, BLOCK), np.float32))

    @classmethod
    def of(cls, layout: Layout, arrays: Arrays) -> Origin:
        """The sample of a base. arrays: name -> float32, the base's lossy tensors."""
        names = weights_of(layout)
        segments = Segments([arrays[name] for name in names])
        stride = max(-(-segments.n // SAMPLE), 1)
        weights = np.zeros((-(-segments.n // (stride * BLOCK)), BLOCK), np.float32)
        if segments.n:
            kernels.sample_blocks(segments.tracks, segments.starts, stride, weights)
        return cls(names, stride, weights)

    def moved(self, before: Layout, after: Layout, arrays: Arrays) -> Origin:
        """The same in another layout; a new sample, of these arrays, where the lossy weights are
        others or have other shapes."""
        shapes, others = (
            [(t.name, t.shape) for t in layout.tensors if _is_weight(t)]
            for layout in (before, after)
        )
        return self if shapes == others else Origin.of(after, arrays)

    def behind(self, arrays: Arrays, remainder: Remainder) -> float:
        """The rest of a step as a share of what was trained since the base.

        Args:
            arrays: Name -> float32, what was saved, with the shapes of the base.
            remainder: Of the step.

        Returns:
            ||u - track|| / ||u - u at the base||; of a large model the denominator is estimated
            from the sample. 0.0 where nothing is left, inf where only the rest is not 0.
        """
        segments = Segments([arrays[name] for name in self.names])
        if not segments.n or not remainder.left:
            return 0.0
        block = np.empty(BLOCK, np.float32)
        own = segments.tracks, segments.starts, self.stride, self.weights, block
        last = len(self.weights) - 1
        sampled = last * BLOCK + min(BLOCK, segments.n - last * self.stride * BLOCK)
        return ratio_of(remainder.left, kernels.moved_since(*own) * segments.n / sampled)


def weights_of(layout: Layout) -> tuple[str, ...]:
    """The tensors whose distance is measured: all lossy ones but an optimizer's moments."""
    return tuple(t.name for t in layout.tensors if _is_weight(t))


def _is_weight(t: TensorSpec) -> bool:
    return t.lossy and not t.alone
