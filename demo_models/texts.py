"""Text as bytes: the sources of Python's own standard library, which are on every machine.

One file in ten is held out. Each example is a window of a file: some bytes, and for each of them
the byte after it. Bytes above 127 become 127. Another version of Python has other sources, so
losses differ a little between versions.
"""

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from demo_models.dataset import Dataset
from demo_models.errors import FilesMissingError, FileUnreadableError

SYMBOLS = 128
WINDOW = 64  # bytes of an example
HELD_OUT = 10  # one file in ten is held out
MOST_BYTES = 2**20  # of the training part's text; each byte takes 8 in memory

TITLES = {"python-sources": "Python's sources"}


def load_text(folder: Path | None = None) -> Dataset:
    """Load the sources.

    Args:
        folder: where they are; None for the standard library's folder.

    Raises:
        FilesMissingError, FileUnreadableError.
    """
    return _load(folder or Path(os.__file__).parent)


@functools.lru_cache(maxsize=1)
def _load(folder: Path) -> Dataset:
    paths = sorted(folder.glob("*.py"))
    if len(paths) < HELD_OUT:
        raise FilesMissingError(TITLES["python-sources"], folder, [f"{HELD_OUT} or more *.py"])
    return Dataset(
        name="python-sources",
        title=TITLES["python-sources"],
        train=_windows([p for i, p in enumerate(paths) if i % HELD_OUT], MOST_BYTES),
        held_out=_windows(paths[::HELD_OUT], MOST_BYTES // HELD_OUT),
        n_classes=SYMBOLS,
    )


def _windows(paths: Sequence[Path], most_bytes: int) -> tuple[Tensor, Tensor]:
    """Windows of the first `most_bytes`, and the bytes after them: int64 (n, WINDOW) each."""
    texts: list[NDArray[np.uint8]] = []
    size = 0
    for path in paths:
        if size >= most_bytes:
            break
        try:
            text = np.frombuffer(path.read_bytes(), np.uint8)
        except OSError as exc:
            raise FileUnreadableError(path, exc.strerror or str(exc)) from exc
        texts.append(text)
        size += text.size
    text = np.minimum(np.concatenate(texts)[:most_bytes], SYMBOLS - 1).astype(np.int64)
    n = (text.size - 1) // WINDOW
    rows = torch.from_numpy(text[: n * WINDOW + 1])
    return rows[:-1].reshape(n, WINDOW), rows[1:].reshape(n, WINDOW)
