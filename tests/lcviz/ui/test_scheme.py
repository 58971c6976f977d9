"""The scheme in JavaScript, pictures/scheme: the same bits as the codec's."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import codec
from codec.errors import BudgetError
from codec.scheme.context import ContextCode
from codec.scheme.limits import UNIT
from codec.scheme.payload import matrix_of
from codec.scheme.prefix import PrefixCode
from codec.scheme.residual import residual_of
from codec.state.tensors import CARRIER, LOSSY_DTYPES, TINY_ELEMENTS, TensorSpec
from lcviz.ui.picture import SCHEME
from tests.node import in_node

Floats = NDArray[np.float32]

BYTES = "const bytesOf = text => new Uint8Array(Buffer.from(text, 'base64')).buffer;"
SCRIPTS: tuple[Path | str, ...] = (*SCHEME, Path(__file__).with_name("written.js"), BYTES)
CODERS = ("huffman", "runlength", "context")
RUNS_A_BATCH = 100
STEPS = 4
Setting = dict[str, Any]  # of x, budget, distance and coder
# Each run: base64 of the first weights and of those of each step, shapes of tensors, and a setting.
COMPUTE = """runs => {
    const floats = text => new Float32Array(bytesOf(text));
    const bits = values => [...bitsOfValues(Float32Array.from(values))];
    return runs.map(([first, later, matrices, given]) => {
        const none = { x: null, most: null, budget: null, distance: null, carries: true };
        const setting = { ...none, ...given };
        const tracker = new Tracker(floats(first), setting, matrices);
        let last = floats(first);
        return later.map(text => {
            const stage = tracker.stage;
            const { quantized, encoded } = tracker.step(floats(text), last);
            last = floats(text);
            const streams = writtenBy(quantized, stage);
            return {
                levels: bits(quantized.levels),
                codes: [...quantized.codes],
                lengths: encoded.table && [...encoded.table.lengths],
                classes: encoded.table?.classes ?? 0,
                packed: encoded.table && !encoded.reused
                    ? [...packedLengths(encoded.table.lengths)] : [],
                words: streams.flatMap(stream => stream.words),
                streams: streams.map(stream => stream.bits),
                contexts: encoded.shared
                    ? messageOf(quantized, stage).direct.map(stream => [...stream]) : [],
                nbytes: encoded.nbytes,
                track: bits(tracker.track),
            };
        });
    });
}"""
# Each pair: dtype, and base64 of the bits before and after.
RESIDUALS = """pairs => pairs.map(([dtype, old, next]) => {
    const bits = text => new (dtype === "F32" ? Uint32Array : Uint16Array)(bytesOf(text));
    return residualNbytes(bits(old), bits(next), dtype);
})"""


Run = tuple[list[Floats], Sequence[tuple[int, ...]], Setting]  # states, shapes of tensors


def answers_of(runs: Sequence[Run]) -> Any:
    """What JavaScript computes for some runs."""
    return in_node(
        SCRIPTS,
        COMPUTE,
        [
            [text(first), [*map(text, later)], [matrix_of(shape) for shape in shapes], setting]
            for (first, *later), shapes, setting in runs
        ],
    )


def text(array: NDArray[Any]) -> str:
    """The bytes of an array in base64."""
    return base64.b64encode(array.tobytes()).decode()


def bits(values: Any) -> list[int]:
    """The bits of float32 numbers: JSON would round them, and has one zero."""
    array: Floats = np.asarray(values, np.float32)
    return array.view(np.uint32).tolist()


def codec_s_answers(
    states: Sequence[Floats], shapes: Sequence[tuple[int, ...]], setting: Setting
) -> list[dict[str, Any]]:
    """The same from the codec."""
    settings = {"bits": setting["x"]} if "x" in setting else setting
    tracker = codec.Tracker(tensors(states[0], shapes), **settings | {"coder": setting["coder"]})
    answers = []
    for weights in states[1:]:
        (group,) = tracker.step(tensors(weights, shapes)).groups
        encoded = group.encoded
        payload = encoded.payload
        codes = payload if isinstance(payload, PrefixCode) else None
        contexts = payload if isinstance(payload, ContextCode) else None
        ends = np.cumsum(contexts.sizes)[:-1] if contexts else []
        track = np.concatenate([array.reshape(-1) for array in tracker.state.values()])
        answers.append(
            {
                "levels": bits(encoded.levels),
                "codes": codec.decode(encoded).codes.reshape(-1).tolist(),
                "lengths": codes.table.lengths.tolist() if codes else None,
                "classes": codes.table.classes if codes else 0,
                "packed": codes.table.packed.tolist() if codes and not codes.cached else [],
                "words": codes.words.tolist() if codes else [],
                "streams": codes.streams.tolist() if codes else [],
                "contexts": (
                    [s.tolist() for s in np.split(contexts.code, ends)] if contexts else []
                ),
                "nbytes": encoded.nbytes,
                "track": bits(track),
            }
        )
    return answers


def tensors(weights: Floats, shapes: Sequence[tuple[int, ...]]) -> dict[str, Floats]:
    """Weights as tensors of these shapes, one after another."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = np.split(weights, ends)
    return {f"{i}": part.reshape(shape) for i, (part, shape) in enumerate(zip(parts, shapes))}


def cut(rng: np.random.Generator, n: int) -> list[tuple[int, ...]]:
    """Shapes of lossy tensors that have n values together."""
    shapes: list[tuple[int, ...]] = []
    while n >= 2 * TINY_ELEMENTS:
        rows = int(rng.integers(1, 40))
        columns = int(rng.integers(1, max((n - TINY_ELEMENTS) // rows, 2)))
        if TINY_ELEMENTS <= rows * columns <= n - TINY_ELEMENTS:
            shapes.append((rows, columns))
            n -= rows * columns
    return [*shapes, (n,)]


def made(rng: np.random.Generator, n: int) -> list[Floats]:
    """Weights of a few steps: changes of many magnitudes, subnormal ones too, many or few."""
    states = [rng.standard_normal(n).astype(np.float32)]
    scale, power, share = rng.choice((1e-42, 1e-3, 1.0, 1e20)), rng.choice((1, 3, 9)), rng.random()
    for _ in range(STEPS):
        change = scale * rng.standard_normal(n) ** power
        change[rng.random(n) < share] = 0
        states.append((states[-1] + change.astype(np.float32)).astype(np.float32))
    return states


def any_setting(rng: np.random.Generator) -> Setting:
    """A setting of any kind and coder."""
    kinds = ("x", "x", "distance", "distance", "budget")
    kind = str(rng.choice(kinds))
    values = {
        "x": (1, 2, 3, 4, 8, None),
        "distance": (0.05, 0.3, 0.5, 0.9),
        "budget": (0.03, 0.1, 0.3),
    }[kind]
    return {kind: values[rng.integers(len(values))], "coder": str(rng.choice(CODERS))}


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Compile the kernels: without them, larger alphabets get other bytes."""
    codec.warm_up()


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(i, marks=pytest.mark.exhaustive) for i in range(1, 5))]
)
def test_runs_of_checkpoints(batch: int) -> None:
    """Levels, codes, tables, reuse of tables, every bit of the payload, and the track: 2,000 arrays
    in all."""
    rng = np.random.default_rng(batch)
    compare([random_run(rng, int(rng.integers(60, 3_000))) for _ in range(RUNS_A_BATCH)])


def test_a_budget_that_no_single_size_fills() -> None:
    """Many values of one magnitude: either all of them move, or only a few larger ones."""
    rng = np.random.default_rng(0)
    zeros = np.zeros(20_000, np.float32)
    states = [zeros, rng.choice([-1e-3, 1e-3, 4e-3], zeros.size, p=[0.49, 0.49, 0.02])]
    settings: list[Setting] = [{"budget": share, "coder": "huffman"} for share in (0.036, 0.04)]
    compare([(list(map(np.float32, states)), cut(rng, zeros.size), own) for own in settings])


def random_run(rng: np.random.Generator, n: int) -> Run:
    """Some states in a random setting that the codec accepts."""
    while True:
        run = made(rng, n), cut(rng, n), any_setting(rng)
        try:
            codec_s_answers(*run)
        except BudgetError:
            continue
        return run


def compare(runs: Sequence[Run]) -> None:
    """Assert that JavaScript and the codec answer alike."""
    for run, answers in zip(runs, answers_of(runs), strict=True):
        for answer, step in zip(answers, codec_s_answers(*run), strict=True):
            assert answer == step, run[1:]


def test_several_streams_long_runs_and_many_levels() -> None:
    rng = np.random.default_rng(0)
    few = [np.zeros(200_000, np.float32) for _ in range(3)]
    for k, weights in enumerate(few):
        weights[rng.integers(0, weights.size, 40 * k)] = 0.5 * k
    wide = [np.ldexp(rng.standard_normal(3_000), rng.integers(-140, 60, 3_000)) for _ in range(3)]
    dense = [rng.standard_normal(150_000).astype(np.float32) for _ in range(3)]
    shapes = [(400, 500)], [(3_000,)], [(500, 200), (50_000,)]
    for states, own, x in zip(
        ([*few], [w.astype(np.float32) for w in wide], dense), shapes, (2, None, 3)
    ):
        compare([(states, own, {"x": x, "coder": coder}) for coder in CODERS])
    compare([(dense, shapes[2], {"distance": d, "coder": c}) for d in (0.001, 0.3) for c in CODERS])


def test_what_is_not_finite_is_refused() -> None:
    for value in (np.nan, np.inf):
        states = [np.zeros(9, np.float32), np.full(9, value, np.float32)]
        with pytest.raises(AssertionError, match="NaN and infinity have no bucket"):
            answers_of([(states, [(9,)], {"x": 2, "coder": "huffman"})])


def test_residuals_have_the_sizes_of_the_codec_s() -> None:
    rng = np.random.default_rng(0)
    pairs = [
        (dtype, *pair)
        for dtype in LOSSY_DTYPES
        for n in (100, 256, 512, 5_000, 40_000)
        for pair in pairs_of_bits(rng, dtype, n)
    ]
    pairs += [("BF16", *pair) for pair in pairs_of_bits(rng, "BF16", 300_000)]
    pairs += [("BF16", *pair) for pair in large_pairs_of_bits(rng)]
    pairs += [("F32", *tied(seed)) for seed in (29, 33)]
    residuals = [
        residual_of(
            old.view(CARRIER[dtype]),
            new.view(CARRIER[dtype]),
            TensorSpec("x", dtype, old.shape, False),
        )
        for dtype, old, new in pairs
    ]
    sizes = in_node(SCRIPTS, RESIDUALS, [(d, text(old), text(new)) for d, old, new in pairs])
    assert sizes == [r and r.nbytes for r in residuals]
    smaller = [r for r in residuals if r]
    assert len(smaller) < len(residuals)
    assert {len(r.contexts) for r in smaller} == {1, 2, 3}
    assert {r.units for r in smaller} == {1, 2}
    assert {c.has_runs for r in smaller for c in r.contexts if c.code} == {False, True}


def pairs_of_bits(
    rng: np.random.Generator, dtype: str, n: int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The bits of n values, and those after changes of many kinds."""
    weights = 0.02 * rng.standard_normal(n)
    old = bits_as(dtype, weights)
    anything = rng.integers(0, 2 ** (8 * old.itemsize), (2, n), dtype=np.uint64).astype(old.dtype)
    wide = np.ldexp(weights, rng.integers(-20, 9, n))
    wide[0] = np.inf
    yield old, old
    yield old, bits_as(dtype, weights + 1e-4 * rng.standard_normal(n))
    yield old, moved(rng, old, 0.02, 1)
    yield old, moved(rng, old, 0.3, 40)
    yield old, moved(rng, old, 1.0, 2 ** (8 * old.itemsize - 4))
    yield old, old ^ (rng.random(n) < 0.1).astype(old.dtype) << (8 * old.itemsize - 1)
    for share in (0.3, 0.93, 0.95):  # with the last ones, a residual is hardly smaller, if at all
        yield old, np.where(rng.random(n) < share, anything[0], old)
    yield anything[0], anything[1]
    yield anything[0], moved(rng, anything[0], 0.5, 3)
    yield bits_as(dtype, wide), bits_as(dtype, wide + 1e-5 * rng.standard_normal(n))


def large_pairs_of_bits(
    rng: np.random.Generator,
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The same of bfloat16 so large that tables come from every other unit."""
    values = np.ldexp(rng.standard_normal(17 * UNIT - 9), rng.integers(-20, 0, 17 * UNIT - 9))
    old = bits_as("BF16", values)
    for share in (0.0005, 0.02, 0.85):
        yield old, moved(rng, old, share, 9)
    of_small = np.where(np.abs(values) < 0.001, moved(rng, old, 0.3, 9), old)
    yield old, of_small
    yield old, np.where(np.arange(old.size) // UNIT == 1, of_small, old)  # in no unit of a table


def bits_as(dtype: str, values: NDArray[Any]) -> NDArray[Any]:
    """The bits of values, uint16 or uint32."""
    if dtype == "F16":
        return values.astype(np.float16).view(np.uint16)
    words = values.astype(np.float32).view(np.uint32)
    return words if dtype == "F32" else (words >> 16).astype(np.uint16)


def moved(rng: np.random.Generator, old: NDArray[Any], share: float, far: int) -> NDArray[Any]:
    """Bits where a share of the elements moves by up to so many steps."""
    steps = rng.integers(1, far + 1, old.size) * rng.choice((-1, 1), old.size)
    return old + np.where(rng.random(old.size) < share, steps, 0).astype(old.dtype)


def tied(seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Steps for which two numbers of classes of runs promise the same bits, but for rounding."""
    rng = np.random.default_rng(seed)
    old = rng.integers(2**29, 2**30, 4000, dtype=np.uint32)
    old[9] = 0
    changes = rng.random(old.size) < 0.77
    new = old + changes * rng.choice([1, 2, 3, -1, -2, -3], old.size).astype(np.uint32)
    new[9] = 2**32 - 1  # so far that nearly all symbols are in the table
    return old, new
