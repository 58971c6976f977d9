"""The states of a checkpoint, with the optimizer's state if the run saves it.

In such a chain the names of weights begin with "model/". Adam's moments of the i-th parameter are
"optimizer/state/i/exp_avg" and "optimizer/state/i/exp_avg_sq". In a chain of weights alone they
have the model's own names, which have no slash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

import codec
from codec.inspect import MEASURE_OF, Arrays, Codes, Group, Layout
from lcviz.lab.anatomy import Alphabet, changes, dissect
from lcviz.lab.step_tensors import word_bits
from lcviz.text import step_text

T = TypeVar("T")
MODEL = "model/"
MOMENTS = {"exp_avg": "m", "exp_avg_sq": "v"}  # last part of a moment's name -> name in the paper
STEPS = {kind: step_text(str(MEASURE_OF[name])) for name, kind in MOMENTS.items()}


@dataclass(frozen=True)
class Moment:
    """One of Adam's moments in a record.

    kind: "m", the mean of the gradients, or "v", the mean of their squares. parameter: its name. n:
    elements. nbytes: of its code words, table and levels.
    """

    kind: str
    parameter: str
    n: int
    nbytes: int


def nbytes_by_kind(moments: Sequence[Moment]) -> dict[str, int]:
    """Bytes of "m" and of "v" in a record; {} if it holds none."""
    kinds = sorted({moment.kind for moment in moments})
    return {kind: sum(m.nbytes for m in moments if m.kind == kind) for kind in kinds}


@dataclass(frozen=True)
class States:
    """The two states of a delta as the codec gets them: the track before it, and what was saved.

    layout: of both. whole_before, whole_live: name -> array, which never change; whole_before is
    empty for a base. values: of both, those that are not tensors.
    """

    step: int
    layout: Layout
    whole_before: Arrays
    whole_live: Arrays
    values: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @cached_property
    def before(self) -> Arrays:
        """The weights of the track, by the model's own names."""
        return weights_of(self.whole_before)

    @cached_property
    def live(self) -> Arrays:
        """The weights that were saved, by the model's own names."""
        return weights_of(self.whole_live)

    @property
    def nbytes(self) -> int:
        """Bytes that both states take in memory."""
        pair = self.whole_before, self.whole_live
        return sum(a.nbytes for arrays in pair for a in arrays.values())

    def before_delta(self, alphabets: Sequence[Alphabet]) -> Arrays:
        """The track before the delta, with the tensors that the delta stores exactly after it."""
        return self.live | {name: self.before[name] for a in alphabets for name in a.names}


def weights_of(arrays: Mapping[str, T]) -> dict[str, T]:
    """The weights of a state or track, by the model's own names."""
    return {own_name(name): array for name, array in arrays.items() if is_weight(name)}


def is_weight(name: str) -> bool:
    """Whether a tensor of a run's checkpoint is a weight."""
    return "/" not in name or name.startswith(MODEL)


def own_name(name: str) -> str:
    """A weight's name in the model; other names stay as they are."""
    return name.removeprefix(MODEL)


def dissect_weights(states: States, delta: codec.Delta) -> tuple[tuple[Alphabet, ...], list[Codes]]:
    """`dissect` the alphabets of the weights alone, by the model's own names. states: of delta."""
    groups = [
        replace(g, tensors=tuple(replace(t, name=own_name(t.name)) for t in g.tensors))
        for g in delta.groups
        if is_weight(g.tensors[0].name)
    ]
    weights = replace(delta, groups=tuple(groups))
    return dissect(changes(states.live, states.before, weights), weights)


def moments_of(delta: codec.Delta, parameters: Sequence[str]) -> tuple[Moment, ...]:
    """The moments in a delta, in its order. parameters: the model's parameter names, in order."""
    groups: list[Group] = [g for g in delta.groups if not is_weight(g.tensors[0].name)]
    moments = []
    for group in groups:
        for spec, nbytes in zip(group.tensors, _nbytes_each(group)):
            *_, number, key = spec.name.split("/")
            moments.append(Moment(MOMENTS[key], parameters[int(number)], spec.size, nbytes))
    return tuple(moments)


def _nbytes_each(group: Group) -> list[int]:
    """The bytes of each tensor; their sum is the alphabet's size.

    A tensor takes its code words and a share of the common bytes in proportion to its elements.
    """
    e, sizes = group.encoded, [t.size for t in group.tensors]
    words = word_bits(e, codec.decode(e).codes, sizes)
    common = 8 * e.nbytes - int(words.sum())
    ends = np.cumsum(words) + common * np.cumsum(sizes) / group.n
    return np.diff(np.round(ends / 8), prepend=0).astype(int).tolist()
