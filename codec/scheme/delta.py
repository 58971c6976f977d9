"""One delta: the whole change from one state of the track to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import StateMismatchError
from codec.state.family import OCTAVES, ROOTS
from codec.state.moments import second_of
from codec.state.tensors import Arrays, Layout, TensorSpec

from .coding import Coding
from .limits import CHANGE
from .remainder import NOTHING, Remainder, Rest
from .residual import Residual
from .stream import Encoded, advance, is_repeated
from .survivors import Segments
from .tables import CodeTable
from .transition import Transition

RECORD_WORK = 10**6  # to open a record, 1.5 ms: see `Delta.work`
# Of a residual, in the same unit: the most for an element; for each element, and for each byte.
MOST_EXACT_WORK, EXACT_WORK, BYTE_WORK = 5, 0.5, 16


@dataclass(frozen=True)
class Group:
    """Tensors that share one alphabet: the whole model, a single tensor, or moments of a kind.

    tensors: their specs, in the order of their elements. encoded: their codes. remainder: what the
    step leaves of the tensors' change; NOTHING if read from a record, and for moments.
    """

    tensors: tuple[TensorSpec, ...]
    encoded: Encoded
    remainder: Remainder = NOTHING

    @property
    def n(self) -> int:
        """Elements."""
        return sum(t.size for t in self.tensors)


@dataclass(frozen=True)
class Delta:
    """One encoded step.

    Attributes:
        groups: The lossy tensors, one group per alphabet.
        exact: Name -> array, the tensors that this step stores as they are: exact ones that have
            changed, and those in non_finite.
        non_finite: Names of lossy tensors whose difference held NaN or infinity.
        coding: The settings it was encoded with.
        sums: Digests of the lossy tensors after the step, see `Track`; None if the delta was read
            from a record.
        values: Number in the structure (see `codec.state.tree`) -> change of a value that is not a
            tensor (see `codec.state.edits`).
        residuals: Name -> residual of an exact tensor that has changed and is not in ``exact``.
        after: Name -> array after the step, of tensors that would have to be decoded again: exact
            ones with residuals, and second moments. The first track that the step is applied to,
            which is the one that it was encoded for, takes them over: they are gone then. Empty if
            the delta was read from a record.
        rest: What the step leaves of the lossy weights, without an optimizer's moments; None if
            unknown.
        transition: The change of the layout that comes first; None if the tensors and their
            nesting are those of the step before. Everything else is in the new layout.
        all_tables: Alphabet -> its code table in this step, if only some tensors were read.
    """

    groups: tuple[Group, ...]
    exact: Arrays
    non_finite: tuple[str, ...]
    coding: Coding
    sums: Mapping[str, int] | None = None
    values: Mapping[int, str] = field(default_factory=dict)
    residuals: Mapping[str, Residual] = field(default_factory=dict)
    after: Arrays = field(default_factory=dict)
    rest: Rest | None = None
    transition: Transition | None = None
    all_tables: Mapping[str, CodeTable] | None = None

    @property
    def in_order(self) -> list[Group]:
        """The groups in the order of applying: second moments first, see `moments_first`."""
        return sorted(self.groups, key=lambda group: moments_first(group.tensors))

    @property
    def work(self) -> int:
        """The estimated time to decode it, in times of a value that is stored as a code word."""
        groups = sum(g.n * g.encoded.payload.WORK for g in self.groups)
        exact = sum(
            min(MOST_EXACT_WORK * r.spec.size, EXACT_WORK * r.spec.size + BYTE_WORK * r.nbytes)
            for r in self.residuals.values()
        )
        return RECORD_WORK + groups + int(exact) + sum(a.size for a in self.exact.values())

    @property
    def nbytes(self) -> int:
        """Bytes of payloads, tables, levels and everything exact; a record adds its header."""
        return self.exact_nbytes + sum(group.encoded.nbytes for group in self.groups)

    @property
    def exact_nbytes(self) -> int:
        """Bytes of exact tensors, residuals and the arrays of a transition."""
        residual_nbytes = sum(residual.nbytes for residual in self.residuals.values())
        transition_nbytes = self.transition.nbytes if self.transition else 0
        exact_nbytes = sum(array.nbytes for array in self.exact.values())
        return transition_nbytes + residual_nbytes + exact_nbytes

    def exact_after(self, before: Arrays) -> Mapping[str, NDArray[Any]]:
        """Name -> array after the step, for every tensor that the step gives exactly.

        before: the track's arrays, in the layout after a transition. Each access to a tensor
        applies its residual anew, because all arrays together may be as large as the state. The
        access raises CodeTableError or StreamError for a damaged residual.
        """
        return _ExactAfter(self, before)

    def repeats_moments(self, encoded: Delta) -> bool:
        """Whether all moments have the codes that were encoded: then they lead to the same sums.

        Raises CodeTableError or StreamError for a damaged payload.
        """
        own, others = ([g for g in d.groups if g.tensors[0].measure] for d in (self, encoded))
        return [g.tensors for g in own] == [g.tensors for g in others] and all(
            is_repeated(a.encoded, b.encoded, a.n) for a, b in zip(own, others)
        )

    @property
    def lean(self) -> Delta:
        """The same without the arrays that spare decoding, which take memory like the state."""
        lean = (replace(g, encoded=replace(g.encoded, known=None)) for g in self.groups)
        return replace(self, groups=tuple(lean), after={})

    @property
    def tensors(self) -> dict[str, str]:
        """Name -> how it is stored in this step: "lossy" or "exact"."""
        in_transition = dict.fromkeys(self.transition.arrays if self.transition else (), "exact")
        lossy = {t.name: "lossy" for group in self.groups for t in group.tensors}
        return in_transition | lossy | dict.fromkeys((*self.exact, *self.residuals), "exact")

    @property
    def tables(self) -> Mapping[str, CodeTable]:
        """Alphabet -> its code table in this step."""
        if self.all_tables is not None:
            return self.all_tables
        named = (
            (alphabet_name(self.coding.scope, g.tensors), g.encoded.table) for g in self.groups
        )
        return {name: table for name, table in named if table is not None}


class _ExactAfter(Mapping[str, NDArray[Any]]):
    """See `Delta.exact_after`."""

    def __init__(self, delta: Delta, before: Arrays) -> None:
        self._delta, self._before = delta, before
        self._names = dict.fromkeys((*delta.exact, *delta.residuals))

    def __getitem__(self, name: str) -> NDArray[Any]:
        delta = self._delta
        if name in delta.after:
            return delta.after[name]
        if name not in self._names:
            raise KeyError(name)
        residual = delta.residuals.get(name)
        return residual.applied(self._before[name]) if residual else delta.exact[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def apply(delta: Delta, state: Arrays, out: Arrays | None = None) -> None:
    """Advance a track by one step, in place or into other arrays.

    Elements whose level is 0 keep their bits, so a -0.0 stays one. A step with a transition also
    adds and removes names.

    Args:
        delta: The step.
        state: Name -> C-contiguous array, float32 for lossy tensors.
        out: Arrays of the same kind that become the new track, while ``state`` stays as it is.
            None changes ``state``.

    Raises:
        StateMismatchError: An array is missing, has another shape or dtype, or is read-only.
            Nothing has changed then.
        PayloadError: The delta is damaged. The arrays written to are then useless.
    """
    if delta.transition is not None:
        for t in delta.transition.before.tensors:
            check_array(state, t.name, t.track_shape, t.track_dtype, False)
        after = delta.transition.arrays_after(state)
        apply(replace(delta, transition=None), after, out)
        if out is None:
            state.clear()
            state.update(after)
        return
    target = state if out is None else out
    unchanged = check_fits(delta, state, target)
    lossy = {t.name for group in delta.groups for t in group.tensors}
    for name in () if out is None else (*unchanged, *lossy):
        target[name][...] = state[name]
    for group in delta.in_order:
        tensors = group.tensors
        names = map(second_of, (t.name for t in tensors if t.measure == ROOTS))
        # What is stored exactly is written last: steps are shares of what was there before.
        seconds = [(target if name in lossy else state)[name] for name in names]
        advance(group.encoded, Segments([target[t.name] for t in tensors], (), seconds), CHANGE)
    for name, array in delta.exact_after(state).items():
        target[name][...] = array


def check_fits(delta: Delta, state: Arrays, target: Arrays) -> list[str]:
    """The names of arrays that a step leaves unchanged. target: the arrays to write to.

    Raises StateMismatchError, see `apply`.
    """
    lossy = [t for group in delta.groups for t in group.tensors]
    changed = {t.name for t in lossy} | delta.exact.keys() | delta.residuals.keys()
    unchanged = [name for name in state if name not in changed]
    for name in unchanged:
        check_array(target, name, state[name].shape, state[name].dtype, target is not state)
    float32 = np.dtype(np.float32)
    for arrays in (target,) if target is state else (state, target):
        for spec in lossy:
            check_array(arrays, spec.name, spec.shape, float32, arrays is target)
        for name, array in delta.exact.items():
            check_array(arrays, name, array.shape, array.dtype, arrays is target)
        for spec in (residual.spec for residual in delta.residuals.values()):
            check_array(arrays, spec.name, spec.track_shape, spec.track_dtype, arrays is target)
    return unchanged


def check_array(
    state: Arrays, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], written: bool
) -> None:
    """Raise StateMismatchError unless a track has this array.

    It must be C-contiguous, and writable if ``written``.
    """
    if name not in state:
        raise StateMismatchError(f"tensor {name!r} of the step is missing from the state")
    array = state[name]
    fits = array.flags.carray if written else array.flags.c_contiguous
    if array.shape != shape or array.dtype != dtype or not fits:
        raise StateMismatchError(
            f"tensor {name!r} of the state is {array.dtype} {array.shape}; expected {dtype} "
            f"{shape}, {'writable and ' if written else ''}C-contiguous"
        )


def difference(array: NDArray[Any], track: NDArray[Any]) -> NDArray[Any]:
    """``array`` - ``track``, of one shape and dtype. Equal bits give 0, also of infinity or NaN."""
    with np.errstate(all="ignore"):
        delta = np.asarray(array - track)
    if not np.isfinite(delta).all():
        bits = f"u{delta.dtype.itemsize}"
        delta = np.where(array.view(bits) == track.view(bits), delta.dtype.type(0), delta)
    return delta


def moments_first(tensors: Sequence[TensorSpec]) -> bool:
    """Sort key of alphabets: second moments are moved before the first ones that need them."""
    return tensors[0].measure != OCTAVES


def alphabet_name(scope: str, tensors: Sequence[TensorSpec]) -> str:
    """The name of the alphabet that these tensors share; code tables are reused by this name."""
    return tensors[0].name if scope == "tensor" and len(tensors) == 1 else str(tensors[0].family)


def alphabets(
    layout: Layout, scope: str, left_out: Sequence[str] = ()
) -> Iterator[tuple[TensorSpec, ...]]:
    """The lossy tensors of each alphabet, without those of ``left_out``, in record order."""
    if left_out:  # without them, another tensor may be the first of its family
        excluded = frozenset(left_out)
        layout = Layout(tuple(t for t in layout.tensors if t.name not in excluded))
    yield from layout.by_tensor if scope == "tensor" else layout.by_family
