"""The tracker: what it keeps is what a decoder rebuilds, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import codec
from codec.track import alphabets, check_same_layout

Arrays = dict[str, np.ndarray]
all_bits = st.sampled_from([None, 1, 2, 3, 4, 5, 6, 7, 8])
scopes = st.sampled_from(["model", "tensor"])


def same(a: Arrays, b: Arrays) -> bool:
    """Equal names, dtypes, shapes and bits."""
    return list(a) == list(b) and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and a[k].tobytes() == b[k].tobytes()
        for k in a
    )


def copied(state: Arrays) -> Arrays:
    return {k: a.copy() for k, a in state.items()}


@given(all_bits, scopes, st.integers(0, 1000))
def test_track_is_what_a_decoder_rebuilds(
    random_states: Callable[..., list[Arrays]], bits: int | None, scope: str, seed: int
) -> None:
    first, *others = random_states(4, seed)
    tracker = codec.Tracker(first, bits, scope)
    rebuilt = copied(tracker.state)
    for state in others:
        before = copied(tracker.state)
        step = tracker.step(state)
        for group in step.groups:  # by the definition, not by apply
            restored = codec.dequantize(codec.decode(group.encoded)).reshape(-1)
            at = 0
            for t in group.tensors:
                delta = restored[at : at + t.size].reshape(t.shape)
                expected = np.where(delta == 0, before[t.name], before[t.name] + delta)
                assert tracker.state[t.name].tobytes() == expected.tobytes()
                at += t.size
            assert at == restored.size
        codec.apply(step, rebuilt)
        assert same(rebuilt, tracker.state)
        assert len(step.groups) == (1 if scope == "model" else 3)
        kinds = {"w": "lossy", "h": "lossy", "b": "lossy"}
        kinds |= dict.fromkeys(("d", "tiny", "empty", "step", "mask", "ids", "z"), "exact")
        assert step.tensors == kinds
        for name, kind in kinds.items():
            if kind == "exact":
                assert tracker.state[name].tobytes() == state[name].tobytes()
        assert step.nbytes == sum(g.encoded.nbytes for g in step.groups) + sum(
            state[k].nbytes for k, kind in kinds.items() if kind == "exact"
        )


def test_delta_is_taken_to_the_track(paper: np.ndarray) -> None:
    """What one step drops, the next sees again: five dropped values arrive with the second."""
    tracker = codec.Tracker({"w": np.zeros(10, np.float32)}, bits=2)
    tracker.step({"w": paper})
    shown = [round(float(v), 2) for v in tracker.state["w"]]
    assert shown == [0.79, -0.48, 0, 0, 0, 0.44, 0, 0.44, 0.79, 0]
    step = tracker.step({"w": paper})
    assert step.groups[0].quantized.codes[[2, 3, 4, 6, 9]].any()
    for _ in range(40):
        tracker.step({"w": paper})
    np.testing.assert_allclose(tracker.state["w"], paper, rtol=1e-5)


def test_prepare_leaves_the_track_alone(random_states: Callable[..., list[Arrays]]) -> None:
    first, second = random_states(2)
    tracker = codec.Tracker(first, 2)
    before = copied(tracker.state)
    tracker.prepare(second)
    assert same(before, tracker.state)


def test_the_track_is_a_copy() -> None:
    w = np.zeros(8, np.float32)
    n = np.array(1)
    tracker = codec.Tracker({"w": w, "n": n})
    step = tracker.step({"w": w, "n": n})
    w += 1
    n += 1
    assert tracker.state["w"].tolist() == [0] * 8
    assert tracker.state["n"] == step.exact["n"] == 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_non_finite_is_exact_and_heals(scope: str, value: float) -> None:
    good = np.linspace(0, 1, 16, dtype=np.float32)
    bad = good.copy()
    bad[3] = value
    tracker = codec.Tracker({"a": good, "b": good}, bits=3, scope=scope)
    step = tracker.step({"a": bad, "b": good * 2})
    assert step.non_finite == ("a",)
    assert step.tensors == {"a": "exact", "b": "lossy"}
    assert tracker.state["a"].tobytes() == bad.tobytes()
    step = tracker.step({"a": good, "b": good * 2})  # the distance to the track is not finite yet
    assert step.non_finite == ("a",)
    assert tracker.state["a"].tobytes() == good.tobytes()
    step = tracker.step({"a": good + 1, "b": good * 2})
    assert step.non_finite == ()
    assert step.tensors["a"] == "lossy"


def test_distance_beyond_float32_is_exact() -> None:
    """Both ends are finite, their difference is not."""
    tracker = codec.Tracker({"w": np.full(8, -3e38, np.float32)})
    top = np.full(8, 3e38, np.float32)
    assert tracker.step({"w": top}).non_finite == ("w",)
    assert tracker.state["w"].tobytes() == top.tobytes()


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_all_tensors_non_finite(scope: str) -> None:
    tracker = codec.Tracker({"a": np.zeros(8, np.float32)}, scope=scope)
    step = tracker.step({"a": np.full(8, np.nan, np.float32)})
    assert (step.groups, step.non_finite) == ((), ("a",))


def test_minus_zero_is_kept() -> None:
    """Code 0 leaves an element alone; adding 0.0 would lose the sign."""
    state = np.full(9, -0.0, np.float32)
    tracker = codec.Tracker({"w": state}, bits=1)
    changed = state.copy()
    changed[0] = 1
    tracker.step({"w": changed})
    assert tracker.state["w"].tobytes() == changed.tobytes()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "tensor 'a' of the track is missing from the state"),
        ({"a": np.zeros(8, np.float32)}, "tensor 'b' of the track is missing"),
        (dict.fromkeys("cbad", np.zeros(8, np.float32)), "tensor 'c' is not part of the track"),
        (
            {"a": np.zeros(9, np.float32), "b": np.zeros(8, np.float32)},
            r"tensor 'a' is F32 \(9,\), but the track has F32 \(8,\)",
        ),
        (
            {"a": np.zeros(8, np.float32), "b": np.zeros(8)},
            r"tensor 'b' is F64 \(8,\), but the track has F32 \(8,\)",
        ),
        (dict.fromkeys("ba", np.zeros(8, np.float32)), "in another order or of another library"),
        (dict.fromkeys("ab", torch.zeros(8)), r"another library \(torch, the track is from numpy"),
    ],
)
def test_another_layout(state: dict[str, Any], message: str) -> None:
    tracker = codec.Tracker(dict.fromkeys("ab", np.zeros(8, np.float32)))
    with pytest.raises(codec.StateMismatchError, match=message):
        tracker.step(state)
    check_same_layout(tracker.layout, tracker.layout)


def test_apply_refuses_a_state_before_it_changes_it() -> None:
    first = {"a": np.zeros(8, np.float32), "n": np.array([1])}
    step = codec.Tracker(first).prepare({"a": np.ones(8, np.float32), "n": np.array([2])})
    locked = np.zeros(8, np.float32)
    locked.flags.writeable = False
    hostile: list[Any] = [
        {"a": np.zeros(8, np.float32)},
        {"n": np.array([1])},
        {"a": np.zeros(8, np.float32), "n": np.array([1, 1])},
        {"a": np.zeros(8, np.float32), "n": np.array([1.0])},
        {"a": np.zeros(9, np.float32), "n": np.array([1])},
        {"a": np.zeros(8), "n": np.array([1])},
        {"a": np.zeros(16, np.float32)[::2], "n": np.array([1])},
        {"a": locked, "n": np.array([1])},
    ]
    for state in hostile:
        before = copied(state)
        with pytest.raises(codec.StateMismatchError, match=r"missing from the state|; expected"):
            codec.apply(step, state)
        assert same(before, state)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bits": 0}, "bits must be"),
        ({"scope": "layer"}, "scope must be one of model, tensor; got 'layer'"),
        ({"scope": ["model"]}, "scope must be"),
        ({"coder": "zip"}, "coder must be one of huffman; got 'zip'"),
    ],
)
def test_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(codec.SettingsError, match=message):
        codec.Tracker({}, **settings)


def test_scopes_differ() -> None:
    """Whole-model buckets drop a tensor of small values; its own alphabet keeps it."""
    zero = {"big": np.zeros(8, np.float32), "small": np.zeros(8, np.float32)}
    moved = {
        "big": np.array([8, -8, 4, -4] * 2, np.float32),
        "small": np.full(8, 0.01, np.float32),
    }
    model, tensor = codec.Tracker(zero, 1, "model"), codec.Tracker(zero, 1, "tensor")
    model.step(moved)
    tensor.step(moved)
    assert not model.state["small"].any()
    assert tensor.state["small"].all()
    layout = model.layout
    assert [[t.name for t in a] for a in alphabets(layout, "model")] == [["big", "small"]]
    assert [[t.name for t in a] for a in alphabets(layout, "tensor", ["big"])] == [["small"]]
    assert list(alphabets(layout, "model", ["big", "small"])) == []


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_states_without_lossy_or_any_tensors(scope: str) -> None:
    exact = codec.Tracker({"n": np.array(1), "e": np.zeros(0, np.float32)}, scope=scope)
    step = exact.step({"n": np.array(2), "e": np.zeros(0, np.float32)})
    assert step.groups == ()
    assert exact.state["n"] == 2
    assert codec.Tracker({}, scope=scope).step({}).nbytes == 0


def test_half_precision_is_tracked_in_float32() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        tracker = codec.Tracker({"w": torch.zeros(64, dtype=dtype)}, bits=4)
        target = torch.linspace(-1, 1, 64, dtype=dtype)
        for _ in range(30):
            step = tracker.step({"w": target})
        assert step.tensors == {"w": "lossy"}
        assert tracker.state["w"].dtype == np.float32
        assert torch.equal(torch.from_numpy(tracker.state["w"]).to(dtype), target)


def test_fp8_is_exact() -> None:
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        old, new = (torch.linspace(-s, s, 64).to(dtype) for s in (1, 2))
        tracker = codec.Tracker({"w": old})
        assert tracker.step({"w": new}).tensors == {"w": "exact"}
        assert tracker.state["w"].tobytes() == new.view(torch.uint8).numpy().tobytes()


def test_bits_of_numpy_are_python_integers() -> None:
    """A record holds them as JSON, which knows no np.int64."""
    tracker = codec.Tracker({}, np.int64(3))  # type: ignore[arg-type]
    assert type(tracker.bits) is int
    assert type(tracker.step({}).bits) is int
