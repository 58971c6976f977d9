"""From deltas to layers: every step of every layer, bit by bit, and when a layer ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import codec
from codec.errors import StreamError
from codec.record import layers as merging
from codec.record import merged
from codec.record.exact import ExactPart
from codec.record.merged import Layer, Merged, MergedStep
from codec.record.record import Place, load
from codec.record.track import Track
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta, Group
from codec.scheme.quantize import Quantized
from codec.scheme.stream import MAX_LEVELS, encode
from codec.state.tensors import Layout, layout_of

Arrays = dict[str, np.ndarray]
Codes = Sequence[np.ndarray]


def bits_of(array: np.ndarray) -> list[int]:
    return np.asarray(array, np.float32).reshape(-1).view(np.uint32).tolist()


def quantized(codes: np.ndarray, levels: Sequence[float], coder: str) -> codec.Encoded:
    """These codes with these levels, less those that do not occur."""
    used, codes = np.unique(np.concatenate(([0], codes)), return_inverse=True)
    its = np.array([0.0, *levels], np.float32)[used]
    narrow = codes[1:].astype(np.uint8 if its.size <= 256 else np.uint16)
    return encode(Quantized(narrow, its, narrow.shape, None, None), coder)


def delta(layout: Layout, encoded: codec.Encoded, scope: str = "model") -> Delta:
    tensors = tuple(t for t in layout.tensors if t.lossy)
    return Delta((Group(tensors, encoded),), {}, (), Coding(None, scope, encoded.coder))


def layers(layout: Layout, deltas: Sequence[Delta]) -> tuple[Layer, ...]:
    steps = [MergedStep(i, "0" * 32, ExactPart.of(delta)) for i, delta in enumerate(deltas)]
    return merging.layers_of(list(zip(steps, deltas)))


def columns(got: Sequence[Layer]) -> list[int]:
    return [len(layer.steps) for layer in got]


def replayed(layout: Layout, state: Arrays, deltas: Sequence[Delta]) -> list[Track]:
    """The track after each of these steps."""
    track = Track.of(layout, {name: array.copy() for name, array in state.items()})
    got = []
    for step in deltas:
        track.apply(replace(step, values={}))
        got.append(track.copy())
    return got


def check_same(track: Track, other: Track) -> None:
    for name, array in track.arrays.items():
        assert array.tobytes() == other.arrays[name].tobytes()
    assert track.sums == other.sums


def check(state: Arrays, deltas: Sequence[Delta]) -> tuple[Layer, ...]:
    """Layers of these deltas lead to the same tracks, through a record's bytes and not; by parts
    and step by step."""
    layout = layout_of(state)
    expected = replayed(layout, state, deltas)
    steps = [
        MergedStep(i, track.digest, ExactPart.of(step))
        for i, (step, track) in enumerate(zip(deltas, expected))
    ]
    got = merging.layers_of(list(zip(steps, deltas)))
    assert sum(columns(got)) == len(deltas)
    whole = Merged(got, deltas[-1].coding, {})
    data = merged.dump(Place(len(deltas) - 1, "0" * 16, "0" * 32, "1" * 32), whole)
    for content in (whole, merged.merged_of(load(data, "r"), layout)):
        assert [s.number for s in content.steps] == list(range(len(deltas)))
        each = [step for _, step in content.single_steps()]
        for track, other in zip(expected, replayed(layout, state, each), strict=True):
            check_same(track, other)
        for i, track in enumerate(expected):
            parts = content.parts(i)
            assert len(parts) <= len(got)
            assert parts[-1][0].number == i
            check_same(track, replayed(layout, state, [step for _, step in parts])[-1])
        ends = [layer.steps[-1].number for layer in got]
        assert [s.number for s, _ in content.parts()] == ends
    return got


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool)
ZEROS = st.sampled_from([0.0, -0.0, 1e-45, -1e-45, 1e-39, 3.4e38, 1.0])


@given(
    st.lists(st.lists(FLOATS, min_size=1, max_size=4), min_size=1, max_size=6),
    st.lists(st.one_of(ZEROS, FLOATS), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.03, 0.5, 1.0]),
    st.booleans(),
    st.sampled_from(["runlength", "huffman"]),
    st.integers(0, 10**6),
)
@example([[1.0]] * 5, [-0.0], 1.0, True, "runlength", 0)
@example([[1e-45], [-1e-45], [1e-45]], [-0.0, 0.0], 0.5, True, "huffman", 0)
def test_every_step_of_any_deltas(
    levels: list[list[float]], values: list[float], jumps: float, alike: bool, coder: str, seed: int
) -> None:
    """Any finite levels on any track, -0.0 and subnormals and what overflows; deltas that change
    the same elements or not, all of them or none."""
    rng = np.random.default_rng(seed)
    n = 400
    state = {"w": np.resize(np.array(values, np.float32), n)}
    layout = layout_of(state)
    where = rng.random(n) < jumps
    deltas = []
    for its in levels:
        jump = where if alike else rng.random(n) < jumps
        codes = np.where(jump, rng.integers(1, len(its) + 1, n), 0)
        deltas.append(delta(layout, quantized(codes, its, coder)))
    check(state, deltas)


def same_elements(n: int, m: int, levels: Sequence[float], coder: str = "runlength") -> list[Delta]:
    """m deltas, each of which changes the same elements of n by one of these levels."""
    codes = np.where(np.arange(n) % 11 == 3, np.arange(n) // 11 % len(levels) + 1, 0)
    layout = layout_of({"w": np.zeros(n, np.float32)})
    return [delta(layout, quantized(codes, levels, coder)) for _ in range(m)]


def test_deltas_join() -> None:
    """One code stands for the levels of all; its bytes are those of one delta and some levels."""
    deltas = same_elements(4000, 7, [0.5, -0.25], "huffman")
    (layer,) = check({"w": np.linspace(-1, 1, 4000, dtype=np.float32)}, deltas)
    (group,) = layer.groups
    assert group.encoded.levels.tolist() == [[0.0] * 7, [0.5] * 7, [-0.25] * 7]
    assert group.encoded.columns == 7
    one = deltas[0].groups[0].encoded
    assert group.encoded.nbytes == one.nbytes + 2 * 6 * 4


def test_levels_are_never_summed() -> None:
    """2^24 + 1 + 1 is 2^24 where one is added after the other, and 2^24 + 2 would be another."""
    state = {"w": np.full(4000, 2.0**24, np.float32)}
    check(state, deltas := same_elements(4000, 2, [1.0]))
    (layer,) = layers(layout_of(state), deltas)
    track = replayed(layout_of(state), state, [layer.delta(0, 2, deltas[0].coding)])[0]
    assert set(track.arrays["w"].tolist()) == {2.0**24}


def test_what_one_step_leaves_alone() -> None:
    """The 0.0 of a step that does not change an element is not added: -0.0 stays."""
    n = 4000
    state = {"w": np.full(n, -0.0, np.float32)}
    layout = layout_of(state)
    some = np.where(np.arange(n) % 20 == 0, 1, 0)
    codes = [some, np.where(np.arange(n) % 20 == 0, 1 + (np.arange(n) % 40 == 0), 0), some]
    deltas = [
        delta(layout, quantized(codes[0], [1e-45], "runlength")),
        delta(layout, quantized((codes[1] == 2) * 1, [2.0], "runlength")),
        delta(layout, quantized(codes[2], [-1e-45], "runlength")),
    ]
    (layer,) = check(state, deltas)
    assert layer.groups[0].encoded.levels[:, 1].tolist() == [0.0, 0.0, 2.0]
    early = replayed(layout, state, [layer.delta(1, 2, deltas[0].coding)])[0].arrays["w"]
    assert np.signbit(early).sum() == n - n // 40  # all but those that the second step changes


def test_all_elements_change_alike() -> None:
    """Alphabets without code words join into one without code words."""
    n = 4000
    deltas = []
    state = {"w": np.full(n, -0.0, np.float32)}
    layout = layout_of(state)
    for level in (0.1, -0.3, 1e-45):
        deltas.append(delta(layout, quantized(np.ones(n, np.int64), [level], "runlength")))
    (layer,) = check(state, deltas)
    (group,) = layer.groups
    assert (group.encoded.k, group.encoded.columns, group.encoded.table) == (2, 3, None)
    nothing = delta(layout, quantized(np.zeros(n, np.int64), [], "runlength"))
    check(state, [deltas[0], nothing, *deltas[1:]])
    (layer,) = check(state, [nothing] * 5)
    assert layer.groups[0].encoded.levels.tolist() == [[0.0] * 5]
    assert layer.groups[0].encoded.nbytes == 0


def test_zeros_where_all_elements_have_one_code() -> None:
    """No layer of ours has them, for they cost more than they save; a reader leaves alone what
    they stand for."""
    state = {"w": np.full(400, -0.0, np.float32)}
    layout = layout_of(state)
    encoded = quantized(np.ones(400, np.int64), [1.0], "runlength")
    for levels, expected in (([0.0, -0.0], -0.0), ([1e-45, 0.0, -1e-45], 0.0)):
        matrix = np.array([[0.0] * len(levels), levels], np.float32)
        step = delta(layout, replace(encoded, levels=matrix))
        track = replayed(layout, state, [step])[-1]
        assert bits_of(track.arrays["w"]) == bits_of(np.full(400, expected))


@pytest.mark.parametrize(("extra", "joined"), [(0, [2]), (1, [1, 1])])
def test_as_many_combinations_as_there_can_be_levels(extra: int, joined: list[int]) -> None:
    """510 of them and the one of zeros still share a layer; one more, and the layer ends."""
    most = MAX_LEVELS - 1
    n = 200 * most
    levels = np.arange(1, most + 1) / 8
    codes = np.arange(n) % most + 1
    second = codes.copy()
    if extra:
        codes[0] = 0  # and elsewhere still a 1: another combination
    else:
        second[0] = codes[0] = 0
    layout = layout_of({"w": np.zeros(n, np.float32)})
    deltas = [delta(layout, quantized(c, levels, "runlength")) for c in (codes, second)]
    got = check({"w": np.ones(n, np.float32)}, deltas)
    assert columns(got) == joined
    assert got[0].groups[0].encoded.k == MAX_LEVELS


def test_a_layer_ends_where_it_does_not_pay() -> None:
    """Deltas that change elements of their own cost less apart: together they have a level for
    every combination."""
    n = 20_000
    rng = np.random.default_rng(0)
    layout = layout_of({"w": np.zeros(n, np.float32)})
    levels = np.arange(1, 13) / 8
    deltas = []
    for _ in range(4):
        codes = np.where(rng.random(n) < 0.3, rng.integers(1, 13, n), 0)
        deltas.append(delta(layout, quantized(codes, levels, "runlength")))
    got = check({"w": np.zeros(n, np.float32)}, deltas)
    assert columns(got) == [1, 1, 1, 1]
    again = [layer.groups[0].encoded.cached for layer in got]
    assert any(again)  # the table of the layer before
    both = check({"w": np.zeros(n, np.float32)}, [deltas[0], deltas[0], deltas[1], deltas[1]])
    assert columns(both) == [2, 2]


def nbytes(got: Sequence[Layer], settings: Delta) -> int:
    """Of a record of these layers, header and all."""
    whole = Merged(tuple(got), settings.coding, {})
    return len(merged.dump(Place(99, "0" * 16, "0" * 32, "1" * 32), whole))


def test_layers_are_never_larger_than_their_deltas(jumping_states: Any, sparse_states: Any) -> None:
    """Not those that would be layers of their own either."""
    for states in (jumping_states(6), sparse_states(6)):
        for scope in ("model", "tensor"):
            tracker = codec.Tracker(states[0], scope=scope)
            deltas = [tracker.step(state) for state in states[1:]]
            got = check(states[0], deltas)
            apart = [layer for step in deltas for layer in layers(layout_of(states[0]), [step])]
            assert nbytes(got, deltas[0]) <= nbytes(apart, deltas[0])


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_what_a_layer_costs_counts(scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row for each of its alphabets, and what the record tells of it: exactly so much."""
    state = {name: np.zeros(90, np.float32) for name in "abc"}
    layout = layout_of(state)
    tensors = layout.tensors if scope == "tensor" else (layout.tensors,)
    deltas = []
    for at in (1, 2):  # few elements, which are others each time
        groups = []
        for i, its in enumerate(tensors):
            its = its if isinstance(its, tuple) else (its,)
            codes = np.zeros(sum(t.size for t in its), int)
            codes[at::91], codes[at + i + 5 :: 91] = 1, 2
            groups.append(Group(its, quantized(codes, [0.5, -1.0], "runlength")))
        deltas.append(Delta(tuple(groups), {}, (), Coding(None, scope)))
    (joint,) = (got := check(state, deltas))
    its = sum(g.encoded.nbytes for g in joint.groups)
    assert its > sum(g.encoded.nbytes for step in deltas for g in step.groups)
    monkeypatch.setattr(merging, "LAYER_NBYTES", -(10**6))
    apart = check(state, deltas)
    assert columns(apart) == [1, 1]
    assert nbytes(got, deltas[0]) < nbytes(apart, deltas[0])
    inside = sum(g.encoded.nbytes for layer in apart for g in layer.groups)
    stated = nbytes(apart, deltas[0]) - nbytes(got, deltas[0]) - (inside - its)
    rows = merging.ROW_NBYTES * len(joint.groups)
    padded = len(joint.groups)  # by the zeros after a table, one or two less in either
    assert abs(stated - rows - 12) <= 9 + padded  # and the header may be longer by its last 8


def test_one_alphabet_that_does_not_join_keeps_all_apart() -> None:
    """A layer has a column for each of its steps in every alphabet."""
    n = MAX_LEVELS * 4
    state = {"a": np.zeros(n, np.float32), "b": np.zeros(n, np.float32)}
    layout = layout_of(state)
    alike = quantized(np.arange(n) % 2, [1.0], "runlength")
    steps = []
    for k in (30, 31):
        many = quantized(np.arange(n) % k + 1, np.arange(1, k + 1), "runlength")
        groups = tuple(Group((t,), e) for t, e in zip(layout.tensors, (alike, many)))
        steps.append(Delta(groups, {}, (), Coding(None, "tensor")))
    assert columns(check(state, steps)) == [1, 1]
    assert columns(check(state, [steps[0]] * 2)) == [2]


def test_more_than_a_block_of_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one block ends and the next begins, nothing is lost: of several streams, and with
    small blocks the same layer."""
    n = merging.BLOCK + 70_000
    deltas = same_elements(n, 2, [0.5, -0.25])
    (layer,) = check({"w": np.zeros(n, np.float32)}, deltas)
    assert layer.groups[0].encoded.payload.streams.size > 2
    small = same_elements(5000, 2, [0.5, -0.25, 2.0])
    layout = layout_of({"w": np.zeros(5000, np.float32)})
    (one,) = layers(layout, small)
    monkeypatch.setattr(merging, "BLOCK", 7)
    (other,) = layers(layout, small)
    assert np.array_equal(one.groups[0].encoded.payload.data, other.groups[0].encoded.payload.data)
    assert np.array_equal(one.groups[0].encoded.levels, other.groups[0].encoded.levels)


def test_frequent_combinations_come_first() -> None:
    """So that the same deltas always give the same bytes."""
    n = 4000
    layout = layout_of({"w": np.zeros(n, np.float32)})
    first = np.where(np.arange(n) < 300, 1 + (np.arange(n) < 200), 0)
    second = np.where(np.arange(n) < 300, 1, 0)
    deltas = [
        delta(layout, quantized(first, [0.5, 4.0], "runlength")),
        delta(layout, quantized(second, [2.0], "runlength")),
    ]
    (layer,) = layers(layout, deltas)
    assert layer.groups[0].encoded.levels.tolist() == [[0, 0], [4, 2], [0.5, 2]]


def test_a_delta_that_does_not_decode() -> None:
    (good,) = same_elements(4000, 1, [0.5], "huffman")
    (group,) = good.groups
    payload = group.encoded.payload
    payload = replace(payload, streams=payload.streams - np.uint32(1))
    bad = replace(group.encoded, payload=payload)
    with pytest.raises(StreamError):
        layers(
            layout_of({"w": np.zeros(4000, np.float32)}),
            [good, replace(good, groups=(replace(group, encoded=bad),))],
        )
