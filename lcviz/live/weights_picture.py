"""One tensor of the model as an image, and what a checkpoint changes in it."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codec.inspect import Arrays
from lcviz.lab.follow_weight import Followed, Weight
from lcviz.text import plural
from lcviz.ui.glossary import behind
from lcviz.ui.picture import Picture

from .followed import codes_in
from .shown_step import ShownStep

MOST_PIXELS = 60_000  # of an image; of a larger tensor a pixel stands for a block of weights
LEVELS = 7  # of a map, on each side of 0
GAP = -8  # between two tiles
WIDTH, HEIGHT = 380, 176  # CSS pixels
LEGIBLE = 4  # CSS pixels: weights that large need no folding
Pixels = NDArray[np.int64]  # (rows, columns): the index of each pixel's weight, -1 between tiles


@dataclass(frozen=True)
class Image:
    """Which weight of a tensor each pixel of its picture shows.

    Attributes:
        tensor: Its name.
        pixels: int64 (rows, columns), the index of a weight; -1 between tiles.
        shape: Of the tensor, or of its tiles, as text.
    """

    tensor: str
    pixels: Pixels
    shape: str

    @classmethod
    def of(cls, shown: ShownStep, tensor: str, side: int | None) -> Image:
        """The image of a tensor of a step whose states are kept.

        side: of the model's input images, in pixels; None if it has none.
        """
        assert shown.states is not None
        live, before = shown.states.live[tensor], shown.states.before[tensor]
        shape = _tiles(live.shape, side) or live.shape
        return cls(tensor, pixels(live.shape, side, live - before), " × ".join(map(str, shape)))

    def weight(self, row: int, column: int) -> Weight | None:
        """The weight at a pixel; None between tiles, and outside."""
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


def weights_picture(shown: ShownStep, image: Image, followed: Followed, *, told: bool) -> Picture:
    """What a step changes in one tensor.

    Args:
        shown: the step; its states are kept.
        image: of one of its tensors.
        followed: a weight in this step.
        told: whether a pixel can say its values. They are eight times as large as the maps.
    """
    states, restored = shown.states, shown.restored
    assert states is not None
    assert restored is not None
    tensor, at = image.tensor, image.pixels
    live, before, after = states.live[tensor], states.before[tensor], restored[tensor]
    written, missing = after - before, live - after
    maps = {
        "written": _packed(_seen(np.sign(written), at), 1.0),
        "restored": _packed(_seen(after, at)),
        "missing": _packed(_seen(missing, at)),
    }
    captions = _captions(shown, f"{tensor} ({image.shape})", written, missing)
    return Picture(
        "weights",
        "δ",
        "live weights minus what a restart loads" if shown.carries else "since the last checkpoint",
        captions["written"],
        {
            "step": shown.step,
            "tensor": tensor,
            "tensors": drawable(states.live),
            "shape": at.shape,
            "maps": maps,
            "captions": captions,
            "terms": {"track": behind("track")},
            "height": HEIGHT,
            "left_out": shown.left_out("stays"),
            "carries": shown.carries,
            "followed": image.pixel(followed.weight),
            "values": _values(shown, tensor, at) if told else None,
        },
        lambda: _table(shown, states.live, before=states.before, after=restored),
        1,
    )


def _values(shown: ShownStep, tensor: str, image: Pixels) -> dict[str, Any]:
    """What each pixel can say: u, ũ before the step, and which bucket its change is in.

    u and ũ are base64 of float32; codes, of uint16, count the buckets from 1, 0 for no change.
    """
    assert shown.states is not None
    u, before = (
        base64.b64encode(_seen(arrays[tensor], image, 0).astype("<f4").tobytes()).decode()
        for arrays in (shown.states.live, shown.states.before)
    )
    found = codes_in(shown, tensor)
    if found is None:
        return {"u": u, "track": before, "codes": None, "buckets": []}
    i, codes = found
    alphabet = shown.alphabets[i]
    levels = np.where(alphabet.buckets.level > 0, alphabet.buckets.representative, 0)
    rows = zip(alphabet.buckets.exponent, alphabet.buckets.sign, levels)
    packed = _seen(codes, image, 0).astype("<u2").tobytes()
    return {
        "u": u,
        "track": before,
        "codes": base64.b64encode(packed).decode(),
        "buckets": [[int(e), int(s), float(level)] for e, s, level in rows],
        "uniform": alphabet.uniform,
    }


def _captions(
    shown: ShownStep, tensor: str, written: NDArray[np.float32], missing: NDArray[np.float32]
) -> dict[str, str]:
    """What each map shows, of a tensor called so.

    written: after less before. missing: live less restored.
    """
    moved, waiting = int(np.count_nonzero(written)), int(np.count_nonzero(missing))
    return {
        "written": f"Coloured: {moved:,} of {plural(written.size, 'weight')} in {tensor}. What is "
        f"left of δ {shown.left_out('stays')}.",
        "missing": f"Coloured: {waiting:,} of {plural(missing.size, 'weight')} in {tensor} differ "
        f"from the [[track]], left out or rounded. That {shown.left_out('stays')}.",
    }


def drawable(arrays: Arrays) -> list[str]:
    """The tensors that make a picture, the largest first; biases only if there is nothing else."""
    names = [name for name, a in arrays.items() if a.ndim > 1] or list(arrays)
    return sorted(names, key=lambda name: -arrays[name].size)


def pixels(shape: tuple[int, ...], side: int | None, changes: NDArray[np.float32]) -> Pixels:
    """Which weight of a tensor each pixel of its image shows.

    A dense layer on images becomes one tile for each of its units, a convolution one for each pair
    of channels, everything else a matrix; one that is long and thin is folded into bands.

    Args:
        shape: of the tensor.
        side: of the model's input images, in pixels; None if it has none.
        changes: δ of the tensor. Where a pixel stands for a block of weights, it shows the one that
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
    """(units, side, side) of a dense layer on images of this side; None for any other tensor."""
    if side and len(shape) == 2 and shape[1] == side * side and shape[0] <= 64:
        return shape[0], side, side
    return None


def _grid(tiles: NDArray[np.int64], across: int) -> Pixels:
    """Tiles (n, h, w) side by side, so many in a row."""
    n, h, w = tiles.shape
    down = -(-n // across)
    if down > 3 * across:  # a tall one is easier to see on its side
        across, down = down, across
    found = np.full((down * (h + 1) - 1, across * (w + 1) - 1), -1)
    for i, tile in enumerate(tiles):
        top, left = i // across * (h + 1), i % across * (w + 1)
        found[top : top + h, left : left + w] = tile
    return found


def _folded(image: Pixels) -> Pixels:
    """A long thin matrix as bands, one below the other."""
    rows, columns = image.shape
    bands = round(math.sqrt(HEIGHT * columns / (WIDTH * (rows + 1))))
    if bands < 2 or min(WIDTH / columns, HEIGHT / rows) >= LEGIBLE:
        return image
    each = -(-columns // bands)
    found = np.full((bands * (rows + 1) - 1, each), -1)
    for i in range(bands):
        band = image[:, i * each : (i + 1) * each]
        found[i * (rows + 1) : i * (rows + 1) + rows, : band.shape[1]] = band
    return found


def _coarse(image: Pixels, changes: NDArray[np.float32]) -> Pixels:
    """The image with at most MOST_PIXELS: of a block of weights the one that changes most."""
    by = int(np.ceil(np.sqrt(image.size / MOST_PIXELS)))
    if by <= 1:
        return image
    rows, columns = (-(-n // by) for n in image.shape)
    padded = np.full((rows * by, columns * by), -1)
    padded[: image.shape[0], : image.shape[1]] = image
    blocks = padded.reshape(rows, by, columns, by).swapaxes(1, 2).reshape(rows, columns, -1)
    far = np.where(blocks < 0, -1, np.abs(changes.reshape(-1))[blocks])
    return np.take_along_axis(blocks, far.argmax(axis=2, keepdims=True), axis=2)[..., 0]


def _seen(array: NDArray[Any], image: Pixels, gap: float = np.nan) -> NDArray[Any]:
    """The values of the pixels' weights; gap where a pixel has none."""
    return np.where(image < 0, gap, array.reshape(-1)[image])


def _packed(image: NDArray[np.floating], scale: float | None = None) -> str:
    """An image as base64 of two pixels a byte, each 4 bits in two's complement, the low half first.

    LEVELS is the scale, or the largest value; GAP where there is none. Rounded away from 0: what is
    not 0 can be seen.
    """
    gaps = np.isnan(image)
    values = np.where(np.isfinite(image), image, 0)
    top = scale or float(np.abs(values).max()) or 1.0
    found = np.zeros(image.size + image.size % 2, np.uint8)
    magnitudes = np.ceil(np.abs(values) / top * LEVELS).clip(0, LEVELS)
    levels = np.copysign(magnitudes, values).astype(np.int8)
    levels[gaps] = GAP
    found[: image.size] = levels.reshape(-1).view(np.uint8) & 15
    return base64.b64encode((found[::2] | found[1::2] << 4).tobytes()).decode()


def _table(shown: ShownStep, live: Arrays, before: Arrays, after: Arrays) -> pd.DataFrame:
    names: Sequence[str] = list(live)
    return pd.DataFrame(
        {
            "tensor": names,
            "weights": [live[name].size for name in names],
            "changed": [int(np.count_nonzero(after[name] - before[name])) for name in names],
            "largest change": [float(np.abs(after[name] - before[name]).max()) for name in names],
            "largest postponed": [float(np.abs(live[name] - after[name]).max()) for name in names],
        }
    )
