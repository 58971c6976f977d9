"""The top of the Live page: how small the checkpoint is, and what a crash would cost."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import pandas as pd

from lcviz.lab.measures import iterations_behind, recent
from lcviz.lab.recovery.recovery import Outcome
from lcviz.run.snapshot import (
    DEAD,
    FINISHED,
    KILLED,
    PLAYING,
    RESTORING,
    Checkpoint,
    Snapshot,
    nbytes_by_kind,
)
from lcviz.text import iterations_text, nbytes_text
from lcviz.ui.picture import Picture, quantity

from .shown_step import ShownStep

SMOOTHED = 5  # checkpoints whose mean loss says what a crash costs


def headline(
    shown: ShownStep,
    saved: Sequence[Checkpoint],
    status: str,
    crash: str,
    own: str,
    tried: Mapping[int, int] | None = None,
) -> Picture:
    """A step's size, to scale, and that of the run up to it.

    Args:
        shown: the step.
        saved: all checkpoints of the run.
        status: what the run does, in words.
        crash: what a crash would cost, in words.
        own: what the run does instead of what is tried, in words.
        tried: step -> bytes of its record if the whole run were saved as tried; None if it is not.
    """
    full, nbytes = shown.checkpoint.full_nbytes, shown.nbytes
    times = times_text(full / nbytes)
    sentence = f"{nbytes_text(full)} becomes {nbytes_text(nbytes)}, {times} times smaller."
    rows = {"float32": full, "record": nbytes}
    apart, so_far = _apart(shown), _so_far(shown, saved, tried)
    if apart:
        sentence += f" {'; '.join(f'{name}: {text}' for name, text in apart.items())}."
        for name, of_float32, coded in _rows_apart(shown):
            rows |= {f"{name}, float32": of_float32, f"{name}, in the record": coded}
    return Picture(
        "headline",
        "Size",
        "",
        f"{sentence} {so_far[:1].upper()}{so_far[1:]}. {crash[:1].upper()}{crash[1:]}.",
        {
            "full": quantity("float32-bytes", full, nbytes_text(full)),
            "record": quantity("checkpoint-bytes", nbytes, nbytes_text(nbytes)),
            "times": f"{times}× smaller",
            "share": min(nbytes / full, 1.0),
            "so_far": so_far,
            "status": status,
            "crash": crash,
            "kept": f"only a try: {own}" if shown.trial else None,
        }
        | ({"apart": list(map(list, apart.items()))} if apart else {}),
        pd.DataFrame({"what": list(rows), "bytes": list(rows.values())}),
    )


def _rows_apart(shown: ShownStep) -> list[tuple[str, int, int]]:
    """Of weights, m and v: a name, float32 bytes, and bytes of their codes in the record."""
    weights = ("weights", shown.checkpoint.weights_full_nbytes, shown.weights_nbytes)
    kinds = nbytes_by_kind(shown.moments)
    full = {kind: sum(4 * m.n for m in shown.moments if m.kind == kind) for kind in kinds}
    return [weights, *((kind, full[kind], nbytes) for kind, nbytes in kinds.items())]


def _apart(shown: ShownStep) -> dict[str, str]:
    """What weights and moments take each, in words; {} if the record holds weights alone."""
    if not shown.moments:
        return {}
    weights, *moments = (row[1:] for row in _rows_apart(shown))
    both = [sum(column) for column in zip(*moments)]
    return {name: _smaller(*two) for name, two in {"weights": weights, "m and v": both}.items()}


def _so_far(shown: ShownStep, saved: Sequence[Checkpoint], tried: Mapping[int, int] | None) -> str:
    """What all records up to a step take, the base among them, as saved or as tried."""
    own = saved[: bisect_right(saved, shown.step, key=attrgetter("step"))]
    full = sum(c.full_nbytes for c in own)
    nbytes = sum((tried or {}).get(c.step, c.nbytes) for c in own)
    name, told = ("whole-run", "whole run") if tried else ("run", "run so far")
    if shown.step < saved[-1].step:
        told = f"up to step {shown.step}"
    both = quantity(f"{name}-float32-bytes", full, nbytes_text(full)), nbytes_text(nbytes)
    return (
        f"{told}: {both[0]} → {quantity(f'{name}-bytes', nbytes, both[1])}, "
        f"{times_text(full / nbytes)}× smaller"
    )


def _smaller(full: int, nbytes: int) -> str:
    return f"{nbytes_text(full)} → {nbytes_text(nbytes)}, {times_text(full / nbytes)}× smaller"


def times_text(ratio: float) -> str:
    """A ratio of sizes, in words."""
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}"


def describe_status(snapshot: Snapshot, stop_after: int, speed: float | None) -> str:
    """What the run does, in a few words.

    stop_after: iterations in all. speed: most iterations per second, None for no limit.
    """
    text = f"iteration {snapshot.iteration} of {stop_after}"
    if snapshot.status == PLAYING:
        text += f", {min(snapshot.rate, speed or math.inf):.3g} per second"
    end = {FINISHED: ", finished", KILLED: ", killed", RESTORING: ", killed, being restored"}
    return text + end.get(snapshot.status, "")


def describe_crash(snapshot: Snapshot, viewed: int, raced: Outcome | None = None) -> str:
    """The price of a crash now, or of the newest one, as a sentence without a full stop.

    viewed: the step that is shown. raced: how LC did in the race back from the newest crash, if it
    is over.
    """
    if snapshot.status not in DEAD:
        when = "now" if viewed == snapshot.newest.step else f"at {snapshot.iteration}"
        return f"a crash {when} {describe_lost_work(snapshot)}"
    if raced is None:
        return f"this crash {describe_lost_work(snapshot)}"
    cost = quantity("crash-cost", raced.rework, iterations_text(raced.rework))
    more = "more than " if raced.capped else ""
    return f"this crash costs {more}{cost}{_not_saved(snapshot, raced.rework)}"


def describe_lost_work(snapshot: Snapshot, tried: Mapping[int, float] | None = None) -> str:
    """The estimated price of a crash now, in words.

    tried: step -> restored loss if the whole run were saved as tried; None if it is not.
    """
    n = estimated_price(snapshot, tried)
    if n is None:
        step = snapshot.measured[-1].step
        return f"loses the run: the model restored from step {step} has no finite loss"
    name = "crash-cost" if tried is None else "whole-run-crash-cost"
    if n < 0.05:
        return f"costs {quantity(name, n, 'less than 0.1 iterations')}"
    return f"costs about {quantity(name, n, iterations_text(n))}{_not_saved(snapshot, n)}"


def _not_saved(snapshot: Snapshot, price: float) -> str:
    """The part of a price that everybody can count, once it does not change any more."""
    unsaved = snapshot.iteration - snapshot.newest.step if snapshot.status in DEAD else 0
    return f", {unsaved} of them not saved" if 0 < unsaved < round(price, 1) else ""


def estimated_price(snapshot: Snapshot, tried: Mapping[int, float] | None = None) -> float | None:
    """What a crash now would cost, in iterations; None if the restored model has no finite loss.

    An estimate: it reads the loss curve, the race trains again.
    """
    every = snapshot.measured
    if tried is not None:
        every = tuple(
            replace(c, restored_loss=tried.get(c.step, c.restored_loss))
            for c in every
            if c.step in tried or c.kind == "base"
        )
    # Losses lag behind where there is no time to measure them. The newest known loss stands for
    # what a checkpoint loses; iterations since the newest checkpoint come on top.
    # One loss jumps from batch to batch: this is the mean of the last few, of both models.
    live, restored = (
        recent([loss_or_nan(loss) for loss in losses], SMOOTHED)
        for losses in zip(*((c.live_loss, c.restored_loss) for c in every))
    )
    behind = iterations_behind([c.step for c in every], live, restored[-1])
    return None if behind is None else behind + snapshot.iteration - snapshot.newest.step


def loss_or_nan(loss: float | None) -> float:
    """A loss as a float; NaN if it was not measured."""
    return math.nan if loss is None else loss
