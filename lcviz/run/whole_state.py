"""Weights and moments of a checkpoint that holds the optimizer's state.

In such a chain the names of weights begin with "model/". Adam's moments of the i-th parameter are
"optimizer/state/i/exp_avg" and "optimizer/state/i/exp_avg_sq". In a chain of weights alone they
have the model's own names, which have no slash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

import codec
from codec.inspect import Group
from lcviz.lab.step_tensors import word_bits

from .snapshot import Moment

T = TypeVar("T")
MODEL = "model/"
KINDS = {"exp_avg": "m", "exp_avg_sq": "v"}  # last part of a moment's name -> name in the paper


def weights_of(arrays: Mapping[str, T]) -> dict[str, T]:
    """The weights of a state or track, by the model's own names."""
    return {own_name(name): array for name, array in arrays.items() if is_weight(name)}


def is_weight(name: str) -> bool:
    """Whether a tensor of a run's checkpoint is a weight."""
    return "/" not in name or name.startswith(MODEL)


def own_name(name: str) -> str:
    """A weight's name in the model; other names stay as they are."""
    return name.removeprefix(MODEL)


def delta_of_weights(delta: codec.Delta) -> codec.Delta:
    """A delta with the alphabets of the weights alone, by the model's own names."""
    groups = [
        replace(g, tensors=tuple(replace(t, name=own_name(t.name)) for t in g.tensors))
        for g in delta.groups
        if is_weight(g.tensors[0].name)
    ]
    return replace(delta, groups=tuple(groups))


def moments_of(delta: codec.Delta, parameters: Sequence[str]) -> tuple[Moment, ...]:
    """The moments in a delta, in its order. parameters: the model's parameter names, in order."""
    groups: list[Group] = [g for g in delta.groups if not is_weight(g.tensors[0].name)]
    moments = []
    for group in groups:
        for spec, nbytes in zip(group.tensors, _nbytes_each(group)):
            *_, number, key = spec.name.split("/")
            moments.append(Moment(KINDS[key], parameters[int(number)], spec.size, nbytes))
    return tuple(moments)


def _nbytes_each(group: Group) -> list[int]:
    """The bytes of each tensor; their sum is the alphabet's size.

    A tensor takes its code words and a share of the common bytes in proportion to its elements.
    """
    e, sizes = group.encoded, [t.size for t in group.tensors]
    words = word_bits(e, codec.decode(e).codes.reshape(-1), sizes)
    common = 8 * e.nbytes - int(words.sum())
    ends = np.cumsum(words) + common * np.cumsum(sizes) / group.n
    return np.diff(np.round(ends / 8), prepend=0).astype(int).tolist()
