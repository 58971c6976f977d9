"""Budget mode: it fits, it uses what it has, and it is otherwise a step like any other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import codec
from codec import budget as budgets
from codec import coding
from codec.budget import check_budget
from codec.coding import Message
from codec.survivors import packed
from codec.tables import CODERS, CodeTable, Counts

F32 = np.float32
Arrays = dict[str, np.ndarray]


def sizes_of(
    delta: np.ndarray, coder: str, previous: CodeTable | None
) -> Iterator[tuple[int, int]]:
    """How many bytes any number of buckets takes, each one coded to the end."""
    q = codec.quantize(delta)
    assert q.buckets is not None
    for keep in range(len(q.buckets) + 1):
        buckets = q.buckets.keeping(keep)
        codes = np.where(q.codes <= keep, q.codes, 0).astype(q.codes.dtype)
        counts = buckets.counts(codes.size)
        with packed(codes) as survivors:
            units, tokens = coding.settle(survivors, None, counts, coder)
            message = Message(
                survivors, units, Counts(counts, tokens), buckets.levels, codes.shape, None
            )
            yield keep, coding.code(message, coder, previous)[0].nbytes


def kept(group: codec.Group) -> int:
    return group.encoded.levels.size - 1


def deltas(kind: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Dense, heavy-tailed, sparse, clustered, or of many exponents."""
    values = [
        rng.normal(size=n),
        rng.standard_t(1, size=n),
        rng.normal(size=n) * (rng.random(n) < 0.05),
        rng.laplace(size=n) * np.repeat(rng.random(n // 64 + 1) < 0.1, 64)[:n],
        np.ldexp(rng.normal(size=n), rng.integers(-140, 100, n)),
    ][kind]
    return np.clip(values, -1e37, 1e37).astype(F32)


cases = (st.integers(0, 4), st.integers(8, 4000), st.floats(-3, 0), st.sampled_from(CODERS))


@settings(max_examples=30)
@given(*cases, st.integers(0, 2**32 - 1))
@example(1, 300, -1.0, "runlength", 0)
def test_it_fits_and_one_more_would_not(
    kind: int, n: int, exponent: float, coder: str, seed: int
) -> None:
    """Against every number of buckets tried out, over a few steps with their table cache."""
    rng = np.random.default_rng(seed)
    share = 10.0**exponent
    tracker = codec.Tracker({"w": np.zeros(n, F32)}, scope="model", coder=coder, budget=share)
    state = np.zeros(n, F32)
    for _ in range(3):
        state = state + deltas(kind, n, rng)
        track, previous = tracker.state["w"].copy(), tracker.tables.get("")
        step = tracker.step({"w": state})
        (group,) = step.groups
        room, mine = share * 4 * n, kept(group)
        sizes = dict(sizes_of(state - track, coder, previous))
        assert step.nbytes == sizes[mine]
        assert step.nbytes <= room
        if mine < len(sizes) - 1:
            assert sizes[mine + 1] > room
        q = codec.quantize(state - track)
        codes = np.where(q.codes <= mine, q.codes, 0)
        expected = np.where(codes > 0, track + q.levels[codes], track)
        assert tracker.state["w"].tobytes() == expected.tobytes()


def test_any_number_of_buckets() -> None:
    """Not only 1, 3, 7, 15 ... as with bits."""
    rng = np.random.default_rng(0)
    delta = rng.normal(size=20_000).astype(F32)
    seen = []
    for share in np.geomspace(0.0005, 0.3, 60):
        tracker = codec.Tracker({"w": np.zeros_like(delta)}, budget=float(share))
        (group,) = tracker.step({"w": delta}).groups
        assert group.buckets is not None
        assert len(group.buckets) == kept(group)
        seen.append(kept(group))
    assert seen == sorted(seen)
    assert {2, 4, 5, 6, 8, 10} < set(seen)


@pytest.mark.parametrize("coder", CODERS)
def test_all_of_it_is_the_exponent_stage(coder: str) -> None:
    rng = np.random.default_rng(0)
    for kind in (0, 4):  # the second has more than 256 levels
        u = {"w": deltas(kind, 3000, rng)}
        zero = {"w": np.zeros(3000, F32)}
        whole, every = (
            codec.Tracker(zero, bits, "model", coder, budget).step(u)
            for bits, budget in ((3, 1.0), (None, None))
        )
        assert (
            whole.groups[0].encoded.payload.tobytes() == every.groups[0].encoded.payload.tobytes()
        )
        assert whole.nbytes == every.nbytes
        assert (every.groups[0].encoded.levels.size > 256) == (kind == 4)


@pytest.mark.parametrize("coder", CODERS)
@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_too_small_for_anything(scope: str, coder: str) -> None:
    """Nothing is kept, and the track stays where it is."""
    rng = np.random.default_rng(0)
    first = {"a": rng.normal(size=500).astype(F32), "b": np.zeros(9, F32), "n": np.array(1)}
    tracker = codec.Tracker(first, None, scope, coder, budget=1e-9)
    second = {k: a + a.dtype.type(1) for k, a in first.items()}
    for nbytes in (8, 0):  # the exact tensor, which is stored whatever it costs, if it has changed
        step = tracker.step(second)
        assert [kept(g) for g in step.groups] == [0] * len(step.groups)
        assert step.nbytes == nbytes
        assert tracker.state["a"].tobytes() == first["a"].tobytes()
        assert tracker.state["n"] == 2
    tracker = codec.Tracker(first, None, scope, coder, budget=1.0)
    assert tracker.step(second).groups[0].encoded.levels.size > 1


@given(*cases[1:], st.integers(0, 2**32 - 1))
def test_tensors_share_the_room(n: int, exponent: float, coder: str, seed: int) -> None:
    """Each one gets the room of its elements, and all together fit."""
    rng = np.random.default_rng(seed)
    share = 10.0**exponent
    first = {
        "a": np.zeros(n, F32),
        "b": np.zeros(50, F32),
        "n": np.zeros(2),
        "c": np.zeros(99, F32),
    }
    tracker = codec.Tracker(first, None, "tensor", coder, share)
    lossy = 4 * (n + 50 + 99)
    total = share * (lossy + 16)
    for _ in range(2):
        state = {
            k: a + (deltas(i, a.size, rng) if a.dtype == F32 else 1)
            for i, (k, a) in enumerate(tracker.state.items())
        }
        step = tracker.step(state)
        assert [g.tensors[0].name for g in step.groups] == ["a", "b", "c"]
        room = max(total - 16, 0) / (lossy / 4)
        for group in step.groups:
            assert group.encoded.nbytes <= room * group.n
        assert step.nbytes <= max(total, 16)


def test_overhead_is_paid_for() -> None:
    rng = np.random.default_rng(0)
    tracker = codec.Tracker({"w": np.zeros(5000, F32)}, budget=0.05)
    u = {"w": rng.normal(size=5000).astype(F32)}
    seen = []
    for overhead in (0, 100, 400, 700, 900, 999, 1000, 2000):
        step = tracker.prepare_arrays(u, lambda _, n=overhead: n)  # type: ignore[misc]
        if kept(step.groups[0]):
            assert step.nbytes + overhead <= 0.05 * 20_000
        seen.append(kept(step.groups[0]))
    assert seen == sorted(seen, reverse=True)
    assert seen[0] > seen[1] > seen[3] > 0
    assert seen[-2:] == [0, 0]


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_all_ways_through_a_budgeted_step(scope: str) -> None:
    rng = np.random.default_rng(0)
    state = {"a": np.zeros(70_000, F32), "b": np.zeros(9, F32), "c": np.zeros(3000, F32)}
    stepping, careful = (codec.Tracker(state, None, scope, budget=0.02) for _ in range(2))
    applied = {k: a.copy() for k, a in state.items()}
    for i in range(4):
        state = {k: a + deltas(i, a.size, rng) for k, a in state.items()}
        if i == 2:
            state["c"][5] = np.inf
        prepared, again = careful.prepare(state), careful.prepare(state)  # a search forgets
        step = stepping.step(state)
        careful.commit(prepared)
        codec.apply(step, applied)
        assert step.non_finite == (() if i < 2 else ("c",))
        assert (step.bits, step.budget) == (None, 0.02)
        for one in (prepared, again):
            assert one.nbytes == step.nbytes
            for g, h in zip(one.groups, step.groups, strict=True):
                assert g.encoded.payload.tobytes() == h.encoded.payload.tobytes()
                assert g.encoded.levels.tobytes() == h.encoded.levels.tobytes()
        for k, array in stepping.state.items():
            assert array.tobytes() == careful.state[k].tobytes() == applied[k].tobytes()
        assert stepping.sums == careful.sums == step.sums


@pytest.mark.parametrize("coder", CODERS)
def test_size_is_known_before_anything_is_coded(
    coder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never less than what is written, and more by the padding of streams at most."""
    known: list[int] = []
    most = budgets._nbytes

    def spy(*args: Any) -> int:
        known.append(most(*args))
        return known[-1]

    monkeypatch.setattr(budgets, "_nbytes", spy)
    rng = np.random.default_rng(0)
    for n in (8, 100, 9000, 65_536, 400_000):
        for share in (0.004, 0.03, 0.1):
            tracker = codec.Tracker({"w": np.zeros(n, F32)}, None, "model", coder, share)
            for _ in range(2):
                delta = rng.normal(size=n).astype(F32)
                (group,) = tracker.step({"w": tracker.state["w"] + delta}).groups
                e = group.encoded
                assert e.nbytes <= known[-1] <= e.nbytes + 4 * max(e.streams.size - 1, 0)


def test_most_of_a_budget_is_used() -> None:
    """Where every bucket is small beside it."""
    rng = np.random.default_rng(0)
    n = 300_000
    tracker = codec.Tracker({"w": np.zeros(n, F32)}, budget=0.05)
    delta = np.ldexp(rng.uniform(1, 2, n), rng.integers(-60, 60, n)) * rng.choice([-1, 1], n)
    for _ in range(3):
        step = tracker.step({"w": tracker.state["w"] + delta.astype(F32)})
        assert 0.97 * 0.05 * 4 * n < step.nbytes <= 0.05 * 4 * n


# Settings.


@pytest.mark.parametrize(
    "value", [0, 0.0, -0.1, 1.0001, 5, np.nan, np.inf, True, False, "0.1", [0.1], 1j, np.float32(2)]
)
def test_out_of_range(value: Any) -> None:
    message = "budget is a share of the float32 size above 0 and at most 1; got"
    with pytest.raises(codec.SettingsError, match=message):
        check_budget(value)
    with pytest.raises(codec.SettingsError, match=message):
        codec.Tracker({}, budget=value)


@pytest.mark.parametrize(
    "value", [1, 1.0, 0.5, 1e-300, np.float32(0.25), np.float64(0.25), np.int8(1)]
)
def test_in_range(value: Any) -> None:
    assert type(check_budget(value)) is float
    assert check_budget(value) == value
    tracker = codec.Tracker({}, bits=7, budget=value)  # in place of bits
    assert (tracker.bits, tracker.budget) == (None, float(value))


def test_without_a_budget() -> None:
    assert codec.Tracker({}, bits=7).budget is None
    assert codec.Tracker({}, bits=7).step({}).budget is None
    with pytest.raises(codec.SettingsError, match="bits must be"):  # checked all the same
        codec.Tracker({}, bits=9, budget=0.5)


def test_states_without_lossy_tensors() -> None:
    for scope in ("model", "tensor"):
        tracker = codec.Tracker({"n": np.array(1)}, None, scope, budget=0.01)
        assert tracker.step({"n": np.array(2)}).nbytes == 8
        assert codec.Tracker({}, None, scope, budget=0.01).step({}).nbytes == 0


def test_small_buckets_that_cluster_less_do_not_mislead() -> None:
    """What the small buckets cost says nothing of a large one that is a single block."""
    delta = (np.random.default_rng(0).normal(size=2**20) * 1e-6).astype(F32)
    delta[1000:11_485] = 1
    sizes = []
    for share in (0.0005, 0.001, 0.002):
        step = codec.Tracker({"w": np.zeros(2**20, F32)}, budget=share).step({"w": delta})
        sizes.append(step.nbytes)
        assert step.groups[0].encoded.levels.size >= 2
        assert step.nbytes <= share * 4 * 2**20
    assert sizes == sorted(sizes)
