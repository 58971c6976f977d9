"""One tensor of the model as an image: what a checkpoint changes in it."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codec.inspect import Arrays
from lcviz.lab.follow_weight import Followed, Weight
from lcviz.ui.picture import Picture

from .followed import codes_in
from .step_record import StepRecord

MOST_PIXELS = 60_000  # of an image; of a larger tensor a pixel stands for a block of weights
LEVELS = 7  # of a map, on each side of 0
GAP = -8  # in a map: the value between two tiles
WIDTH, HEIGHT = 380, 158  # CSS pixels; the height is MAP_HEIGHT of said.js
LEGIBLE = 4  # CSS pixels for each weight: from here on a matrix is not folded
Pixels = NDArray[np.int64]  # (rows, columns): the index of each pixel's weight, -1 between tiles


@dataclass(frozen=True)
class Image:
    """Which weight of a tensor each pixel of its picture shows.

    Attributes:
        tensor: Its name.
        pixels: The index of each pixel's weight.
        shape: Of the tensor, or of its tiles, as text.
    """

    tensor: str
    pixels: Pixels
    shape: str

    @classmethod
    def of(cls, record: StepRecord, tensor: str, side: int | None) -> Image:
        """The image of one tensor. The record must have its states.

        side: of the model's input images, in pixels; None if the input is no image.
        """
        assert record.states is not None
        live, before = record.states.live[tensor], record.states.before[tensor]
        shape = _tiles(live.shape, side) or live.shape
        return cls(tensor, pixels(live.shape, side, live - before), " × ".join(map(str, shape)))

    def weight(self, row: int, column: int) -> Weight | None:
        """The weight at a pixel; None between tiles and outside the image."""
        rows, columns = self.pixels.shape
        if not (0 <= row < rows and 0 <= column < columns) or self.pixels[row, column] < 0:
            return None
        return Weight(self.tensor, int(self.pixels[row, column]))

    def pixel(self, weight: Weight) -> list[int] | None:
        """Row and column of a weight; None if no pixel shows it."""
        if weight.tensor != self.tensor:
            return None
        at = np.flatnonzero(self.pixels.reshape(-1) == weight.index)
        return list(divmod(int(at[0]), self.pixels.shape[1])) if at.size else None


def weights_picture(
    record: StepRecord, image: Image, followed: Followed, *, with_values: bool
) -> Picture:
    """What a step changes in one tensor.

    Args:
        record: Of the step, with states and codes.
        image: Of one of the tensors.
        followed: The weight whose pixel is marked.
        with_values: Whether the picture can tell the values of each pixel. They take eight times
            the bytes of the maps.
    """
    states, restored = record.states, record.restored
    assert states is not None
    assert restored is not None
    tensor, grid = image.tensor, image.pixels
    live, before, after = states.live[tensor], states.before[tensor], restored[tensor]
    written, missing = after - before, live - after
    maps = {
        "written": _packed(_per_pixel(np.sign(written), grid), 1.0),
        "restored": _packed(_per_pixel(after, grid)),
        "missing": _packed(_per_pixel(missing, grid)),
    }
    return Picture(
        "weights",
        {
            "step": record.step,
            "tensor": tensor,
            "size": image.shape,
            "tensors": drawable(states.live),
            "shape": grid.shape,
            "maps": maps,
            "n": live.size,
            "written": int(np.count_nonzero(written)),
            "missing": int(np.count_nonzero(missing)),
            "followed": image.pixel(followed.weight),
            "values": _values(record, tensor, grid) if with_values else None,
            "carries": record.carries,
        },
        lambda: _table(states.live, before=states.before, after=restored),
    )


def _values(record: StepRecord, tensor: str, grid: Pixels) -> dict[str, Any]:
    """The values of each pixel: u, ũ before the step, and the bucket of the change.

    u and ũ are base64 of float32. codes is base64 of uint16: 0 for no change, else the bucket's
    place in promotion order, from 1.
    """
    assert record.states is not None
    u, before = (
        _base64(_per_pixel(arrays[tensor], grid, 0).astype("<f4"))
        for arrays in (record.states.live, record.states.before)
    )
    values: dict[str, Any] = {"u": u, "track": before, "codes": None, "buckets": []}
    if coded := codes_in(record, tensor):
        alphabet, codes = coded
        levels = np.where(alphabet.buckets.level > 0, alphabet.buckets.representative, 0)
        values["codes"] = _base64(_per_pixel(codes, grid, 0).astype("<u2"))
        values["buckets"] = [[*key, level] for key, level in zip(alphabet.keys, levels.tolist())]
        values["uniform"] = alphabet.uniform
    return values


def _base64(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode()


def drawable(arrays: Arrays) -> list[str]:
    """The names of tensors to draw, the largest first; biases only if there is nothing else."""
    names = [name for name, a in arrays.items() if a.ndim > 1] or list(arrays)
    return sorted(names, key=lambda name: -arrays[name].size)


def pixels(shape: tuple[int, ...], side: int | None, changes: NDArray[np.float32]) -> Pixels:
    """Which weight of a tensor each pixel of its image shows.

    A dense layer on images becomes one tile for each unit, a convolution one tile for each pair of
    channels. Every other tensor becomes a matrix; a long, thin matrix is folded into bands.

    Args:
        shape: Of the tensor.
        side: Of the model's input images, in pixels; None if the input is no image.
        changes: δ of the tensor. A pixel that stands for a block of weights shows the one that
            changes most.
    """
    index = np.arange(math.prod(shape)).reshape(shape)
    if index.ndim == 4:
        image = _grid(index.reshape(-1, *shape[2:]), shape[1])
    elif (tiles := _tiles(shape, side)) is not None:
        image = _grid(index.reshape(tiles), 5)
    else:
        rows = index.reshape(len(index), -1) if index.ndim > 1 else index.reshape(1, -1)
        image = _folded(rows.T if len(rows) > 2 * rows.shape[1] else rows)
    return _coarse(image, changes)


def _tiles(shape: tuple[int, ...], side: int | None) -> tuple[int, ...] | None:
    """(units, side, side) for a dense layer on images of this side; None for any other tensor."""
    if side and len(shape) == 2 and shape[1] == side * side and shape[0] <= 64:
        return shape[0], side, side
    return None


def _grid(tiles: NDArray[np.int64], across: int) -> Pixels:
    """Tiles (n, h, w) side by side, ``across`` of them in a row."""
    n, h, w = tiles.shape
    down = -(-n // across)
    if down > 3 * across:  # the place on the page is wide
        across, down = down, across
    image = np.full((down * (h + 1) - 1, across * (w + 1) - 1), -1)
    for i, tile in enumerate(tiles):
        top, left = i // across * (h + 1), i % across * (w + 1)
        image[top : top + h, left : left + w] = tile
    return image


def _folded(image: Pixels) -> Pixels:
    """A long thin matrix as bands, one below the other."""
    rows, columns = image.shape
    bands = round(math.sqrt(HEIGHT * columns / (WIDTH * (rows + 1))))
    if bands < 2 or min(WIDTH / columns, HEIGHT / rows) >= LEGIBLE:
        return image
    width = -(-columns // bands)
    folded = np.full((bands * (rows + 1) - 1, width), -1)
    for i in range(bands):
        band = image[:, i * width : (i + 1) * width]
        folded[i * (rows + 1) : i * (rows + 1) + rows, : band.shape[1]] = band
    return folded


def _coarse(image: Pixels, changes: NDArray[np.float32]) -> Pixels:
    """The image with at most MOST_PIXELS: each block of weights becomes its largest change."""
    side = int(np.ceil(np.sqrt(image.size / MOST_PIXELS)))
    if side <= 1:
        return image
    rows, columns = (-(-n // side) for n in image.shape)
    padded = np.full((rows * side, columns * side), -1)
    padded[: image.shape[0], : image.shape[1]] = image
    blocks = padded.reshape(rows, side, columns, side).swapaxes(1, 2).reshape(rows, columns, -1)
    magnitudes = np.where(blocks < 0, -1, np.abs(changes.reshape(-1))[blocks])
    return np.take_along_axis(blocks, magnitudes.argmax(axis=2, keepdims=True), axis=2)[..., 0]


def _per_pixel(array: NDArray[Any], grid: Pixels, gap: float = np.nan) -> NDArray[Any]:
    """The value of each pixel's weight; ``gap`` between tiles."""
    return np.where(grid < 0, gap, array.reshape(-1)[grid])


def _packed(image: NDArray[np.floating], scale: float | None = None) -> str:
    """An image as base64 of two pixels a byte, each 4 bits in two's complement, the low half first.

    Magnitudes are in LEVELS steps up to ``scale``, by default the largest. They are rounded away
    from 0, so that every value that is not 0 is visible. NaN becomes GAP.
    """
    gaps = np.isnan(image)
    values = np.where(np.isfinite(image), image, 0)
    largest = scale or float(np.abs(values).max()) or 1.0
    nibbles = np.zeros(image.size + image.size % 2, np.uint8)
    magnitudes = np.ceil(np.abs(values) / largest * LEVELS).clip(0, LEVELS)
    levels = np.copysign(magnitudes, values).astype(np.int8)
    levels[gaps] = GAP
    nibbles[: image.size] = levels.reshape(-1).view(np.uint8) & 15
    return _base64(nibbles[::2] | nibbles[1::2] << 4)


def _table(live: Arrays, before: Arrays, after: Arrays) -> pd.DataFrame:
    columns = ["tensor", "weights", "changed", "largest change", "largest postponed"]
    rows = []
    for name, u in live.items():
        written, postponed = after[name] - before[name], np.abs(u - after[name]).max()
        n_changed, largest = int(np.count_nonzero(written)), float(np.abs(written).max())
        rows.append((name, u.size, n_changed, largest, float(postponed)))
    return pd.DataFrame(rows, columns=columns)
