"""The scheme in JavaScript, pictures/scheme: the same bits as the codec's."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import codec
from codec.scheme.prefix import PrefixCode
from lcviz.ui.picture import SCHEME
from tests.node import in_node

Floats = NDArray[np.float32]

SCRIPTS = (*SCHEME, Path(__file__).with_name("written.js"))
CODERS = ("huffman", "runlength")
RUNS_A_BATCH = 100
STEPS = 4
# Each run: base64 of the first weights and of those of each step, x, and the coder.
COMPUTE = """runs => {
    const floats = text => new Float32Array(
        Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
    const bits = values => [...bitsOfValues(Float32Array.from(values))];
    return runs.map(([first, later, x, coder]) => {
        const setting = { x, most: null, budget: null, coder, carries: true };
        const tracker = new Tracker(floats(first), setting);
        return later.map(text => {
            const last = tracker.table;
            const { quantized, encoded } = tracker.step(floats(text));
            const streams = writtenBy(quantized, coder, last);
            return {
                levels: bits(quantized.levels),
                codes: [...quantized.codes],
                buckets: quantized.buckets.map(
                    b => [b.exponent, b.sign, b.count, ...bits([b.min, b.max])]),
                lengths: encoded.table && [...encoded.table.lengths],
                classes: encoded.table?.classes ?? 0,
                packed: encoded.table && !encoded.reused
                    ? [...packedLengths(encoded.table.lengths)] : [],
                nbytes: encoded.table?.nbytes ?? 0,
                bits: encoded.bits,
                streams: streams.map(stream => stream.bits),
                words: streams.flatMap(stream => stream.words),
                track: bits(tracker.track),
            };
        });
    });
}"""


def answers_of(runs: Sequence[tuple[Sequence[Floats], int | None, str]]) -> Any:
    """What JavaScript computes for some runs: their weights, x and coder."""

    def text(array: Floats) -> str:
        return base64.b64encode(array.tobytes()).decode()

    return in_node(
        SCRIPTS,
        COMPUTE,
        [[text(first), [*map(text, later)], x, coder] for (first, *later), x, coder in runs],
    )


def bits(values: Any) -> list[int]:
    """The bits of float32 numbers: JSON would round them, and has one zero."""
    array: Floats = np.asarray(values, np.float32)
    return array.view(np.uint32).tolist()


def codec_s_answers(states: Sequence[Floats], x: int | None, coder: str) -> list[dict[str, Any]]:
    """The same from the codec."""
    tracker, answers = codec.Tracker({"w": states[0]}, bits=x, coder=coder), []
    for weights in states[1:]:
        delta = weights - tracker.state["w"]
        quantized = codec.quantize(delta, x)
        assert quantized.buckets is not None
        (group,) = tracker.step({"w": weights}).groups
        payload = group.encoded.payload
        assert (codec.decode(group.encoded).codes == quantized.codes).all()
        codes = payload if isinstance(payload, PrefixCode) else None
        answers.append(
            {
                "levels": bits(group.encoded.levels),
                "codes": quantized.codes.tolist(),
                "buckets": [
                    [b.exponent, b.sign, b.count, *bits([b.min, b.max])] for b in quantized.buckets
                ],
                "lengths": codes.table.lengths.tolist() if codes else None,
                "classes": codes.table.classes if codes else 0,
                "packed": codes.table.packed.tolist() if codes and not codes.cached else [],
                "nbytes": codes.table.packed.size if codes else 0,
                "bits": int(codes.streams.sum()) if codes else 0,
                "streams": codes.streams.tolist() if codes else [],
                "words": codes.words.tolist() if codes else [],
                "track": bits(tracker.state["w"]),
            }
        )
    return answers


def made(rng: np.random.Generator, n: int) -> list[Floats]:
    """Weights of a few steps: changes of many magnitudes, subnormal ones too, many or few."""
    states = [rng.standard_normal(n).astype(np.float32)]
    scale, power, share = rng.choice((1e-42, 1e-3, 1.0, 1e20)), rng.choice((1, 3, 9)), rng.random()
    for _ in range(STEPS):
        change = scale * rng.standard_normal(n) ** power
        change[rng.random(n) < share] = 0
        states.append((states[-1] + change.astype(np.float32)).astype(np.float32))
    return states


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(i, marks=pytest.mark.exhaustive) for i in range(1, 5))]
)
def test_runs_of_checkpoints(batch: int) -> None:
    """Levels, codes, tables, reuse of tables, every bit of the payload, and the track: 2,000 arrays
    in all."""
    rng = np.random.default_rng(batch)
    runs = []
    for _ in range(RUNS_A_BATCH):
        x = rng.choice((1, 2, 3, 4, 8, 0))
        coder = str(rng.choice(CODERS))
        runs.append((made(rng, int(rng.integers(8, 400))), int(x) or None, coder))
    for run, answers in zip(runs, answers_of(runs), strict=True):
        expected = codec_s_answers(*run)
        for answer, step in zip(answers, expected, strict=True):
            assert answer == step


def test_several_streams_long_runs_and_many_levels() -> None:
    rng = np.random.default_rng(0)
    runs: list[tuple[Sequence[Floats], int | None, str]] = []
    few = [np.zeros(200_000, np.float32) for _ in range(3)]
    for k, weights in enumerate(few):
        weights[rng.integers(0, weights.size, 40 * k)] = 0.5 * k
    runs += [(few, 2, "runlength"), (few, 2, "huffman")]
    wide = [np.ldexp(rng.standard_normal(3_000), rng.integers(-140, 60, 3_000)) for _ in range(3)]
    runs += [([w.astype(np.float32) for w in wide], None, coder) for coder in CODERS]
    dense = [rng.standard_normal(150_000).astype(np.float32) for _ in range(3)]
    runs += [(dense, 3, coder) for coder in CODERS]
    for run in runs:
        assert answers_of([run]) == [codec_s_answers(*run)]


def test_what_is_not_finite_is_refused() -> None:
    for value in (np.nan, np.inf):
        states = [np.zeros(9, np.float32), np.full(9, value, np.float32)]
        with pytest.raises(AssertionError, match="NaN and infinity have no bucket"):
            answers_of([(states, 2, "huffman")])


# A change in equal steps of a size: its codes, levels and bits.
QUANTIZE = """runs => runs.map(([text, size, coder]) => {
    const delta = new Float32Array(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
    const quantized = quantizeInSteps(delta, size);
    const words = writtenBy(quantized, coder, null).flatMap(stream => stream.words);
    const floats = Float32Array.from(quantized.levels);
    return [[...quantized.codes], [...bitsOfValues(floats)], words];
})"""


def test_equal_steps() -> None:
    """At the size that the codec finds for a budget: the same codes, levels and bits."""
    rng, runs, expected = np.random.default_rng(0), [], []
    for _ in range(60):
        n, budget = int(rng.integers(2_000, 6_000)), rng.choice((0.05, 0.08, 0.15))
        before = rng.standard_normal(n).astype(np.float32)
        after = before + (1e-3 * rng.standard_normal(n) ** 3).astype(np.float32)
        tracker = codec.Tracker({"w": before}, budget=float(budget), coder="huffman")
        (group,) = tracker.step({"w": after}).groups
        encoded = group.encoded
        codes = codec.decode(encoded).codes.reshape(-1)
        if not isinstance(encoded.payload, PrefixCode) or not encoded.uniform:
            continue
        delta, size = after - before, float(encoded.stored_levels[0])
        if np.floor(np.abs(delta) / size + 0.375).max() > 255:  # more than the page has
            continue
        if (codes > 0).sum() < (np.abs(delta) >= 0.625 * size).sum():  # only the first ones fit
            continue
        runs.append([base64.b64encode(delta.tobytes()).decode(), size, "huffman"])
        expected.append([codes.tolist(), bits(encoded.levels), encoded.payload.words.tolist()])
    assert len(expected) > 30
    for answer, one in zip(in_node(SCRIPTS, QUANTIZE, runs), expected, strict=True):
        assert answer == one
