"""Edits of a text: they lead where they should, and cost what changed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import codec
from codec.errors import PayloadError
from codec.state import edits

Patch = pytest.MonkeyPatch

MOST = 2**26
texts = st.text(st.sampled_from('0,1[]{}" .'), max_size=40)


def cost(old: Any, new: Any) -> int:
    """Characters of the change from one JSON value to the other, once it is known to be right."""
    before, after = (json.dumps(value, separators=(",", ":")) for value in (old, new))
    change = edits.change_of(before, after)
    assert edits.applied(before, change, MOST) == after
    return len(change)


@given(texts, texts)
def test_any_two_texts(old: str, new: str) -> None:
    if old != new:
        change = edits.change_of(old, new)
        assert edits.applied(old, change, MOST) == new
        assert len(change) <= max(len(new), 1)


def history(n: int) -> dict[str, Any]:
    """Lists that grow beside each other, of numbers, objects and pairs; the best so far; a list
    without variety; the newest 100."""
    rng = random.Random(0)
    x = [rng.random() for _ in range(n)]
    return {
        "loss": x,
        "single": [{"s": ["F32", f"{int(v * 1e6)}=="]} for v in x],
        "zero": [0.0] * n,
        "rows": [{"d": [["a", v], ["b", 1]]} for v in x],
        "best": max(x[:50]),
        "newest": x[-100:],
        "pairs": [{"p": [i, v]} for i, v in enumerate(x)],
        "last": x[-1],
    }


@pytest.mark.parametrize(("n", "more"), [(200, 5), (1000, 1)])
def test_lists_that_grow_cost_what_is_new(n: int, more: int) -> None:
    new = json.dumps(history(n + more), separators=(",", ":"))
    a_row = len(new) / (n + more)
    assert cost(history(n), history(n + more)) < 2 * more * a_row + 200


def test_something_new_in_the_middle_and_something_gone() -> None:
    old = [{"name": f"run {i}", "score": i * 0.37} for i in range(500)]
    assert cost(old, [*old[:100], {"name": "new", "score": 0.5}, *old[100:]]) < 80
    assert cost(old, old[:50] + old[60:]) < 80
    assert cost(old, [*old[:50], *old[60:300], {"x": 1}, *old[300:]]) < 80


def test_what_has_nothing_in_common_is_whole() -> None:
    assert edits.change_of('"abc"', "1.5") == "1.5"
    assert edits.change_of("1", "2") == "2"
    old, new = ([random.Random(seed).random() for _ in range(999)] for seed in (1, 2))
    assert not edits.is_edit(edits.change_of(json.dumps(old), json.dumps(new)))


def test_an_edit_has_a_limited_number_of_splices(monkeypatch: Patch) -> None:
    numbers = [1000 + i for i in range(800)]
    old, new = (json.dumps([-n if n % 20 == k else n for n in numbers]) for k in (-1, 10))
    assert edits.is_edit(edits.change_of(old, new))
    monkeypatch.setattr(edits, "MAX_SPLICES", 39)
    assert edits.change_of(old, new) == new
    edits.check_edit("=" + "0 1 0 " * 39)
    with pytest.raises(PayloadError):
        edits.check_edit("=" + "0 1 0 " * 40)


NO_EDITS = "=|= |=0|=0 0|=0 0 1|=0 0 1 |=0 0 2 a|=00 0 1 a|=0 0 01 a|=-1 0 1 a|=+1 0 1 a|=٣ 0 1 a"
NO_EDITS += "|=1.0 0 1 a|=0 0 1 ab|=0 0 1 a=0 0 1 b|=0  0 1 a|=0 0 1 a |=1000000000 0 1 a"
NO_EDITS += "|=0 0 999999999 a|==0 0 1 a|=" + "9" * 5000 + " 0 1 a"


@pytest.mark.parametrize("edit", NO_EDITS.split("|"))
def test_what_is_no_edit(edit: str) -> None:
    with pytest.raises(PayloadError) as caught:
        edits.check_edit(edit)
    assert len(str(caught.value)) < 300
    with pytest.raises(PayloadError):
        edits.applied("a long enough text", edit, MOST)


@pytest.mark.parametrize(
    "edit", ["=5 0 1 a", "=4 1 0 ", "=0 5 0 ", "=3 0 1 a2 0 1 a", "=0 999999999 0 "]
)
def test_an_edit_of_a_longer_text(edit: str) -> None:
    edits.check_edit(edit)
    with pytest.raises(PayloadError, match="of a value of 4"):
        edits.applied("text", edit, MOST)


def test_a_text_that_becomes_too_long() -> None:
    assert edits.applied("text", "=4 0 3 abc", 7) == "textabc"
    with pytest.raises(PayloadError, match="8 characters"):
        edits.applied("text", "=4 0 4 abcd", 7)


def test_long_texts_are_not_compared_in_pieces(monkeypatch: Patch) -> None:
    old, new = ",".join(map(str, range(1000))), ",".join(map(str, range(0, 2000, 2)))
    pieces = edits.change_of(old, new)
    monkeypatch.setattr(edits, "MAX_COMPARED", 100)
    monkeypatch.setattr(edits, "_matches", lambda *_: 1 / 0)
    for change in (edits.change_of(old, new), pieces):
        assert edits.applied(old, change, 10**6) == new


def test_a_save_edits_its_texts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record's bytes are decoded, compared and committed with one new text."""
    n, path, applied = 1000, tmp_path / "run.lcc", list[str]()
    edit = edits.applied

    def noted(text: str, change: str, most: int) -> str:
        applied.append(change)
        return edit(text, change, most)

    monkeypatch.setattr(edits, "applied", noted)
    losses = np.random.default_rng(0).random(n).tolist()
    with codec.Checkpointer(path) as checkpoints:
        for step in range(4):
            losses.append(step / 8)
            applied.clear()
            saved = checkpoints.save(
                step, {"model": {"w": np.zeros(9, np.float32)}, "losses": losses}
            )
            assert saved.kind == ("delta" if step else "base")
            assert len(applied) == (step > 0)
            assert all(len(change) < 40 for change in applied)
    for step in range(4):
        assert codec.restore(path, step)["losses"] == losses[: n + 1 + step]
