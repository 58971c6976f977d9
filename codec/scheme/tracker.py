"""Encodes a sequence of states as deltas, and keeps the track that a decoder would have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from codec.errors import StateMismatchError, TrackDigestError
from codec.state.family import SIZES
from codec.state.tensors import (
    Arrays,
    Layout,
    TensorSpec,
    copy_arrays,
    layout_of,
    same_bits,
    to_arrays,
)
from codec.state.tree import describe_difference

from . import measures, uniform, workers
from .budget import Allowance, BeyondError, Budget, fit_buckets, fit_steps
from .coders import coder_of
from .coding import Coding
from .delta import (
    Delta,
    Group,
    alphabet_name,
    alphabets,
    check_fits,
    difference,
    moments_first,
)
from .digest import digest
from .distance import fit_distance
from .limits import CHANGE, LOOK
from .payload import matrices_of
from .quantize import n_promoted
from .remainder import NOTHING, Remainder, Rest
from .residual import LEAST, Residual, residual_of
from .stream import LosslessStage, Message, code
from .survivors import Segments, collected, packed
from .tables import CodeTable
from .track import ArrayTrack, MomentTracks
from .uniform import Steps, UniformQuantizer

Header = Callable[[Arrays, Allowance], int]


T = TypeVar("T", bound=ArrayTrack)


class Tracker(Generic[T]):
    """Encodes each state as the delta to the track.

    Attributes:
        coding: The settings.
        track: The state that a restart would load.

    Args:
        state: The first state, name -> numpy array or torch tensor. Its exact copy becomes the
            track.
        coding, named: The settings, as the arguments of `Coding`.

    Raises:
        SettingsError: A setting is out of range.
        DTypeError: A value is not a tensor.
    """

    track: T

    def __init__(
        self: Tracker[ArrayTrack], state: Mapping[str, Any], *coding: Any, **named: Any
    ) -> None:
        self.coding = Coding(*coding, **named)
        layout = layout_of(state)
        self.track = ArrayTrack.of(layout, copy_arrays(to_arrays(state, layout)))
        self._moving = False  # whether the track is half changed

    @classmethod
    def resume(cls, track: T, coding: Coding) -> Tracker[T]:
        """A tracker that goes on from a track and takes over its arrays."""
        tracker = cls.__new__(cls)
        tracker.coding, tracker.track, tracker._moving = coding, track, False
        return tracker

    @property
    def state(self) -> Arrays:
        """The track's arrays by name; lossy ones are float32."""
        return self.track.arrays

    def step(self, state: Mapping[str, Any]) -> Delta:
        """Encode the difference between ``state`` and the track, and advance the track.

        Raises what `prepare` raises; the track does not change then.
        """
        if self.coding.budget is not None:  # the budget may prove too small halfway
            delta = self.prepare(state)
            self.commit(delta)
            return delta
        delta = self._encode(self._arrays(state), CHANGE)
        self._moving = True
        for name, array in delta.exact_after(self.track.arrays).items():
            self.track.arrays[name][...] = array
        delta.after.clear()
        self.track.sums = dict(delta.sums or {})
        self.track.tables |= delta.tables
        self._moving = False
        return delta

    def prepare(self, state: Mapping[str, Any]) -> Delta:
        """Encode the difference between ``state`` and the track, which does not change.

        Raises:
            StateMismatchError: Names, shapes or dtypes differ from the first state's.
            DTypeError: A value is not a tensor.
            BudgetError: The budget is too small for any change of lossy tensors that changed.
        """
        return self.prepare_arrays(self._arrays(state))

    def prepare_arrays(
        self,
        arrays: Arrays,
        header: Header = lambda *_: 0,
        allowance: Allowance | None = None,
    ) -> Delta:
        """`prepare` for arrays that `to_arrays` made with the track's layout.

        Args:
            arrays: Name -> array.
            header: Takes the exact tensors of the delta and the allowance, and returns the bytes of
                the record's header, which a budget pays for.
            allowance: What the delta may take of a budget that several records share; None for
                the whole budget.
        """
        return self._encode(arrays, LOOK, header, allowance)

    def commit(self, delta: Delta) -> None:
        """Advance the track by the delta that `prepare` returned last.

        Raises:
            TrackDigestError: The track is not the one that was encoded. No reader could follow
                further deltas, so the track is useless.
        """
        track = self.track
        arrays = track.moved(delta.transition).arrays
        check_fits(delta, arrays, arrays)
        self._moving = True
        track.apply(delta)
        for name, expected_sum in (delta.sums or {}).items():
            if (actual_sum := track.sums[name]) != expected_sum:
                expected = f"{name!r} with digest {expected_sum:016x}"
                raise TrackDigestError("the track in memory", expected, f"{actual_sum:016x}")
        self._moving = False

    def _arrays(self, state: Mapping[str, Any]) -> Arrays:
        check_same_layout(self.track.layout, layout_of(state))
        return to_arrays(state, self.track.layout)

    def _encode(
        self,
        arrays: Arrays,
        mode: int,
        header: Header = lambda *_: 0,
        allowance: Allowance | None = None,
    ) -> Delta:
        if self._moving:
            raise StateMismatchError(
                "the last step was interrupted and left the track half changed; start again with a "
                "new tracker"
            )
        track, coding = self.track, self.coding
        stored, residuals = self._encode_exact(arrays)
        after = {name: stored[name] for name in residuals}
        sums, non_finite, groups = dict(track.sums), set[str](), list[Group]()
        budget = None
        if coding.budget is not None:
            allowance = allowance or Allowance.of(coding.budget, track.layout)
            budget = Budget(allowance, track.layout, coding.coder, header(stored, allowance))
        by_alphabet, ahead = list(alphabets(track.layout, coding.scope)), MomentTracks(track, mode)
        in_order = sorted(by_alphabet, key=budget.order) if budget else by_alphabet
        for tensors in sorted(in_order, key=moments_first):
            group, exact_names = self._encode_group(tensors, arrays, ahead, budget, sums)
            if group:
                groups.append(group)
            non_finite |= exact_names
        if budget:
            budget.check()
        stored |= {name: arrays[name].copy() for name in non_finite}
        sums |= {name: digest(stored[name]) for name in non_finite}
        names = [t.name for t in track.layout.tensors]
        # Without tensors that are not finite, another one may be an alphabet's first.
        numbers = track.layout.numbers
        coded = tuple(sorted(groups, key=lambda group: numbers[group.tensors[0].name]))
        weights = (group.remainder for group in coded if not group.tensors[0].measure)
        remainder = sum(weights, NOTHING)
        moved = {t.name for group in coded for t in group.tensors} & ahead.copies.keys()
        return Delta(
            coded,
            {name: stored[name] for name in names if name in stored and name not in residuals},
            tuple(name for name in names if name in non_finite),
            coding,
            sums,
            residuals=residuals,
            after=after | {name: ahead.copies[name] for name in moved},
            rest=Rest(remainder.distance, track.origin.behind(arrays, remainder)),
        )

    def _encode_exact(self, arrays: Arrays) -> tuple[Arrays, dict[str, Residual]]:
        """Copies of the exact tensors that have changed, and the residuals of some of them."""
        before = self.track.arrays
        exact = [t for t in self.track.layout.tensors if not t.lossy]
        copies, residuals = Arrays(), dict[str, Residual]()

        def encode(t: TensorSpec) -> None:
            if not same_bits(arrays[t.name], before[t.name]):
                copies[t.name] = arrays[t.name].copy()
                if r := residual_of(before[t.name], copies[t.name], t):
                    residuals[t.name] = r

        large = [t for t in exact if t.track_nbytes >= LEAST]
        workers.spread(lambda i, _: encode(large[i]), len(large))
        for t in exact:
            if t.track_nbytes < LEAST:
                encode(t)
        return {t.name: copies[t.name] for t in exact if t.name in copies}, residuals

    def _encode_group(
        self,
        tensors: tuple[TensorSpec, ...],
        arrays: Arrays,
        ahead: MomentTracks,
        budget: Budget | None,
        sums: dict[str, int],
    ) -> tuple[Group | None, set[str]]:
        """One encoded alphabet, and the names of its tensors that must be stored exactly.

        sums: Name -> digest, updated in place.
        """
        segments = ahead.segments(tensors).with_sources([arrays[t.name] for t in tensors])
        previous = self.track.tables.get(alphabet_name(self.coding.scope, tensors))
        coding = self.coding.of(tensors[0].family)
        quantize = self._in_steps if coding.uniform else self._in_buckets
        try:
            if tensors[0].measure:
                return self._in_measure(tensors, arrays, ahead, segments, previous, sums), set()
            with (
                np.errstate(all="ignore"),
                quantize(coding, tensors, arrays, segments, budget, previous) as quantized,
            ):
                self._moving = ahead.mode == CHANGE
                encoded, changes = code(quantized.message, segments, ahead.mode)
        except UnquantizableError as exc:
            remaining = tuple(t for t in tensors if t.name not in exc.names)
            if not remaining:
                return None, exc.names
            group, more_names = self._encode_group(remaining, arrays, ahead, budget, sums)
            return group, exc.names | more_names
        if budget:
            budget.spend(tensors, encoded.nbytes)
        for t, change in zip(tensors, changes.tolist()):
            sums[t.name] = (sums[t.name] + change) % 2**64
        return Group(tensors, encoded, quantized.remainder), set()

    @contextmanager
    def _in_buckets(
        self,
        coding: Coding,
        tensors: tuple[TensorSpec, ...],
        arrays: Arrays,
        segments: Segments,
        budget: Budget | None,
        previous: CodeTable | None,
    ) -> Iterator[Quantization]:
        """Quantize in exponent buckets. Raises UnquantizableError if a track might overflow."""
        with collected(segments, n_promoted(coding.bits)) as delta:
            survivors, histogram = delta.survivors, delta.histogram
            if histogram.n_huge:
                self._check_overflow(tensors, arrays)
            stage = _stage(coding, tensors, previous)
            if budget and coding.budget is not None:
                fitted = fit_buckets(delta, stage, *budget.limits(tensors))
                if fitted.levels.size == 1 and histogram.count.any():
                    budget.lacks(tensors, fitted.nbytes)
                yield Quantization(fitted.message, fitted.remainder)
            else:
                p = histogram.promote(n_promoted(coding.bits), survivors.n)
                message = stage.message(survivors, p.counts, p.levels, final=p.final)
                yield Quantization(message, delta.remainder(p))

    def _check_overflow(self, tensors: Iterable[TensorSpec], arrays: Arrays) -> None:
        """Raise UnquantizableError if a track is not finite or might become infinite."""
        track = self.track.arrays
        beyond = {t.name for t in tensors if not _stays_finite(arrays[t.name], track[t.name])}
        if beyond:
            raise UnquantizableError(beyond)

    def _in_measure(
        self,
        tensors: tuple[TensorSpec, ...],
        arrays: Arrays,
        ahead: MomentTracks,
        segments: Segments,
        previous: CodeTable | None,
        sums: dict[str, int],
    ) -> Group:
        """Encode an optimizer's moments. Raises UnquantizableError for what steps cannot express.

        The arguments are those of `_encode_group`.
        """
        target, coder = tensors[0].family.target, self.coding.coder
        assert target is not None, "a measure has a step"
        step = np.float32(target.number)
        sizes = measures.no_sizes()
        if target.name == SIZES:
            sizes = measures.sizes_of([arrays[t.name] for t in tensors])
        scale = measures.Scale(target.name, step, segments.seconds, sizes)
        limit = uniform.MAX_STEPS if coder_of(coder).counts_runs else uniform.MAX_STEPS_PLAIN
        codes = np.empty(segments.n, np.uint16)
        counts, lost = measures.measure(segments, scale, limit, codes)
        if lost.any():
            raise UnquantizableError({tensors[i].name for i in np.flatnonzero(lost)})
        levels = uniform.levels_of(step, int(np.flatnonzero(counts).max(initial=0)) + 1)
        stage = LosslessStage(coder, _shape(tensors), previous=previous)
        with packed(codes) as survivors:
            message = stage.message(survivors, counts[: levels.size], levels, uniform=True)
            encoded, _ = code(message)
        if levels.size == 1:  # nothing changes, so no size is needed
            sizes = measures.no_sizes()
        self._moving = ahead.mode == CHANGE
        changes = measures.move(segments, scale, codes, levels, ahead.mode_of(tensors))
        for t, change in zip(tensors, changes.tolist()):
            sums[t.name] = (sums[t.name] + change) % 2**64
        encoded = replace(encoded, measure=target.name, sizes=sizes, known=codes)
        return Group(tensors, encoded)

    @contextmanager
    def _in_steps(
        self,
        coding: Coding,
        tensors: tuple[TensorSpec, ...],
        arrays: Arrays,
        segments: Segments,
        budget: Budget | None,
        previous: CodeTable | None,
    ) -> Iterator[Quantization]:
        """Quantize in uniform steps. Raises UnquantizableError for what steps cannot express."""
        limit = uniform.MAX_STEPS if coder_of(coding.coder).counts_runs else uniform.MAX_STEPS_PLAIN
        offset = uniform.NEAREST if coding.budget is None else uniform.OFFSET
        stage = _stage(coding, tensors, previous)
        with uniform.quantizer(segments, offset, limit) as quantize:
            if coding.tolerance is not None:
                quantized = self._within(coding.tolerance, stage, quantize, tensors, arrays)
            elif coding.distance is not None:
                quantized = self._leaving(coding.distance, stage, quantize, tensors)
            else:
                assert budget is not None, "steps have a target"
                quantized = self._fitting(stage, quantize, tensors, budget)
            if np.abs(quantized.message.levels).max() >= uniform.OVERFLOWING:
                self._check_overflow(tensors, arrays)
            yield quantized

    def _within(
        self,
        tolerance: float,
        stage: LosslessStage,
        quantize: UniformQuantizer,
        tensors: tuple[TensorSpec, ...],
        arrays: Arrays,
    ) -> Quantization:
        """The largest steps within the tolerance. Raises UnquantizableError."""
        largest = {t.name: uniform.largest_of(arrays[t.name]) for t in tensors}
        largest_allowed = uniform.LARGEST_SIZE - tolerance
        if names := {name for name, value in largest.items() if value > largest_allowed}:
            raise UnquantizableError(names)  # the track could become infinite
        size = uniform.size_within(tolerance, max(largest.values()))
        segments = quantize.segments
        steps = quantize(size, uniform.magnitudes_of(segments, sampled=True).largest)
        if not steps.beyond:
            return _quantization(steps, stage)
        limit = min(float(size) * quantize.most, uniform.LARGEST_SIZE - float(size))
        beyond = uniform.magnitudes_of(segments).beyond(limit)
        raise UnquantizableError({tensors[i].name for i in beyond})

    def _leaving(
        self,
        distance: float,
        stage: LosslessStage,
        quantize: UniformQuantizer,
        tensors: tuple[TensorSpec, ...],
    ) -> Quantization:
        """The largest steps that leave at most the distance. Raises UnquantizableError."""
        segments = quantize.segments
        magnitudes = uniform.magnitudes_of(segments, sampled=True)
        try:
            steps = fit_distance(quantize, magnitudes, distance)
        except BeyondError:
            magnitudes = uniform.magnitudes_of(segments)
            if (beyond := magnitudes.beyond(uniform.LARGEST_CHANGE)).size:
                raise UnquantizableError({tensors[i].name for i in beyond}) from None
            steps = fit_distance(quantize, magnitudes, distance)
        if steps is None:  # steps for the largest change are too coarse for the other changes
            beyond = magnitudes.beyond(magnitudes.largest / 2)
            raise UnquantizableError({tensors[i].name for i in beyond})
        return _quantization(steps, stage)

    def _fitting(
        self,
        stage: LosslessStage,
        quantize: UniformQuantizer,
        tensors: tuple[TensorSpec, ...],
        budget: Budget,
    ) -> Quantization:
        """The smallest steps that fit into the budget. Raises UnquantizableError."""
        magnitudes = uniform.magnitudes_of(quantize.segments, sampled=True)
        limits = budget.limits(tensors)
        try:
            fitted = fit_steps(quantize, magnitudes, stage, *limits)
        except BeyondError:
            magnitudes = uniform.magnitudes_of(quantize.segments)
            if (beyond := magnitudes.beyond(uniform.LARGEST_CHANGE)).size:
                raise UnquantizableError({tensors[i].name for i in beyond}) from None
            fitted = fit_steps(quantize, magnitudes, stage, *limits)
        if fitted.levels.size == 1 and magnitudes.largest:
            budget.lacks(tensors, fitted.nbytes)
        return Quantization(fitted.message, fitted.remainder)


class UnquantizableError(Exception):
    """These tensors of an alphabet must be stored exactly in this step.

    names: not all tensors are named at once; the rest may fail in its turn.
    """

    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.names = names


@dataclass(frozen=True)
class Quantization:
    """A quantized alphabet, ready to be coded. remainder: what the step leaves."""

    message: Message
    remainder: Remainder


def _stage(
    coding: Coding, tensors: tuple[TensorSpec, ...], previous: CodeTable | None
) -> LosslessStage:
    """The lossless stage of an alphabet."""
    shape = _shape(tensors)
    return LosslessStage(coding.coder, shape, matrices_of(tensors), previous, coding.bits)


def _quantization(steps: Steps, stage: LosslessStage) -> Quantization:
    """The quantization in these steps."""
    message = stage.message(steps.survivors, steps.counts, steps.levels, uniform=True)
    return Quantization(message, steps.remainder)


def _shape(tensors: tuple[TensorSpec, ...]) -> tuple[int, ...]:
    return tensors[0].shape if len(tensors) == 1 else (sum(t.size for t in tensors),)


def check_same_layout(expected: Layout, actual: Layout) -> None:
    """Raise StateMismatchError, naming the first difference, unless the layouts are equal."""
    if expected != actual:
        first = describe_difference(expected, actual)
        raise StateMismatchError(f"the state is not laid out like the track: {first}")


def _stays_finite(array: NDArray[np.float32], track: NDArray[np.float32]) -> bool:
    """Whether a track stays finite, whichever level represents each change.

    A level has the sign of its change, and is at most twice as large.
    """
    delta = difference(array, track)
    with np.errstate(all="ignore"):
        furthest = np.abs(array) + np.abs(delta)
    return bool(np.isfinite(furthest[delta != 0]).all())
