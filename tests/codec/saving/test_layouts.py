"""States whose tensors come, go, grow and change: each save after the first is a delta."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import codec
from codec.record import layouts
from codec.record import record as records
from codec.scheme import track as tracks
from codec.scheme.track import digest_sums
from codec.state.tensors import copy_arrays
from tests.bits import bits
from tests.codec.chains import kinds_in, records_in, save_all, tracker_of
from tests.codec.states import changing_states

State = dict[str, Any]
POLICY = {"rows": "lossy?", "half": "lossy?", "new*": "lossy?"}


def all_bits(path: Path) -> dict[int, Any]:
    chain = codec.Chain(path)
    return {step: bits(chain.restore(step)) for step in chain.steps}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The records of the states that change, saved in one go."""
    path = tmp_path_factory.mktemp("expected")
    save_all(path, changing_states(), policy=POLICY)
    return records_in(path)


def exact_part(state: State, tracker: codec.Tracker) -> State:
    lossy = {t.name for t in tracker.track.layout.tensors if t.lossy}
    return {key: value for key, value in state.items() if key not in lossy}


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"scope": "tensor", "coder": "huffman"},
        pytest.param({"bits": None}, marks=pytest.mark.exhaustive),
        pytest.param({"budget": 0.3}, marks=pytest.mark.exhaustive),
        pytest.param({"budget": 0.3, "quantizer": "exponent"}, marks=pytest.mark.exhaustive),
        pytest.param({"tolerance": 1e-3}, marks=pytest.mark.exhaustive),
    ],
    ids=str,
)
def test_every_change_of_a_layout(tmp_path: Path, how: dict[str, Any]) -> None:
    """What is exact restores as it was saved, what is lossy as the track; in one go, resumed after
    each save, and in another process the bytes are the same."""
    path, live, exact = tmp_path / "run.lcc", {}, {}
    how = {"policy": POLICY} | how
    with codec.Checkpointer(path, **how) as checkpoints:
        for i, state in enumerate(changing_states()):
            saved = checkpoints.save(i, state)
            assert saved.kind == ("delta" if i else "base")
            if "budget" in how and i:
                assert saved.nbytes - saved.exact_nbytes <= how["budget"] * saved.lossy_nbytes
            tracker = tracker_of(checkpoints)
            assert tracker.track.sums == digest_sums(tracker.track.layout, tracker.state)
            live[i] = bits(tracker.track.restore())
            exact[i] = bits(exact_part(state, tracker))
    assert all_bits(path) == live
    for i, (_, parts) in exact.items():
        keys = [key for key, _ in parts]
        assert [pair for pair in live[i][1] if pair[0] in keys] == parts
    assert codec.verify(path).ok
    if len(how) == 1 or "scope" in how:
        for i, state in enumerate(changing_states()):
            save_all(tmp_path / "other", [state], i, resume=True, **how)
    else:
        save_all(tmp_path / "other", changing_states(), asynchronous=True, **how)
    assert records_in(tmp_path / "other") == records_in(path)


def test_new_tensors_are_exact_until_they_change(tmp_path: Path) -> None:
    """Lossy ones too, whatever they hold: they are stored whole, not by a difference from zero."""
    odd = np.float32([np.nan, np.inf, -0.0, 0, 3e38, 1e-42, *range(6)]).reshape(4, 3)
    w = np.linspace(1, 2, 100, dtype=np.float32)
    states: list[State] = [
        {"w": w},
        {"w": w, "new": odd},
        {"w": w, "new": np.concatenate((odd, odd))},
        {"w": w, "new": odd.reshape(3, 4)},
    ]
    with np.errstate(over="ignore"):
        states.append({"w": w, "new": odd.reshape(3, 4).astype(np.float16)})
        saved = save_all(tmp_path / "run.lcc", states, bits=1)
        assert [s.kind for s in saved] == ["base", *4 * ["delta"]]
        for i, state in enumerate(states):
            assert bits(codec.restore(tmp_path / "run.lcc", i)) == bits(state)
    delta = saved[1].delta
    assert delta is not None
    assert delta.transition is not None
    assert delta.transition.arrays["new"].tobytes() == odd.tobytes()


def test_a_vocabulary_that_grows_keeps_its_rows(tmp_path: Path) -> None:
    """The record has the new rows, and of the old ones the delta that any other step has."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2_000, 64)).astype(np.float32)
    step = 0.01 * rng.normal(size=rows.shape).astype(np.float32)
    new = rng.normal(size=(10, 64)).astype(np.float32)
    states = [rows, rows + step, np.concatenate((rows + 2 * step, new))]
    states.append(states[-1] * np.float32(1.001))
    saved = save_all(tmp_path / "run.lcc", [{"rows": r} for r in states], bits=3)
    assert [s.kind for s in saved] == ["base", *3 * ["delta"]]
    assert saved[2].nbytes < saved[1].nbytes + new.nbytes + rows.nbytes // 50
    assert saved[2].nbytes < rows.nbytes // 8
    back = [codec.restore(tmp_path / "run.lcc", i)["rows"] for i in range(4)]
    assert back[2][2_000:].tobytes() == new.tobytes()
    off = [np.linalg.norm(b[:2_000] - s[:2_000]) for b, s in zip(back, states)]
    assert off[2] < np.linalg.norm(back[1] - states[2][:2_000]) / 2
    assert off[3] > 0


def test_what_stays_is_not_copied(tmp_path: Path) -> None:
    """A large tensor beside one that grows keeps its memory in the track."""
    arrays: list[np.ndarray] = []
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        for i in range(3):
            checkpoints.save(i, {"w": np.ones(1000, np.float32), "n": np.arange(i)})
            arrays.append(tracker_of(checkpoints).state["w"])
    assert all(array is arrays[0] for array in arrays)


def test_most_of_a_state_is_a_base(tmp_path: Path) -> None:
    """A transition of at most half of the state is a delta, of more a base."""
    w = np.ones(1000, np.float32)
    for n, kind in ((1000, "delta"), (1001, "base")):
        path = tmp_path / kind
        saved = save_all(path, [{"w": w}, {"w": w, "x": np.arange(n, dtype=np.int32)}])
        assert saved[1].kind == kind
        assert all_bits(path)[1] == bits({"w": w, "x": np.arange(n, dtype=np.int32)})


def test_a_delta_applies_to_arrays(tmp_path: Path) -> None:
    """`codec.apply` changes names and shapes, too; or writes into other arrays."""
    state: dict[str, np.ndarray] = {}
    with codec.Checkpointer(tmp_path / "run.lcc", policy=POLICY) as checkpoints:
        for i, mine in enumerate(changing_states()):
            saved = checkpoints.save(i, mine)
            track = copy_arrays(tracker_of(checkpoints).state)
            if saved.delta is None:
                state = track
                continue
            with pytest.raises(codec.errors.StateMismatchError):
                codec.apply(saved.delta, {})
            out = {name: np.zeros_like(a) for name, a in track.items()}
            codec.apply(saved.delta, copy_arrays(state), out)
            codec.apply(saved.delta, state)
            assert bits(out) == bits(state) == bits(track)


def test_a_second_moment_that_changes_its_kind(tmp_path: Path) -> None:
    """It is not finite for a while, then exact, then missing: the first one's measure follows."""
    rng, state, measures = np.random.default_rng(0), dict[str, np.ndarray](), list[Any]()
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        for step in range(9):
            first, second = rng.normal(size=60).astype(np.float32), 1 + rng.random(60, np.float32)
            second[5] = np.nan if step in (2, 3) else 1
            second = second.astype(np.float64) if step in (4, 5) else second
            moments = {"exp_avg": first} | ({} if step == 6 else {"exp_avg_sq": second})
            mine = {"big": np.ones(5000), "opt": {"state": {0: moments}}}
            delta = checkpoints.save(step, mine).delta
            track = tracker_of(checkpoints).track
            measures += [t.measure for t in track.layout.tensors if t.name.endswith("exp_avg")]
            if delta is not None:
                out = {name: np.zeros_like(a) for name, a in track.arrays.items()}
                codec.apply(delta, copy_arrays(state), out)
                codec.apply(delta, state)
                assert bits(out) == bits(state) == bits(track.arrays), step
            state = copy_arrays(track.arrays)
            assert step == 0 or delta is not None
    assert measures == ["roots"] * 4 + ["sizes"] * 3 + ["roots"] * 2
    assert codec.verify(tmp_path / "run.lcc").ok


@pytest.mark.parametrize(
    "failing",
    [(os, "fsync"), (records, "dump_delta"), (records, "preview_checked")],
    ids=["write", "encode", "check"],
)
def test_a_failed_save_leaves_the_layout(
    tmp_path: Path, expected: dict[str, bytes], failing: tuple[Any, str]
) -> None:
    """The track stays where it was, and the chain has the same bytes as without the failure."""
    full = OSError(28, "No space left on device")
    with codec.Checkpointer(tmp_path / "run.lcc", policy=POLICY) as checkpoints:
        for i, state in enumerate(changing_states()[:6]):
            if i:
                tracker = tracker_of(checkpoints)
                before = tracker.track.layout, bits(tracker.state), tracker.track.values
                with (
                    mock.patch.object(*failing, side_effect=full),
                    pytest.raises((codec.WriteError, OSError), match="No space"),
                ):
                    checkpoints.save(i, {**state, "other": np.arange(3)})
                assert checkpoints.tracker is tracker
                assert before == (tracker.track.layout, bits(tracker.state), tracker.track.values)
                assert codec.Chain(tmp_path / "run.lcc").steps[-1] == i - 1
            checkpoints.save(i, state)
    assert records_in(tmp_path / "run.lcc").items() <= expected.items()


NAMES = ["a", "b", "c", "d/e", "é~"]
SHAPES = [(), (0,), (3,), (5,), (9,), (12,), (4, 3), (5, 3), (6, 3), (0, 3), (3, 4)]
DTYPES = ["float32", "float16", "float64", "int64", "bool", "complex128", "torch.bfloat16"]


def random_state(seed: int, before: State) -> State:
    """The state before with a few changes."""
    rng = random.Random(seed)
    state = {} if rng.random() < 0.1 else dict(before)
    for _ in range(rng.randrange(3)):
        state.pop(rng.choice(NAMES), None)
    for _ in range(rng.randrange(1, 4)):
        name, shape, dtype = rng.choice(NAMES), rng.choice(SHAPES), rng.choice(DTYPES)
        number = np.random.default_rng(seed).integers(-9, 9, shape)
        array: Any = number.astype(dtype) if "." not in dtype else torch.tensor(number).bfloat16()
        old = state.get(name)
        if isinstance(old, np.ndarray) and old.ndim and rng.random() < 0.5:
            array = np.concatenate((old, old[:1]))[: rng.randrange(1, 15)]
        elif rng.random() < 0.3:
            array = {"x": [array, rng.randrange(3)], str(rng.randrange(2)): rng.choice("xyz")}
        state[name] = array
    if rng.random() < 0.2:
        state = dict(reversed(state.items()))
    return state


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.sampled_from(["model", "tensor"]), st.booleans())
def test_any_sequence_of_layouts(
    tmp_path_factory: pytest.TempPathFactory, seed: int, scope: str, exact: bool
) -> None:
    """With all changes kept, small integers restore exactly whatever is lossy."""
    path, state, states = tmp_path_factory.mktemp("any") / "run.lcc", {}, []
    for i in range(6):
        state = random_state(seed + i, state)
        states.append(state | {"big": np.ones(300, np.int64)})
    policy = {"*": "exact" if exact else "lossy"}
    with codec.Checkpointer(path, bits=8, scope=scope, policy=policy) as checkpoints:
        for i, mine in enumerate(states):
            saved = checkpoints.save(i, mine)
            assert saved.kind == ("delta" if i else "base")
            tracker = tracker_of(checkpoints)
            assert tracker.track.sums == digest_sums(tracker.track.layout, tracker.state)
    assert codec.verify(path).ok
    if exact:
        assert all_bits(path) == {i: bits(mine) for i, mine in enumerate(states)}


def test_reading_parses_no_structure_of_other_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain of one layout costs what it did: no transition, no layout's text."""
    path = tmp_path / "run.lcc"
    save_all(path, ({"w": np.full(9, i, np.float32)} for i in range(3)), bits=2)
    monkeypatch.setattr(layouts, "_text_of", None)
    monkeypatch.setattr(tracks.Transition, "arrays_after", None)
    assert codec.restore(path)["w"].tolist() == 9 * [2]


@pytest.mark.parametrize("grows", [True, False])
def test_small_tensors_behind_one_that_comes_or_goes(grows: bool, tmp_path: Path) -> None:
    """They share an array, in which each has its number in the new layout."""
    path = tmp_path / "run.lcc"

    def state(step: int) -> dict[str, Any]:
        model = {"w": np.full(500, 1.0 * step, np.float32)}
        if (step >= 2) == grows:
            model["extra"] = np.full(300, 3.0, np.float32)
        return {"model": model, "opt": {"s1": np.full(1, step), "s2": np.full(1, -step)}}

    save_all(path, map(state, range(4)))
    assert kinds_in(path) == "bddd"
    for step in range(4):
        restored = codec.restore(path, step)
        assert restored["opt"]["s1"] == step
        assert restored["opt"]["s2"] == -step
        assert restored["model"].keys() == state(step)["model"].keys()
