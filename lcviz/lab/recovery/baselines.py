"""The baselines of the recovery experiment: whole checkpoints, SCAR and TOPN, as trackers.

    Full   every parameter, every time
    Scar   the blocks that are farthest from their last saved values (Qiao et al., "Fault Tolerance
           in Iterative-Convergent Machine Learning", ICML 2019): rows of a matrix, filters
    TopN   the single elements of largest distance, as many as fit

Each keeps a running checkpoint, the track, as a decoder does. A step replaces old values by new
ones, exact and float32, and says where they belong. SCAR's partial recovery, which restores lost
parameters only, has no counterpart here: a single process loses all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec import SettingsError
from codec.errors import PayloadError
from codec.inspect import (
    Arrays,
    Layout,
    TensorSpec,
    check_array,
    check_same_layout,
    copy_arrays,
    layout_of,
    same_bits,
    to_arrays,
)


@dataclass(frozen=True)
class Blocks:
    """The lossy elements of a state, cut into blocks that are numbered tensor by tensor.

    tensors: their specs. axis: for each tensor, the axis along which blocks are slices; None if
    every element is a block.
    """

    tensors: tuple[TensorSpec, ...]
    axis: tuple[int | None, ...]

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64 (t,): blocks of each tensor."""
        pairs = zip(self.tensors, self.axis, strict=True)
        return np.array([t.size if a is None else t.shape[a] for t, a in pairs], np.int64)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """int64 (b,): elements of each block."""
        sizes = np.array([t.size for t in self.tensors], np.int64) // self.counts
        return np.repeat(sizes, self.counts)

    def along(self, i: int, array: NDArray[np.float32]) -> NDArray[np.float32]:
        """Tensor i, C-contiguous, with its blocks along the first axis: a view."""
        axis = self.axis[i]
        return array.reshape(-1) if axis is None else np.moveaxis(array, axis, 0)

    def by_tensor(self, blocks: NDArray[np.integer[Any]]) -> Iterator[NDArray[np.int64]]:
        """Yield for each tensor which of its blocks are among these rising numbers: int64."""
        ends = np.cumsum(self.counts)
        for first, part in zip(ends - self.counts, np.split(blocks, np.searchsorted(blocks, ends))):
            yield part.astype(np.int64) - first


@dataclass(frozen=True)
class Replacement:
    """One step of a baseline: new values, and which blocks they belong to.

    blocks: unsigned (b,), rising numbers. values: float32 (n,), block after block. exact: the
    tensors that are stored whole, name -> array.
    """

    partition: Blocks
    blocks: NDArray[np.unsignedinteger[Any]]
    values: NDArray[np.float32]
    exact: Arrays

    @property
    def nbytes(self) -> int:
        """Bytes of values, block numbers and exact tensors; a record would add its header."""
        exact = sum(array.nbytes for array in self.exact.values())
        return self.blocks.nbytes + self.values.nbytes + exact

    @property
    def arrays(self) -> Arrays:
        """What a record of this step would hold."""
        placed = {"blocks": self.blocks, "values": self.values} if self.blocks.size else {}
        return placed | {f"t/{name}": array for name, array in self.exact.items()}

    def apply(self, track: Arrays) -> None:
        """Put the values into a track, in place.

        Raises:
            StateMismatchError: An array is missing, has another shape or dtype, or is read-only;
                nothing was changed.
            PayloadError: The number of values does not fit the blocks.
        """
        for spec in self.partition.tensors:
            check_array(track, spec.name, spec.shape, np.dtype(np.float32), True)
        for name, array in self.exact.items():
            check_array(track, name, array.shape, array.dtype, True)
        if self.values.size != self.partition.sizes[self.blocks].sum():
            raise PayloadError(f"{self.values.size} values do not fit these blocks")
        for name, array in self.exact.items():
            track[name][...] = array
        begin = 0
        for i, blocks_of_tensor in enumerate(self.partition.by_tensor(self.blocks)):
            array = self.partition.along(i, track[self.partition.tensors[i].name])
            shape = (blocks_of_tensor.size, *array.shape[1:])
            end = begin + math.prod(shape)
            array[blocks_of_tensor] = self.values[begin:end].reshape(shape)
            begin = end


class Full:
    """Saves every parameter every time. state: the first one; it becomes the track exactly."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.layout = layout_of(state)
        self.state = copy_arrays(to_arrays(state, self.layout))

    def step(self, state: Mapping[str, Any]) -> Replacement:
        """Take the track to ``state``. Raises what `Tracker.step` does."""
        check_same_layout(self.layout, layout_of(state))
        arrays = copy_arrays(to_arrays(state, self.layout))
        whole = Replacement(_NOTHING, np.empty(0, np.uint8), np.empty(0, np.float32), arrays)
        whole.apply(self.state)
        return whole


class _Prioritized:
    """Spends a share of the float32 size on the blocks of largest distance to the track.

    state: the first one; it becomes the track exactly. fraction: of the float32 size. No step takes
    more, block numbers and exact tensors included, unless exact tensors alone do.

    Raises SettingsError unless 0 < fraction <= 1, and what `Tracker` does.
    """

    def __init__(self, state: Mapping[str, Any], fraction: float = 0.1) -> None:
        number = isinstance(fraction, int | float | np.number) and not isinstance(fraction, bool)
        if not number or not 0 < fraction <= 1:
            raise SettingsError(f"fraction must be above 0 and at most 1; got {fraction!r}")
        self.fraction = float(fraction)
        self.layout = layout_of(state)
        self.state = copy_arrays(to_arrays(state, self.layout))
        self._blocks = self._cut(self.layout)
        self._sizes = self._blocks.sizes
        self._number = np.min_scalar_type(max(self._sizes.size - 1, 0))

    @staticmethod
    def _cut(layout: Layout) -> Blocks:
        raise NotImplementedError

    def step(self, state: Mapping[str, Any]) -> Replacement:
        """Take the track nearer to ``state``. Raises what `Tracker.step` does."""
        check_same_layout(self.layout, layout_of(state))
        arrays = to_arrays(state, self.layout)
        exact = {
            t.name: arrays[t.name].copy()
            for t in self.layout.tensors
            if not t.lossy and not same_bits(arrays[t.name], self.state[t.name])
        }
        nbytes_left = self.fraction * self.layout.nbytes - sum(a.nbytes for a in exact.values())
        costs = 4 * self._sizes + self._number.itemsize
        chosen = _farthest(self._distances(arrays), costs, nbytes_left)
        values = [np.empty(0, np.float32)]
        for i, blocks_of_tensor in enumerate(self._blocks.by_tensor(chosen)):
            array = arrays[self._blocks.tensors[i].name]
            values.append(self._blocks.along(i, array)[blocks_of_tensor].reshape(-1))
        step = Replacement(self._blocks, chosen.astype(self._number), np.concatenate(values), exact)
        step.apply(self.state)
        return step

    def _distances(self, arrays: Arrays) -> NDArray[np.float64]:
        """float64 (b,): each block's Euclidean distance to the track; infinite instead of NaN."""
        distances = [np.empty(0)]
        with np.errstate(all="ignore"):
            for i, t in enumerate(self._blocks.tensors):
                delta = self._blocks.along(i, arrays[t.name] - self.state[t.name])
                squares = np.square(delta, dtype=np.float64)
                distances.append(np.sqrt(squares.sum(axis=tuple(range(1, delta.ndim)))))
        return np.nan_to_num(np.concatenate(distances), nan=np.inf, posinf=np.inf)


class Scar(_Prioritized):
    """The blocks that are farthest from their last saved values, as many as fit.

    A block is a slice along the longer one of a tensor's first two axes (a row of a table of
    users, a filter, the weights of one input); a tensor of one dimension is cut into elements.
    """

    @staticmethod
    def _cut(layout: Layout) -> Blocks:
        lossy = tuple(t for t in layout.tensors if t.lossy)
        axes = (None if len(t.shape) == 1 else int(np.argmax(t.shape[:2])) for t in lossy)
        return Blocks(lossy, tuple(axes))


class TopN(_Prioritized):
    """The single elements of largest distance to the track, as many as fit."""

    @staticmethod
    def _cut(layout: Layout) -> Blocks:
        lossy = tuple(t for t in layout.tensors if t.lossy)
        return Blocks(lossy, (None,) * len(lossy))


def _farthest(
    distances: NDArray[np.float64], costs: NDArray[np.int64], nbytes_left: float
) -> NDArray[np.int64]:
    """The blocks of largest distance that fit into nbytes_left; their numbers, rising.

    Blocks are tried by falling distance, those of equal distance by number. A block that does not
    fit is skipped, one that has not moved is left out.
    """
    order = np.argsort(-distances, kind="stable")
    order = order[distances[order] > 0]
    if not order.size or nbytes_left < costs.min():
        return np.empty(0, np.int64)
    if costs.min() == costs.max():
        return np.sort(order[: int(nbytes_left // costs[0])])
    chosen = []
    for block in order.tolist():
        if costs[block] <= nbytes_left:
            chosen.append(block)
            nbytes_left -= int(costs[block])
    return np.sort(np.array(chosen, np.int64))


_NOTHING = Blocks((), ())
