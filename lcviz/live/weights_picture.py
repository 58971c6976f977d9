"""One tensor of the model as an image, and what a checkpoint changes in it."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from codec.inspect import Arrays
from lcviz.text import plural
from lcviz.ui.glossary import behind
from lcviz.ui.picture import Picture

from .shown_step import ShownStep

MOST_PIXELS = 60_000  # of an image; larger tensors are drawn coarser
LEVELS = 7  # of a map, on each side of 0
GAP = -8  # between two tiles
HEIGHT = 176  # CSS pixels
Image = NDArray[np.float32]


def weights_picture(shown: ShownStep, tensor: str, side: int | None) -> Picture:
    """What a step changes in one tensor.

    Args:
        shown: the step; its states are kept.
        tensor: name of one of its tensors.
        side: of the model's input images, in pixels; None if it has none.
    """
    states, restored = shown.states, shown.restored
    assert states is not None
    assert restored is not None
    live, before, after = states.live[tensor], states.before[tensor], restored[tensor]
    written, missing = after - before, live - after
    maps = {
        "written": _packed(np.sign(tiled(written, side)), 1.0),
        "live": _packed(tiled(live, side)),
        "restored": _packed(tiled(after, side)),
        "missing": _packed(tiled(missing, side)),
    }
    captions = _captions(shown, f"{tensor} ({_shape(live, side)})", written, missing)
    return Picture(
        "weights",
        "δ",
        "live weights minus what a restart loads",
        captions["written"],
        {
            "step": shown.step,
            "tensor": tensor,
            "tensors": drawable(states.live),
            "shape": tiled(live, side).shape,
            "maps": maps,
            "captions": captions,
            "terms": {"track": behind("track")},
            "height": HEIGHT,
        },
        lambda: _table(shown, states.live, before=states.before, after=restored),
        1,
    )


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
        "live": f"{tensor} as it is trained.",
        "restored": f"{tensor} as a restart would load it: the [[track]].",
        "missing": f"Coloured: {waiting:,} of {plural(missing.size, 'weight')} in {tensor} differ "
        f"from the [[track]], left out or rounded. That {shown.left_out('stays')}.",
    }


def _shape(array: NDArray[np.float32], side: int | None) -> str:
    tiles = _of_images(array, side)
    return " × ".join(map(str, array.shape if tiles is None else tiles.shape))


def _of_images(array: NDArray[np.float32], side: int | None) -> NDArray[np.float32] | None:
    """A dense layer on images of this side as (units, side, side); None for any other tensor."""
    if array.ndim == 2 and side and array.shape[1] == side * side and len(array) <= 64:
        return array.reshape(-1, side, side)
    return None


def drawable(arrays: Arrays) -> list[str]:
    """The tensors that make a picture, the largest first; biases only if there is nothing else."""
    names = [name for name, a in arrays.items() if a.ndim > 1] or list(arrays)
    return sorted(names, key=lambda name: -arrays[name].size)


def tiled(array: NDArray[np.float32], side: int | None) -> Image:
    """A tensor as an image: float32 (rows, columns), NaN between tiles.

    A dense layer on images becomes one tile for each of its units, a convolution one for each pair
    of channels, everything else a matrix. side: of the images, in pixels.
    """
    if array.ndim == 4:
        return _coarse(_grid(array.reshape(-1, *array.shape[2:]), array.shape[1]))
    if (tiles := _of_images(array, side)) is not None:
        return _coarse(_grid(tiles, 5))
    rows = array.reshape(len(array), -1) if array.ndim > 1 else array.reshape(1, -1)
    if len(rows) > 2 * rows.shape[1]:
        rows = rows.T
    return _coarse(rows)


def _grid(tiles: NDArray[np.float32], across: int) -> Image:
    """Tiles (n, h, w) side by side, so many in a row."""
    n, h, w = tiles.shape
    down = -(-n // across)
    if down > 3 * across:  # a tall one is easier to see on its side
        across, down = down, across
    found = np.full((down * (h + 1) - 1, across * (w + 1) - 1), np.nan, np.float32)
    for i, tile in enumerate(tiles):
        top, left = i // across * (h + 1), i % across * (w + 1)
        found[top : top + h, left : left + w] = tile
    return found


def _coarse(image: Image) -> Image:
    """The image with at most MOST_PIXELS: of a block of values the one furthest from 0."""
    by = int(np.ceil(np.sqrt(image.size / MOST_PIXELS)))
    if by <= 1:
        return image
    rows, columns = (-(-n // by) for n in image.shape)
    padded = np.zeros((rows * by, columns * by), np.float32)
    padded[: image.shape[0], : image.shape[1]] = np.nan_to_num(image)
    blocks = padded.reshape(rows, by, columns, by).swapaxes(1, 2).reshape(rows, columns, -1)
    far = np.abs(blocks).argmax(axis=2, keepdims=True)
    return np.take_along_axis(blocks, far, axis=2)[..., 0]


def _packed(image: Image, scale: float | None = None) -> str:
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
