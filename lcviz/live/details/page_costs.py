"""What the checkpoints and a crash cost, in cards."""

from __future__ import annotations

import math

from lcviz.live.headline import loss_or_nan
from lcviz.run.snapshot import RunSettings, Snapshot
from lcviz.text import kept_text, loss_text, nbytes_text, percent_text
from lcviz.ui import widgets


def show_costs(snapshot: Snapshot, settings: RunSettings) -> None:
    """Eight cards."""
    newest, every = snapshot.newest, snapshot.checkpoints
    on_disk, full = sum(c.nbytes for c in every), sum(c.full_nbytes for c in every)
    kept = sum(a.kept for a in newest.alphabets)
    buckets = sum(len(a.buckets) for a in newest.alphabets)
    n_tables, reused = sum(c.tables.n for c in every), sum(c.tables.reused for c in every)
    saved_nbytes = sum(c.tables.saved_nbytes for c in every)
    measured = snapshot.measured[-1]
    live, restored = loss_or_nan(measured.live_loss), loss_or_nan(measured.restored_loss)
    change = "not a number"
    if math.isfinite(restored - live):
        change = f"{abs(restored - live):.4f} {'below' if restored < live else 'above'} live"
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
            kept_text(settings.coding),
            f"Of the change in step {newest.step}; the others are set to 0. With bits x at most "
            "2ˣ − 1 are kept, or as many for each tensor; with a budget as many as fit into it.",
        ),
        (
            "Code tables reused",
            f"{reused:,} of {n_tables:,}",
            f"saved {nbytes_text(saved_nbytes)}",
            "A new code table is written only if that pays: the last one is reused while it costs "
            "no more than a new one with its bytes. Saved is what new tables would have cost more, "
            "words and tables together.",
        ),
        (
            "Distance",
            percent_text(newest.distance),
            "of the distance trained",
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
            change,
            "Of the model that a restart from this checkpoint would load, on the same examples.",
        ),
        (
            "Compression time",
            f"{snapshot.codec_seconds:.2f} s",
            f"training {snapshot.train_seconds:.2f} s",
            f"Seconds spent saving, {1000 * snapshot.codec_seconds / len(every):.1f} ms a "
            "checkpoint, decoding again and disk included; and seconds spent training. Analysing "
            "deltas and measuring losses for this page took "
            f"{snapshot.measure_seconds:.2f} s more.",
        ),
    )
    widgets.cards(cards, "costs", 4)
