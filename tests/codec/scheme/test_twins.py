"""Compiled functions and their twins in numpy return the same, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import codec
from codec.scheme import coders, context, measures, plain, runlength, twins, uniform
from codec.scheme.coders import CODERS
from codec.scheme.context import ContextCode
from codec.scheme.limits import CHANGE, LOOK
from codec.scheme.residual import residual_of
from codec.scheme.stream import decode, element_bits
from codec.scheme.survivors import Segments, memory_for
from codec.scheme.twins import PAIRS
from codec.state.tensors import TensorSpec
from tests.bits import same

pytest.importorskip("numba")
Arrays = dict[str, NDArray[np.float32]]
TARGETS: list[dict[str, Any]] = [
    {"bits": 1},
    {"bits": 2},
    {"bits": 5},
    {"bits": None},
    {"distance": 0.3},
    {"distance": 0.02},
    {"tolerance": 1e-3},
    {"tolerance": 1e-6},
    {"budget": 0.05},
    {"budget": 0.5},
    {"budget": 0.1, "quantizer": "exponent"},
]


@pytest.fixture(autouse=True)
def loaded() -> None:
    codec.warm_up()


def both(call: Callable[[], Any]) -> tuple[Any, Any]:
    """What a call returns with compiled functions, and with their twins."""
    with twins.taking(compiled=True):
        compiled = call()
    with twins.taking(compiled=False):
        return compiled, call()


def states(kind: str, seed: int) -> tuple[Arrays, Arrays]:
    """A state and the next one; some tensors are empty, or begin within a block."""
    rng = np.random.default_rng(seed)
    before: Arrays = {}
    after: Arrays = {}
    for i, shape in enumerate([(3,), (0, 4), (211, 37), (1, 70_001), (64, 1), (90, 11)]):
        old = rng.standard_normal(shape).astype(np.float32)
        change = rng.standard_normal(shape) * 1e-3
        if kind == "sparse":
            change *= rng.random(shape) < 0.02
        elif kind == "rows":
            change *= rng.random(shape[:1]).reshape(-1, *[1] * (len(shape) - 1)) < 0.2
        elif kind == "wide":
            change = np.exp(rng.standard_normal(shape) * 12) * rng.choice([-1, 1], shape)
        new = (old + change).astype(np.float32)
        if kind == "odd" and i == 2:
            old[::3], new[::3] = -0.0, 0.0
            old[1::3], new[1::3] = 0, 1e-42
            old[4], new[4] = 0, 1.5e-38  # the smallest exponent that is not subnormal
            new[2, 2], new[5, 5] = np.nan, np.inf
            old[3, 3] = new[3, 3] = np.inf  # unchanged
        before[f"t{i}"], after[f"t{i}"] = old, new
    return before, after


@pytest.mark.parametrize("kind", ["dense", "sparse", "rows", "wide", "odd"])
@pytest.mark.parametrize("coder", sorted(CODERS))
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_both_encode_and_decode_alike(
    kind: str, coder: str, target: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "MOST_PLAIN", 2**20)
    if kind != "sparse":  # run lengths of every alphabet: a context code is slow in numpy
        monkeypatch.setattr(coders, "FEW", 0)
    before, after = states(kind, seed=7)
    if coder == "context":
        if target not in IN_CONTEXT:
            pytest.skip("slow in numpy")
        del before["t3"], after["t3"]
    scope = "tensor" if kind == "rows" else "model"

    def step() -> tuple[Any, ...]:
        tracker = codec.Tracker(before, coder=coder, scope=scope, **target)
        try:
            delta = tracker.prepare(after)
        except codec.LccError as exc:
            return (str(exc),)
        tracker.commit(delta)
        parts: list[Any] = [delta.rest, delta.non_finite, list((delta.sums or {}).values())]
        parts.append(list(tracker.state.values()))
        for group in delta.groups:
            e = group.encoded
            parts += [e.levels, e.payload.head, e.payload.data, decode(e).codes]
            if isinstance(e.payload, ContextCode):
                parts.append(element_bits(e).round(4))
        return tuple(parts)

    assert same(*both(step))


@pytest.mark.parametrize("stride", [1, 3])
def test_magnitudes(stride: int) -> None:
    """Of every block, or of every third one of all, however the work is cut."""
    before, after = states("odd", seed=2)
    segments = Segments(list(before.values()), list(after.values()))
    with np.errstate(all="ignore"):
        assert same(*both(lambda: uniform._magnitudes(segments, stride)))


def test_steps_up_to_the_last_one_and_beyond() -> None:
    """The codes, and how many changes have none; later blocks may keep larger changes alone."""
    change = np.array([0, 1, -2, 3, 4, 5, -6, np.nan, 0.4, 7.5], np.float32).repeat(200)
    segments = Segments([np.zeros(change.size, np.float32)], [change])

    def quantized() -> tuple[Any, ...]:
        with memory_for(change.size) as memory:
            s = memory.of_width(1)
            thresholds = np.float32(0.5).view(np.uint32), np.float32(2.5).view(np.uint32)
            found = uniform._collected(segments, thresholds, 1024, (1.0, 0.5), 5, s)
            return (found[0], s.all_codes)

    assert same(*both(quantized))


IN_CONTEXT = [{"bits": 2}, {"bits": None}, {"distance": 0.3}, {"tolerance": 1e-6}]


@pytest.mark.parametrize("kind", ["dense", "sparse", "wide", "odd"])
@pytest.mark.parametrize("measure", ["octaves", "roots", "sizes"])
@pytest.mark.parametrize("mode", [LOOK, CHANGE])
def test_measures(kind: str, measure: str, mode: int) -> None:
    """Codes, what is lost, the track and its digests; negative, infinite and tiny numbers too."""
    before, after = states(kind, seed=3)
    if measure == "octaves" and kind != "odd":
        before, after = ({n: abs(a) for n, a in state.items()} for state in (before, after))
    roots = [np.abs(a) for a in after.values()]
    roots[2].reshape(-1)[::7] = 0
    sizes = measures.sizes_of(list(after.values()))
    scale = measures.Scale(measure, np.float32(0.002), roots, sizes)

    def step() -> tuple[Any, ...]:
        tracks = [a.copy() for a in before.values()]
        segments = Segments(tracks, list(after.values()))
        codes = np.empty(segments.n, np.uint16)
        counts, lost = measures.measure(segments, scale, 2000, codes)
        levels = uniform.levels_of(scale.step, counts.size)
        sums = measures.move(segments, scale, codes, levels, mode)
        return codes, counts, lost, sums, tracks

    one, other = both(step)
    assert same(one, other)
    assert one[1][1:].any()


@pytest.mark.parametrize("dtype", ["I64", "I8", "U16", "BOOL", "BF16", "F16", "F32", "F64", "C64"])
@pytest.mark.parametrize("share", [0.001, 0.3, 1.0])
def test_residuals(dtype: str, share: float) -> None:
    rng = np.random.default_rng(5)
    n, spec = 150_000, TensorSpec("x", dtype, (150_000,), False)
    width = spec.track_dtype.itemsize
    unit = min(width, 8) // (2 if dtype == "C64" else 1)
    kind: Any = np.dtype(f"u{unit}")
    old = rng.integers(0, 2 if dtype == "BOOL" else 256, n * width).astype(np.uint8).view(kind)
    moves = np.where(rng.random(old.size) < share, rng.integers(-9, 10, old.size), 0)
    moves[::1001] *= 1 << 4 * unit
    new = old ^ (moves & 1).astype(kind) if dtype == "BOOL" else old + moves.astype(kind)
    new[::5003] ^= kind.type(1 << 8 * unit - 1) if dtype != "BOOL" else kind.type(1)
    old, new = old.view(spec.track_dtype), new.view(spec.track_dtype)

    def step() -> tuple[Any, ...]:
        residual = residual_of(old, new, spec)
        if residual is None:
            return ()
        assert same(residual.applied(old), new)
        codes = [c.code for c in residual.contexts if c.code]
        return (residual.bounds, *((c.head, c.data) for c in codes))

    assert same(*both(step))


def arguments(rng: np.random.Generator) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Generated arguments for the pairs that neither deltas nor residuals reach in full."""
    n = int(rng.integers(1, 3000))
    counts = rng.integers(0, int(rng.choice([2, 5, 10**6])), n).astype(np.int64)
    yield "huffman._code_lengths", (counts, 15)
    lengths = plain.code_lengths(counts, 15)
    yield "huffman._canonical", (lengths,)
    yield "huffman._packed_lengths", (lengths,)
    packed = plain.pack_lengths(lengths)
    yield "huffman._unpacked_lengths", (packed, n)
    noise = rng.integers(0, 256, int(rng.integers(0, 12))).astype(np.uint8)
    yield "huffman._unpacked_lengths", (noise, int(rng.integers(1, 40)))
    yield "huffman.log2", (np.exp(rng.standard_normal(50) * 20),)
    symbols, classes = int(rng.integers(1, 9)), int(rng.integers(2, 84))
    tokens = rng.integers(0, 9, (symbols + 3, runlength.MAX_CLASSES))
    own = rng.integers(0, 16, 1 + symbols * classes).astype(np.uint8)
    yield "tables._token_bits", (tokens, own, classes, 20)
    bits = (rng.standard_normal(n) * 10.0 ** rng.integers(-38, 38, n)).astype(np.float32)
    bins = plain.Bins.of(bits.view(np.uint32))
    for keep in (1, 3, 511):
        yield "quantize._promoted", (bins, keep)
    yield "digest._digest", (bits, int(rng.integers(1000)))
    edges = np.sort(rng.random((2, 60)) * 10, axis=0)
    yield "uniform._squares_left", (*edges, rng.integers(0, 99, 60), 0.3, 0.375)
    now, then = rng.standard_normal((2, 1024)).astype(np.float32)
    then[rng.integers(1024)] = rng.choice([np.nan, np.inf, 1.0])
    yield "origin._squares_between", (now, then)
    rows = rng.integers(0, 50, (64, 40)) * (rng.random((64, 1)) < 0.3)
    yield "residual._joined", (rows, 3, 100.0)


def test_small_functions() -> None:
    for seed in range(150):
        for name, given in arguments(np.random.default_rng(seed)):
            pair = PAIRS[name]
            assert same(pair.compiled(*given), pair.plain(*given)), (seed, name)
