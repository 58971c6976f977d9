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
from codec.scheme.coders import take_head
from codec.scheme.limits import MAX_CONTEXTS
from codec.scheme.payload import Alphabet, Constant, Row
from codec.scheme.pieces import Bytes, Pieces, checked
from codec.scheme.prefix import PrefixCode
from codec.scheme.residual import Context, Elements, Residual, check_residual
from codec.state.tensors import TensorSpec

RESIDUALS = "d/"  # before the name of a tensor


def residual_parts(residuals: Mapping[str, Residual]) -> dict[str, list[Bytes]]:
    """Name -> parts of the array of each residual."""
    return {RESIDUALS + name: _parts(residual) for name, residual in residuals.items()}


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
    heads = [_head_of(data, spec, n, name) for _ in range(n_contexts)]
    contexts = tuple(
        replace(c, code=c.code.with_data(data.take(c.code.data_nbytes))) if c.code else c
        for _, c in heads
    )
    data.finish()
    units = {units for units, context in heads if context.code}
    if len(units) > 1:
        raise PayloadError(f"streams of {len(units)} sizes in one residual")
    residual = Residual(spec, bounds, units.pop() if units else heads[0][0], contexts)
    check_residual(residual, n)
    return residual


def _head_of(data: Pieces, spec: TensorSpec, n: int, name: str) -> tuple[int, Context]:
    """Take the next head: the units of a stream, and the context without its payload.

    n: elements of the tensor. name: of the array. Raises PayloadError.
    """
    row = Row.take(data)
    payload = take_head(row, data, Alphabet(name, (spec,), n, row.levels, uniform=True))
    if not isinstance(payload, PrefixCode | Constant):
        raise PayloadError(f"a residual of {payload.TITLE}")
    return row.units, Context(row.levels, payload if isinstance(payload, PrefixCode) else None)


def _parts(r: Residual) -> list[Bytes]:
    head = struct.pack(f"<B{len(r.bounds)}H", len(r.contexts), *r.bounds)
    for c in r.contexts:
        row = c.code.row if c.code else Row(0, 0, r.units, 0)
        head += replace(row, levels=c.k).packed + (c.code.head if c.code else b"")
    codes = (c.code.data for c in r.contexts if c.code)
    return [np.frombuffer(head, np.uint8), *codes]
