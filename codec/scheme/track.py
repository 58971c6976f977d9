"""The approximate track: what a decoder rebuilds, and the distance each step is taken to.

    delta_t = u_t - track_{t-1}        track_t = track_{t-1} + dequantize(quantize(delta_t))

The distance is taken to the track, not to u_{t-1}, so that what one step drops the next one
sees again (PAPER: "On Efficient Constructions of Checkpoints", ICML 2020). Encoder and
decoder advance the track with the one function `apply`, so the two cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import SettingsError, StateMismatchError, TrackDigestError
from codec.state.tensors import Arrays, Layout, TensorSpec, copy_arrays, layout_of, to_arrays

from .budget import Budget, check_budget, fit
from .quantize import Buckets, check_bits, n_promoted
from .stream import CHANGE, LOOK, Encoded, Message, advance, check_coder, code, digest, settle
from .survivors import Collected, Segments, collected
from .tables import CodeTable, Counts

SCOPES = ("model", "tensor")


@dataclass(frozen=True)
class Group:
    """Tensors that share one alphabet: the whole model, or a single tensor.

    tensors: their specs, in the order of their elements. encoded: their codes. buckets: the
    promoted ones, None on what was read from a record.
    """

    tensors: tuple[TensorSpec, ...]
    encoded: Encoded
    buckets: Buckets | None

    @property
    def n(self) -> int:
        """Elements."""
        return sum(t.size for t in self.tensors)


@dataclass(frozen=True)
class Step:
    """One delta: everything that leads from one state of the track to the next.

    groups: the lossy tensors. exact: name -> array, the tensors stored as they are in this
    step: exact ones that have changed, and those in non_finite. non_finite: names of lossy
    tensors whose delta held NaN or infinity. budget: the share of float32 it was made to fit, or
    None. sums: digests of the lossy tensors after it, see `digest_sums`; None on what was read.
    values: changes (see edits) of what is no tensor, by its number in the structure (see tree).
    """

    groups: tuple[Group, ...]
    exact: Arrays
    non_finite: tuple[str, ...]
    bits: int | None
    scope: str
    coder: str
    budget: float | None = None
    sums: Mapping[str, int] | None = None
    values: Mapping[int, str] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of payloads, tables, levels and exact tensors; a record adds its header."""
        exact = sum(array.nbytes for array in self.exact.values())
        return exact + sum(group.encoded.nbytes for group in self.groups)

    @property
    def tensors(self) -> dict[str, str]:
        """Name -> how it is stored in this step: "lossy" or "exact"."""
        lossy = {t.name: "lossy" for group in self.groups for t in group.tensors}
        return lossy | dict.fromkeys(self.exact, "exact")

    @property
    def tables(self) -> dict[str, CodeTable]:
        """Alphabet -> the code table last sent for it, once this step has been."""
        named = ((alphabet_name(self.scope, g.tensors), g.encoded.table) for g in self.groups)
        return {name: table for name, table in named if table is not None}


class Tracker:
    """Turns a sequence of states into deltas, keeping the track the decoder will have.

    state: the first one, name -> numpy array or torch tensor; it is copied and becomes the
    track exactly. bits: 1..8, or None for the exponent stage alone. scope: "model" for one
    alphabet over all parameters (the paper), "tensor" for one a tensor. coder: "runlength", or
    "huffman" for the paper's. budget: instead of bits, a share of the lossy tensors' float32
    size: every step keeps as many buckets as fit into it.

    Raises SettingsError for settings out of range, DTypeError for what is no tensor.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        bits: int | None = 2,
        scope: str = "model",
        coder: str = "runlength",
        budget: float | None = None,
    ) -> None:
        self.bits, self.budget = check_settings(bits, scope, coder, budget)
        self.scope, self.coder = scope, coder
        self.layout = layout_of(state)
        self.state = copy_arrays(to_arrays(state, self.layout))
        self.sums = digest_sums(self.layout, self.state)
        self.tables: dict[str, CodeTable] = {}
        self._moving = False  # True when the track is neither here nor there

    @classmethod
    def resume(
        cls,
        layout: Layout,
        track: Arrays,
        tables: Mapping[str, CodeTable],
        bits: int | None,
        scope: str,
        coder: str,
        budget: float | None = None,
    ) -> Tracker:
        """A tracker that goes on from this track; it takes the arrays over.

        tables: the code tables last sent, by alphabet.
        """
        tracker = cls({}, bits, scope, coder, budget)
        tracker.layout, tracker.state, tracker.tables = layout, track, dict(tables)
        tracker.sums = digest_sums(layout, track)
        return tracker

    def step(self, state: Mapping[str, Any]) -> Step:
        """Encode the distance from the track to ``state`` and advance the track.

        Raises what `prepare` does; the track then stays where it is.
        """
        if self.budget is not None:  # which may turn out too small when half is encoded
            step = self.prepare(state)
            self.commit(step)
            return step
        step = self._encode(self._arrays(state), CHANGE)
        self._moving = True
        for name, array in step.exact.items():
            self.state[name][...] = array
        self._advanced(step)
        return step

    def prepare(self, state: Mapping[str, Any]) -> Step:
        """Encode the distance from the track to ``state``; the track stays where it is.

        Raises StateMismatchError if names, shapes or dtypes differ from the first state's,
        DTypeError for what is no tensor, BudgetError if the budget holds nothing of lossy
        tensors that have changed.
        """
        return self.prepare_arrays(self._arrays(state))

    def prepare_arrays(self, arrays: Arrays, header: Callable[[Arrays], int] = lambda _: 0) -> Step:
        """`prepare` of what `state.to_arrays` makes of a state of the track's layout.

        header: given the exact tensors of the step, the bytes of the record's header that a
        budget has to pay for.
        """
        return self._encode(arrays, LOOK, header)

    def commit(self, step: Step) -> None:
        """Advance the track by a step that `prepare` returned last.

        Raises TrackDigestError if it has become another one than was encoded: what is encoded
        from there, nobody could follow. It is then of no more use.
        """
        _check_fits(step, self.state, self.state)
        self._moving = True
        after = apply_with_digests(step, self.state, self.sums)
        for name, meant in (step.sums or {}).items():
            if (found := after[name]) != meant:
                expected = f"{name!r} with digest {meant:016x}"
                raise TrackDigestError("the track in memory", expected, f"{found:016x}")
        self._advanced(step)

    def _advanced(self, step: Step) -> None:
        self.sums = dict(step.sums or {})
        self.tables |= step.tables
        self._moving = False

    def _arrays(self, state: Mapping[str, Any]) -> Arrays:
        check_same_layout(self.layout, layout_of(state))
        return to_arrays(state, self.layout)

    def _encode(
        self, arrays: Arrays, mode: int, header: Callable[[Arrays], int] = lambda _: 0
    ) -> Step:
        if self._moving:
            raise StateMismatchError(
                "the step before this one was interrupted and has left the track half-way; begin "
                "anew with another tracker"
            )
        stored = {
            t.name: arrays[t.name].copy()
            for t in self.layout.tensors
            if not t.lossy and not same_bits(arrays[t.name], self.state[t.name])
        }
        sums, non_finite, groups = dict(self.sums), set(), {}
        budget = None
        if self.budget is not None:
            budget = Budget(self.budget, self.layout, self.coder, header(stored))
        shares = list(alphabets(self.layout, self.scope))
        for tensors in sorted(shares, key=budget.order) if budget else shares:
            group, bad = self._encode_group(tensors, arrays, mode, budget, sums)
            if group:
                groups[tensors] = group
            non_finite |= bad
        if budget:
            budget.check()
        stored |= {name: arrays[name].copy() for name in non_finite}
        sums |= {name: digest(stored[name]) for name in non_finite}
        names = [t.name for t in self.layout.tensors]
        return Step(
            tuple(groups[tensors] for tensors in shares if tensors in groups),
            {name: stored[name] for name in names if name in stored},
            tuple(name for name in names if name in non_finite),
            self.bits,
            self.scope,
            self.coder,
            self.budget,
            sums,
        )

    def _encode_group(
        self,
        tensors: tuple[TensorSpec, ...],
        arrays: Arrays,
        mode: int,
        budget: Budget | None,
        sums: dict[str, int],
    ) -> tuple[Group | None, set[str]]:
        """One alphabet, and the names of its tensors that must be stored whole.

        sums: advanced by the digests' changes.
        """
        name = alphabet_name(self.scope, tensors)
        keep = None if budget else n_promoted(family_bits(tensors, self.bits))
        segments = Segments(
            [self.state[t.name] for t in tensors], [arrays[t.name] for t in tensors]
        )
        with np.errstate(all="ignore"), collected(segments, keep) as found:
            if not found.histogram.n_non_finite:
                previous = self.tables.get(name)
                cautious = tensors[0].family != "" and all(
                    arrays[t.name].min() >= 0 for t in tensors
                )
                message, buckets = self._message(tensors, found, budget, previous, cautious)
                self._moving = mode == CHANGE
                encoded, changes = code(message, self.coder, previous, segments, mode)
                if budget:
                    budget.spend(tensors, encoded.nbytes)
                for t, change in zip(tensors, changes.tolist()):
                    sums[t.name] = (sums[t.name] + change) % 2**64
                return Group(tensors, encoded, buckets.first(encoded.levels.size - 1)), set()
        bad = {t.name for t in tensors if not _is_finite(arrays[t.name], self.state[t.name])}
        rest = tuple(t for t in tensors if t.name not in bad)
        if not rest:
            return None, bad
        group, worse = self._encode_group(rest, arrays, mode, budget, sums)
        return group, bad | worse

    def _message(
        self,
        tensors: tuple[TensorSpec, ...],
        found: Collected,
        budget: Budget | None,
        previous: CodeTable | None,
        cautious: bool,
    ) -> tuple[Message, Buckets]:
        survivors, histogram = found.survivors, found.histogram
        n, bits = survivors.n, family_bits(tensors, self.bits)
        shape = tensors[0].shape if len(tensors) == 1 else (n,)
        if budget and not tensors[0].family:
            fitted = fit(found, self.coder, previous, *budget.room(tensors))
            if not len(fitted.buckets) and histogram.count.any():
                budget.lacks(tensors, fitted.nbytes)
            return fitted.message(shape), fitted.buckets
        buckets = histogram.buckets().promoted(bits)
        counts = buckets.counts(n)
        units, tokens = settle(survivors, histogram.final(buckets), counts, self.coder)
        levels = buckets.cautious_levels if cautious else buckets.levels
        return Message(survivors, units, Counts(counts, tokens), levels, shape, bits), buckets


def apply(step: Step, state: Arrays, out: Arrays | None = None) -> None:
    """Advance a track by one step, in place or into other arrays.

    state: name -> C-contiguous array, float32 for lossy tensors. out: arrays of the same kind
    that become the new track, while ``state`` stays as it is; None changes ``state``. Elements
    whose level is 0 keep their bits, so a -0.0 stays one.

    Raises StateMismatchError, before anything is changed, if an array is missing, has another
    shape or dtype or cannot be written to; PayloadError for a damaged step: what was to be
    written is then of no use.
    """
    target = state if out is None else out
    unchanged = _check_fits(step, state, target)
    for name in () if out is None else unchanged:
        target[name][...] = state[name]
    for group in step.groups:
        names = [t.name for t in group.tensors]
        sources = [] if out is None else [state[name] for name in names]
        advance(group.encoded, Segments([target[name] for name in names], sources), CHANGE)
    for name, array in step.exact.items():
        target[name][...] = array


def _check_fits(step: Step, state: Arrays, target: Arrays) -> list[str]:
    """The names of what a step leaves unchanged. target: what is written to. Raises
    StateMismatchError, see `apply`."""
    changed = {t.name for group in step.groups for t in group.tensors} | step.exact.keys()
    unchanged = [name for name in state if name not in changed]
    for name in unchanged:
        check_array(target, name, state[name].shape, state[name].dtype, target is not state)
    for arrays in (state, target):
        for spec in (t for group in step.groups for t in group.tensors):
            check_array(arrays, spec.name, spec.shape, np.dtype(np.float32), arrays is target)
        for name, array in step.exact.items():
            check_array(arrays, name, array.shape, array.dtype, arrays is target)
    return unchanged


def look(step: Step, state: Arrays, sums: Mapping[str, int]) -> dict[str, int]:
    """The digests that the lossy tensors would have after a step; nothing is changed.

    state, sums: the track before it, and its digests. Raises what `apply` does.
    """
    return _digests_after(step, state, sums, LOOK)


def apply_with_digests(step: Step, state: Arrays, sums: Mapping[str, int]) -> dict[str, int]:
    """`apply`, and the digests of the lossy tensors after it."""
    after = _digests_after(step, state, sums, CHANGE)
    for name, array in step.exact.items():
        state[name][...] = array
    return after


def digest_sums(layout: Layout, state: Arrays) -> dict[str, int]:
    """The digest of every lossy tensor, from all of its values."""
    return {t.name: digest(state[t.name]) for t in layout.tensors if t.lossy}


def _digests_after(step: Step, state: Arrays, sums: Mapping[str, int], mode: int) -> dict[str, int]:
    after = dict(sums)
    for group in step.groups:
        changes = advance(group.encoded, _track_of(group, state), mode)
        for t, change in zip(group.tensors, changes.tolist()):
            after[t.name] = (after[t.name] + change) % 2**64
    return after | {name: digest(step.exact[name]) for name in step.non_finite}


def _track_of(group: Group, state: Arrays) -> Segments:
    return Segments([state[t.name] for t in group.tensors])


def difference(array: NDArray[Any], track: NDArray[Any]) -> NDArray[Any]:
    """The delta from a track to a tensor of its shape and dtype: 0 where both have the same bits,
    also those of an infinity or NaN, whose difference is NaN."""
    with np.errstate(all="ignore"):
        delta = np.asarray(array - track)
    if not np.isfinite(delta).all():
        bits = f"u{delta.dtype.itemsize}"
        delta = np.where(array.view(bits) == track.view(bits), delta.dtype.type(0), delta)
    return delta


def _is_finite(array: NDArray[np.float32], track: NDArray[np.float32]) -> bool:
    return bool(np.isfinite(difference(array, track)).all())


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two C-contiguous arrays of one shape and dtype hold the same bits: NaN is NaN."""
    return np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))


def alphabet_name(scope: str, tensors: Sequence[TensorSpec]) -> str:
    """Which alphabet these tensors share: a code table is used again by its name."""
    return tensors[0].name if scope == "tensor" else tensors[0].family


def family_bits(tensors: Sequence[TensorSpec], bits: int | None) -> int | None:
    """x of an alphabet: the setting is the model's; elsewhere all buckets are kept.

    An optimizer divides by the root of its second moments: a small one that is never promoted
    would stay at its old value, and the next update be out of all proportion.
    """
    return None if tensors[0].family else bits


def alphabets(
    layout: Layout, scope: str, left_out: Sequence[str] = ()
) -> Iterator[tuple[TensorSpec, ...]]:
    """The lossy tensors of each alphabet, without those of ``left_out``, in record order."""
    without = frozenset(left_out)
    lossy = tuple(t for t in layout.tensors if t.lossy and t.name not in without)
    if scope == "tensor":
        yield from ((t,) for t in lossy)
    else:
        families: dict[str, list[TensorSpec]] = {}
        for t in lossy:
            families.setdefault(t.family, []).append(t)
        yield from map(tuple, families.values())


def check_settings(
    bits: int | None, scope: str, coder: str, budget: float | None = None
) -> tuple[int | None, float | None]:
    """bits as a Python int or None, budget as a float or None; with a budget bits is None.

    Raises SettingsError unless all are in their range.
    """
    check_coder(coder)
    if scope not in SCOPES:
        raise SettingsError(f"scope must be one of {', '.join(SCOPES)}; got {scope!r}")
    bits = check_bits(bits)
    return (bits, None) if budget is None else (None, check_budget(budget))


def check_same_layout(expected: Layout, found: Layout) -> None:
    """Raise StateMismatchError that names the first difference."""
    if expected == found:
        return
    old, new = ({t.name: t for t in layout.tensors} for layout in (expected, found))
    for name in old:
        if name not in new:
            raise StateMismatchError(f"tensor {name!r} of the track is missing from the state")
    for name in new:
        if name not in old:
            raise StateMismatchError(f"tensor {name!r} is not part of the track")
    for name, spec in old.items():
        if spec != new[name]:
            raise StateMismatchError(
                f"tensor {name!r} is {_described(new[name])}, but the track has {_described(spec)}"
            )
    raise StateMismatchError("the state's tensors are in another order or structure")


def _described(spec: TensorSpec) -> str:
    how = (f"of {spec.family}" if spec.family else "lossy") if spec.lossy else "exact"
    return f"{spec.dtype} {spec.shape} from {spec.library}, {how}"


def check_array(
    state: Arrays, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], written: bool
) -> None:
    """Raise StateMismatchError unless a track has this array, C-contiguous, writable if written."""
    if name not in state:
        raise StateMismatchError(f"tensor {name!r} of the step is missing from the state")
    array = state[name]
    fits = array.flags.carray if written else array.flags.c_contiguous
    if array.shape != shape or array.dtype != dtype or not fits:
        raise StateMismatchError(
            f"tensor {name!r} of the state is {array.dtype} {array.shape}; expected {dtype} "
            f"{shape}, {'writable and ' if written else ''}C-contiguous"
        )
