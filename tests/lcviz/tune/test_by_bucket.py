"""The largest k buckets of a delta, or without some: against the codec, and value by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codec
from codec.state.tensors import layout_of
from lcviz.tune.ab import RunState
from lcviz.tune.by_bucket import LossCurve, SplitDelta, marks, order, split_delta

MakeCase = Callable[..., Any]


def taken(case: Any, scope: str) -> SplitDelta:
    return split_delta(layout_of(case.after), case.before, RunState(4, case.after, 2.5), scope)


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_bits_are_numbers_of_buckets(make_case: MakeCase, scope: str) -> None:
    """With 2^x - 1 of them it is what a tracker with x bits restores, bit for bit."""
    case = make_case(11)
    delta = taken(case, scope)
    for bits in (*range(1, 9), None):
        tracker = codec.Tracker(case.before, bits, scope)
        tracker.step(case.after)
        state = delta.largest(delta.most if bits is None else 2**bits - 1)
        for name, array in tracker.state.items():
            assert np.array_equal(array, state[name]), (bits, name)
    assert delta.values(delta.most) == sum(int((c != 0).sum()) for c in case.changes.values()) - 3
    assert np.array_equal(delta.largest(0)["wide"], case.before["wide"])
    off = np.sqrt(
        sum(np.square(c, dtype=np.float64).sum() for n, c in case.changes.items() if n != "tiny")
    )
    assert delta.distance(delta.largest(0)) == pytest.approx(float(off) / 2.5, rel=1e-6)


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_what_is_left_out_stays_as_it_was(make_case: MakeCase, scope: str) -> None:
    case = make_case(13)
    delta = taken(case, scope)
    whole = delta.without([])
    gone = [(b.exponent, b.sign) for b in delta.buckets[9:13]]
    state = delta.without(gone)
    mantissa, exponent = np.frexp(case.changes["wide"])
    mine = np.zeros(mantissa.shape, bool)
    for e, sign in gone:
        mine |= (mantissa != 0) & (exponent - 1 == e) & ((mantissa < 0) == bool(sign))
    assert 0 < mine.sum() < mine.size
    assert np.array_equal(state["wide"][mine], case.before["wide"][mine])
    assert np.array_equal(state["wide"][~mine], whole["wide"][~mine])
    assert np.array_equal(state["tiny"], case.after["tiny"])  # stored exactly, whatever is left out


def test_values_of_the_largest(make_case: MakeCase) -> None:
    delta = taken(make_case(11), "model")
    for k in (0, 1, 5):
        changed = sum(int((delta.largest(k)[n] != delta.before[n]).sum()) for n in delta.before)
        assert delta.values(k) == changed


@pytest.mark.parametrize(
    ("most", "found"),
    [
        (0, {0: "all"}),
        (1, {1: "all"}),
        (5, {1: "1", 3: "2", 5: "all"}),
        (7, {1: "1", 3: "2", 7: "all"}),
        (400, {2**x - 1: str(x) for x in range(1, 9)} | {400: "all"}),
    ],
)
def test_where_bits_are(most: int, found: dict[int, str]) -> None:
    assert marks(most) == found


@pytest.mark.parametrize("most", [0, 1, 2, 5, 45, 64, 300])
def test_every_k_comes_once_and_bits_first(most: int) -> None:
    found = list(order(most))
    assert sorted(found) == list(range(most + 1))
    assert found[: len(marks(most))] == list(marks(most))


def test_the_curve_is_measured_a_few_at_a_time(make_case: MakeCase) -> None:
    delta, asked = taken(make_case(17), "model"), []

    def loss_of(state: Any) -> float:
        asked.append(1)
        return float(np.abs(state["wide"]).sum())

    curve = LossCurve(delta, loss_of)
    assert curve.loss(5) == curve.loss(5)
    assert len(asked) == 1
    assert not curve.done
    curve.go_on(0.0)
    assert list(curve.losses) == [5, 1]
    pictures = set()
    while not curve.done:
        curve.go_on(0.0)
        pictures.add(len(curve.drawn))
        assert curve.drawn.items() <= curve.losses.items()
    assert pictures == {2**i for i in range(1, curve.total.bit_length())} | {curve.total}
    assert curve.drawn == curve.losses
    assert len(asked) == curve.total == delta.most + 1
    for k, loss in curve.losses.items():
        assert loss == float(np.abs(delta.largest(k)["wide"]).sum())
    curve.go_on(0.0)
    assert len(asked) == curve.total
