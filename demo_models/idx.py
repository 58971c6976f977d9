"""Reads the IDX files in which MNIST and Fashion-MNIST are published.

An IDX file is a short header followed by raw bytes, all header numbers big-endian:

    byte 0-1   zero
    byte 2     type of the values; 0x08 means unsigned bytes, the only type used here
    byte 3     number of dimensions d: 3 for images (count, rows, columns), 1 for labels
    4 d bytes  the size of each dimension, 32-bit unsigned
    the rest   the values, last dimension varying fastest

The layout is that of Yann LeCun's MNIST page. A file may be gzip-compressed. The header is not
trusted: sizes are checked before anything is allocated, and at most one byte beyond the promised
values is read, because a tiny file could unpack into gigabytes.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from demo_models.errors import FileUnreadableError, MalformedFileError

MAX_COUNT = 1_000_000
MAX_SIDE = 128
MAX_VALUES = 2**28  # bytes; MNIST's 60,000 training images take 47 million
N_CLASSES = 10


def read_images(path: Path) -> NDArray[np.uint8]:
    """Read an IDX image file.

    Returns:
        uint8 (count, side, side), from 0 for paper to 255 for full ink.

    Raises:
        MalformedFileError, FileUnreadableError.
    """
    return _read(path, dimensions=3)


def read_labels(path: Path) -> NDArray[np.uint8]:
    """Read an IDX label file.

    Returns:
        uint8 (count,), each from 0 to 9.

    Raises:
        MalformedFileError, FileUnreadableError.
    """
    labels = _read(path, dimensions=1)
    if labels.max() >= N_CLASSES:
        raise MalformedFileError(path, "labels from 0 to 9", f"label {labels.max()}")
    return labels


def _read(path: Path, dimensions: int) -> NDArray[np.uint8]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            shape = _shape(path, file.read(4 + 4 * dimensions), dimensions)
            size = math.prod(shape)
            body = file.read(size + 1)  # one more shows whether bytes follow
    except (EOFError, zlib.error, gzip.BadGzipFile) as exc:  # BadGzipFile is an OSError
        raise MalformedFileError(path, "an undamaged gzip file", str(exc)) from exc
    except OSError as exc:
        raise FileUnreadableError(path, exc.strerror or str(exc)) from exc
    if len(body) != size:
        actual = "more bytes" if len(body) > size else f"only {len(body):,}"
        raise MalformedFileError(path, f"{size:,} bytes after the header", actual)
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _shape(path: Path, header: bytes, dimensions: int) -> tuple[int, ...]:
    """The array's shape, from a checked header."""
    if len(header) < 4 + 4 * dimensions:
        raise MalformedFileError(
            path, f"a header of {4 + 4 * dimensions} bytes", f"a file of {len(header)} bytes"
        )
    magic = bytes([0, 0, 0x08, dimensions])
    if header[:4] != magic:
        raise MalformedFileError(
            path, f"an IDX file beginning with bytes {magic.hex()}", header[:4].hex()
        )
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", header[4:])
    if not 1 <= shape[0] <= MAX_COUNT:
        raise MalformedFileError(path, f"1 to {MAX_COUNT:,} examples", f"{shape[0]:,}")
    if dimensions == 3:
        _, rows, columns = shape
        if rows != columns or not 1 <= rows <= MAX_SIDE:
            raise MalformedFileError(
                path, f"square images of at most {MAX_SIDE}x{MAX_SIDE}", f"{rows}x{columns}"
            )
        if math.prod(shape) > MAX_VALUES:
            raise MalformedFileError(
                path, f"at most {MAX_VALUES:,} pixels", f"{math.prod(shape):,}"
            )
    return shape
