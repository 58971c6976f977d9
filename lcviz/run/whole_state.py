"""A checkpoint that holds the optimizer's state: its weights and its moments apart.

In such a chain the weights are below "model", and Adam's moments of the i-th parameter are
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
    """The moments in a delta, by its alphabets. parameters: the model's names, in their order."""
    alone: list[Group] = [g for g in delta.groups if not is_weight(g.tensors[0].name)]
    found = []
    for group in alone:
        for spec, nbytes in zip(group.tensors, _nbytes_each(group)):
            *_, number, key = spec.name.split("/")
            found.append(Moment(KINDS[key], parameters[int(number)], spec.size, nbytes))
    return tuple(found)


def _nbytes_each(group: Group) -> list[int]:
    """The bytes of each tensor; their sum is the alphabet's size.

    A tensor takes its code words and, by its number of elements, a share of the common bytes.
    """
    e, sizes = group.encoded, [t.size for t in group.tensors]
    words = word_bits(e, codec.decode(e).codes.reshape(-1), sizes)
    common = 8 * e.nbytes - int(words.sum())
    ends = np.cumsum(words) + common * np.cumsum(sizes) / group.n
    return np.diff(np.round(ends / 8), prepend=0).astype(int).tolist()
