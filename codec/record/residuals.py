"""The residuals of exact tensors, each an array of bytes. See FORMAT.md.

heads      number of contexts | bounds | for each context: row | table | bits of its streams
payloads   of every context
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from codec.errors import PayloadError
from codec.scheme.kernels import MAX_CONTEXTS, UNIT
from codec.scheme.residual import Context, Elements, Residual, check_residual
from codec.scheme.tables import CodeTable
from codec.state.tensors import TensorSpec

from .alphabets import MAX_UNITS, Bytes, Pieces, aligned, checked, row_of, streams_nbytes, take_row

RESIDUALS = "d/"  # before the name of a tensor


def residual_parts(
    residuals: Mapping[str, Residual], prefix: str = RESIDUALS
) -> dict[str, list[Bytes]]:
    """Name -> parts of the array of each residual."""
    return {prefix + name: _parts(residual) for name, residual in residuals.items()}


def read_residual(array: Bytes, spec: TensorSpec, name: str) -> Residual:
    """Read a residual. Whether its streams decode shows only when it is applied.

    Args:
        array: From a record.
        spec: The tensor's.
        name: The array's, for messages.

    Raises:
        PayloadError: The array is no residual of this tensor, or the tensor is lossy.
    """
    if spec.lossy:
        raise PayloadError(f"a residual of {spec.name!r}, which is lossy")
    data = Pieces(checked(array, np.uint8, name), f"bytes of {name!r}")
    n_contexts = int(data.take(1)[0])
    if not 1 <= n_contexts <= MAX_CONTEXTS:
        raise PayloadError(f"{n_contexts} contexts, at most {MAX_CONTEXTS} are allowed")
    bounds = struct.unpack(f"<{n_contexts - 1}H", data.take(2 * (n_contexts - 1)).tobytes())
    n = Elements.of(spec).number(spec)
    heads = [_head_of(data, n) for _ in range(n_contexts)]
    contexts = tuple(
        replace(context, payload=data.take(streams_nbytes(context.streams)).view(np.uint32))
        for _, context in heads
    )
    data.finish()
    units = {units for units, context in heads if context.table}
    if len(units) > 1:
        raise PayloadError(f"streams of {len(units)} sizes in one residual")
    residual = Residual(spec, bounds, units.pop() if units else heads[0][0], contexts)
    check_residual(residual, n)
    return residual


def _head_of(data: Pieces, n: int) -> tuple[int, Context]:
    """Take the next head: the units of a stream, and the context without its payload.

    n: elements of the tensor. Raises PayloadError.
    """
    k, classes, units, packed = take_row(data)
    if bool(classes) != bool(packed.size):
        raise PayloadError(f"a code table of {packed.size} bytes for {classes} classes")
    table = CodeTable.unpacked(packed, k - 1, classes, uniform=True) if classes else None
    if not 1 <= units <= MAX_UNITS:
        raise PayloadError(f"streams of {units} units")
    streams = aligned(data.take(4 * -(-n // (units * UNIT)) if table else 0), np.uint32)
    return units, Context(k, table, streams, np.empty(0, np.uint32))


def _parts(r: Residual) -> list[Bytes]:
    head = struct.pack(f"<B{len(r.bounds)}H", len(r.contexts), *r.bounds)
    for c in r.contexts:
        classes, packed = (c.table.classes, c.table.packed.tobytes()) if c.table else (0, b"")
        head += row_of(c.k, classes, r.units, packed) + c.streams.tobytes()
    return [np.frombuffer(head, np.uint8), *(c.payload.view(np.uint8) for c in r.contexts)]
