"""The example's numbers, and how a reader's numbers are read and written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

TRACK = "0.5 -0.25 1 0.25 -0.5 0.125 0 -0.75 0.25 0.5"
TRAINED = "1.26 -0.73 1.2 0.32 -0.32 0.615 0.14 -0.36 1.07 0.59"
MOST = 16
LARGEST = 1e30


def read_numbers(text: str) -> list[float]:
    """Read numbers between spaces or semicolons, with a minus of any kind, as float32.

    Raises:
        ValueError: For any other text; the message is a part of a sentence.
    """
    if not text.strip():
        raise ValueError("enter numbers")
    numbers = []
    for word in re.split(r"[\s;]+", text.strip().replace("−", "-")):
        word = word.rstrip(",")
        try:
            value = float(word)
        except ValueError:
            raise ValueError(f"“{word}” is not a number (write 0.76, with a point)") from None
        if not abs(value) <= LARGEST:
            raise ValueError(f"“{word}” is {'too large' if math.isfinite(value) else 'not finite'}")
        numbers.append(float(np.float32(value)))
    return numbers


def check_pairs(track: Sequence[float], trained: Sequence[float]) -> None:
    """Raise ValueError unless track and trained weights are equally many, 2 to MOST."""
    if len(trained) != len(track):
        raise ValueError(
            f"there are {len(trained)} trained weights, but {len(track)} in the track; "
            "each needs its partner"
        )
    if not 2 <= len(trained) <= MOST:
        raise ValueError(f"this page takes 2 to {MOST} numbers; there are {len(trained)}")


def write_numbers(values: Iterable[float]) -> str:
    """The numbers as text, with spaces between them and as few digits as float32 needs."""
    return " ".join(str(np.float32(value)) for value in values)
