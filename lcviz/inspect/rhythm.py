"""How often records come, and whether they still do, by the times of their files.

Not done here: what is in them (heads, inspection), how a time is put into words (figures.watched).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

NEWEST = 20  # records by which the pace is judged
BUSY_SECONDS = 60  # since the last record: so long any training may be quiet
PATIENCE = 3  # times as long as a record took until then


def gap(stamps: Sequence[int]) -> float | None:
    """Seconds from one record to the next, as lately; None if that is not known.

    stamps: of the records' files, ns, 0 for one that is not known.
    """
    known = sorted(stamp for stamp in stamps if stamp)[-NEWEST:]
    gaps = [(b - a) / 1e9 for a, b in pairwise(known)]
    return median(gaps) if gaps else None


def grows(seconds: float, usual: float | None) -> bool:
    """Whether so many seconds without a record are nothing unusual. usual: see `gap`."""
    return seconds < max(BUSY_SECONDS, PATIENCE * (usual or 0))
