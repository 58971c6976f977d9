"""Batches of an optimizer's moments, taken apart: one code table, but levels for each tensor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import codec
from codec.inspect import Codes, Group, TensorSpec

Levels = NDArray[np.float32]


def by_levels(group: Group) -> Iterator[tuple[tuple[TensorSpec, ...], Codes, Levels]]:
    """The tensors of an alphabet that share levels, their codes (n,) and their levels (k,).

    The tensors of a batch come one by one, those of another alphabet all together.
    """
    e = group.encoded
    codes = codec.decode(e).codes.reshape(-1)
    if not e.is_batch:
        yield group.tensors, codes, e.levels
        return
    begin = 0
    for i, spec in enumerate(group.tensors):
        yield (spec,), codes[begin : begin + spec.size], e.levels[:, i]
        begin += spec.size


def apart(group: Group) -> list[Group]:
    """The alphabet alone, or each tensor of a batch as an alphabet that is coded alone."""
    if not group.encoded.is_batch:
        return [group]
    groups = []
    for (spec,), codes, levels in by_levels(group):
        used = levels[: int(np.flatnonzero(levels).max(initial=0)) + 1]
        alone = codec.Quantized(codes, used, spec.shape, group.encoded.bits, None)
        groups.append(Group((spec,), codec.encode(alone, group.encoded.coder)))
    return groups


def meaning_of(group: Group, code: int) -> float | str:
    """The level of a code; in a batch, which has many, a text."""
    e = group.encoded
    if not e.is_batch:
        return float(e.levels[code])
    return f"level {code} of its tensor" if code else 0.0


def alphabet_text(group: Group) -> str:
    """An alphabet's name on pages: its tensor, or how many tensors and of which kind."""
    first, *more = group.tensors
    if not more:
        return first.name
    kind = f" of {first.family.name}" if group.encoded.is_batch else ""
    return f"{len(group.tensors):,} tensors{kind}"
