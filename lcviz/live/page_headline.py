"""The headline of the Live page: what a checkpoint and a crash cost, in cards."""

from __future__ import annotations

import math

import streamlit as st

from lcviz.lab.measures import lost_iterations
from lcviz.run.snapshot import DEAD, RunSettings, Snapshot
from lcviz.text import loss_text, minus, nbytes_text, percent_text
from lcviz.ui import widgets


def headline(snapshot: Snapshot, settings: RunSettings) -> None:
    """Sizes before and after, what a crash costs, and eight cards."""
    newest, every = snapshot.newest, snapshot.checkpoints
    crash = "this crash costs" if snapshot.status in DEAD else "a crash now costs"
    st.subheader(
        f"{nbytes_text(newest.full_nbytes)} → {nbytes_text(newest.nbytes)}; {crash} "
        f"{lost(snapshot)}",
        anchor=False,
        help="Estimated from the loss curve: iterations since the live model last had a loss as "
        "high as the one a restart would begin with.",
    )
    on_disk, full = sum(c.nbytes for c in every), sum(c.full_nbytes for c in every)
    kept = sum(a.kept for a in newest.alphabets)
    buckets = sum(len(a.buckets) for a in newest.alphabets)
    n_tables, reused = sum(c.tables.n for c in every), sum(c.tables.reused for c in every)
    saved_nbytes = sum(c.tables.saved_nbytes for c in every)
    measured = snapshot.measured[-1]
    live, restored = number(measured.live_loss), number(measured.restored_loss)
    cards = (
        (
            "This checkpoint",
            nbytes_text(newest.nbytes),
            f"{newest.full_nbytes / newest.nbytes:.1f} × smaller",
            f"Bytes on disk of step {newest.step}'s record, against the same state in float32.",
        ),
        (
            "Whole chain",
            nbytes_text(on_disk),
            f"instead of {nbytes_text(full)}",
            f"All {len(every)} records on disk, the exact base included, against as many full "
            "float32 checkpoints.",
        ),
        (
            "Buckets kept",
            f"{kept} of {buckets}",
            _keeping(settings),
            f"Of the change in step {newest.step}; the others are set to 0. With bits x at most "
            "2ˣ − 1 are kept, or as many for each tensor; with a budget as many as fit into it.",
        ),
        (
            "Tables used again",
            f"{reused:,} of {n_tables:,}",
            f"saved {nbytes_text(saved_nbytes)}",
            "A code table is written only if that pays: the one sent last is used again while it "
            "costs no more than a new one and its bytes. Saved is what new tables would have cost "
            "more, in words and tables together.",
        ),
        (
            "Distance",
            percent_text(newest.distance),
            "of the way trained",
            "‖ũ − u‖ / ‖u − u₀‖: how far the restored weights ũ are from the live ones u, as a "
            "share of how far training has moved them from their start u₀.",
        ),
        (
            "Loss, live",
            loss_text(live),
            f"at step {measured.step}",
            "Of the live model on up to 256 held-out examples. Classifiers: cross-entropy in "
            "nats; ratings: mean squared error.",
        ),
        (
            "Loss, restored",
            loss_text(restored),
            _change(restored - live),
            "Of the model that a restart from this checkpoint would have, on the same examples.",
        ),
        (
            "In the codec",
            f"{snapshot.codec_seconds:.2f} s",
            f"training {snapshot.train_seconds:.2f} s",
            f"Seconds spent saving, {1000 * snapshot.codec_seconds / len(every):.1f} ms a "
            "checkpoint, decoding again and disk included; and seconds spent training. Taking "
            "deltas apart and measuring losses for this page took "
            f"{snapshot.measure_seconds:.2f} s more.",
        ),
    )
    widgets.cards(cards, "headline", 4)


def _keeping(settings: RunSettings) -> str:
    """What decides how many buckets are kept."""
    if settings.budget is not None:
        return f"budget {percent_text(settings.budget)}"
    return f"bits x = {settings.bits or 'all'}"


def lost(snapshot: Snapshot) -> str:
    """What a crash now would cost, in words."""
    every = snapshot.measured
    last = every[-1]
    # Losses lag behind where there is no time to measure them: the newest that is known stands for
    # what a checkpoint loses, and to that comes what was trained since the newest one.
    since = lost_iterations(
        [c.step for c in every],
        [number(c.live_loss) for c in every],
        number(last.restored_loss),
        last.step,
    )
    if since is None:
        return f"the run: the model restored from step {last.step} has no finite loss"
    n = since + snapshot.iteration - snapshot.newest.step
    if n == 0:
        return "less than 1 iteration of training"
    return f"roughly {n} iteration{'' if n == 1 else 's'} of training"


def _change(difference: float) -> str:
    return minus(f"{difference:+.4f}") + " to live" if math.isfinite(difference) else "no number"


def number(loss: float | None) -> float:
    """A loss as a float: one that was not measured is NaN."""
    return math.nan if loss is None else loss
