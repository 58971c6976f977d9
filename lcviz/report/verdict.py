"""Which steps of a chain restore, and from which a restart is too far, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from codec.inspect import DeltaRest, restart_warning
from lcviz.lab.chain_summary import Summary
from lcviz.lab.records import RecordFacts
from lcviz.text import behind_text, enumerated, plural

MOST_RANGES = 6  # in a sentence
MOST_NAMES = 3


def ranges_text(steps: Collection[int], all_steps: Sequence[int]) -> str:
    """Steps in words, neighbours together: "0 to 8 and 20". all_steps: of the chain, rising."""
    runs = [
        list(run) for restores, run in groupby(all_steps, lambda step: step in steps) if restores
    ]
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return enumerated(_few(texts, MOST_RANGES))


def verdict(
    records: Sequence[RecordFacts], summary: Summary, restored: Collection[int], sound: bool
) -> str:
    """Which steps restore, and what to do.

    Args:
        records: Records of the chain.
        summary: Summary of these records.
        restored: Steps that restore.
        sound: Whether nothing at all is wrong.
    """
    all_steps = summary.steps
    if sound:
        ranges = ranges_text(all_steps, all_steps)
        return f"All of {plural(len(all_steps), 'step')}, {ranges}, restore."
    lost = set(all_steps) - set(restored)
    if not restored:
        return f"No step restores. {_repair(records)}."
    subject = "Step" if len(restored) == 1 else "Steps"
    text = f"{subject} {ranges_text(restored, all_steps)} still restore{'s' * (len(restored) == 1)}"
    if lost:
        text += f"; {ranges_text(lost, all_steps)} do{'es' * (len(lost) == 1)} not"
    newest = max(restored)
    if newest == summary.newest:
        return (
            f"{text}. The newest step restores: a training can go on. {_repair(records)} "
            "to get the others back."
        )
    return f"{text}. {_repair(records)}, or go on from step {newest}: codec.rewind(path, {newest})."


def misses(summary: Summary) -> str:
    """What a restart from the newest record would miss, as the end of a sentence; "" if unknown."""
    if summary.behind is None:
        return ""
    missed = f"{behind_text(summary.behind)} of the training" if summary.behind else "nothing"
    return f"; a restart misses {missed}"


def chain_warning(records: Sequence[RecordFacts], *, grows: bool) -> str:
    """A sentence if a restart from the chain is too far from what was trained; else "".

    grows: whether a training may go on: then only the newest step counts, else all.
    """
    counted = records[-1:] if grows else records
    return restart_warning(
        DeltaRest(r.entry.step, r.coding, r.rest) for r in counted if r.coding and r.rest
    )


def _repair(records: Sequence[RecordFacts]) -> str:
    """What to do to repair the chain."""
    damaged = [f.entry.name for f in records if f.problem and f.digest is None]
    if damaged:
        return f"Put back a good copy of {enumerated(_few(damaged, MOST_NAMES))}"
    if misfits := [f.entry.name for f in records if f.problem]:
        return f"Put back the record before {misfits[0]}"
    return "Get another copy of the chain"


def _few(texts: list[str], most: int) -> list[str]:
    """At most `most` texts; the last of them may say how many more there are."""
    return texts if len(texts) <= most else [*texts[: most - 1], f"{len(texts) - most + 1} more"]
