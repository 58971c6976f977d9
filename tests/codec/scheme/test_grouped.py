"""Code words of groups: what is written comes back, whatever the tensors, and when they serve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import codec
from codec.errors import CodeTableError, StreamError
from codec.scheme import grouped, huffman, kernels, workers
from codec.scheme.digest import digest
from codec.scheme.grouped import GroupedCode
from codec.scheme.kernels import UNIT
from codec.scheme.payload import CHANGE, LOOK
from codec.scheme.prefix import PrefixCode
from codec.scheme.quantize import Quantized, empty_codes
from codec.scheme.stream import Encoded, advance
from codec.scheme.survivors import Segments

F32 = np.float32
Floats = np.ndarray[Any, np.dtype[np.float32]]


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups serve small alphabets too, whatever they cost."""
    monkeypatch.setattr(grouped, "LEAST", 1)
    monkeypatch.setattr(grouped, "LEAST_A_WORD", 0)
    monkeypatch.setattr(grouped, "are_cheap", lambda *_: True)


def quantized(n: int, k: int, zeros: float = 0.4, seed: int = 0) -> Quantized:
    """Codes of which a share is 0, and small ones are more frequent."""
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(2 / k, n), k - 1) * (rng.random(n) >= zeros)
    codes[: min(k, n)] = np.arange(min(k, n))
    levels = np.concatenate(([0], rng.normal(size=k - 1))).astype(F32)
    return Quantized(codes.astype(empty_codes(0, k).dtype), levels, (n,), None, None)


def grouped_code(q: Quantized) -> Encoded:
    e = codec.encode(q, "runlength")
    assert isinstance(e.payload, GroupedCode)
    return e


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("k", [3, 4, 5, 8, 9, 16, 17, 32, 33, 64])
@pytest.mark.parametrize("n", [70, 75, 4 * UNIT, 9 * UNIT + 2049])
def test_codes_come_back(n: int, k: int) -> None:
    q = quantized(n, k)
    e = grouped_code(q)
    assert (codec.decode(e).codes == q.codes).all()
    bits, group = grouped.shape_of(k)
    padded = np.zeros(-(-n // group) * group, np.int64)
    padded[:n] = q.codes
    index = (padded.reshape(-1, group) << bits * np.arange(group)).sum(axis=1)
    assert e.payload_bits == e.payload.lengths[index].sum(dtype=np.int64)


def tensors(values: Floats, sizes: list[int]) -> list[Floats]:
    return [part.copy() for part in np.split(values, np.cumsum(sizes)[:-1])]


SIZES = [0, 1, 2500, 0, 63, UNIT - 7, 3, 2 * UNIT, 5 * UNIT + 11, 1, 0]


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("k", [7, 15])
@pytest.mark.parametrize("mode", [LOOK, CHANGE])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_track_moves(k: int, mode: int, apart: bool, threads: int) -> None:
    """In place or as a copy, over many tensors; an element whose code is 0 keeps its bits."""
    q = quantized(sum(SIZES), k)
    before = np.random.default_rng(1).normal(size=q.codes.size).astype(F32)
    before[q.codes == 0] = -0.0
    e = grouped_code(q)
    old = tensors(before, SIZES)
    tracks = [np.full_like(a, 9) for a in old] if apart else old
    n_threads = workers.threads()
    workers.set_threads(threads)
    try:
        segments = Segments(tracks, tensors(before, SIZES) if apart else ())
        if apart and mode == LOOK:
            segments = Segments(old)
        sums = advance(e, segments, mode)
    finally:
        workers.set_threads(n_threads)
    moved = np.where(q.codes > 0, before + e.levels[q.codes], before)
    after = moved if mode == CHANGE else before
    assert np.concatenate(segments.arrays[0]).tobytes() == after.tobytes()
    for change, was, now in zip(sums.tolist(), tensors(before, SIZES), tensors(moved, SIZES)):
        assert change == (digest(now) - digest(was)) % 2**64


def dense(seed: int, n: int = 3 * UNIT) -> Floats:
    """With 3 bits about half of these values are kept."""
    return np.random.default_rng(seed).uniform(-1, 1, n).astype(F32) ** 3


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("target", [{"bits": 3}, {"distance": 0.3}, {"tolerance": 0.05}], ids=str)
@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_a_tracker_writes_what_it_restores(
    target: dict[str, Any], scope: str, threads: int, tmp_path: Any
) -> None:
    """A look ahead tells the same digests; a chain restores the same bits, and others' threads
    write the same bytes."""
    states = [{"a": dense(i).reshape(-1, 64), "b": dense(9 + i, 5 * UNIT + 3)} for i in range(3)]
    n_threads = workers.threads()
    workers.set_threads(threads)
    try:
        tracker = codec.Tracker(states[0], scope=scope, **target)
        with codec.Checkpointer(tmp_path / "run.lcc", scope=scope, **target) as saved:
            saved.save(0, states[0])
            for i, state in enumerate(states[1:], 1):
                step = tracker.prepare(state)
                seen, _ = tracker.track.after(step, LOOK)
                tracker.commit(step)
                assert tracker.track.sums == seen
                tracker.track.check_whole("here")
                kinds = {type(group.encoded.payload) for group in step.groups}
                assert kinds == {GroupedCode}
                saved.save(i, state)
                restored = codec.restore(tmp_path / "run.lcc", i)
                for name, array in tracker.state.items():
                    assert restored[name].tobytes() == array.tobytes()
    finally:
        workers.set_threads(n_threads)


def test_a_dense_delta_takes_no_more_than_single_values() -> None:
    for bits, seed in ((3, 1), (4, 2)):
        values = np.random.default_rng(seed).normal(size=2**20).astype(F32)
        q = codec.quantize(values, bits)
        e = grouped_code(q)
        assert 8 * e.payload.nbytes <= grouped.ENOUGH * huffman.entropy(q.counts)
        assert e.nbytes <= codec.encode(q, "huffman").nbytes


def test_where_groups_do_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small or sparse alphabets, many levels, and the other coders, whatever groups cost."""
    monkeypatch.setattr(grouped, "ENOUGH", np.inf)
    dense_codes, few = quantized(2**18, 16), quantized(2**16, 16)
    sparse, many = quantized(2**18, 16, zeros=0.7), quantized(2**18, 65)
    assert isinstance(codec.encode(dense_codes, "runlength").payload, GroupedCode)
    for q, coder in (
        (dense_codes, "huffman"),
        (dense_codes, "context"),
        (few, "runlength"),
        (sparse, "runlength"),
        (many, "runlength"),
    ):
        e = codec.encode(q, coder)
        assert not isinstance(e.payload, GroupedCode)
        assert (codec.decode(e).codes == q.codes).all()


def test_neighbours_that_are_alike_share_a_short_word() -> None:
    codes = np.repeat(np.random.default_rng(0).integers(0, 4, 2**14), 16).astype(np.uint8)
    q = Quantized(codes, np.arange(4, dtype=F32), codes.shape, None, None)
    assert grouped_code(q).payload_bits < 0.3 * huffman.entropy(q.counts)


def test_groups_that_cost_too_much_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The survivors are a list again, and their runs are coded."""
    q = quantized(3 * UNIT + 5, 16)
    wanted = grouped_code(q)
    monkeypatch.setattr(grouped, "ENOUGH", 0.5)
    e = codec.encode(q, "runlength")
    assert isinstance(e.payload, PrefixCode)
    assert (codec.decode(e).codes == q.codes).all()
    assert e.nbytes != wanted.nbytes


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("quantizer", ["exponent", "uniform"])
def test_a_budget_codes_no_groups(quantizer: str) -> None:
    """It codes the same survivors again and again, with other levels."""
    tracker = codec.Tracker({"w": dense(0)}, budget=0.1, quantizer=quantizer)
    (group,) = tracker.step({"w": dense(1)}).groups
    assert isinstance(group.encoded.payload, PrefixCode)
    assert group.encoded.k <= grouped.MOST_LEVELS


def test_not_a_number_and_subnormals() -> None:
    """A tensor with NaN is stored exactly; the smallest changes are kept where all are small."""
    first = {"w": np.zeros(3 * UNIT, F32), "v": np.zeros(2 * UNIT, F32)}
    tracker = codec.Tracker(first, bits=3)
    state = {"w": dense(0) * F32(2.0**-126), "v": dense(1, 2 * UNIT)}
    state["v"][7] = np.nan
    step = tracker.step(state)
    assert step.non_finite == ("v",)
    assert np.isnan(tracker.state["v"][7])
    (group,) = step.groups
    assert isinstance(group.encoded.payload, GroupedCode)
    assert np.abs(group.encoded.levels[1:]).min() < 2.0**-126
    left = np.abs(tracker.state["w"] - state["w"])
    assert left.max() <= 2.0**-126


@pytest.fixture
def sound(any_size: None) -> tuple[Quantized, Encoded]:
    q = quantized(5 * UNIT + 3, 6)
    return q, grouped_code(q)


def test_damage_is_named(sound: tuple[Quantized, Encoded]) -> None:
    q, e = sound
    payload = e.payload
    assert isinstance(payload, GroupedCode)
    beyond = payload.lengths.copy()
    beyond[[7, 0]] = beyond[[0, 7]]  # a code 7 of 6 levels
    deep = np.zeros_like(payload.lengths)
    deep[:15], deep[15] = np.arange(1, 16), 15
    streams, last = payload.streams.copy(), payload.words.copy()
    streams[0] -= 1
    last[(payload.streams[0] + 31) // 32 - 1] &= 2 ** int(streams[0] % 32) - 1
    for change, error, text in (
        ({"lengths": beyond}, CodeTableError, "a code beyond 6 levels"),
        ({"lengths": payload.lengths[:-1]}, CodeTableError, "prefix code|for groups of 6 levels"),
        ({"lengths": deep}, CodeTableError, "a group's code word of 15 bits, not 14"),
        ({"lengths": deep * 0}, CodeTableError, "without code words|all lack a code word"),
        ({"streams": payload.streams[:-1]}, StreamError, "streams for"),
        ({"words": payload.words[:-1]}, StreamError, "streams of"),
        ({"streams": streams, "words": last}, StreamError, "bits that end before"),
    ):
        damaged = replace(e, payload=replace(payload, **change))
        with pytest.raises(error, match=text):
            codec.decode(damaged)
        with pytest.raises(error, match=text):
            advance(damaged, Segments([np.zeros(q.codes.size, F32)]), CHANGE)
    for levels in (np.zeros(65, F32), np.zeros(1, F32)):
        with pytest.raises(StreamError, match=r"groups of"):
            codec.decode(replace(e, levels=levels))
    with pytest.raises(StreamError, match="of a batch or of several steps"):
        advance(
            replace(e, levels=np.zeros((6, 2), F32)), Segments([np.zeros(q.codes.size, F32)]), LOOK
        )


@pytest.mark.usefixtures("any_size")
def test_codes_behind_the_last_element() -> None:
    q = quantized(5 * UNIT + 3, 6)
    longer = Quantized(np.append(q.codes, np.uint8(5)), q.levels, (q.codes.size + 1,), None, None)
    e = grouped_code(longer)  # of the same groups, with one code more
    with pytest.raises(StreamError, match="bits that go on after"):
        codec.decode(replace(e, shape=q.shape))


@pytest.mark.parametrize("pattern", [[1, 2], [0, 1, 2, 1]])
def test_groups_that_are_all_alike(pattern: list[int]) -> None:
    codes = np.resize(np.array(pattern, np.uint8), 2**17)
    q = Quantized(codes, np.arange(3, dtype=F32), codes.shape, None, None)
    assert (codec.decode(grouped_code(q)).codes == codes).all()


def test_a_level_of_zero_is_added() -> None:
    """-0.0 + 0.0 is 0.0; only code 0 leaves an element alone."""
    q = quantized(2**18, 16)
    e = grouped_code(q)
    levels = e.levels.copy()
    levels[3] = 0.0
    track = np.full(q.codes.size, -0.0, F32)
    advance(replace(e, levels=levels), Segments([track]), CHANGE)
    assert not np.signbit(track[q.codes == 3]).any()
    assert np.signbit(track[q.codes == 0]).all()


def test_a_sample_says_that_groups_do_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the list of survivors stays as it is, and nothing is undone."""
    q = quantized(64 * UNIT, 64, zeros=0.5)
    monkeypatch.setattr(grouped, "ENOUGH", 0.5)
    packed, pack = [], kernels.pack_codes
    monkeypatch.setattr(kernels, "pack_codes", lambda *a: (packed.append(a[1]), pack(*a)))
    e = codec.encode(q, "runlength")
    assert len(packed) == len(set(packed))  # each unit once, when the codes came
    assert isinstance(e.payload, PrefixCode)
    assert (codec.decode(e).codes == q.codes).all()


@pytest.mark.usefixtures("any_size")
def test_any_words_stay_within_bounds() -> None:
    """Random bits instead of the streams: an error or other codes, never beyond the levels."""
    q = quantized(5 * UNIT + 3, 6)
    e = grouped_code(q)
    rng = np.random.default_rng(0)
    for _ in range(20):
        words = e.payload.words.copy()
        words[rng.integers(words.size, size=5)] = rng.integers(0, 2**32, 5)
        ends = np.cumsum((e.payload.streams.astype(np.int64) + 31) // 32) - 1
        words[ends] &= np.uint32(1)
        try:
            codes = codec.decode(replace(e, payload=replace(e.payload, words=words))).codes
        except StreamError:
            continue
        assert codes.max() < 6


def test_a_byte_of_ones_for_each_bit() -> None:
    for eight in range(256):
        ones = kernels._bytes_of.py_func(np.uint64(eight))
        bits = ones.tobytes()
        assert list(bits) == [255 * (eight >> i & 1) for i in range(8)]
