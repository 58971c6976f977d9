"""Long lists: only what is new is converted, and the texts are those of a conversion of all."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import codec
from codec.saving.checkpointer import Front
from codec.state import edits, long_lists, tree
from codec.state.long_lists import LONG, PIECE
from codec.state.policy import Policy

Patch = pytest.MonkeyPatch
W = np.zeros(9, np.float32)


def floats(n: int, seed: int = 0) -> list[float]:
    return np.random.default_rng(seed).random(n).tolist()


@pytest.fixture
def converted(monkeypatch: Patch) -> list[Any]:
    """Every value of which JSON is made."""
    seen, value = list[Any](), tree._Flattener.value

    def noted(flattener: Any, got: Any, name: Any, depth: int) -> Any:
        seen.append(got)
        return value(flattener, got, name, depth)

    monkeypatch.setattr(tree._Flattener, "value", noted)
    return seen


def one(list_: Any) -> dict[str, Any]:
    return {"model": {"w": W}, "losses": list_}


def two(list_: Any) -> dict[str, Any]:
    return {"model": {"w": W}, "history": {"epoch": 3, "losses": list_, "best": [0.5]}}


@pytest.mark.parametrize(
    ("state_of", "kind", "element"),
    [(one, list, float), (two, tuple, np.float32), (two, list, np.float64), (one, tuple, str)],
)
def test_only_what_is_new_is_converted(
    state_of: Callable[[Any], Any], kind: type, element: Any, converted: list[Any]
) -> None:
    """Of a list that grows or changes in the middle; also after its tensors changed."""
    n, front = 50 * PIECE, Front(Policy())
    values = [element(x) for x in floats(n)]
    front.look_at(state_of(kind(values)))
    assert len(converted) >= n
    for step in range(6):
        converted.clear()
        values.append(element(0.5 + step))
        if step == 2:
            values[n // 2] = element(7)
        if step == 3:
            values.extend(map(element, floats(1000)))
        state = state_of(kind(values))
        if step == 4:
            state["model"]["other"] = W
        texts = front.look_at(state)[0].values
        assert len(converted) < 2 * PIECE + 10 + 1000 * (step == 3)
        assert texts == tree.flatten(state, lambda _: False).values
    converted.clear()
    front.look_at(state)
    assert len(converted) < 10


TRICKY = [0, 0.0, -0.0, 1, 1.0, True, False, None, "", "a", "é,", b"", b"1", math.nan, -math.inf]
TRICKY += [2**53, 2**53 + 1, -(2**80), np.float32(1), np.float64(1), np.int64(1), np.bool_(1)]
ODD = [torch.tensor(1.0), np.array(1.0), [], [1.0], {"a": 1.0}, (), bytearray(b"1"), [[0.5] * LONG]]


SOME = st.sampled_from(TRICKY)
# Whether the list is copied first; where it changes, how many elements go, and which ones come.
CHANGES = st.tuples(
    st.booleans(),
    st.integers(0, LONG + 60),
    st.integers(0, 9),
    st.lists(SOME, max_size=4) | st.lists(SOME | st.sampled_from(ODD), max_size=4),
)


@pytest.mark.parametrize("piece", [3, 128])
@given(
    list_=st.lists(SOME, min_size=LONG - 3, max_size=LONG + 40),
    changes=st.lists(CHANGES, max_size=6),
    wrap=st.integers(0, 5),
    policy=st.booleans(),
)
def test_the_texts_are_those_of_a_conversion_of_all(
    piece: int, list_: list[Any], changes: list[Any], wrap: int, policy: bool
) -> None:
    """Whatever happens to the list, and whatever is around it."""
    around: list[Callable[[Any], Any]] = [
        lambda x: x,
        lambda x: {"a": x, "b": 1, 3: tuple(x)},
        lambda x: [x, {"c": x}],
        lambda x: {"deep": OrderedDict(x=(x, None))},
        lambda x: {"wide": dict.fromkeys(range(tree.FEW), 0), "x": x},
        lambda x: {"tensor": W, "x": x},
    ]
    rules = Policy({"x/*/7": "skip?", "x/5": "skip?", "x/deep": "skip?"} if policy else None)
    front = Front(rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lists, "PIECE", piece)
        for copied, at, dropped, new in [(False, 0, 0, []), *changes]:
            list_ = list(list_) if copied else list_
            list_[at : at + dropped] = new
            state = {"w": W, "x": around[wrap](list_)}
            parts, _ = front.look_at(state)
            patch.setattr(tree, "LONG", 10**9)
            whole = tree.flatten(state, rules.is_skipped)
            patch.setattr(tree, "LONG", LONG)
            assert (parts.structure, parts.values) == (whole.structure, whole.values)
            assert list(parts.tensors) == list(whole.tensors)


def test_what_cannot_be_stored_is_refused_as_before() -> None:
    """And what is put in its place is converted."""
    front, values = Front(Policy()), floats(3 * PIECE)
    front.look_at(one(values))
    for wrong in (1 << 20_000, "\ud800"):
        values[200] = wrong  # type: ignore[call-overload]
        with pytest.raises(codec.errors.InputError, match="losses/200"):
            front.look_at(one(values))
    values[200] = 0.25
    texts = front.look_at(one(values))[0].values
    assert texts == tree.flatten(one(values), lambda _: False).values
    nested: Any = floats(PIECE)
    for _ in range(tree.MAX_DEPTH):
        nested = [nested]
    with pytest.raises(codec.errors.StateMismatchError, match="containers deep"):
        front.look_at(one(nested))


def test_what_is_skipped_is_not_converted(converted: list[Any]) -> None:
    front = Front(Policy({"log/losses": "skip"}))
    for _ in range(2):
        front.look_at({"w": W, "log": {"losses": [1 << 20_000] * LONG, "epoch": 3}})
    assert len(converted) < 10


def test_lists_that_are_gone_are_forgotten() -> None:
    front = Front(Policy())
    for name in ("a", "b", "b", "c", "c"):
        front.look_at({"w": W, name: floats(LONG)})
    assert list(front._lists) == [("l", "c")]


def test_a_save_edits_its_texts_once(tmp_path: Path, monkeypatch: Patch) -> None:
    """The record's bytes are decoded, compared and committed with one new text."""
    n, path, applied = 100 * PIECE, tmp_path / "run.lcc", list[str]()
    edit = edits.applied

    def noted(text: str, change: str, most: int) -> str:
        applied.append(change)
        return edit(text, change, most)

    monkeypatch.setattr(edits, "applied", noted)
    losses = floats(n)
    with codec.Checkpointer(path) as checkpoints:
        for step in range(4):
            losses.append(step / 8)
            applied.clear()
            saved = checkpoints.save(step, one(losses))
            assert saved.kind == ("delta" if step else "base")
            assert len(applied) == (step > 0)
            assert all(len(change) < 40 for change in applied)
    for step in range(4):
        assert codec.restore(path, step)["losses"] == losses[: n + 1 + step]
