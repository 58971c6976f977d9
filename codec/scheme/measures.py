"""An optimizer's moments, in steps of the measure in which the optimizer uses them.

    octaves   second moments: a step is a share of a doubling
    roots     first moments: a step is a share of the root of the second moment beside them
    sizes     momentum without a second moment: a step is a share of the tensor's root mean square

Adam moves a weight by m / sqrt(v): so an error of m counts against sqrt(v), and an error of v by
its ratio. Changes are rounded to the nearest step. If small ones were left out more often, as by a
dead zone, the track of a v that grows would lag further behind, and the first updates after a
restart would be too large.

The bits of a positive float32, taken as an integer, grow by OCTAVE when the number doubles, and
almost evenly in between: they are its logarithm to base 2, linear between powers of two. So a step
in octaves adds an integer, which every processor does alike. The encoder takes one step less where
the sum would be below 0.

Codes, levels and code words are those of uniform steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from codec.errors import SettingsError
from codec.state.family import OCTAVES, ROOTS, SIZES
from codec.state.moments import second_of
from codec.state.tensors import Arrays, Layout

from . import plain, workers
from .kernels import measures as kernel
from .limits import OCTAVE
from .survivors import Segments, addresses_of
from .twins import twin_of

LEAST_STEP, LARGEST_STEP = 2.0**-10, 2.0**6
LEAST_UNIT = np.float32(2.0**-40)  # a root or a size: a step cannot be a share of 0
NUMBERS = {OCTAVES: 0, ROOTS: 1, SIZES: 2}  # of measures, in kernels
LARGEST = int(np.finfo(np.float32).max.view(np.int32))  # bits of the largest finite number
PIECE = 2**15  # elements: fewer are not worth starting a thread for


def no_sizes() -> NDArray[np.float32]:
    """Those of a measure without sizes."""
    return np.zeros(0, np.float32)


@dataclass(frozen=True)
class Scale:
    """What one step of an alphabet is.

    Attributes:
        measure: One of `family.MEASURES`.
        step: In octaves, or as a share of a root or of a size; float32.
        seconds: In roots, the second moment beside each tensor, after the delta: float32.
        sizes: In sizes, that of each tensor: float32 (tensors,).
    """

    measure: str
    step: np.float32
    seconds: Sequence[NDArray[np.float32]] = ()
    sizes: NDArray[np.float32] = field(default_factory=no_sizes)

    def unit(self, i: int) -> NDArray[np.float32]:
        """What the step of tensor i is a share of, in roots and sizes: float32, (n,) or ()."""
        if self.measure == SIZES:
            return np.asarray(self.sizes[i])
        return np.maximum(np.sqrt(self.seconds[i].reshape(-1)), LEAST_UNIT)

    def moved(
        self, track: NDArray[np.float32], change: NDArray[np.float32], i: int
    ) -> NDArray[np.float32]:
        """The track of tensor i after a change, all float32 (n,); change: a multiple of the step.

        A product and a sum are each rounded to float32.
        """
        if self.measure != OCTAVES:
            return track + change * self.unit(i)
        rise = np.floor(change.astype(np.float64) * OCTAVE + 0.5).astype(np.int64)
        return (track.view(np.int32) + rise).astype(np.int32).view(np.float32)


def check_step(step: float) -> None:
    """Raise SettingsError unless a measure can have this step."""
    if not LEAST_STEP <= step <= LARGEST_STEP:
        raise SettingsError(
            f"a step of octaves, roots or sizes is {LEAST_STEP:g} to {LARGEST_STEP:g}; got {step!r}"
        )


def sizes_of(arrays: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The root mean square of each tensor: float32 (tensors,), above 0."""
    squares = (np.square(a, dtype=np.float64).mean() if a.size else 0.0 for a in arrays)
    with np.errstate(all="ignore"):
        sizes = np.sqrt(np.fromiter(squares, np.float64)).astype(np.float32)
    return np.where(np.isfinite(sizes), np.maximum(sizes, LEAST_UNIT), LEAST_UNIT)


def dithered(layout: Layout, arrays: Arrays, seed: int) -> Arrays:
    """Moments in octaves and roots, with random noise of up to half a step.

    Rounding alone shifts an element the same way at each restart, and after many restarts the
    training has drifted. A second moment that is 0 stays 0, and so does the first one beside it.

    Args:
        layout: Of the arrays.
        arrays: Name -> array of a track.
        seed: Of the noise.

    Returns:
        Name -> new array, of moments in octaves and roots.
    """
    rng, moved = np.random.default_rng(seed), {}
    for t in layout.tensors:
        if t.measure not in (OCTAVES, ROOTS) or t.name not in arrays:
            continue
        assert t.family.target is not None, "it has a measure"
        track, step = arrays[t.name], np.float32(t.family.target.number)
        noise = (rng.random(track.shape, np.float32) - np.float32(0.5)) * step
        if t.measure == OCTAVES:
            rise = (noise * np.float32(OCTAVE)).astype(np.int64)
            bits = np.clip(track.view(np.int32) + rise, 0, LARGEST)
            moved[t.name] = np.where(track > 0, bits.astype(np.int32).view(np.float32), track)
        else:
            moved[t.name] = track + noise * np.sqrt(arrays[second_of(t.name)])
    return moved


@twin_of(plain.measure)
def measure(
    segments: Segments, scale: Scale, most: int, codes: NDArray[np.uint16]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """See `plain.measure`."""
    pieces = workers.pieces(segments.n, least=PIECE)
    counts = np.zeros((len(pieces), 2 * most + 1), np.int64)
    lost = np.zeros((len(pieces), len(segments.arrays[0])), np.bool_)
    own, _alive = _kernel_scale(scale, segments)

    def work(i: int, _scratch: workers.Scratch) -> None:
        kernel.measure(segments.addresses, pieces[i], own, most, codes, counts[i], lost[i])

    workers.spread(work, len(pieces))
    return counts.sum(axis=0), np.asarray(lost.any(axis=0))


@twin_of(plain.move)
def move(
    segments: Segments,
    scale: Scale,
    codes: NDArray[np.uint16],
    levels: NDArray[np.float32],
    mode: int,
) -> NDArray[np.uint64]:
    """See `plain.move`."""
    pieces = workers.pieces(segments.n, least=PIECE)
    sums = np.zeros((len(pieces), len(segments.arrays[0])), np.uint64)
    own, _alive = _kernel_scale(scale, segments)

    def work(i: int, _scratch: workers.Scratch) -> None:
        kernel.move(segments.addresses, pieces[i], own, codes, levels, mode, sums[i])

    workers.spread(work, len(pieces))
    return sums.sum(axis=0, dtype=np.uint64)


def _kernel_scale(scale: Scale, segments: Segments) -> tuple[kernel.Scale, object]:
    """What kernels take, and arrays of which it has only the addresses."""
    n = len(segments.arrays[0])
    seconds = addresses_of(scale.seconds) if scale.measure == ROOTS else np.zeros(n, np.uint64)
    # A record's array is read-only, and numba would compile a second version for it.
    sizes = scale.sizes.copy() if scale.measure == SIZES else np.zeros(n, np.float32)
    return kernel.Scale(NUMBERS[scale.measure], float(scale.step), seconds, sizes), scale.seconds
