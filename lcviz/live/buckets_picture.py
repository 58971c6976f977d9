"""The exponent buckets of a delta, the worth of each, and the cut between kept and postponed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from lcviz.lab.anatomy import EVERY_BITS, BucketKey, n_kept, totals
from lcviz.lab.removed_bucket import RemovedBuckets, errors_without
from lcviz.text import exponent_text
from lcviz.ui.charts import plotted
from lcviz.ui.picture import Picture

from .step_record import StepRecord

VALUES, ERROR = "values", "error"  # what the bars show
STEPS = "steps"  # the button for equal steps at the same size


@dataclass(frozen=True)
class Worth:
    """What removing each bucket of a step costs.

    Attributes:
        on_bars: Whether the bars show this cost instead of the number of values.
        losses: The loss of the model rebuilt without each bucket, and with all buckets; None if
            they are not measured.
        waiting: Why there are no losses yet, as a sentence; "" if there is nothing to wait for.
        is_measuring: Whether the losses are being measured.
    """

    on_bars: bool = False
    losses: RemovedBuckets | None = None
    waiting: str = ""
    is_measuring: bool = False


def buckets_picture(
    record: StepRecord, bits: int | str | None, worth: Worth, marked: BucketKey | None = None
) -> Picture:
    """The number of values in each bucket, or the cost of its removal; the cut.

    Args:
        record: Of the step on the page.
        bits: The button that is pressed, from `bits_that_keep`.
        worth: What removing a bucket costs.
        marked: The bucket of the followed weight.
    """
    alphabets, measured = record.alphabets, worth.losses
    rounding, errors = errors_without(alphabets)
    losses = {(b.exponent, b.sign): b.loss for b in measured.buckets} if measured else {}
    ranks = {key: rank for a in alphabets for rank, key in enumerate(a.keys, 1)}
    buckets = {b.key: b for b in totals(alphabets)}
    bars = [
        {
            "exponent": b.exponent,
            "sign": b.sign,
            "kept": b.kept_members,
            "rest": b.dropped_members,
            "rank": rank,
            "error": round(errors[b.key], 5),
            "loss": plotted(losses.get(b.key, math.nan)),
        }
        for b, rank in ((buckets[key], rank) for key, rank in ranks.items())
    ]
    return Picture(
        "buckets",
        {
            "buckets": bars,
            "alphabets": [len(a.buckets) for a in alphabets],
            "slots": list(record.n_kept),
            "n": record.n,
            "changed": record.n_changed,
            "bits": "all" if bits is None else str(bits),
            "marked": list(marked) if marked else None,
            "moments": bool(record.moments),
            "carries": record.carries,
            "view": ERROR if worth.on_bars else VALUES,
            "rounding": round(rounding, 5),
            "measured": measured is not None,
            "loss": plotted(measured.loss) if measured else None,
            "waiting": worth.waiting,
        },
        partial(_table, record, errors, losses),
    )


def bits_that_keep(record: StepRecord) -> int | str | None:
    """The fewest bits x that keep the same buckets as the record.

    None if all buckets are kept, "" if no number of bits gives the same.
    """
    n_buckets = [len(a.buckets) for a in record.alphabets]
    if record.n_kept == tuple(n_buckets):
        return None
    exact = (x for x in EVERY_BITS if record.n_kept == tuple(n_kept(x, n) for n in n_buckets))
    return next(exact, "")


def _table(
    record: StepRecord, errors: Mapping[BucketKey, float], losses: Mapping[BucketKey, float]
) -> pd.DataFrame:
    buckets = totals(record.alphabets)
    return pd.DataFrame(
        {
            "bucket": [exponent_text(*b.key) for b in buckets],
            "values": np.array([b.members for b in buckets], np.int64),
            "kept": ["yes" if b.kept_members else "no" for b in buckets],
            "of δ lost without it, %": [100 * errors[b.key] for b in buckets],
        }
        | ({"loss without it": [losses[b.key] for b in buckets]} if losses else {})
    )
