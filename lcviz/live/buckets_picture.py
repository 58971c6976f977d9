"""The exponent buckets of a delta, with the cut between what is kept and what is postponed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from lcviz.lab.anatomy import EVERY_BITS, BucketKey, n_kept, totals
from lcviz.text import exponent_text, plural
from lcviz.ui.picture import Picture

from .shown_step import ShownStep

SHOWN_BITS = (1, 2, 3, 4, None)
STEPS = "steps"  # instead of bits: equal steps, at the same size
OPTIONS = [*(["all" if x is None else str(x)] * 2 for x in SHOWN_BITS), [STEPS, "equal steps"]]


def buckets_picture(
    shown: ShownStep, bits: int | str | None, marked: BucketKey | None = None
) -> Picture:
    """How many values each bucket has, which are kept, and where the cut is.

    Args:
        shown: the step.
        bits: x that keeps what is kept; None for all, "" if it is no number of bits.
        marked: the highlighted bucket.
    """
    every = [
        (int(exponent), int(sign), int(count), rank, rank <= kept)
        for a, kept in zip(shown.alphabets, shown.kept)
        for rank, (exponent, sign, count) in enumerate(
            zip(a.buckets.exponent, a.buckets.sign, a.buckets.count), 1
        )
    ]
    found: dict[BucketKey, dict[str, int]] = {}
    for exponent, sign, count, rank, kept in every:
        bar = found.setdefault(
            (exponent, sign), {"exponent": exponent, "sign": sign, "kept": 0, "rest": 0, "rank": 0}
        )
        bar["kept" if kept else "rest"] += count
        bar["rank"] = rank
    exponents = sorted({exponent for exponent, *_ in every}, reverse=True) or [0]
    whole = len(shown.alphabets) == 1 and len(found) == len(every)
    return Picture(
        "buckets",
        "Buckets",
        "of the weights" if shown.moments else "",
        _sentence(shown, whole),
        {
            "buckets": list(found.values()),
            "exponents": list(range(exponents[0], exponents[-1] - 1, -1)),
            "largest": max((b["kept"] + b["rest"] for b in found.values()), default=1),
            "cut": shown.kept[0] if whole and found else None,
            "most": max((len(a.buckets) for a in shown.alphabets), default=0),
            "options": OPTIONS,
            "bits": "all" if bits is None else str(bits),
            "marked": list(marked) if marked else None,
        },
        partial(_table, shown),
        2,
    )


def bits_that_keep(shown: ShownStep) -> int | str | None:
    """The fewest bits x that keep just what is kept, None for all; "" if none do."""
    buckets = [len(a.buckets) for a in shown.alphabets]
    if shown.kept == tuple(buckets):
        return None
    exact = (x for x in EVERY_BITS if shown.kept == tuple(n_kept(x, n) for n in buckets))
    return next(exact, "")


def _sentence(shown: ShownStep, whole: bool) -> str:
    buckets, kept = sum(len(a.buckets) for a in shown.alphabets), sum(shown.kept)
    if not buckets:
        return "Nothing has changed in this step."
    of = "" if whole else " in all tensors"
    slots, bits = plural(kept, "slot"), bits_that_keep(shown)
    if isinstance(bits, int) and len(shown.alphabets) == 1 and kept == 2**bits - 1:
        slots = f"{exponent_text(bits)} − 1 = {slots}"
    if kept == buckets:
        return f"All {buckets} buckets{of} are kept: {shown.values:,} values change."
    return (
        f"{slots} for {buckets} buckets{of}, largest first: {shown.values:,} of {shown.n:,} values "
        f"are kept. Paler ones {shown.left_out()}. Log scale."
    )


def _table(shown: ShownStep) -> pd.DataFrame:
    kept = {
        (int(e), int(s))
        for a, k in zip(shown.alphabets, shown.kept)
        for e, s in zip(a.buckets.exponent[:k], a.buckets.sign[:k])
    }
    every = totals(shown.alphabets)
    return pd.DataFrame(
        {
            "bucket": [exponent_text(b.exponent, b.sign) for b in every],
            "values": np.array([b.kept + b.dropped for b in every], np.int64),
            "kept": ["yes" if (b.exponent, b.sign) in kept else "no" for b in every],
        }
    )
