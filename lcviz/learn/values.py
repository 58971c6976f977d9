"""A lesson as plain values, for a picture: the same that pictures/learn/scheme.js computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import codec
from lcviz.lab.lesson import Lesson, fields, huffman_merges, lesson

CHECKPOINTS = 5
FINEST = 20  # quarter octaves


def values_of(found: Lesson) -> dict[str, Any]:
    """Numbers, buckets (largest magnitude first), symbols, Huffman merges and bits of a lesson.

    members: indices of numbers. bucket: index of a bucket, None for zero. code: of a symbol.
    """
    code = found.code
    members: list[list[int]] = [[] for _ in code.buckets]
    for i, number in enumerate(found.numbers):
        if number.bucket is not None:
            members[number.bucket].append(i)
    bits = code.stage_bits
    return {
        "numbers": [
            {
                "track": m.track,
                "live": m.live,
                "delta": m.delta,
                "bits": list(fields(m.delta).bits),
                "bucket": m.bucket,
                "middle": m.after_e,
                "written": m.after_p,
                "code": m.code,
                "rebuilt": m.rebuilt,
            }
            for m in found.numbers
        ],
        "buckets": [
            {
                "exponent": int(b.exponent),
                "sign": int(b.sign),
                "min": float(b.min),
                "max": float(b.max),
                "middle": float(b.representative),
                "members": own,
                "kept": bool(b.level),
            }
            for b, own in zip(code.buckets, members)
        ],
        "symbols": [
            {"level": float(level), "count": int(count)}
            for level, count in zip(code.levels, code.counts)
        ],
        "merges": [[m.rare, m.rarer, m.count] for m in huffman_merges(code.counts.tolist())],
        "bits": {"float32": bits.float32, "e": bits.e, "p": bits.p, "h": bits.h},
    }


def steps_of(track: Sequence[float], live: Sequence[float], fine: int) -> dict[str, Any]:
    """These float32 values in steps of one size, with the paper's coder.

    fine: the tolerance is half the largest change, and halves with every four of it.

    Returns:
        The tolerance, the size of a step, how many steps each number goes, and the bits of all.
    """
    before, after = (np.array(values, np.float32) for values in (track, live))
    tolerance = float(np.abs(after - before).max() or 1) / 2 ** (1 + fine / 4)
    tracker = codec.Tracker({"w": before}, tolerance=tolerance, coder="huffman")
    found = {"tolerance": tolerance, "size": 2 * tolerance, "codes": [0] * after.size, "bits": 0}
    for group in tracker.step({"w": after}).groups:  # none if nothing has changed
        codes, size = codec.decode(group.encoded).codes.tolist(), group.encoded.stored_levels
        found |= {
            "size": float(size[0]) if size.size else 2 * tolerance,
            "codes": [(c + 1) // 2 if c % 2 else -(c // 2) for c in codes],
            "bits": group.encoded.payload_bits,
        }
    return found


def checkpoints_of(
    track: Sequence[float],
    live: Sequence[float],
    x: int | None,
    steps: int = CHECKPOINTS,
    restored: int | None = None,
    *,
    carries: bool = True,
) -> list[dict[str, list[float]]]:
    """Checkpoints of a training that goes on as it began: each adds the first δ again.

    Args:
        track, live: float32 values, before and after the first step.
        x: bits of promotion; None keeps every bucket.
        steps: checkpoints after the base.
        restored: after this one the training starts again from the track.
        carries: whether what is left out stays in the next δ.

    Returns:
        The base and each checkpoint: live, track and written, one value for each number.
    """
    now = np.array(track, np.float32)
    drift = np.array(live, np.float32) - now
    kept = now.tolist()
    found = [{"live": kept, "track": kept, "written": [0.0] * len(kept)}]
    for step in range(1, steps + 1):
        begin = np.array(kept, np.float32) if step - 1 == restored else now
        now = begin + drift
        numbers = lesson(kept if carries else begin.tolist(), now.tolist(), x).numbers
        written = np.array([m.after_p for m in numbers], np.float32)
        kept = (np.array(kept, np.float32) + written).tolist()
        found.append({"live": now.tolist(), "track": kept, "written": [m.after_p for m in numbers]})
    return found
