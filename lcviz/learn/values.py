"""A lesson as plain values, for a picture: the same that pictures/learn/scheme.js computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lcviz.lab.lesson import Lesson, fields, huffman_merges, lesson

CHECKPOINTS = 5


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


def checkpoints_of(
    track: Sequence[float],
    live: Sequence[float],
    x: int | None,
    steps: int = CHECKPOINTS,
    restored: int | None = None,
) -> list[dict[str, list[float]]]:
    """Checkpoints of a training that goes on as it began: each adds the first δ again.

    Args:
        track, live: float32 values, before and after the first step.
        x: bits of promotion; None keeps every bucket.
        steps: checkpoints after the base.
        restored: after this one the training starts again from the track.

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
        numbers = lesson(kept, now.tolist(), x).numbers
        kept = [m.rebuilt for m in numbers]
        found.append({"live": now.tolist(), "track": kept, "written": [m.after_p for m in numbers]})
    return found
