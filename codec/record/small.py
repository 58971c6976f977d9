"""Small exact tensors of a step in one array, in which equal tensors share their bytes.

Many small tensors change alike: Adam counts the steps of each parameter, each batch norm counts
its batches. An array for each tensor takes about 80 bytes in the header; here a thousand equal
tensors take a dozen bytes together. See FORMAT.md.

for each content: number of runs | gap and length of each run | content
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from codec.caps import short
from codec.errors import PayloadError
from codec.scheme.pieces import Pieces, checked, number_of, take_number
from codec.state.tensors import Arrays, Layout, TensorSpec

SMALL = "small"
MOST_NBYTES = 64  # of a tensor: about what its entry in the header would take
MOST_DIGITS = 4  # of a number, 7 bits each: enough for far more tensors than a header may have


def is_small(spec: TensorSpec) -> bool:
    """Whether a tensor may be in the array SMALL."""
    return not spec.lossy and spec.track_nbytes <= MOST_NBYTES


def split_small(exact: Arrays, layout: Layout | None) -> tuple[Arrays, Arrays]:
    """Split exact tensors into those with an array each, and one array of all small tensors.

    A single small tensor gets an array for itself, which takes fewer bytes.

    Args:
        exact: Name -> array, of a step.
        layout: The tensors' layout; None to give each tensor an array.

    Returns:
        Name of the tensor -> array, and SMALL -> array or {}.
    """
    if layout is None:
        return exact, {}
    members: dict[tuple[str, tuple[int, ...], bytes], list[int]] = {}
    numbers = {t: layout.numbers[t] for t in exact if is_small(layout.tensors[layout.numbers[t]])}
    if len(numbers) < 2:
        return exact, {}
    for tensor, number in sorted(numbers.items(), key=lambda pair: pair[1]):
        spec = layout.tensors[number]
        members.setdefault((spec.dtype, spec.shape, exact[tensor].tobytes()), []).append(number)
    data = b"".join(_runs(equal) + content for (*_, content), equal in members.items())
    large = {tensor: array for tensor, array in exact.items() if tensor not in numbers}
    return large, {SMALL: np.frombuffer(data, np.uint8)}


def read_small(array: NDArray[np.uint8], layout: Layout) -> Arrays:
    """Read an array from `split_small`: name -> array of each tensor in it, read-only.

    Args:
        array: From a record.
        layout: The tensors' layout.

    Raises:
        PayloadError: The array is malformed, or names a tensor that cannot be in it.
    """
    data = Pieces(checked(array, np.uint8, SMALL), f"bytes of {SMALL!r}")
    if not array.size:
        raise PayloadError(f"an empty array {SMALL!r}")
    tensors: Arrays = {}
    while data.n_unread:
        specs = [layout.tensors[number] for number in _numbers(data, len(layout.tensors))]
        first = specs[0]
        for spec in specs:
            if not is_small(spec) or spec.name in tensors:
                raise PayloadError(f"{short(spec.name)} in {SMALL!r}, lossy, large or twice")
            if (spec.dtype, spec.shape) != (first.dtype, first.shape):
                raise PayloadError(f"one content of {short(first.name)} and {short(spec.name)}")
        content = data.take(first.track_nbytes).tobytes()
        tensor = np.frombuffer(content, first.track_dtype).reshape(first.track_shape)
        tensors |= dict.fromkeys((spec.name for spec in specs), tensor)
    return tensors


def joined(exact: Arrays, small: Arrays) -> Arrays:
    """The two dictionaries as one. Raises PayloadError for a tensor that is in both."""
    if doubled := exact.keys() & small.keys():
        raise PayloadError(f"{short(min(doubled))} in {SMALL!r} and in an array of its own")
    return exact | small


def _runs(numbers: Sequence[int]) -> bytes:
    """Rising numbers as runs of equal gaps; the first gap counts from -1."""
    gaps = np.diff(np.array([-1, *numbers]))
    begins = np.flatnonzero(np.diff(gaps, prepend=0))
    lengths = np.diff(begins, append=gaps.size)
    pairs = zip(gaps[begins].tolist(), lengths.tolist())
    return number_of(begins.size) + b"".join(number_of(n) for pair in pairs for n in pair)


def _numbers(data: Pieces, end: int) -> list[int]:
    """Read the numbers that `_runs` wrote. Raises PayloadError unless all are below ``end``."""
    numbers: list[int] = []
    last = -1
    for _ in range(_above_zero(data)):
        gap, length = _above_zero(data), _above_zero(data)
        first, last = last + gap, last + gap * length
        if last >= end:
            raise PayloadError(f"tensor {last} of {end}")
        numbers += range(first, last + 1, gap)
    return numbers


def _above_zero(data: Pieces) -> int:
    """The next number. Raises PayloadError if it is 0."""
    n = take_number(data, MOST_DIGITS)
    if n == 0:
        raise PayloadError("a number of runs, a gap or a length of 0")
    return n
