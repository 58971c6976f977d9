"""What compressing a series gained and lost: bytes and errors, by step and by tensor."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codec.inspect import Arrays, Layout
from lcviz.lab.measures import distance

_CHUNK = 2**20  # bytes


@dataclass(frozen=True)
class TensorError:
    """One tensor at one step, in float32; values are not finite where the tensor is not.

    distance: ‖restored − u‖ / ‖u − u₀‖, 0 if both norms are 0, infinite if only the denominator is.
    largest: max |restored − u|.
    """

    name: str
    n: int
    distance: float
    largest: float


@dataclass(frozen=True)
class ComparedStep:
    """One step of a chain and its original.

    source: the file's name. kind, nbytes: of the record. full_nbytes: the state in float32.
    file_nbytes: the file. zipped: the file deflated, None if that was not tried. distance, largest:
    as in `TensorError`, over all lossy tensors. tensors: each of those. track: xxh3-128 of what is
    restored.
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
    """Sums of bytes over all steps; files and zipped are None unless every step has them.

    furthest: the step with the largest distance; not finite counts as the largest. largest: the
    largest error of a weight.
    """

    full: int
    chain: int
    files: int | None
    zipped: int | None
    furthest: ComparedStep
    largest: float


def errors(
    layout: Layout, track: Arrays, live: Arrays, first: Arrays
) -> tuple[float, float, tuple[TensorError, ...]]:
    """Distance and largest error over all lossy tensors, and of each.

    Args:
        layout: of the three states, each name -> array.
        track: what is restored.
        live: what was to be saved.
        first: the state that the distance is measured from.
    """

    def relative(names: list[str]) -> float:
        off, moved = distance(track, live, names), distance(live, first, names)
        return off / moved if moved else float("inf") if off else 0.0

    lossy = [t.name for t in layout.tensors if t.lossy]
    with np.errstate(invalid="ignore", over="ignore"):
        each = tuple(
            TensorError(
                name,
                live[name].size,
                relative([name]),
                float(np.max(np.abs(track[name] - live[name]), initial=0.0)),
            )
            for name in lossy
        )
        largest = float(np.max([e.largest for e in each], initial=0.0))
    return relative(lossy), largest, each


def zipped_nbytes(path: Path) -> int:
    """Bytes of a file deflated as zip programs do by default."""
    packer, total = zlib.compressobj(6), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            total += len(packer.compress(chunk))
    return total + len(packer.flush())


def totals(steps: Sequence[ComparedStep]) -> Totals:
    """The series as a whole."""

    def total(values: list[int | None]) -> int | None:
        known = [v for v in values if v is not None]
        return sum(known) if len(known) == len(values) else None

    return Totals(
        sum(c.full_nbytes for c in steps),
        sum(c.nbytes for c in steps),
        total([c.file_nbytes for c in steps]),
        total([c.zipped for c in steps]),
        max(steps, key=lambda c: c.distance if np.isfinite(c.distance) else np.inf),
        float(np.max([c.largest for c in steps])),
    )
