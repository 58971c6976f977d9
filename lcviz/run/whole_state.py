"""A checkpoint that holds the optimizer's state: its weights and its moments apart.

In such a chain the weights are below "model", and Adam's moments of the i-th parameter are
"optimizer/state/i/exp_avg" and "optimizer/state/i/exp_avg_sq". In a chain of weights alone they
have the model's own names, which have no slash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import codec
from codec.inspect import Group

from .snapshot import Moment

T = TypeVar("T")
MODEL = "model/"
KINDS = {"exp_avg": "m", "exp_avg_sq": "v"}  # the last part of a moment's name -> as in the paper


def weights_of(arrays: Mapping[str, T]) -> dict[str, T]:
    """The weights of a state or track, by the model's own names."""
    return {own_name(name): array for name, array in arrays.items() if is_weight(name)}


def is_weight(name: str) -> bool:
    """Whether a tensor of a run's checkpoint is of the model."""
    return "/" not in name or name.startswith(MODEL)


def own_name(name: str) -> str:
    """The model's own name of a weight; other names stay."""
    return name.removeprefix(MODEL)


def delta_of_weights(delta: codec.Delta) -> codec.Delta:
    """The alphabets of the weights alone, by the model's own names."""
    found = [
        replace(g, tensors=tuple(replace(t, name=own_name(t.name)) for t in g.tensors))
        for g in delta.groups
        if is_weight(g.tensors[0].name)
    ]
    return replace(delta, groups=tuple(found))


def moments_of(delta: codec.Delta, parameters: Sequence[str]) -> tuple[Moment, ...]:
    """The moments in a delta, in its order. parameters: the model's names, in their order."""
    alone: list[Group] = [g for g in delta.groups if not is_weight(g.tensors[0].name)]
    found = []
    for group in alone:
        *_, number, key = group.tensors[0].name.split("/")
        moment = Moment(KINDS[key], parameters[int(number)], group.n, group.encoded.nbytes)
        found.append(moment)
    return tuple(found)
