"""The rows of batches in a record: what is malformed gets a named error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.errors import PayloadError
from codec.record import alphabets
from codec.record.alphabets import OF_BATCH, coded, groups_of, heads_of
from codec.record.track import Track
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta, Group, apply
from codec.scheme.payload import ROW_NBYTES, Row
from codec.scheme.pieces import Pieces
from codec.scheme.tracker import Tracker
from codec.state.family import Family
from codec.state.tensors import Arrays, Layout, TensorSpec, copy_arrays

F32 = np.float32
CODING = Coding(2)


def layout(n: int, family: str = "bits=3 m") -> Layout:
    return Layout(
        tuple(
            TensorSpec(f"o/{i}/m", "F32", (30,), True, "numpy", Family.of(family)) for i in range(n)
        )
    )


def encoded(n: int = 5) -> tuple[np.ndarray, Delta, Arrays]:
    """Bytes of a batch of n tensors, which have 1, 2, 3 … levels, and the track before it."""
    rng = np.random.default_rng(0)
    zeros = {f"o/{i}/m": np.zeros(30, F32) for i in range(n)}
    state = {
        name: np.ldexp(rng.random(30) + 1, rng.integers(0, i + 1, 30)).astype(F32)
        for i, name in enumerate(zeros)
    }
    tracker = Tracker.resume(Track.of(layout(n), copy_arrays(zeros)), CODING)
    delta = tracker.prepare_arrays(state)
    (parts,) = coded(delta.groups).values()
    return np.concatenate(parts), delta, zeros


def read(data: np.ndarray, n: int = 5, family: str = "bits=3 m") -> list[Group]:
    pieces = Pieces(data, "bytes")
    heads = list(heads_of(pieces, CODING, layout(n, family), (), {}))
    got = list(groups_of(heads, pieces))
    pieces.finish()
    return got


def numbers_at(data: np.ndarray) -> int:
    """Where the numbers of levels begin: behind the row, its table and the one stream's bits."""
    return ROW_NBYTES + Row.take(Pieces(data, "bytes")).size + 4


def test_as_it_was_written() -> None:
    words, delta, zeros = encoded()
    (group,) = read(words)
    assert group.encoded.levels.tobytes() == delta.groups[0].encoded.levels.tobytes()
    assert Row.take(Pieces(words, "bytes")).levels == OF_BATCH + group.encoded.k
    at = numbers_at(words)
    numbers = words[at : at + 5]
    assert numbers.tolist() == sorted(numbers.tolist())
    assert numbers[0] == 1
    assert numbers[-1] == group.encoded.k - 1
    state, expected = copy_arrays(zeros), copy_arrays(zeros)
    apply(Delta((group,), {}, (), CODING), state)
    apply(delta, expected)
    assert all(state[name].tobytes() == expected[name].tobytes() for name in zeros)


def changed(words: np.ndarray, place: int, value: int) -> np.ndarray:
    words = words.copy()
    words[place] = value
    return words


def test_what_is_malformed() -> None:
    words, delta, _ = encoded()
    k, at = delta.groups[0].encoded.k, numbers_at(words)
    cases = {
        f"up to {k}": changed(words, at + 4, k),
        f"up to {k - 2}": changed(words, at + 4, k - 2),
        "more bytes": words[: at + 20],
    }
    for message, bad in cases.items():
        with pytest.raises(PayloadError, match=message):
            read(bad)
    for bad in (changed(words, at, 2), changed(words, at, 0)):  # a level more or less is left
        with pytest.raises(PayloadError):
            read(bad)
    infinite = words.copy()
    infinite[at + 5 : at + 9] = np.frombuffer(np.array(np.inf, F32).tobytes(), np.uint8)
    with pytest.raises(PayloadError, match="finite"):
        read(infinite)


@pytest.mark.parametrize("family", ["", "m", "bits=3"])
def test_only_tensors_with_levels_of_their_own_are_batches(family: str) -> None:
    words, _, _ = encoded()
    with pytest.raises(PayloadError, match="levels, at most"):
        read(words, family=family)


def test_a_single_tensor_is_no_batch() -> None:
    words, _, _ = encoded()
    with pytest.raises(PayloadError, match="levels, at most"):
        read(words, n=1)


def test_too_many_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    words, delta, _ = encoded()
    monkeypatch.setattr(alphabets, "MAX_BATCH_LEVELS", delta.groups[0].encoded.k * 5 - 1)
    with pytest.raises(PayloadError, match="levels of a batch, too many"):
        read(words)


def test_a_code_beyond_the_levels_of_its_tensor() -> None:
    """Its level is 0.0, which also turns -0.0 into 0.0."""
    words, delta, zeros = encoded()
    (group,) = read(words)
    levels = group.encoded.levels.copy()
    levels[1:, 4] = 0
    fewer = Group(group.tensors, replace(group.encoded, levels=levels))
    state, expected = ({n: np.full(30, -0.0, F32) for n in zeros} for _ in range(2))
    apply(Delta((fewer,), {}, (), CODING), state)
    apply(delta, expected)
    last = group.tensors[4].name
    for name in zeros:
        whole = np.zeros(30, F32) if name == last else expected[name]
        assert state[name].tobytes() == whole.tobytes()


@settings(max_examples=80)
@given(st.data())
def test_any_changed_bytes(data: st.DataObject) -> None:
    """A named error, or levels and codes within their bounds."""
    words, _, zeros = encoded()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, words.nbytes - 1))
        words = changed(words, place, data.draw(st.integers(0, 255)))
    try:
        groups = read(words)
        apply(Delta(tuple(groups), {}, (), CODING), copy_arrays(zeros))
    except PayloadError:
        pass
