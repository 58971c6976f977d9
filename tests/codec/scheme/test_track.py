"""The tracker: what it keeps is what a decoder rebuilds, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import codec
from codec.errors import StateMismatchError
from codec.scheme import huffman
from codec.scheme.kernels import codes, decode
from codec.scheme.tracker import check_same_layout
from tests.bits import same
from tests.codec.scheme.made import Arrays, Ways, copied, same_deltas

# Against the scheme written out in numpy: the whole delta, every bucket, then promotion.


class Slow:
    """One alphabet of a step: levels, codes of all its elements, and how often each occurs."""

    def __init__(self, deltas: list[np.ndarray], bits: int | None) -> None:
        delta = np.concatenate([d.reshape(-1) for d in deltas])
        words = delta.view(np.uint32)
        bins = (words >> 23).astype(int)
        magnitude = np.abs(delta).astype(np.float64)
        rows = []
        for b in np.unique(bins[delta != 0]).tolist():
            members = magnitude[(bins == b) & (delta != 0)]
            middle = (members.min() + members.max()) / 2
            rows.append((-(b & 255), -middle, b >> 8, b, members.size))
        chosen = sorted(rows)[: None if bits is None else 2**bits - 1]
        self.levels = np.array(
            [0.0] + [m if sign else -m for _, m, sign, _, _ in chosen], np.float32
        )
        level_of = np.zeros(512, int)
        level_of[[row[3] for row in chosen]] = np.arange(1, len(chosen) + 1)
        self.codes = np.where(delta != 0, level_of[bins], 0)
        self.counts = [row[4] for row in chosen]


def slow_step(
    track: Arrays, state: Arrays, bits: int | None, scope: str
) -> tuple[Arrays, list[Slow], tuple[str, ...]]:
    """The next track, its alphabets, and the names of what is not finite."""
    lossy = [k for k, a in state.items() if a.dtype == np.float32 and a.size >= 8]
    with np.errstate(all="ignore"):
        deltas = {k: state[k] - track[k] for k in lossy}
        furthest = {k: np.abs(state[k]) + np.abs(deltas[k]) for k in lossy}
    moves = {k: np.abs(deltas[k]) >= 2.0**103 for k in lossy}  # below, no level leads too far
    bad = tuple(
        k for k in lossy if not np.isfinite(np.where(moves[k], furthest[k], deltas[k])).all()
    )
    good = [k for k in lossy if k not in bad]
    new = {k: state[k] if k not in good else track[k] for k in state}
    alphabets = []
    for names in [[k] for k in good] if scope == "tensor" else [good] if good else []:
        slow = Slow([deltas[k] for k in names], bits)
        at = 0
        for k in names:
            codes = slow.codes[at : at + track[k].size].reshape(track[k].shape)
            with np.errstate(over="ignore"):
                new[k] = np.where(codes > 0, track[k] + slow.levels[codes], track[k])
            at += track[k].size
        alphabets.append(slow)
    return new, alphabets, bad


def check_step(step: codec.Delta, slow: list[Slow], bad: tuple[str, ...]) -> None:
    assert step.non_finite == bad
    assert len(step.groups) == len(slow)
    for group, expected in zip(step.groups, slow):
        q = codec.decode(group.encoded)
        assert q.levels.tobytes() == expected.levels.tobytes()
        assert q.codes.reshape(-1).tolist() == expected.codes.tolist()
        assert group.n == expected.codes.size


def follow(
    states: list[Arrays], bits: int | None, scope: str, coder: str
) -> tuple[list[codec.Delta], Arrays]:
    """All ways through these states, beside the slow one."""
    ways = Ways(states[0], bits=bits, scope=scope, coder=coder)
    track, steps = copied(ways.stepping.state), []
    for state in states[1:]:
        steps.append(ways.step(state))
        track, slow, bad = slow_step(track, state, bits, scope)
        check_step(steps[-1], slow, bad)
        assert same(ways.stepping.state, track)
        for group, expected in zip(steps[-1].groups, slow):
            if coder == "huffman" and group.encoded.table and not group.encoded.cached:
                counts = np.bincount(expected.codes, minlength=expected.levels.size)
                best = huffman.code_lengths(counts)
                assert group.encoded.payload_bits == huffman.n_bits(counts, best)
    return steps, track


SIZES = [8, 9, 63, 64, 65, 3, 255, 257, 1000, 11, 2**16 - 1000, 8, 2**16 + 1, 12, 2000]


def walk(kind: str, n_steps: int = 4, sizes: list[int] = SIZES) -> list[Arrays]:
    """States of many tensors, whose borders lie between those of blocks and units."""
    rng = np.random.default_rng(len(kind))
    state: Arrays = {f"t{i}": rng.normal(size=n).astype(np.float32) for i, n in enumerate(sizes)}
    state["n"] = np.array(0)
    states = [state]
    for i in range(n_steps):
        new: Arrays = {"n": np.array(i)}
        for name, old in list(states[-1].items()):
            if name == "n":
                continue
            delta = rng.normal(size=old.shape) * 0.01
            if kind == "sparse":
                delta *= rng.random(old.shape) < 10.0 ** -(i + 1)
            elif kind == "still":  # many tensors do not move at all
                delta *= rng.random() < 0.3
            elif kind == "wide":
                delta = np.ldexp(delta, rng.integers(-160, 120, old.shape))
            elif kind == "zeros":
                old = np.where(rng.random(old.shape) < 0.5, -0.0, 0.0)
                delta *= rng.random(old.shape) < 0.1
            new[name] = (old + delta).astype(np.float32)
            if kind == "zeros":
                new[name][rng.random(old.shape) < 0.3] = -0.0
            elif kind == "subnormal":
                words = rng.integers(0, 1 << 24, old.shape) | rng.integers(0, 2, old.shape) << 31
                new[name] = words.astype(np.uint32).view(np.float32)
        states.append({k: new[k] for k in state})
    return states


@pytest.mark.parametrize(
    ("bits", "scope", "coder"),
    [
        *((bits, "model", "runlength") for bits in (2, 8)),
        *((bits, "tensor", "runlength") for bits in (1, None)),
        (None, "model", "huffman"),
        (3, "tensor", "huffman"),
    ],
)
def test_every_setting_against_slow_steps(bits: int | None, scope: str, coder: str) -> None:
    follow(walk("normal", 2), bits, scope, coder)


@pytest.mark.parametrize(
    ("kind", "bits", "scope"),
    [
        ("sparse", 8, "model"),
        ("still", 2, "tensor"),
        ("wide", None, "model"),
        ("zeros", 2, "tensor"),
        ("subnormal", None, "model"),
    ],
)
def test_every_kind_of_walk_against_slow_steps(kind: str, bits: int | None, scope: str) -> None:
    steps, _ = follow(walk(kind), bits, scope, "runlength")
    if kind == "wide":
        assert steps[0].groups[0].encoded.levels.size > 257
    if kind == "still":  # alphabets of one symbol among the others
        assert {g.encoded.table is None for step in steps for g in step.groups} == {True, False}


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_nothing_or_everything_moves(scope: str) -> None:
    """Alphabets of one symbol need no bits; the track of one that stays keeps every bit."""
    first = {"a": np.full(9, -0.0, np.float32), "b": np.linspace(-1, 1, 70_000, dtype=np.float32)}
    second = {"a": np.zeros(9, np.float32), "b": first["b"].copy()}  # equal, but for signs of 0
    third = {k: a + np.float32(0.5) for k, a in second.items()}
    third["b"] = second["b"] + np.linspace(0.25, 0.49, 70_000, dtype=np.float32)
    steps, _ = follow([first, second, third, third], 2, scope, "runlength")
    assert all(g.encoded.table is None for g in steps[0].groups)
    if scope == "tensor":
        assert [g.encoded.table for g in steps[1].groups] == [None, None]


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_non_finite_ones_among_others_against_slow_steps(scope: str) -> None:
    states = walk("normal")
    states[1]["t7"][3] = np.nan
    states[2]["t10"][-1] = np.inf
    states[2]["t0"][0] = -np.inf
    states[2]["t12"][5] = 3e38
    states[3]["t12"][5] = -3e38  # finite, but the difference is not
    states[4]["t13"][:] = np.nan
    steps, _ = follow(states, 3, scope, "runlength")
    assert (steps[0].tensors["t7"], steps[0].tensors["t8"]) == ("exact", "lossy")
    assert [step.non_finite for step in steps] == [
        ("t7",),
        ("t0", "t7", "t10", "t12"),  # t12 is so large that a level could lead beyond float32
        ("t0", "t10", "t12"),
        ("t13",),
    ]


def test_what_could_overflow_is_stored_whole() -> None:
    """A representative would carry every element beyond float32's range."""
    u = np.full(9, 3.4e38, np.float32)
    first = (u.astype(np.float64) - np.linspace(1.07e37, 2.0e37, 9)).astype(np.float32)
    steps, track = follow([{"w": first}, {"w": u}, {"w": u}], 2, "model", "runlength")
    assert steps[0].non_finite == ("w",)
    assert steps[1].groups[0].encoded.levels.size == 1
    assert track["w"].tobytes() == u.tobytes()


def test_arrays_of_any_layout_and_dtype() -> None:
    """What is saved need not be contiguous, native or float32; nor be writable."""
    rng = np.random.default_rng(0)
    native, states = [], []
    for _ in range(3):
        plain = {k: rng.normal(size=(30, 40)).astype(np.float32) for k in "abcdef"}
        plain["f"] = plain["f"].astype(np.float16).astype(np.float32)
        locked = plain["e"].copy()
        locked.flags.writeable = False
        odd = np.frombuffer(b"x" + plain["d"].tobytes(), np.float32, offset=1)
        wide = np.repeat(plain["c"], 2, axis=1)
        others: dict[str, Any] = {"a": np.asfortranarray(plain["a"]), "b": plain["b"].astype(">f4")}
        others |= {"c": wide[:, ::2], "d": odd.reshape(30, 40), "e": locked}
        native.append(plain)
        states.append(others | {"f": plain["f"].astype(np.float16)})
    for scope in ("model", "tensor"):
        odd, plain_ = (codec.Tracker(one[0], 3, scope) for one in (states, native))
        for state, other in zip(states[1:], native[1:]):
            same_deltas(odd.step(state), plain_.step(other))
        assert same(odd.state, plain_.state)
        follow(native, 3, scope, "huffman")


def test_delta_is_taken_to_the_track(paper: np.ndarray) -> None:
    """What one step drops, the next sees again: five dropped values arrive with the second."""
    tracker = codec.Tracker({"w": np.zeros(10, np.float32)}, bits=2)
    tracker.step({"w": paper})
    printed = [round(float(v), 2) for v in tracker.state["w"]]
    assert printed == [0.79, -0.48, 0, 0, 0, 0.44, 0, 0.44, 0.79, 0]
    step = tracker.step({"w": paper})
    assert codec.decode(step.groups[0].encoded).codes[[2, 3, 4, 6, 9]].any()
    for _ in range(40):
        tracker.step({"w": paper})
    np.testing.assert_allclose(tracker.state["w"], paper, rtol=1e-5)


def test_the_track_is_a_copy() -> None:
    w = np.zeros(8, np.float32)
    n = np.array(1)
    tracker = codec.Tracker({"w": w, "n": n})
    assert tracker.step({"w": w, "n": n}).exact == {}  # nothing has changed
    n += 1
    step = tracker.step({"w": w, "n": n})
    w += 1
    n += 1
    assert tracker.state["w"].tolist() == [0] * 8
    assert tracker.state["n"] == step.exact["n"] == 2


EIGHT = np.zeros(8, np.float32)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "not laid out like the track: tensor 'a' disappeared"),
        ({"a": EIGHT}, "tensor 'b' disappeared"),
        (dict.fromkeys("cbad", EIGHT), "tensor 'c' appeared"),
        (
            {"a": np.zeros(9, np.float32), "b": EIGHT},
            r"tensor 'a' is F32 \[9\] of numpy, lossy and was F32 \[8\] of numpy, lossy",
        ),
        ({"a": EIGHT, "b": np.zeros(8)}, r"tensor 'b' is F64 \[8\] of numpy, exact and was F32"),
        (dict.fromkeys("ba", EIGHT), "another order or type"),
    ],
)
def test_another_layout(state: dict[str, Any], message: str) -> None:
    tracker = codec.Tracker(dict.fromkeys("ab", EIGHT))
    with pytest.raises(StateMismatchError, match=message):
        tracker.step(state)
    check_same_layout(tracker.track.layout, tracker.track.layout)


def test_apply_refuses_arrays_before_it_changes_any() -> None:
    """Both sides are looked at before anything is written; the old track may be read-only."""
    first = {"a": EIGHT, "n": np.array([1])}
    second = {"a": np.arange(8, dtype=np.float32), "n": np.array([2])}
    step = codec.Tracker(first, None).prepare(second)
    locked = copied(first)
    for array in locked.values():
        array.flags.writeable = False
    bad: list[Any] = [{"a": EIGHT.copy()}, {"n": np.array([1])}]
    bad += [first | {"n": n} for n in (np.array([1, 1]), np.array([1.0]))]
    bad += [first | {"a": a} for a in (np.zeros(9, np.float32), np.zeros(8))]
    bad += [first | {"a": np.zeros(16, np.float32)[::2]}]
    good = {"a": np.full(8, 7, np.float32), "n": np.array([9])}
    pairs = [(state, None) for state in (*bad, locked)]
    pairs += [(state, good) for state in bad] + [(first, out) for out in (*bad, locked)]
    for state, out in pairs:
        before = copied(state), copied(out or {})
        with pytest.raises(StateMismatchError, match=r"missing from the state|; expected"):
            codec.apply(step, state, out)
        assert same(before[0], state)
        assert same(before[1], out or {})
    codec.apply(step, locked, good)
    assert same(good, second | {"a": codec.dequantize(codec.decode(step.groups[0].encoded))})
    assert same(locked, first)


@pytest.mark.parametrize("settings", [{}, {"budget": 0.01}])
@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_states_without_lossy_or_any_tensors(scope: str, settings: dict[str, float]) -> None:
    exact = codec.Tracker({"n": np.array(1), "e": np.zeros(0, np.float32)}, scope=scope, **settings)
    step = exact.step({"n": np.array(2), "e": np.zeros(0, np.float32)})
    assert (step.groups, step.nbytes, exact.state["n"]) == ((), 8, 2)
    assert codec.Tracker({}, scope=scope, **settings).step({}).nbytes == 0


def test_another_library() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(StateMismatchError, match=r"F32 \[8\] of torch, lossy and was F32 .* num"):
        codec.Tracker({"w": EIGHT}).step({"w": torch.zeros(8)})


@pytest.mark.usefixtures("kernels")
def test_an_interrupted_step_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The track may be half-way then, and what is saved next could be restored by nobody."""
    first, second = walk("normal", 1, [300, 9])
    for name in ("step", "commit"):
        tracker = codec.Tracker(first)
        prepared = tracker.prepare(second)
        with monkeypatch.context() as patch:
            patch.setattr(*((codes, "write") if name == "step" else (decode, "read")), interrupt)
            with pytest.raises(KeyboardInterrupt):
                tracker.step(second) if name == "step" else tracker.commit(prepared)
        for use in (tracker.step, tracker.prepare):
            with pytest.raises(StateMismatchError, match="interrupted"):
                use(second)
    tracker = codec.Tracker(first)
    with monkeypatch.context() as patch:
        patch.setattr(codes, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tracker.prepare(second)
    assert same(tracker.state, codec.Tracker(first).state)
    tracker.step(second)  # nothing had moved


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt
