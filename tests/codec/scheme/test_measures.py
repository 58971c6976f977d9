"""An optimizer's moments in steps of their measure."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import codec
from codec.errors import PayloadError, StreamError, TrackDigestError
from codec.record.alphabets import coded, groups_of, heads_of
from codec.record.track import Track
from codec.saving.checkpointer import Front
from codec.scheme import measures
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta, Group, apply
from codec.scheme.limits import CHANGE, LOOK, OCTAVE
from codec.scheme.measures import Scale
from codec.scheme.pieces import Pieces
from codec.scheme.survivors import Segments
from codec.scheme.track import digest_sums
from codec.scheme.tracker import Tracker
from codec.scheme.uniform import levels_of
from codec.state.family import Family
from codec.state.moments import second_of, with_measures
from codec.state.policy import Policy
from codec.state.tensors import Arrays, Layout, TensorSpec, copy_arrays, to_arrays

F32 = np.float32
FAMILY = {"m": "roots=0.5 exp_avg", "v": "octaves=0.25 exp_avg_sq", "b": "sizes=0.5 buffer"}
NAMES = {"m": "exp_avg", "v": "exp_avg_sq", "b": "buffer"}
LARGEST = 2.0**124  # rounded up, it is below `plain.LARGE`
VALUES = st.one_of(
    st.sampled_from([0.0, 1e-45, 1e-38, 1e-30, 1e-8, 1.0, 1e8, 1e30, LARGEST]),
    st.floats(0, LARGEST, width=32),
)
SIGNED = st.tuples(VALUES, st.sampled_from([-1, 1])).map(lambda pair: F32(pair[0]) * pair[1])


def quantized(scale: Scale, track: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, bool]:
    """The track after a step towards u, and whether the step can express the change."""
    segments, codes = Segments([track.copy()], [u]), np.empty(u.size, np.uint16)
    counts, lost = measures.measure(segments, scale, 16_383, codes)
    assert counts.tolist() == np.bincount(codes, minlength=counts.size).tolist()
    measures.move(segments, scale, codes, levels_of(scale.step, counts.size), CHANGE)
    return segments.arrays[0][0], bool(lost[0])


@settings(deadline=None)
@given(
    arrays(F32, 24, elements=VALUES),
    arrays(F32, 24, elements=VALUES),
    st.sampled_from([0.25, 1, 0.1]),
)
def test_a_second_moment_ends_within_half_a_step(
    track: np.ndarray, u: np.ndarray, step: float
) -> None:
    """In octaves: of any magnitude, 0 included, and never below it."""
    after, lost = quantized(Scale("octaves", F32(step)), track, u)
    assert not lost
    bits, wanted = after.view(np.int32).astype(int), u.view(np.int32).astype(int)
    assert bits.min() >= 0
    assert np.isfinite(after).all()
    # The steps of small numbers would lead below 0: these end within a whole step.
    most = np.where(wanted < step * 2**23, 1, 0.5) * step * 2**23
    assert (abs(bits - wanted) <= most + 1).all()


@settings(deadline=None)
@given(arrays(F32, 24, elements=SIGNED), arrays(F32, 24, elements=SIGNED), st.integers(-40, 60))
def test_other_moments_end_within_half_a_step(
    track: np.ndarray, u: np.ndarray, exponent: int
) -> None:
    """Unless steps cannot express the change; then the tensor is stored as it is."""
    unit = F32(2.0**exponent)
    roots = np.full(24, unit, np.float64) ** 2
    scales = [Scale("sizes", F32(0.5), (), np.array([unit]))]
    if 2 * exponent < 127:
        scales.append(Scale("roots", F32(0.5), (roots.astype(F32),)))
    for scale in scales:
        after, lost = quantized(scale, track, u)
        if not lost:
            error = abs(after.astype(float) - u)
            rounding = np.spacing(np.maximum(abs(u), abs(track))) + np.spacing(unit)
            assert (error <= 0.25 * float(unit) + rounding).all()


@pytest.mark.parametrize(
    ("kind", "bad"),
    [("v", np.nan), ("v", np.inf), ("v", -1.0), ("m", np.nan), ("m", 3e38), ("b", -np.inf)],
)
def test_what_steps_cannot_express_is_exact(kind: str, bad: float) -> None:
    """That tensor alone, in that step; the first moment beside it goes on by the last second."""
    *states, last = walk(4)
    name = f"o/1/{NAMES[kind]}"
    last[name][2] = bad
    tracker = tracked(states[0])
    for state in states[1:]:
        tracker.commit(tracker.prepare_arrays(state))
    before = copy_arrays(tracker.state)
    delta = tracker.prepare_arrays(last)
    assert delta.non_finite == (name,)
    assert {t.name for g in delta.groups for t in g.tensors} == last.keys() - {name}
    tracker.commit(delta)
    assert tracker.state[name].tobytes() == last[name].tobytes()
    apply(delta, before)
    assert all(before[n].tobytes() == tracker.state[n].tobytes() for n in before)


def layout_of(arrays: Arrays, kinds: str = "mvb") -> Layout:
    """Moments of some parameters."""
    families = {NAMES[kind]: Family.of(FAMILY[kind]) for kind in kinds}
    return Layout(
        tuple(
            TensorSpec(n, "F32", a.shape, True, "numpy", families[n.rpartition("/")[2]])
            for n, a in arrays.items()
        )
    )


def walk(steps: int, n: int = 4) -> list[Arrays]:
    """Moments of n parameters, whose gradients differ by magnitudes; one has had none so far."""
    rng = np.random.default_rng(0)
    m, v, states = [np.zeros(50 + i) for i in range(n)], [np.zeros(50 + i) for i in range(n)], []
    for step in range(steps):
        state: Arrays = {}
        for i in range(n):
            late = np.arange(50 + i) >= 20 * (step == 0)
            g = rng.standard_normal(50 + i) * 10.0 ** -(2 * i) * late
            m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.999 * v[i] + 0.001 * g * g
            state |= {f"o/{i}/exp_avg": m[i].astype(F32), f"o/{i}/exp_avg_sq": v[i].astype(F32)}
            state[f"o/{i}/buffer"] = (10 * m[i]).astype(F32)
        states.append(state)
    return states


def tracked(state: Arrays, coding: Coding | None = None) -> Tracker[Track]:
    return Tracker.resume(Track.of(layout_of(state), copy_arrays(state)), coding or Coding(2))


@pytest.mark.parametrize("scope", ["model", "tensor"])
@pytest.mark.parametrize("coder", ["runlength", "huffman", "context"])
def test_however_a_track_is_moved_it_is_the_same(
    scope: str, coder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at or moved, by the encoder or a decoder, in place or into other arrays."""
    states, coding = walk(6), Coding(2, scope, coder)
    one, moving = tracked(states[0], coding), tracked(states[0], coding)
    for state in states[1:]:
        before = copy_arrays(one.state)
        delta = one.prepare_arrays(state)
        assert [len(g.tensors) for g in delta.groups] == [4, 4, 4]
        assert all(one.state[n].tobytes() == before[n].tobytes() for n in before)
        assert one.track.after(delta, LOOK)[0] == delta.sums
        assert all(one.state[n].tobytes() == before[n].tobytes() for n in before)
        out = {name: np.empty_like(a) for name, a in before.items()}
        apply(delta.lean, before, out)
        with monkeypatch.context() as patched:  # the encoder knows the codes
            for group in delta.groups:
                patched.setattr(type(group.encoded.payload), "codes", None)
            one.commit(delta)
        moved = moving._encode(state, CHANGE)
        assert moved.sums == delta.sums == digest_sums(one.track.layout, one.state)
        moving.track.sums, moving._moving = dict(moved.sums or {}), False
        moving.track.tables |= moved.tables
        for name, array in one.state.items():
            assert moving.state[name].tobytes() == array.tobytes() == out[name].tobytes()
    for i in range(4):
        m, v, b = (states[-1][f"o/{i}/{name}"] for name in NAMES.values())
        off = {name: one.state[f"o/{i}/{name}"].astype(float) for name in NAMES.values()}
        assert (abs(off["exp_avg"] - m) <= 0.251 * np.sqrt(off["exp_avg_sq"])).all()
        assert (abs(np.log2(off["exp_avg_sq"] / v)) < 0.19).all()
        assert (abs(off["buffer"] - b) <= 0.2501 * np.sqrt(np.square(b, dtype=float).mean())).all()


def test_other_codes_than_those_of_the_record_are_noticed() -> None:
    first, second = walk(2)
    tracker = tracked(first)
    delta = tracker.prepare_arrays(second)
    for group in delta.groups:
        assert group.encoded.known is not None
        group.encoded.known[7] ^= 1
    with pytest.raises(TrackDigestError, match="the track in memory"):
        tracker.commit(delta)


def test_a_delta_that_was_written_is_compared_by_its_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = walk(2)
    tracker = tracked(first)
    delta = tracker.prepare_arrays(second)
    read = delta.lean
    assert read.repeats_moments(delta)
    with monkeypatch.context() as patched:
        patched.setattr("codec.scheme.stream.move", None)  # nothing is moved to find the sums
        assert tracker.track.after(read, LOOK, delta)[0] == delta.sums
    for group in delta.groups:
        assert group.encoded.known is not None
        group.encoded.known[7] ^= 1
        assert not read.repeats_moments(delta)
        assert tracker.track.after(read, LOOK, delta)[0] == delta.sums  # decoded
        group.encoded.known[7] ^= 1
    others = (
        replace(g, encoded=replace(g.encoded, sizes=g.encoded.sizes * 2)) for g in read.groups
    )
    assert not replace(read, groups=tuple(others)).repeats_moments(delta)


def test_a_track_takes_the_arrays_of_its_delta_over_once() -> None:
    first, second = walk(2)
    tracker, follower = tracked(first), tracked(first)
    delta = tracker.prepare_arrays(second)
    after = dict(delta.after)
    assert sorted(after) == sorted(name for name in first if name.endswith("_sq"))
    tracker.commit(delta)
    assert not delta.after
    follower.track.apply(delta)
    for name, array in after.items():
        assert tracker.state[name] is array
        assert follower.state[name] is not array
        assert follower.state[name].tobytes() == array.tobytes()


def test_nothing_has_changed() -> None:
    first, *_ = walk(1)
    tracker = tracked(first)
    delta = tracker.prepare_arrays(first)
    for group in delta.groups:
        assert (group.encoded.k, group.encoded.sizes.size, group.encoded.payload_bits) == (1, 0, 0)
    assert not any(delta.sums[n] - tracker.track.sums[n] for n in first)  # type: ignore[index]


def one_tensor(array: np.ndarray) -> tuple[Layout, Arrays]:
    return Layout((TensorSpec("x", "F32", array.shape, True),)), {"x": array}


def encoded() -> tuple[np.ndarray, Delta, Arrays]:
    """The bytes of three alphabets of moments, their delta, and the track before it."""
    before, after = walk(2)
    delta = tracked(before).prepare_arrays(after)
    (parts,) = coded(delta.groups).values()
    return np.concatenate(parts), delta, before


def read(data: np.ndarray, layout: Layout) -> list[Group]:
    pieces = Pieces(data, "bytes")
    heads = list(heads_of(pieces, Coding(2), layout, (), {}))
    got = list(groups_of(heads, pieces))
    pieces.finish()
    return got


def test_what_is_malformed() -> None:
    _, delta, before = encoded()
    group = delta.groups[2]
    assert group.encoded.measure == "sizes"
    for sizes, message in (
        (group.encoded.sizes[:3], "sizes of 3 tensors, not of 4"),
        (np.array([1, 1, 0, 1], F32), "not above 0"),
        (np.array([1, np.inf, 1, 1], F32), "not above 0"),
    ):
        bad = Delta((Group(group.tensors, replace(group.encoded, sizes=sizes)),), {}, (), Coding(2))
        with pytest.raises(StreamError, match=message):
            apply(bad, {t.name: before[t.name].copy() for t in group.tensors})
    in_buckets = Tracker.resume(Track.of(*one_tensor(np.zeros(9, F32))), Coding(2))
    (parts,) = coded(in_buckets.prepare_arrays({"x": np.ones(9, F32)}).groups).values()
    family = Family.of(FAMILY["v"])
    with pytest.raises(PayloadError, match="not in uniform steps"):
        read(np.concatenate(parts), Layout((TensorSpec("x", "F32", (9,), True, "numpy", family),)))


@settings(max_examples=60)
@given(st.data())
def test_any_changed_bytes(data: st.DataObject) -> None:
    """A named error, or a track of some values."""
    changed, _, before = encoded()
    changed = changed.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, changed.size - 1))] = data.draw(st.integers(0, 255))
    with suppress(PayloadError):
        apply(Delta(tuple(read(changed, layout_of(before))), {}, (), Coding(2)), before)


def test_a_first_moment_without_its_second_one_is_in_sizes() -> None:
    """Which has to be lossy, in octaves, and of the same shape."""
    state = walk(1)[0]
    m, v, _, *rest = layout_of(state).tensors
    assert with_measures([m, v, *rest])[:2] == [m, v]
    exact = replace(v, lossy=False, family=Family())
    for other in ([], [exact], [replace(v, shape=(5, 10))], [replace(v, name="p/0/exp_avg_sq")]):
        (first, *_) = with_measures([m, *other])
        assert str(first.family) == "sizes=0.125 exp_avg"
    assert second_of("a.exp_avg@0,3") == "a.exp_avg_sq@0,3"
    assert not second_of("exp_avg_sq")


def test_sizes_of_tensors_of_zeros_and_extremes() -> None:
    """Above 0 and finite, so that each can be divided by."""
    extremes = [np.full(9, value, F32) for value in (0, 3e38, 1e-45, np.nan)]
    sizes = measures.sizes_of([*extremes, np.empty(0, F32)])
    assert ((sizes > 0) & np.isfinite(sizes)).all()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_training_goes_on_from_moments_with_noise(tmp_path: Path, asynchronous: bool) -> None:
    """Of up to half a step, around the track; the same for a step, and for no other reader."""
    path, rng, seen = tmp_path / "run.lcc", np.random.default_rng(0), []
    m, v = np.zeros(4000, F32), np.zeros(4000, F32)
    with codec.Checkpointer(path, asynchronous=asynchronous) as checkpoints:
        for step in range(3):
            m[9:] = rng.standard_normal(3991)
            v[9:] = 10.0 ** -rng.integers(0, 12, 3991)
            moments = {"exp_avg": m * np.sqrt(v), "exp_avg_sq": v}
            checkpoints.save(step, {"model": {"w": m}, "optimizer": {"state": moments}})
            seen.append(checkpoints.restore() or {})
    base = codec.restore(path, 0)  # which has nothing to make up for
    assert np.array_equal(
        seen[0]["optimizer"]["state"]["exp_avg_sq"], base["optimizer"]["state"]["exp_avg_sq"]
    )
    track, again = codec.restore(path), checkpoints.restore() or {}
    assert seen[2]["model"]["w"].tobytes() == track["model"]["w"].tobytes()
    at, noisy, repeated = (s["optimizer"]["state"] for s in (track, seen[2], again))
    rise = risen(noisy, at)
    assert not np.array_equal(rise, risen(seen[1]["optimizer"]["state"], second_step(path)))
    share = (noisy["exp_avg"] - at["exp_avg"])[9:] / np.sqrt(at["exp_avg_sq"][9:])
    for noise, step, name in ((rise, 0.25, "exp_avg_sq"), (share, 0.5, "exp_avg")):
        assert np.abs(noise).max() <= step * 0.5001
        assert abs(noise.mean()) < step / 20
        assert noise.std() == pytest.approx(step / 12**0.5, rel=0.1)
        assert repeated[name].tobytes() == noisy[name].tobytes()
        assert not noisy[name][:9].any()


def risen(moments: Arrays, track: Arrays) -> np.ndarray:
    """By how many octaves second moments lie above the track, without those that are 0."""
    bits, before = (x["exp_avg_sq"][9:].view(np.int32) for x in (moments, track))
    return (bits - before) / OCTAVE


def second_step(path: Path) -> Arrays:
    return codec.restore(path, 1)["optimizer"]["state"]  # type: ignore[no-any-return]


STEPS = st.lists(
    st.tuples(arrays(F32, 24, elements=SIGNED), arrays(F32, 24, elements=VALUES)),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=40)
@given(STEPS, st.sampled_from(["float32", "bfloat16", "float16"]))
def test_whatever_was_saved_an_optimizer_can_use_what_is_restored(
    moments: list[tuple[np.ndarray, np.ndarray]], dtype: str
) -> None:
    """Finite, a second moment never negative, and the first one close in its measure."""

    def typed(array: np.ndarray) -> torch.Tensor:
        kind = getattr(torch, dtype)
        return torch.from_numpy(array).clamp(torch.finfo(kind).min, torch.finfo(kind).max).to(kind)

    tracker = None
    for m, v in moments:
        stored = {"exp_avg": typed(m), "exp_avg_sq": typed(v), "max_exp_avg_sq": typed(v)}
        state = {"optimizer": {"state": {0: stored}, "param_groups": [{"params": [0]}]}}
        parts, layout = Front(Policy()).look_at(state)
        values = to_arrays(parts.tensors, layout)
        if tracker is None:
            first = Track.of(layout, copy_arrays(values), parts.values)
            tracker = Tracker.resume(first, Coding())
        else:
            tracker.commit(tracker.prepare_arrays(values))
        restored = tracker.track.restore()["optimizer"]["state"][0]
        for key, tensor in restored.items():
            assert tensor.dtype == getattr(torch, dtype)
            assert bool(tensor.isfinite().all())
            assert key == "exp_avg" or float(tensor.min()) >= 0
