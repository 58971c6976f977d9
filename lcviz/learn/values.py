"""A lesson as plain values for a picture; pictures/learn/scheme.js computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import codec
from lcviz.lab.lesson import Lesson, huffman_merges, lesson

CHECKPOINTS = 5
FINEST = 20  # largest `fine` of `steps_of`


def values_of(example: Lesson) -> dict[str, Any]:
    """Numbers, buckets (largest magnitude first), symbols, Huffman merges and bits of a lesson.

    Of a bucket, members: indices of its numbers. Of a number, bucket: index of its bucket, None for
    zero; code: index of its symbol.
    """
    members: list[list[int]] = [[] for _ in example.buckets]
    for i, number in enumerate(example.numbers):
        if number.bucket is not None:
            members[number.bucket].append(i)
    counts = example.counts.tolist()
    return {
        "numbers": [asdict(number) for number in example.numbers],
        "buckets": [
            {
                "exponent": int(b.exponent),
                "sign": int(b.sign),
                "min": float(b.min),
                "max": float(b.max),
                "middle": float(b.representative),
                "members": indices,
                "kept": bool(b.level),
            }
            for b, indices in zip(example.buckets, members)
        ],
        "symbols": [
            {"level": float(level), "count": count}
            for level, count in zip(example.buckets.levels, counts)
        ],
        "merges": [[m.rare, m.rarer, m.count] for m in huffman_merges(counts)],
        "bits": example.stage_bits,
    }


def steps_of(track: Sequence[float], live: Sequence[float], fine: int) -> dict[str, Any]:
    """These float32 values in steps of one size, with the paper's coder.

    fine: sets the tolerance: half the largest change at 0, and half of that every 4 later.

    Returns:
        tolerance; size: of a step; codes: how many steps each number moves; bits: of all code
        words.
    """
    before, after = (np.array(values, np.float32) for values in (track, live))
    tolerance = float(np.abs(after - before).max() or 1) / 2 ** (1 + fine / 4)
    tracker = codec.Tracker({"w": before}, tolerance=tolerance, coder="huffman")
    values = {"tolerance": tolerance, "size": 2 * tolerance, "codes": [0] * after.size, "bits": 0}
    for group in tracker.step({"w": after}).groups:  # empty if nothing has changed
        codes, size = codec.decode(group.encoded).codes.tolist(), group.encoded.stored_levels
        values |= {
            "size": float(size[0]) if size.size else 2 * tolerance,
            "codes": [(c + 1) // 2 if c % 2 else -(c // 2) for c in codes],
            "bits": group.encoded.payload_bits,
        }
    return values


def checkpoints_of(
    track: Sequence[float],
    live: Sequence[float],
    x: int | None,
    steps: int = CHECKPOINTS,
    restored: int | None = None,
    *,
    carries: bool = True,
) -> list[dict[str, list[float]]]:
    """Checkpoints of a training in which every step adds the first δ again.

    Args:
        track, live: float32 values, before and after the first step.
        x: Bits of promotion; None keeps every bucket.
        steps: Number of checkpoints after the base.
        restored: The checkpoint from which the training restarts; None for no restart.
        carries: Whether what is left out stays in the next δ.

    Returns:
        The base and each checkpoint: live, track and written, one value for each number.
    """
    now = np.array(track, np.float32)
    drift = np.array(live, np.float32) - now
    on_disk = now.tolist()
    checkpoints = [{"live": on_disk, "track": on_disk, "written": [0.0] * len(on_disk)}]
    for step in range(1, steps + 1):
        begin = np.array(on_disk, np.float32) if step - 1 == restored else now
        now = begin + drift
        numbers = lesson(on_disk if carries else begin.tolist(), now.tolist(), x).numbers
        written = [m.written for m in numbers]
        on_disk = (np.array(on_disk, np.float32) + np.array(written, np.float32)).tolist()
        checkpoints.append({"live": now.tolist(), "track": on_disk, "written": written})
    return checkpoints
