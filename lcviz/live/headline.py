"""The top of the Live page: how small the checkpoint is, and what a crash would cost."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import attrgetter

import pandas as pd

from lcviz.lab.measures import iterations_behind, recent
from lcviz.lab.recovery.recovery import Outcome
from lcviz.run.snapshot import DEAD, FINISHED, KILLED, PLAYING, RESTORING, Checkpoint, Snapshot
from lcviz.run.whole_state import nbytes_by_kind
from lcviz.text import iterations_text, nbytes_text
from lcviz.ui.picture import Picture, quantity

from .step_record import StepRecord

SMOOTHED = 5  # checkpoints whose mean loss gives the price of a crash


def headline(
    record: StepRecord,
    checkpoints: Sequence[Checkpoint],
    status: str,
    crash: str,
    actual: str,
    trial_nbytes: Mapping[int, int] | None = None,
) -> Picture:
    """The size of a step, to scale, and of the run up to that step.

    Args:
        record: Of the step on the page.
        checkpoints: All of the run.
        status: What the run does, in words.
        crash: What a crash would cost, in words.
        actual: The run's own settings where a trial differs, in words.
        trial_nbytes: Step -> bytes of its record in a trial; None without a trial.
    """
    full, nbytes = record.checkpoint.full_nbytes, record.nbytes
    times = times_text(full / nbytes)
    sentence = f"{nbytes_text(full)} becomes {nbytes_text(nbytes)}, {times} times smaller."
    rows = {"float32": full, "record": nbytes}
    parts, so_far = _part_texts(record), _so_far(record, checkpoints, trial_nbytes)
    if parts:
        sentence += f" {'; '.join(f'{name}: {text}' for name, text in parts.items())}."
        for name, float32_nbytes, coded_nbytes in _part_sizes(record):
            rows |= {f"{name}, float32": float32_nbytes, f"{name}, in the record": coded_nbytes}
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
            "kept": f"only a try: {actual}" if record.is_trial else None,
        }
        | ({"apart": list(map(list, parts.items()))} if parts else {}),
        pd.DataFrame({"what": list(rows), "bytes": list(rows.values())}),
    )


def _part_sizes(record: StepRecord) -> list[tuple[str, int, int]]:
    """For weights, m and v: the name, bytes in float32, and bytes of the codes in the record."""
    weights = ("weights", record.checkpoint.weights_nbytes, record.weights_nbytes)
    kinds = nbytes_by_kind(record.moments)
    full = {kind: sum(4 * m.n for m in record.moments if m.kind == kind) for kind in kinds}
    return [weights, *((kind, full[kind], nbytes) for kind, nbytes in kinds.items())]


def _part_texts(record: StepRecord) -> dict[str, str]:
    """The sizes of weights and of moments, in words; {} if the record holds weights alone."""
    if not record.moments:
        return {}
    weights, *moments = (row[1:] for row in _part_sizes(record))
    sizes = {"weights": weights, "m and v": [sum(column) for column in zip(*moments)]}
    return {name: _smaller(*full_and_coded) for name, full_and_coded in sizes.items()}


def _so_far(
    record: StepRecord, checkpoints: Sequence[Checkpoint], trial_nbytes: Mapping[int, int] | None
) -> str:
    """The size of all records up to a step, with the base, as saved or in a trial; in words."""
    past = checkpoints[: bisect_right(checkpoints, record.step, key=attrgetter("step"))]
    full = sum(c.full_nbytes for c in past)
    nbytes = sum((trial_nbytes or {}).get(c.step, c.nbytes) for c in past)
    name, span = ("whole-run", "whole run") if trial_nbytes else ("run", "run so far")
    if record.step < checkpoints[-1].step:
        span = f"up to step {record.step}"
    return (
        f"{span}: {quantity(f'{name}-float32-bytes', full, nbytes_text(full))} → "
        f"{quantity(f'{name}-bytes', nbytes, nbytes_text(nbytes))}, "
        f"{times_text(full / nbytes)}× smaller"
    )


def _smaller(full: int, nbytes: int) -> str:
    return f"{nbytes_text(full)} → {nbytes_text(nbytes)}, {times_text(full / nbytes)}× smaller"


def times_text(ratio: float) -> str:
    """A ratio of sizes, in words."""
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}"


def describe_status(snapshot: Snapshot, stop_after: int, speed: float | None) -> str:
    """What the run does, in a few words.

    stop_after: iterations in all. speed: limit in iterations per second, None for no limit.
    """
    text = f"iteration {snapshot.iteration} of {stop_after}"
    if snapshot.status == PLAYING:
        text += f", {min(snapshot.rate, speed or math.inf):.3g} per second"
    end = {FINISHED: ", finished", KILLED: ", killed", RESTORING: ", killed, being restored"}
    return text + end.get(snapshot.status, "")


def describe_crash(snapshot: Snapshot, viewed: int, lc_outcome: Outcome | None = None) -> str:
    """The price of a crash: of the newest while the run is dead, else of one now.

    A sentence without a full stop.

    viewed: the step on the page. lc_outcome: LC's outcome of the race back from the newest crash,
    once the race is over.
    """
    if snapshot.status not in DEAD:
        when = "now" if viewed == snapshot.newest.step else f"at {snapshot.iteration}"
        return f"a crash {when} {describe_lost_work(snapshot)}"
    if lc_outcome is None:
        return f"this crash {describe_lost_work(snapshot)}"
    cost = quantity("crash-cost", lc_outcome.rework, iterations_text(lc_outcome.rework))
    more = "more than " if lc_outcome.capped else ""
    return f"this crash costs {more}{cost}{_not_saved(snapshot, lc_outcome.rework)}"


def describe_lost_work(snapshot: Snapshot, trial_losses: Mapping[int, float] | None = None) -> str:
    """The estimated price of a crash now, in words.

    trial_losses: step -> restored loss in a trial; None without a trial.
    """
    n = estimated_price(snapshot, trial_losses)
    if n is None:
        return (
            f"loses the run: the model restored from step {max(snapshot.losses)} has no finite loss"
        )
    name = "crash-cost" if trial_losses is None else "whole-run-crash-cost"
    if n < 0.05:
        return f"costs {quantity(name, n, 'less than 0.1 iterations')}"
    return f"costs about {quantity(name, n, iterations_text(n))}{_not_saved(snapshot, n)}"


def _not_saved(snapshot: Snapshot, price: float) -> str:
    """How many iterations of the price no checkpoint has; "" unless the run is dead."""
    unsaved = snapshot.iteration - snapshot.newest.step if snapshot.status in DEAD else 0
    return f", {unsaved} of them not saved" if 0 < unsaved < round(price, 1) else ""


def estimated_price(
    snapshot: Snapshot, trial_losses: Mapping[int, float] | None = None
) -> float | None:
    """What a crash now would cost, in iterations; None if the restored model has no finite loss.

    This is an estimate from the loss curve. Only the race trains again.

    trial_losses: as for `describe_lost_work`.
    """
    losses = snapshot.losses
    if trial_losses is not None:
        losses = {
            step: (live, trial_losses.get(step, restored))
            for step, (live, restored) in losses.items()
            if step in trial_losses or step == 0
        }
    # The newest checkpoints may have no losses yet. The newest measured one stands for what a
    # checkpoint loses; the iterations since the newest checkpoint are added.
    # One loss jumps from batch to batch: this takes the mean of the last few, of both models.
    live, restored = (recent(values, SMOOTHED) for values in zip(*losses.values()))
    behind = iterations_behind(list(losses), live, restored[-1])
    return None if behind is None else behind + snapshot.iteration - snapshot.newest.step
