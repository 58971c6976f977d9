"""The top of the Live page: how small the checkpoint is, and what a crash would cost."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import pandas as pd

from lcviz.lab.measures import iterations_behind, recent
from lcviz.lab.recovery.recovery import Outcome
from lcviz.run.snapshot import DEAD, FINISHED, KILLED, PLAYING, RESTORING, Checkpoint, Snapshot
from lcviz.run.whole_run import Trial
from lcviz.run.whole_state import nbytes_by_kind
from lcviz.text import CODER_NAMES, kept_text, plural
from lcviz.ui.picture import Picture

from .step_record import StepRecord

SMOOTHED = 5  # checkpoints whose mean loss gives the price of a crash


def headline(
    record: StepRecord,
    checkpoints: Sequence[Checkpoint],
    status: Mapping[str, Any] | None,
    crash: Mapping[str, Any] | None,
    reads: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    trial_nbytes: Mapping[int, int] | None = None,
) -> Picture:
    """The size of a step, to scale, and of the run up to that step.

    Args:
        record: Of the step on the page.
        checkpoints: All of the run.
        status: See `status_of`; None if only the records are known.
        crash: What a crash would cost, see `crash_of`; None if only the records are known.
        reads: What the models make of held-out examples, see `reads_of`; None if not measured.
        settings: See `tried_settings`.
        trial_nbytes: Step -> bytes of its record in a trial; None without a trial.
    """
    full, nbytes, kinds = record.checkpoint.full_nbytes, record.nbytes, _kinds(record)
    rows = {"float32": full, "record": nbytes}
    for kind in kinds:
        name = kind["kind"]
        rows |= {f"{name}, float32": kind["full"], f"{name}, in the record": kind["nbytes"]}
    past = checkpoints[: bisect_right(checkpoints, record.step, key=attrgetter("step"))]
    so_far = {
        "full": sum(c.full_nbytes for c in past),
        "nbytes": sum((trial_nbytes or {}).get(c.step, c.nbytes) for c in past),
        "newest": checkpoints[-1].step,
    }
    return Picture(
        "headline",
        {
            "step": record.step,
            "full": full,
            "nbytes": nbytes,
            "kinds": kinds,
            "so_far": so_far,
            "status": status,
            "crash": crash,
            "reads": reads,
            **settings,
        },
        pd.DataFrame({"what": list(rows), "bytes": list(rows.values())}),
    )


def _kinds(record: StepRecord) -> list[dict[str, Any]]:
    """Weights, m and v, with their bytes in float32 and in the record; [] without moments."""
    kinds = nbytes_by_kind(record.moments)
    full = {kind: sum(4 * m.n for m in record.moments if m.kind == kind) for kind in kinds}
    moments = [{"kind": kind, "full": full[kind], "nbytes": n} for kind, n in kinds.items()]
    weights = {
        "kind": "weights",
        "full": record.checkpoint.weights_nbytes,
        "nbytes": record.weights_nbytes,
    }
    return [weights, *moments] if moments else []


def tried_settings(own: Trial, tried: Trial | None) -> dict[str, Any]:
    """How a run is saved, and how a visitor tries to save it; None each without a trial."""
    if tried is None:
        return {"own": None, "tried": None}
    return {"own": _setting(own), "tried": _setting(tried)}


def _setting(trial: Trial) -> dict[str, Any]:
    coding, most = trial.coding, trial.most_buckets
    return {
        "kept": kept_text(coding) if most is None else plural(most, "slot"),
        "coder": CODER_NAMES[coding.coder],
        "scope": coding.scope,
        "carries": trial.carries,
    }


def status_of(snapshot: Snapshot, stop_after: int, speed: float | None) -> dict[str, Any]:
    """What the run does.

    stop_after: iterations in all. speed: limit in iterations per second, None for no limit.
    """
    rate = min(snapshot.rate, speed or math.inf) if snapshot.status == PLAYING else None
    ends = {FINISHED: "finished", KILLED: "killed", RESTORING: "killed, being restored"}
    return {
        "iteration": snapshot.iteration,
        "last": stop_after,
        "rate": rate,
        "end": ends.get(snapshot.status, ""),
    }


def reads_of(
    classes: bool, live: float | None, restored: float | None
) -> dict[str, str | float] | None:
    """Accuracy of the live and the restored model, or of ratings the root mean square error."""
    if live is None or restored is None or not (math.isfinite(live) and math.isfinite(restored)):
        return None
    return {"of": "classes" if classes else "ratings", "live": live, "restored": restored}


def crash_of(snapshot: Snapshot, viewed: int, lc_outcome: Outcome | None = None) -> dict[str, Any]:
    """The price of a crash: of the newest while the run is dead, else of one at a step.

    viewed: the step on the page. lc_outcome: LC's outcome of the race back from the newest crash,
    once the race is over.
    """
    when = "now" if viewed == snapshot.newest.step else "then"
    raced = None
    if snapshot.status in DEAD:
        when = "dead"
        if lc_outcome:
            raced = {"rework": lc_outcome.rework, "capped": lc_outcome.capped}
    return {"cost": cost_of(snapshot, viewed), "when": when, "raced": raced}


def cost_of(
    snapshot: Snapshot, viewed: int, trial_losses: Mapping[int, float] | None = None
) -> dict[str, int | float | None]:
    """What a crash would cost that restarts from a step; see `Cost` in words.js.

    viewed: the step; while the run is dead, it is the newest. trial_losses: step -> restored loss
    in a trial; None without a trial.
    """
    dead = snapshot.status in DEAD
    step = snapshot.newest.step if dead else viewed
    return {
        "price": estimated_price(snapshot, step, trial_losses),
        "unsaved": snapshot.iteration - snapshot.newest.step if dead else 0,
        "step": max(measured for measured in snapshot.losses if measured <= step),
    }


def estimated_price(
    snapshot: Snapshot, step: int, trial_losses: Mapping[int, float] | None = None
) -> float | None:
    """What a crash would cost, in iterations; None if the restored model has no finite loss.

    This is an estimate from the loss curve. Only the race trains again.

    step: that is restored. trial_losses: as for `cost_of`.
    """
    losses = {at: both for at, both in snapshot.losses.items() if at <= step}
    if trial_losses is not None:
        losses = {
            at: (live, trial_losses.get(at, restored))
            for at, (live, restored) in losses.items()
            if at in trial_losses or at == 0
        }
    # The newest checkpoints may have no losses yet. The newest measured one stands for what a
    # checkpoint loses; the iterations since the newest checkpoint are added, if that is restored.
    # One loss jumps from batch to batch: this takes the mean of the last few, of both models.
    live, restored = (recent(values, SMOOTHED) for values in zip(*losses.values()))
    behind = iterations_behind(list(losses), live, restored[-1])
    if behind is None:
        return None
    newest = snapshot.newest.step
    return behind + (snapshot.iteration - newest if step == newest else 0)
