"""How far a restart would be behind: the rest of a step as a share of what was trained.

What was trained since the base is ||u - u at the base||, over the lossy weights. A copy of the base
would take as much memory as the weights, so a sample of it is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from codec.state.tensors import Arrays, Layout

from . import kernels
from .kernels import BLOCK
from .remainder import Remainder, ratio_of
from .survivors import Segments

SAMPLE = 2**18  # elements of the weights that are remembered of a base: 1 MiB


@dataclass(frozen=True)
class Origin:
    """A sample of the lossy weights as they were at the newest base.

    Small models are remembered whole, of larger ones every n-th block of BLOCK elements.

    Attributes:
        names: The tensors, in layout order: all lossy ones but an optimizer's moments.
        stride: n.
        weights: float32 (m,), the remembered elements.
    """

    names: tuple[str, ...] = ()
    stride: int = 1
    weights: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))

    @classmethod
    def of(cls, layout: Layout, arrays: Arrays) -> Origin:
        """The sample of a base. arrays: name -> float32, the base's lossy tensors."""
        names = weights_of(layout)
        n = sum(arrays[name].size for name in names)
        stride = max(-(-n // SAMPLE), 1)
        return cls(names, stride, _sample(names, stride, arrays))

    def behind(self, arrays: Arrays, remainder: Remainder) -> float:
        """The rest of a step as a share of what was trained since the base.

        Args:
            arrays: Name -> float32, what was saved, with the shapes of the base.
            remainder: Of the step.

        Returns:
            ||u - track|| / ||u - u at the base||; of a large model the denominator is estimated
            from the sample. 0.0 where nothing is left, inf where only the rest is not 0.
        """
        now = _sample(self.names, self.stride, arrays)
        with np.errstate(all="ignore"):  # NaN or infinity: such a tensor is stored whole
            difference = now.astype(np.float64) - self.weights
        difference = difference[np.isfinite(difference)]
        n = sum(arrays[name].size for name in self.names)
        moved = float(difference @ difference) * n / max(now.size, 1)
        return ratio_of(remainder.left, moved)


def weights_of(layout: Layout) -> tuple[str, ...]:
    """The tensors whose distance is measured: all lossy ones but an optimizer's moments."""
    return tuple(t.name for t in layout.tensors if t.lossy and not t.alone)


def _sample(names: tuple[str, ...], stride: int, arrays: Arrays) -> NDArray[np.float32]:
    segments = Segments([arrays[name] for name in names])
    blocks = -(-segments.n // BLOCK)
    sample = np.zeros((-(-blocks // stride), BLOCK), np.float32)
    if segments.n:
        kernels.sample_blocks(segments.tracks, segments.starts, stride, sample)
    last_is_sampled = blocks > 0 and (blocks - 1) % stride == 0
    return sample.reshape(-1)[: sample.size - (-segments.n % BLOCK if last_is_sampled else 0)]
