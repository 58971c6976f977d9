"""What compressing a series gained and lost: bytes and errors, by step and by tensor."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np

from codec.inspect import Arrays, Layout, TensorSpec
from lcviz.lab.measures import distance

LOSSY, EXACTLY = "lossy", "exactly"
_CHUNK = 2**20  # bytes


@dataclass(frozen=True)
class TensorError:
    """Errors of one tensor at one step, in float32; not finite if the tensor is not.

    distance: ‖restored − u‖ / ‖u − u₀‖, 0 if both norms are 0, infinite if only the denominator is.
    largest: max |restored − u|. stored: EXACTLY, LOSSY, or the target of an optimizer's moment, as
    "octaves=0.25". A tensor that is stored exactly has no error.
    """

    name: str
    n: int
    distance: float
    largest: float
    stored: str = LOSSY


@dataclass(frozen=True)
class ComparedStep:
    """One step of a chain and its original.

    source: the file's name. kind, nbytes: of the record. full_nbytes: the state in float32.
    file_nbytes: the file without the parts that are left out. zipped: the same, deflated; None if
    not tried. distance, largest: as in `TensorError`, over all weights, without an optimizer's
    moments. tensors: the errors of each. track: xxh3-128 of the restored tensors.
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
    """The distance and the largest error over all weights, and the errors of each tensor.

    Args:
        layout: of the three states; each is name -> array.
        track: what is restored.
        live: what was to be saved.
        first: the state that the distance is measured from.
    """

    def relative(names: list[str]) -> float:
        error_norm, trained = distance(track, live, names), distance(live, first, names)
        return error_norm / trained if trained else float("inf") if error_norm else 0.0

    def error(tensor: TensorSpec) -> TensorError:
        name, n = tensor.name, live[tensor.name].size
        if not tensor.lossy:
            return TensorError(name, n, 0.0, 0.0, EXACTLY)
        largest = float(np.max(np.abs(track[name] - live[name]), initial=0.0))
        stored = str(tensor.family.target) if tensor.measure else LOSSY
        return TensorError(name, n, relative([name]), largest, stored)

    with np.errstate(invalid="ignore", over="ignore"):
        tensor_errors = tuple(map(error, layout.tensors))
        weights = [e for e in tensor_errors if e.stored == LOSSY]
        largest = float(np.max([e.largest for e in weights], initial=0.0))
    return relative([e.name for e in weights]), largest, tensor_errors


def zipped_nbytes(file: IO[bytes]) -> int:
    """Bytes of a file from its position to its end, deflated as zip programs do by default."""
    packer, total = zlib.compressobj(6), 0
    while chunk := file.read(_CHUNK):
        total += len(packer.compress(chunk))
    return total + len(packer.flush())


def totals(steps: Sequence[ComparedStep]) -> Totals:
    """The sums over a series."""

    def total(values: list[int | None]) -> int | None:
        numbers = [v for v in values if v is not None]
        return sum(numbers) if len(numbers) == len(values) else None

    return Totals(
        sum(c.full_nbytes for c in steps),
        sum(c.nbytes for c in steps),
        total([c.file_nbytes for c in steps]),
        total([c.zipped for c in steps]),
        max(steps, key=lambda c: c.distance if np.isfinite(c.distance) else np.inf),
        float(np.max([c.largest for c in steps])),
    )
