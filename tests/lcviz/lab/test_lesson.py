"""Numbers carried through the stages, against the paper's example and against the codec."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import codec
from codec.scheme import huffman
from lcviz.lab.lesson import Fields, fields, huffman_merges, lesson, pick_weights

TRACK = (0.5, -0.25, 1, 0.25, -0.5, 0.125, 0, -0.75, 0.25, 0.5)
TRAINED = (1.26, -0.73, 1.2, 0.32, -0.32, 0.615, 0.14, -0.36, 1.07, 0.59)
PATIENT = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_the_paper_s_example() -> None:
    found = lesson(TRACK, TRAINED, 2)
    words = huffman.code_words(huffman.code_lengths(found.counts))
    columns = [(n.delta, n.middle, n.written) for n in found.numbers]
    deltas, middles, written = ([round(x, 6) for x in column] for column in zip(*columns))
    assert deltas == [0.76, -0.48, 0.2, 0.07, 0.18, 0.49, 0.14, 0.39, 0.82, 0.09]
    assert middles == [0.79, -0.48, 0.17, 0.08, 0.17, 0.44, 0.17, 0.44, 0.79, 0.08]
    assert written == [0.79, -0.48, 0, 0, 0, 0.44, 0, 0.44, 0.79, 0]
    assert " ".join(words[n.code] for n in found.numbers) == "10 110 0 0 0 111 0 111 10 0"
    assert found.stage_bits == {"float32": 320, "e": 30, "p": 20, "h": 18}
    assert (found.numbers[2].rebuilt, found.buckets.levels.size) == (1.0, 4)
    alone = lesson(TRACK, TRAINED, None).stage_bits  # an index is as long as there are buckets
    assert alone == {"float32": 320, "e": 30, "p": 30, "h": 23}


@PATIENT
@given(
    st.lists(st.tuples(*[st.floats(-(2.0**99), 2.0**99, width=32)] * 2), min_size=1, max_size=16),
    st.sampled_from([1, 2, 3, None]),
)
def test_what_the_codec_would_have_made(pairs: list[tuple[float, float]], bits: int | None) -> None:
    """Also of zeros, subnormals and numbers that differ by their sign alone."""
    track, live = (np.array(column, np.float32) for column in zip(*pairs))
    found = lesson(track.tolist(), live.tolist(), bits)
    quantized = codec.quantize(live - track, bits)
    assert [n.code for n in found.numbers] == quantized.codes.tolist()
    assert [n.rebuilt for n in found.numbers] == (track + codec.dequantize(quantized)).tolist()
    encoded = codec.encode(quantized, coder="huffman")
    assert found.stage_bits["h"] == encoded.payload_bits


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, Fields(0, 0, 1.0, ("0", "01111111", "0" * 23))),
        (-0.375, Fields(1, -2, 1.5, ("1", "01111101", "1" + "0" * 22))),
        (0.0, Fields(0, -127, 0.0, ("0", "0" * 8, "0" * 23))),
        (1e-40, Fields(0, -127, 71362 / 2**23, ("0", "0" * 8, f"{71362:023b}"))),
    ],
)
def test_fields(value: float, expected: Fields) -> None:
    assert fields(value) == expected


@PATIENT
@given(st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_merging_gives_the_codec_s_lengths(counts: list[int]) -> None:
    every, k = huffman_merges(counts), len(counts)
    above: dict[int, int] = {}
    for i, m in enumerate(every):
        above[m.rare] = above[m.rarer] = k + i
    depths = []
    for node in range(k):
        depth = 0
        while node in above:
            node, depth = above[node], depth + 1
        depths.append(depth)
    assert depths == huffman.code_lengths(np.array(counts)).tolist()
    assert sum(m.count for m in every) == sum(c * d for c, d in zip(counts, depths))


def test_picked_weights() -> None:
    deltas = {"w": np.arange(1000, dtype=np.float32), "b": -np.ones((3, 3), np.float32)}
    chosen = [(w.tensor, w.index) for w in pick_weights(deltas, 16)]
    assert len(set(chosen)) == 16
    assert chosen == sorted(chosen, key=lambda c: (c[0] == "b", c[1]))
    assert {("w", 0), ("w", 999)} < set(chosen)  # the smallest and the largest
    assert len(pick_weights({"w": np.zeros((2, 2), np.float32)}, 16)) == 4
    values = sorted((abs(float(deltas[n].flat[i])) for n, i in chosen), reverse=True)
    assert sum(v > 900 for v in values) > 5
