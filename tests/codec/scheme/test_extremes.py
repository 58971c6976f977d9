"""Nothing finite becomes infinite: weights next to the largest number of their dtype."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codec.record.track import Track
from codec.scheme.coders import CODERS
from codec.scheme.coding import Coding
from codec.scheme.tracker import Tracker
from codec.state.tensors import copy_arrays, layout_of, to_arrays

LARGEST = {t: torch.finfo(t).max for t in (torch.float16, torch.bfloat16, torch.float32)}
TARGETS: list[dict[str, Any]] = [
    *({"bits": bits} for bits in (1, 2, 3, None)),
    {"budget": 0.6},
    {"budget": 1.0},
    {"budget": 0.6, "quantizer": "exponent"},
    {"tolerance": 1e-3},
    {"tolerance": 1e37},
    {"distance": 0.02},
    {"distance": 0.5},
]
SHARES = st.one_of(
    st.sampled_from([1.0, -1.0, 0.999, 0.75, -0.5, 0.25, 0.1, 0.0, 1e-6]), st.floats(-1, 1)
)
STATES = st.lists(st.lists(SHARES, min_size=12, max_size=12), min_size=2, max_size=5)
NEAR = [[0.92] * 12, [0.999, 1.0] * 6, [1.0] * 12, [0.995, -1.0] * 6]


def restored(
    states: list[torch.Tensor], target: dict[str, Any], scope: str, coder: str
) -> list[torch.Tensor]:
    """What a restart after each of these states would load."""
    layout = layout_of({"w": states[0], "v": states[0]})
    first = copy_arrays(to_arrays({"w": states[0], "v": states[0]}, layout))
    tracker = Tracker.resume(Track.of(layout, first), Coding(scope=scope, coder=coder, **target))
    restarts = []
    for state in states[1:]:
        tracker.step({"w": state, "v": state / 2})
        restarts.append(tracker.track.restore()["w"])
    return restarts


@pytest.mark.parametrize("dtype", LARGEST, ids=str)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@settings(max_examples=8)
@given(STATES, st.sampled_from(["model", "tensor"]), st.sampled_from(list(CODERS)))
@example(NEAR, "model", "runlength")
@example(NEAR, "tensor", "huffman")
@example([[0.0] * 12, [1.0] * 12, [0.97] * 12, [1.0] * 12, [-1.0] * 12], "model", "runlength")
def test_what_is_finite_stays_finite(
    target: dict[str, Any], dtype: torch.dtype, shares: list[list[float]], scope: str, coder: str
) -> None:
    if "budget" in target and coder == "huffman":
        coder = "runlength"  # a bit a value is more than these budgets
    states = [(torch.tensor(s, dtype=torch.float64) * LARGEST[dtype]).to(dtype) for s in shares]
    for state in restored(states, target, scope, coder):
        assert state.dtype == dtype
        assert torch.isfinite(state).all()


def test_what_is_infinite_stays_infinite() -> None:
    states = [torch.full((9,), 6e4, dtype=torch.float16) for _ in range(3)]
    states[1][3], states[2][3] = torch.inf, torch.inf
    for state in restored(states, {"bits": 2}, "model", "runlength"):
        assert state.isinf().tolist() == [i == 3 for i in range(9)]
