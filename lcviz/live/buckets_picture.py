"""The exponent buckets of a delta, what each is worth, and the cut between kept and postponed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from lcviz.lab.anatomy import EVERY_BITS, BucketKey, n_kept, totals
from lcviz.lab.removed_bucket import RemovedBuckets, errors_without
from lcviz.text import exponent_text, percent_text, plural, short_loss_text
from lcviz.ui.charts import plotted
from lcviz.ui.picture import Picture, quantity

from .shown_step import ShownStep

SHOWN_BITS = (1, 2, 3, 4, None)
VALUES, ERROR = "values", "error"  # what the bars show
STEPS = "steps"  # instead of bits: equal steps, at the same size
OPTIONS = [*(["all" if x is None else str(x)] * 2 for x in SHOWN_BITS), [STEPS, "equal steps"]]


@dataclass(frozen=True)
class Worth:
    """What removing each bucket of a step costs.

    Attributes:
        shown: Whether the bars show this, instead of how many values the buckets have.
        losses: Of the model rebuilt without each bucket, and with all of them; None if these are
            not measured.
        waiting: Why there are no losses, as a sentence; "" if there are, or nobody asks.
    """

    shown: bool = False
    losses: RemovedBuckets | None = None
    waiting: str = ""


def buckets_picture(
    shown: ShownStep, bits: int | str | None, worth: Worth, marked: BucketKey | None = None
) -> Picture:
    """How many values each bucket has, or what its removal costs; which are kept; the cut.

    Args:
        shown: the step.
        bits: x that keeps what is kept; None for all, "" if it is no number of bits.
        worth: what removing a bucket costs.
        marked: the bucket of the followed weight.
    """
    every = [
        (int(exponent), int(sign), int(count), rank, rank <= kept)
        for a, kept in zip(shown.alphabets, shown.kept)
        for rank, (exponent, sign, count) in enumerate(
            zip(a.buckets.exponent, a.buckets.sign, a.buckets.count), 1
        )
    ]
    bars: dict[BucketKey, dict[str, Any]] = {}
    for exponent, sign, count, rank, kept in every:
        bar = bars.setdefault(
            (exponent, sign), {"exponent": exponent, "sign": sign, "kept": 0, "rest": 0, "rank": 0}
        )
        bar["kept" if kept else "rest"] += count
        bar["rank"] = rank
    rounding, errors = errors_without(shown.alphabets)
    measured = worth.losses
    losses = {(b.exponent, b.sign): b.loss for b in measured.buckets} if measured else {}
    for key, bar in bars.items():
        bar["error"], bar["loss"] = round(errors[key], 5), plotted(losses.get(key, math.nan))
    exponents = sorted({exponent for exponent, *_ in every}, reverse=True) or [0]
    whole = len(shown.alphabets) == 1 and len(bars) == len(every)
    return Picture(
        "buckets",
        "Buckets",
        "of the weights" if shown.moments else "",
        _worth(errors, rounding, worth) if worth.shown and bars else _sentence(shown, whole),
        {
            "buckets": list(bars.values()),
            "exponents": list(range(exponents[0], exponents[-1] - 1, -1)),
            "largest": max((b["kept"] + b["rest"] for b in bars.values()), default=1),
            "cut": shown.kept[0] if whole and bars else None,
            "most": max((len(a.buckets) for a in shown.alphabets), default=0),
            "options": OPTIONS,
            "bits": "all" if bits is None else str(bits),
            "marked": list(marked) if marked else None,
            "left_out": shown.left_out(),
            "view": ERROR if worth.shown else VALUES,
            "rounding": round(rounding, 5),
            "loss": plotted(measured.loss) if measured else None,
        },
        partial(_table, shown, errors, losses),
        2,
    )


def _worth(errors: Mapping[BucketKey, float], rounding: float, worth: Worth) -> str:
    """What the removal of one bucket costs, in words."""
    key = max(errors, key=errors.__getitem__)
    text = (
        f"With all buckets {percent_text(rounding)} of δ is lost, by rounding. Without "
        f"{exponent_text(*key)} alone, {percent_text(errors[key])}"
    )
    if worth.losses:
        loss = next(b.loss for b in worth.losses.buckets if (b.exponent, b.sign) == key)
        whole = short_loss_text(worth.losses.loss)
        text += f": the loss is {short_loss_text(loss)} instead of {whole}"
    return f"{text}. {worth.waiting}".strip()


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
        return f"All {buckets} buckets{of} are kept: {_values(shown)} values change."
    return (
        f"{slots} for {buckets} buckets{of}, largest first: {_values(shown)} of {shown.n:,} values "
        f"are kept. Paler ones {shown.left_out()}. Log scale."
    )


def _values(shown: ShownStep) -> str:
    return quantity("values-kept", shown.values, f"{shown.values:,}")


def _table(
    shown: ShownStep, errors: Mapping[BucketKey, float], losses: Mapping[BucketKey, float]
) -> pd.DataFrame:
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
            "of δ lost without it, %": [100 * errors[b.exponent, b.sign] for b in every],
        }
        | ({"loss without it": [losses[b.exponent, b.sign] for b in every]} if losses else {})
    )
