"""One value of a tensor over the steps of a chain, read without the rest of the state."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import codec

from .records import Catalogue, Key

MOST_KEPT = 16 * 2**20  # bytes of whole arrays: of larger ones, one element is kept
Place = tuple[int, ...]  # of an element, along every axis
Values = NDArray[np.float32] | float | None  # a whole tensor, or one of its elements
Read = list[tuple[int, Values]]  # by step


@dataclass(frozen=True)
class Stretch:
    """A base and the steps after it, up to the next base: they are read together.

    steps: step -> the record that holds it, rising. with_tensor: those at which the state has the
    tensor in float32. problem: why the steps after these cannot be read, "" if they can.
    """

    steps: Mapping[int, Key]
    with_tensor: frozenset[int]
    problem: str = ""

    @property
    def base(self) -> int:
        """The step of the base."""
        return next(iter(self.steps))


@dataclass(frozen=True)
class Point:
    """The value at a step. value: None if there is none, or if it has not been read."""

    step: int
    value: float | None
    is_base: bool = False


@dataclass(eq=False)
class History:
    """What has been read of one tensor.

    name: of the tensor. place: of the only element that is kept; None if whole arrays are.
    values: by record. problems: by base, why steps after it do not decode.
    """

    name: str
    place: Place | None
    values: dict[Key, Values] = field(default_factory=dict)
    problems: dict[Key, str] = field(default_factory=dict)

    def add(self, stretch: Stretch, read: Read) -> None:
        """Add what was read of a stretch."""
        self.values |= {stretch.steps[step]: values for step, values in read}

    def forget_others(self, stretches: Sequence[Stretch]) -> None:
        """Forget what is of no record of these: somebody has removed or replaced it."""
        present = {key for stretch in stretches for key in stretch.steps.values()}
        self.values = {key: values for key, values in self.values.items() if key in present}

    def missing(self, stretch: Stretch) -> list[int]:
        """The steps of a stretch that can be read and have not been; rising."""
        if self.problem(stretch):
            return []
        keys = stretch.steps.items()
        return [s for s, key in keys if s in stretch.with_tensor and key not in self.values]

    def problem(self, stretch: Stretch) -> str:
        """Why steps of a stretch do not decode; "" if that is not known."""
        return self.problems.get(stretch.steps[stretch.base], "")

    def points(self, stretches: Sequence[Stretch], place: Place) -> list[Point]:
        """The value of an element at all steps, as far as it is known."""
        points = []
        for stretch in stretches:
            for step, key in stretch.steps.items():
                values = self.values.get(key) if step in stretch.with_tensor else None
                value = element(values, place) if isinstance(values, np.ndarray) else values
                points.append(Point(step, value, step == stretch.base))
            if stretch.problem or self.problem(stretch):
                points.append(Point(points[-1].step, None))  # ends the line
        return points


def stretches_of(catalogue: Catalogue, name: str) -> list[Stretch]:
    """The stretches of a chain, of which a tensor is read; without records that cannot be reached.

    name: of the tensor, as layouts have it.
    """
    stretches: list[Stretch] = []
    steps: dict[int, Key] = {}
    with_tensor: set[int] = set()
    problem = ""
    befores = [*(record.before for record in catalogue.records[1:]), catalogue.end]
    for record, after in zip(catalogue.records, befores):
        if record.reached and record.entry.kind == "base" and steps:
            stretches.append(Stretch(steps, frozenset(with_tensor), problem))
            steps, with_tensor, problem = {}, set(), ""
        if record.reached and (steps or record.entry.kind == "base"):
            steps[record.entry.step] = record.key
            layout = after.layout.tensors if after.layout else ()
            if any(spec.name == name and spec.dtype == "F32" for spec in layout):
                with_tensor.add(record.entry.step)
        elif not record.reached:
            problem = problem or record.problem
    return [*stretches, Stretch(steps, frozenset(with_tensor), problem)] if steps else stretches


def read_stretch(chain: codec.Chain, stretch: Stretch, history: History) -> Iterator[Read]:
    """Read what is missing of a stretch; yields a list of one step at a time.

    Raises what `codec.Chain.history` does.
    """
    missing = history.missing(stretch)
    # Also those that are known: they are passed anyway, and whoever waits can look up meanwhile.
    steps = [s for s in stretch.steps if s in stretch.with_tensor and missing and s <= missing[-1]]
    for step, tensor in chain.history(history.name, steps):
        values = np.asarray(tensor)
        yield [(step, values if history.place is None else element(values, history.place))]


def read_some(reading: Iterator[Read], seconds: float) -> tuple[Read, bool, codec.LccError | None]:
    """Read on for so many seconds: what was read, whether it has ended, and the error that did it.

    At least one step is read.
    """
    end, read = time.monotonic() + seconds, Read()
    try:
        for one in reading:
            read += one
            if time.monotonic() >= end:
                return read, False, None
    except codec.LccError as exc:
        return read, True, exc
    return read, True, None


def element(values: NDArray[Any], place: Place) -> float | None:
    """An element; None if the tensor has no such place, as its shape was another one."""
    if len(place) != values.ndim or any(i >= n for i, n in zip(place, values.shape)):
        return None
    return float(values[place])
