"""Which moments of an optimizer belong together: the steps of a first one are shares of the root of
the second one beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .family import OCTAVES, OWN, ROOTS, Family
from .tensors import TensorSpec

# As torch's optimizers name it; codec.dcp appends @ and offsets.
_FIRST = re.compile(r"(.*[/.]|)exp_avg(@[0-9,]*)?", re.DOTALL)


def second_of(name: str) -> str:
    """The name that a second moment beside a first one has; "" for other names."""
    match = _FIRST.fullmatch(name)
    return f"{match[1]}exp_avg_sq{match[2] or ''}" if match else ""


def with_measures(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """The same tensors; one in roots without a second moment in octaves gets OWN."""
    by_name = {t.name: t for t in specs if t.measure == OCTAVES}

    def own(t: TensorSpec) -> TensorSpec:
        if t.measure != ROOTS:
            return t
        second = by_name.get(second_of(t.name))
        if second and second.shape == t.shape:
            return t
        return replace(t, family=Family(t.family.name, OWN))

    return [own(t) for t in specs]
