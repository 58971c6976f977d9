"""More elements than 31 bits can count, in memory that takes no room: zeros that nobody wrote."""

from __future__ import annotations

import numpy as np
import pytest

import codec
from codec.record import record as records
from codec.record.record import Place
from codec.record.track import Track
from codec.scheme.coding import Coding
from codec.scheme.tracker import Tracker
from codec.state.tensors import layout_of

LARGE = 2**31 + 100_003


def zeros() -> dict[str, np.ndarray]:
    """Not zeros_like, which writes them."""
    return {"w": np.zeros(LARGE, np.float32), "v": np.zeros((1000, 7), np.float32)}


@pytest.mark.exhaustive
@pytest.mark.usefixtures("kernels")  # numpy takes memory for each of them
def test_a_tensor_of_more_than_2_31_elements_and_one_behind_it() -> None:
    rng = np.random.default_rng(0)
    state = zeros()
    edges = [0, 1, 2**30, 2**31 - 1, 2**31, 2**31 + 1, LARGE - 1]
    where = np.unique([*edges, *rng.integers(0, LARGE, 200)])
    state["w"][where] = rng.normal(size=where.size)
    state["v"][:] = rng.normal(size=state["v"].shape)
    layout = layout_of(state)
    assert layout.tensors[0].size == LARGE
    assert layout.nbytes == 4 * (LARGE + 7000)

    track = Track.of(layout, zeros())
    step = Tracker.resume(track, Coding(None)).prepare(state)
    data = records.dump_delta(Place(1, "0" * 16, "0" * 32), "0" * 32, step)
    track.apply(records.delta_of(records.load(data, "r"), track))
    assert track.sums == step.sums
    seen = track.arrays

    # The same elements by themselves, where nothing is far away.
    small = codec.Tracker(
        {"w": np.zeros(where.size, np.float32), "v": np.zeros((1000, 7), np.float32)}, bits=None
    )
    small.step({"w": state["w"][where], "v": state["v"]})
    assert np.array_equal(seen["w"][where], small.state["w"])
    assert np.array_equal(seen["v"], small.state["v"])
    assert np.count_nonzero(seen["w"][where]) == where.size
    assert np.count_nonzero(seen["w"]) == where.size  # nothing else was reached
