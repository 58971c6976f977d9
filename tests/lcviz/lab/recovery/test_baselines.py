"""Whole checkpoints, SCAR and TOPN: what they choose, what it costs, and that a decoder follows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import codec
from codec.errors import PayloadError, StateMismatchError
from codec.state.tensors import copy_arrays
from lcviz.lab.recovery.baselines import Full, Replacement, Scar, TopN


def state(seed: int) -> dict[str, Any]:
    """Every axis that blocks may lie along, and what is stored whole."""
    rng = np.random.default_rng(seed)
    return {
        "rows": rng.normal(size=(30, 4)).astype(np.float32),
        "columns": rng.normal(size=(3, 20)).astype(np.float32),
        "filters": rng.normal(size=(5, 8, 3, 3)).astype(np.float32),
        "bias": rng.normal(size=17).astype(np.float32),
        "count": np.int64(seed),
    }


BASELINES: dict[str, Callable[[Any], Any]] = {
    "full": Full,
    "scar": lambda s: Scar(s, fraction=0.2),
    "topn": lambda s: TopN(s, fraction=0.2),
}
every_baseline = pytest.mark.parametrize("make", BASELINES.values(), ids=BASELINES)


@every_baseline
def test_a_decoder_follows_to_the_bit(make: Callable[[Any], Any]) -> None:
    first = state(0)
    tracker = make(first)
    other = copy_arrays(tracker.state)
    first["rows"][:] = 0  # the tracker has its own copy
    for seed in range(1, 6):
        tracker.step(state(seed)).apply(other)
        for name, array in tracker.state.items():
            assert array.tobytes() == other[name].tobytes(), name
    assert other["rows"].any()


def test_full_is_the_state_itself() -> None:
    tracker = Full(state(0))
    step = tracker.step(new := state(1))
    assert step.nbytes == tracker.layout.nbytes
    for name, array in new.items():
        assert np.array_equal(tracker.state[name], array)
    new["rows"][:] = 0
    assert tracker.state["rows"].any()
    assert step.arrays["t/rows"].any()


@pytest.mark.parametrize("cls", [Scar, TopN])
@settings(max_examples=25, deadline=None)
@given(fraction=st.floats(0.001, 1.0), seed=st.integers(1, 2**31))
def test_never_more_than_the_fraction(cls: Any, fraction: float, seed: int) -> None:
    tracker = cls(state(0), fraction=fraction)
    step = tracker.step(state(seed))
    room = max(fraction * tracker.layout.nbytes, 8)  # the exact tensor is stored anyway
    assert step.nbytes <= room
    assert step.nbytes == sum(array.nbytes for array in step.arrays.values())
    least = 8 + 4 + 2  # an element and its number
    assert room < least or step.values.size


def test_topn_takes_the_largest_elements_of_the_whole_state() -> None:
    old = {"a": np.zeros(10, np.float32), "b": np.zeros((4, 3), np.float32)}
    new = copy_arrays(old)
    new["a"][[2, 7]] = 0.5, -3.0
    new["b"][1, 2] = -2.0
    new["b"][3, 0] = 1.0
    tracker = TopN(old, fraction=16 / 88)  # three of 4 bytes, and 1 for each number
    step = tracker.step(new)
    assert step.blocks.tolist() == [7, 10 + 5, 10 + 9]
    assert (step.values.tolist(), step.nbytes) == ([-3.0, -2.0, 1.0], 15)
    assert tracker.step(new).values.tolist() == [0.5]  # what was left out is seen again
    assert tracker.step(new).nbytes == 0  # what did not move


def test_scar_takes_whole_blocks_along_the_longer_axis() -> None:
    old = {"tall": np.zeros((9, 2), np.float32), "wide": np.zeros((2, 9), np.float32)}
    new = copy_arrays(old)
    new["tall"][4] = 1.0, 1.0  # farther as a block than...
    new["tall"][5, 0] = 1.3  # ...this one with its larger element
    new["wide"][1, 3] = 9.0
    tracker = Scar(old, fraction=18.0 / 144)
    step = tracker.step(new)
    assert step.blocks.tolist() == [4, 9 + 3]
    assert step.values.tolist() == [1.0, 1.0, 0.0, 9.0]
    assert np.array_equal(tracker.state["wide"], new["wide"])
    assert np.array_equal(tracker.state["tall"][4], new["tall"][4])
    assert not tracker.state["tall"][5].any()


def test_scar_goes_on_to_smaller_blocks_when_a_large_one_does_not_fit() -> None:
    old = {"f": np.zeros((2, 2, 10), np.float32), "b": np.zeros(8, np.float32)}
    new = {"f": np.ones((2, 2, 10), np.float32), "b": np.full(8, 0.1, np.float32)}
    step = Scar(old, fraction=0.1).step(new)
    assert (step.blocks.tolist(), step.nbytes) == ([2, 3, 4], 15)


def test_what_became_nan_comes_first() -> None:
    old = {"a": np.zeros(100, np.float32)}
    new = {"a": np.arange(100, dtype=np.float32)}
    new["a"][3] = np.nan
    tracker = TopN(old, fraction=5 / 400)
    assert tracker.step(new).blocks.tolist() == [3]
    assert np.isnan(tracker.state["a"][3])
    assert tracker.step(new).blocks.tolist() == [3]  # its distance is unknown for good


@pytest.mark.parametrize("fraction", [0, 1.1, -0.1, float("nan"), "a", True, None])
def test_fractions_out_of_range(fraction: Any) -> None:
    for cls in (Scar, TopN):
        with pytest.raises(codec.SettingsError, match="above 0 and at most 1"):
            cls(state(0), fraction=fraction)


@every_baseline
def test_another_layout_is_refused_and_changes_nothing(make: Callable[[Any], Any]) -> None:
    tracker = make(state(0))
    before = copy_arrays(tracker.state)
    with pytest.raises(StateMismatchError, match="rows"):
        tracker.step(state(1) | {"rows": np.zeros((4, 30), np.float32)})
    step = tracker.step(state(1))
    other = {n: np.array(a, copy=True) for n, a in state(0).items()}
    other["filters"] = other["filters"].astype(np.float64)
    with pytest.raises(StateMismatchError, match="filters"):
        step.apply(other)
    assert all(np.array_equal(before[name], other[name]) for name in before)


def test_values_that_do_not_belong_to_the_blocks() -> None:
    step = TopN(state(0), fraction=0.2).step(state(1))
    wrong = Replacement(step.partition, step.blocks, step.values[:-1], step.exact)
    with pytest.raises(PayloadError, match="do not fit these blocks"):
        wrong.apply(copy_arrays(Full(state(0)).state))
