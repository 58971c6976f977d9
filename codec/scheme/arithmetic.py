"""Adaptive arithmetic coding of small alphabets.

An element is coded as an integer q: its number of uniform steps, or the rank of its bucket by
magnitude, with the bucket's sign. Every q is a series of binary decisions: is it 0, how many bits
has |q|, which ones, which sign. Each decision has a context, and each context a probability that
adapts while elements are coded, as in Witten, Neal and Cleary, "Arithmetic Coding for Data
Compression", CACM 30(6), 1987. So there is no code table, and a value may take less than a bit.

The weights of a neuron, a row or a column, change together. The context of an element is therefore
its expected magnitude: the mean of its row so far times the mean of its column so far, divided by
the mean of the tensor so far. FORMAT.md has every number.

Coding element by element takes about ten times as long as coding runs of zeros, so larger
alphabets use the code words of `prefix`. An *alphabet* is one or more lossy tensors that share a
code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from codec.errors import StreamError

from . import kernels
from .payload import DirectPayload, Levels, Matrices, n_elements
from .quantize import Codes
from .survivors import Survivors

MOST = 2**17  # elements: in larger alphabets, time matters more than bytes
USES = 61  # of a context, until its rate of adaptation stays the same

_RATES = np.array([131_072 // (2 * n + 3) for n in range(USES)], np.int64)
_NOTHING = np.empty(0)


@dataclass(frozen=True, eq=False)
class ArithmeticCode(DirectPayload):
    """One arithmetic code of all elements, without zero bytes at its end."""

    TITLE: ClassVar[str] = "arithmetic code"
    CLASSES: ClassVar[Sequence[int]] = (255,)

    @classmethod
    def of(cls, s: Survivors, matrices: Matrices, levels: Levels, uniform: bool) -> Self | None:
        """The arithmetic code of survivors; None if it is longer than the elements in float32."""
        codes = s.all_codes
        step_code_of = None if uniform else step_codes(levels.reshape(-1))
        code = write(codes if step_code_of is None else step_code_of[codes], matrices)
        return None if code is None else cls(code, matrices)

    def check(self, n: int, k: int) -> None:
        """Raise StreamError if this cannot be an arithmetic code of n elements."""
        super().check(n, k)
        if self.code.size and not self.code[-1]:
            raise StreamError("an arithmetic code that ends with a byte of zeros")

    def codes(self, n: int, levels: Levels, uniform: bool) -> Codes:
        """The code of each element: (n,). Raises StreamError."""
        if uniform:
            return read(self.code, self.matrices, len(levels))
        return read_ranks(self.code, self.matrices, levels.reshape(-1))

    def element_bits(self, n: int, levels: Levels, uniform: bool) -> NDArray[np.float64]:
        """The bits of each element: (n,). Raises StreamError."""
        k = len(levels) if uniform else int(step_codes(levels.reshape(-1)).max()) + 1
        return bits(self.code, self.matrices, k)


def step_codes(levels: NDArray[np.float32]) -> NDArray[np.uint16]:
    """For each bucket, the code that its q would have as a number of uniform steps: uint16 (k,).

    Positive levels get q = 1, 2, ... and negative levels q = -1, -2, ... by rising magnitude. Of
    equal levels, the one with the higher code comes first. levels: (k,), in any order after the
    first, which is 0.
    """
    codes = np.zeros(levels.size, np.uint16)
    negative = np.signbit(levels[1:])
    for is_negative in (False, True):
        same_sign = np.flatnonzero(negative == is_negative)[::-1] + 1
        rising = same_sign[np.argsort(np.abs(levels[same_sign]), kind="stable")]
        codes[rising] = 2 * np.arange(1, rising.size + 1) - (not is_negative)
    return codes


def write(codes: NDArray[np.uint16], matrices: Matrices) -> NDArray[np.uint8] | None:
    """The arithmetic code of codes; None if it is longer than the elements in float32.

    Args:
        codes: (n,), below `stream.MAX_UNIFORM`.
        matrices: Rows and columns of the tensors, of n elements together.
    """
    data = np.zeros(4 * codes.size + kernels.ELEMENT_BYTES, np.uint8)
    n = _coded(codes, matrices, 0, True, data, 0, _NOTHING)
    return None if n < 0 else data[:n].copy()


def read(payload: NDArray[np.uint8], matrices: Matrices, k: int) -> NDArray[np.uint16]:
    """The codes that were written.

    Raises:
        StreamError: A code is not below k, or bytes remain after the last code.
    """
    codes, _ = _read(payload, matrices, k, _NOTHING)
    return codes


def read_ranks(
    payload: NDArray[np.uint8], matrices: Matrices, levels: NDArray[np.float32]
) -> NDArray[np.uint16]:
    """The codes of buckets that were written as their `step_codes`. Raises what `read` raises."""
    step_code_of = step_codes(levels)
    code_of = np.zeros(int(step_code_of.max()) + 1, np.uint16)
    code_of[step_code_of] = np.arange(levels.size)
    steps = read(payload, matrices, code_of.size)
    codes = code_of[steps]
    if ((codes == 0) != (steps == 0)).any():  # a rank that no level of this sign has
        raise StreamError(f"a symbol beyond the last of {levels.size} levels")
    return codes


def bits(payload: NDArray[np.uint8], matrices: Matrices, k: int) -> NDArray[np.float64]:
    """The bits of each element, float64 (n,). Raises what `read` raises."""
    _, costs = _read(payload, matrices, k, np.zeros(n_elements(matrices)))
    return costs


def _read(
    payload: NDArray[np.uint8], matrices: Matrices, k: int, costs: NDArray[np.float64]
) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
    try:
        codes = np.zeros(n_elements(matrices), np.uint16)
    except (MemoryError, ValueError) as exc:
        raise StreamError(f"no memory for {n_elements(matrices)} codes: {exc}") from exc
    padded_payload = np.append(payload, np.uint8(0))  # a writable copy: one kernel reads and writes
    bytes_read = _coded(codes, matrices, k, False, padded_payload, payload.size, costs)
    if bytes_read < 0:
        raise StreamError(f"a symbol beyond the last of {k} levels")
    if bytes_read < payload.size:
        raise StreamError(f"bytes that go on after {codes.size} elements")
    return codes, costs


def _coded(
    codes: NDArray[np.uint16],
    matrices: Matrices,
    k: int,
    encoding: bool,
    data: NDArray[np.uint8],
    nbytes: int,
    costs: NDArray[np.float64],
) -> int:
    shapes = np.array(matrices, np.int64).reshape(-1, 2)
    rows, columns = np.ascontiguousarray(shapes[:, 0]), np.ascontiguousarray(shapes[:, 1])
    return int(kernels.arithmetic(codes, rows, columns, k, encoding, data, nbytes, _RATES, costs))
