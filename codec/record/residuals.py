"""The residuals of exact tensors, each an array of words. See FORMAT.md.

bounds | a row, table, bits of its streams and payload of each context, as in `alphabets`
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from codec.errors import PayloadError
from codec.scheme.kernels import MAX_CONTEXTS, UNIT
from codec.scheme.residual import Context, Elements, Residual, check_residual
from codec.scheme.tables import CodeTable
from codec.state.tensors import TensorSpec

from .alphabets import WORD, Pieces, checked, head_of, row_of

RESIDUALS = "d/"  # before the name of a tensor


def has_residuals(names: Iterable[str]) -> bool:
    """Whether a record with arrays of these names needs the format RESIDUAL."""
    return any(name.startswith(RESIDUALS) for name in names)


def residual_parts(
    residuals: Mapping[str, Residual], prefix: str = RESIDUALS
) -> dict[str, list[NDArray[np.uint32]]]:
    """Name -> parts of the array of each residual."""
    return {prefix + name: _words(residual) for name, residual in residuals.items()}


def read_residual(array: NDArray[np.uint32], spec: TensorSpec, name: str) -> Residual:
    """The residual in an array. Whether its streams decode shows only when it is applied.

    Args:
        array: From a record.
        spec: The tensor.
        name: The array's, for messages.

    Raises:
        PayloadError: It is none of this tensor, or the tensor is not exact.
    """
    if spec.lossy:
        raise PayloadError(f"a residual of {spec.name!r}, which is lossy")
    words = Pieces(checked(array, np.uint32, name), f"words of {name!r}")
    first = words.take(1).tobytes()
    (n_contexts,) = struct.unpack_from("<H", first)
    if not 1 <= n_contexts <= MAX_CONTEXTS:
        raise PayloadError(f"{n_contexts} contexts, at most {MAX_CONTEXTS} are allowed")
    head = first + words.take((n_contexts - 1) // 2).tobytes()
    bounds = struct.unpack_from(f"<{n_contexts - 1}H", head, 2)
    if any(head[2 * n_contexts :]):
        raise PayloadError("zeros after the bounds, but others are there")
    n = Elements.of(spec).number(spec)
    found = [_context(words, n) for _ in range(n_contexts)]
    words.finish()
    units = {u for u, context in found if context.table}
    if len(units) > 1:
        raise PayloadError(f"streams of {len(units)} sizes in one residual")
    contexts = tuple(context for _, context in found)
    residual = Residual(spec, bounds, units.pop() if units else found[0][0], contexts)
    check_residual(residual, n)
    return residual


def _context(words: Pieces, n: int) -> tuple[int, Context]:
    """The units of a stream, and the next context."""
    (k, classes, units), packed = head_of(words)
    if bool(classes) != bool(packed.size):
        raise PayloadError(f"a code table of {packed.size} bytes for {classes} classes")
    table = CodeTable.unpacked(packed, k - 1, classes, uniform=True) if classes else None
    if not units:
        raise PayloadError("streams of 0 units")
    streams = words.take(-(-n // (units * UNIT)) if table else 0)
    payload = words.take(int(((streams.astype(np.int64) + 31) >> 5).sum()))
    return units, Context(k, table, streams, payload)


def _words(r: Residual) -> list[NDArray[np.uint32]]:
    head = struct.pack(f"<{1 + len(r.bounds)}H", len(r.contexts), *r.bounds)
    parts = [np.frombuffer(head + bytes(-len(head) % WORD), np.uint32)]
    for c in r.contexts:
        classes, packed = (c.table.classes, c.table.packed.tobytes()) if c.table else (0, b"")
        parts += [row_of(c.k, classes, r.units, packed), c.streams, c.payload]
    return parts
