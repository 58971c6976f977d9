"""States of a few steps."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def random_states(n: int = 4, seed: int = 0, rows: int = 5) -> list[Arrays]:
    """A few steps of a small random walk over tensors of every kind numpy has.

    rows: of the largest one. With 5 of them all deltas are smaller than a header, and no budget
    holds that.
    """
    rng = np.random.default_rng(seed)
    state: Arrays = {
        "w": rng.normal(size=(rows, 7)).astype(np.float32),
        "h": rng.normal(size=(3, 4)).astype(np.float16),
        "b": np.zeros(9, np.float32),
        "d": rng.normal(size=11),
        "tiny": rng.normal(size=3).astype(np.float32),
        "empty": np.zeros((0, 3), np.float32),
        "step": np.array(0.0, np.float32),
        "mask": rng.random(4) > 0.5,
        "ids": np.arange(12).reshape(3, 4),
        "z": np.array([1 + 2j], np.complex64),
    }
    states = []
    for _ in range(n):
        state = {
            k: np.asarray((a + rng.normal(size=a.shape) * 0.01).astype(a.dtype))
            if a.dtype.kind == "f"
            else a
            for k, a in state.items()
        }
        states.append(state)
    return states


def sparse_states(
    n: int = 4, seed: int = 0, size: int = 3000, jumps: float = 0.02, grid: int = 4
) -> list[Arrays]:
    """A few steps of tensors of which few elements jump: what runs of zeros are for.

    Only every fourth can, unless another ``grid`` is asked for: steps are so alike that a code
    table is soon used again.
    """
    rng = np.random.default_rng(seed)
    state: Arrays = {
        "w": rng.normal(size=size).astype(np.float32),
        "v": rng.normal(size=(size // 40, 5)).astype(np.float32),
        "n": np.array(0),
    }
    states = [state]
    for _ in range(n - 1):
        moved = {}
        for name in ("w", "v"):
            shape = state[name].shape
            may = np.arange(state[name].size).reshape(shape) % grid == 0
            jump = (rng.random(shape) < jumps) & may
            delta = rng.normal(size=shape) * np.where(jump, 0.1, 1e-6)
            moved[name] = state[name] + delta.astype(np.float32)
        state = moved | {"n": np.array(state["n"] + 1)}
        states.append(state)
    return states


def jumping_states(
    n: int = 9, seed: int = 0, size: int = 3000, jumps: float = 0.02
) -> list[Arrays]:
    """A few steps in which the same few elements jump each time, and others never do."""
    rng = np.random.default_rng(seed)
    shapes = {"w": (size,), "v": (size // 40, 5)}
    state: Arrays = {k: rng.normal(size=shape).astype(np.float32) for k, shape in shapes.items()}
    state |= {"zero": np.full(70, -0.0, np.float32), "n": np.array(0)}
    which = {k: rng.random(shape) < jumps for k, shape in shapes.items()}
    states = [state]
    for step in range(1, n):
        moved: Arrays = {}
        for name in shapes:
            far = np.where(rng.random(shapes[name]) < 0.2, -0.25, 0.5)
            near = rng.normal(size=shapes[name]) * 1e-6
            moved[name] = state[name] + np.where(which[name], far, near).astype(np.float32)
        state = moved | {"zero": state["zero"], "n": np.array(step)}
        states.append(state)
    return states


@functools.cache
def changing_states() -> list[dict[str, Any]]:
    """Sixteen states whose layout changes in every way."""
    return list(_changing_states())


def _changing_states() -> Iterator[dict[str, Any]]:
    import torch

    rng = np.random.default_rng(0)
    w, rows, z = rng.normal(size=(3, 40, 20))
    for i in range(14):
        w, rows, z = (a + 0.01 * rng.normal(size=a.shape) for a in (w, rows, z))
        if i % 3 == 0:
            rows = np.concatenate((rows, rng.normal(size=(2, 20))))
        state: dict[str, Any] = {"w": w.astype(np.float32), "rows": rows.astype(np.float32)}
        state["half"] = torch.from_numpy(rows[: 8 + i // 2]).bfloat16()
        state["shape"] = w[:6].reshape((2, 60) if i % 2 else (60, 2)).astype(np.float16)
        state["window"], state["count"] = np.arange(10 + i), np.array(i)
        state["moving"] = np.arange(i, 2 * i + 9)
        state["complex"] = np.arange(1 + i // 2) * 1j
        state["kind"] = z[0].astype((np.float64, np.float32, np.int64)[i % 3])
        state["list"] = [np.full(3, k, np.int16) for k in range((i * 5) % 7)]
        state["nothing"] = np.zeros((i % 2, 3))
        state["log"] = {'é\n"': [0.5] * (i + 1), "epoch": i // 2}
        if i % 4 > 1:
            state |= {"new \U0001f600\x7f": z[1].astype(np.float32), "seed": i}
        state["keys"] = {(1, "1")[i % 3 == 1]: i, "t": np.zeros(1, np.int8)}
        state["last"] = {"value": i, "tensor": np.ones(2)} if i % 5 else {"value": i}
        yield state if i % 3 < 2 else dict(reversed(state.items()))
    yield {"w": w.astype(np.float32), "z": np.ones(3)}
    yield {"w": w.astype(np.float32), "z": np.ones(3), "epoch": 3}
