"""What compressing a series gained and lost: bytes and errors, by step and by tensor."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codec.state.tensors import Arrays, Layout
from lcviz.lab.measures import distance

_CHUNK = 2**20  # bytes


@dataclass(frozen=True)
class TensorError:
    """One tensor at one step.

    distance: ‖restored − u‖ / ‖u − u₀‖, 0 if both are 0, infinite if only the denominator is.
    largest: max |restored − u|; both in float32, and not finite where the tensor is not.
    """

    name: str
    n: int
    distance: float
    largest: float


@dataclass(frozen=True)
class Compared:
    """One step of a chain beside what it was made of.

    source: the file's name. kind, nbytes: of the record. full_nbytes: the state in float32.
    file_nbytes: the file itself; zipped: the file deflated, None if that was not tried.
    distance, largest: as in `TensorError`, over all lossy tensors. tensors: each of those. track:
    xxh3-128 of what is restored.
    """

    step: int
    source: str
    kind: str
    nbytes: int
    full_nbytes: int
    file_nbytes: int | None
    zipped: int | None
    distance: float
    largest: float
    tensors: tuple[TensorError, ...]
    track: str


@dataclass(frozen=True)
class Totals:
    """Sums over all steps; files and zipped are None unless every step has them.

    distance, largest: the worst of any step. worst: the step with the largest distance.
    """

    n: int
    full: int
    chain: int
    files: int | None
    zipped: int | None
    distance: float
    largest: float
    worst: int


def errors(
    layout: Layout, track: Arrays, live: Arrays, first: Arrays
) -> tuple[float, float, tuple[TensorError, ...]]:
    """Distance and largest error over all lossy tensors, and of each.

    track: what is restored, live: what was to be saved, first: the state that the distance is
    measured against; name -> array of the layout.
    """
    lossy = [t.name for t in layout.tensors if t.lossy]
    each = []
    for name in lossy:
        off = distance(track, live, [name])
        each.append(
            TensorError(
                name,
                live[name].size,
                _share(off, distance(live, first, [name])),
                _largest(track[name], live[name]),
            )
        )
    whole = _share(distance(track, live, lossy), distance(live, first, lossy))
    with np.errstate(invalid="ignore"):
        largest = float(np.max([e.largest for e in each], initial=0.0))
    return whole, largest, tuple(each)


def zipped_nbytes(path: Path) -> int:
    """Bytes of a file deflated as zip programs do by default."""
    packer, total = zlib.compressobj(6), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total += len(packer.compress(chunk))
    return total + len(packer.flush())


def totals(every: Sequence[Compared]) -> Totals:
    """The series as a whole."""

    def summed(values: list[int | None]) -> int | None:
        known = [v for v in values if v is not None]
        return sum(known) if len(known) == len(values) else None

    # What is not finite is worse than anything.
    worst = max(every, key=lambda c: c.distance if np.isfinite(c.distance) else np.inf)
    return Totals(
        len(every),
        sum(c.full_nbytes for c in every),
        sum(c.nbytes for c in every),
        summed([c.file_nbytes for c in every]),
        summed([c.zipped for c in every]),
        worst.distance,
        float(np.max([c.largest for c in every])),
        worst.step,
    )


def _share(off: float, moved: float) -> float:
    if moved:
        return off / moved
    return float("inf") if off else 0.0


def _largest(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        return float(np.max(np.abs(a - b), initial=0.0))
