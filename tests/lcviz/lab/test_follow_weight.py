"""One weight: what is told of it is what the record holds and what a decoder makes of it."""

from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme.huffman import code_words
from codec.state.tensors import copy_arrays
from lcviz.lab.anatomy import dissect
from lcviz.lab.codewords import first_words
from lcviz.lab.follow_weight import Followed, Weight, WeightCode, follow
from tests.lcviz.common import Make


def every(case: Any) -> list[Followed]:
    """All weights of a case."""
    alphabets, codes = dissect(case.changes, case.step)
    return [
        follow(Weight(name, i), 7, case.before, case.after, alphabets, codes)
        for name, array in case.after.items()
        for i in range(array.size)
    ]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"bits": None, "scope": "tensor", "coder": "huffman"},
        {"tolerance": 0.02},
        {"budget": 0.05},
    ],
    ids=str,
)
def test_as_a_decoder_does(make_case: Make, how: dict[str, Any]) -> None:
    case = make_case(3, steps=3, **how)
    after = copy_arrays(case.before)
    codec.apply(case.step, after)
    found = every(case)
    restored = np.concatenate([after[name].reshape(-1) for name in case.after])
    assert np.array_equal(np.array([f.restored for f in found], np.float32), restored)
    deltas = np.concatenate([case.changes[name].reshape(-1) for name in case.after])
    assert np.array_equal(np.array([f.delta for f in found], np.float32), deltas)
    assert {f.weight.tensor for f in found if f.exact} == set(case.step.exact)
    for f in (f for f in found if not f.exact):
        assert (f.bucket is None) == (f.delta == 0)
        if f.bucket is not None:
            assert f.bucket.sign == (f.delta < 0)
            if not {"tolerance", "budget"} & how.keys():  # equal steps are no octaves
                assert 2.0**f.bucket.exponent <= abs(f.delta) < 2.0 ** (f.bucket.exponent + 1)


def zeros_and_few(n: int) -> tuple[codec.Delta, Any, Any]:
    """A delta with long runs of zeros, the last of two: its step, alphabets and codes.

    Its table is the one sent before, which has no word for a run as long as the longest; the
    smallest values are dropped.
    """
    rng = np.random.default_rng(2)
    tracker = codec.Tracker({"w": np.zeros(n, np.float32)}, 2)
    for gap in (0, 1500):
        delta = np.where(rng.random(n) < 0.02, 2.0 ** -rng.integers(0, 3, n), 0)
        delta[rng.random(n) < 0.01] = 2.0**-12
        delta[1000 : 1000 + gap] = 0
        before = tracker.state["w"].copy()
        step = tracker.step({"w": (before + delta).astype(np.float32)})
    changes = {"w": (before + delta).astype(np.float32) - before}
    alphabets, codes = dissect(changes, step)
    return step, alphabets, (codes, before, changes["w"])


def test_the_words_are_those_of_the_stream() -> None:
    """Read from the record's own bits: which elements each word covers, escapes included."""
    n = 4000
    step, alphabets, (codes, before, delta) = zeros_and_few(n)
    e = step.groups[0].encoded
    assert e.payload.streams.size == 1
    told: dict[int, WeightCode | None] = {}
    read = first_words(e, 10_000)
    escape = code_words(e.table.lengths)[0]
    for w in read:
        escaped = w.word == escape
        for zero in range(w.run):
            told[w.at - w.run + zero] = WeightCode(w.word, len(w.rest), w.run, zero + 1, escaped)
        told[w.at] = WeightCode(w.word, len(w.rest), w.run, 0, escaped)
    live = {"w": before + delta}
    found = [follow(Weight("w", at), 2, {"w": before}, live, alphabets, codes) for at in range(n)]
    assert [f.code for f in found] == [told.get(at) for at in range(n)]
    assert any(f.code and f.code.escaped for f in found)
    assert any(f.bucket and not f.level for f in found)


def test_words_of_many_streams_begin_anew() -> None:
    """An element's run never reaches back over where its stream begins."""
    n = 300_000
    delta = np.zeros(n, np.float32)
    delta[::1000] = 1.0
    tracker = codec.Tracker({"w": np.zeros(n, np.float32)}, None)
    step = tracker.step({"w": delta})
    e = step.groups[0].encoded
    assert e.payload.streams.size > 1
    alphabets, codes = dissect({"w": delta}, step)
    cut = e.payload.stream_elements
    values = np.flatnonzero(delta)
    after = int(values[values >= cut][0])
    zero = {"w": np.zeros(n, np.float32)}
    said = follow(Weight("w", after), 1, zero, {"w": delta}, alphabets, codes).code
    assert said is not None
    assert said.run == after - cut
    last = follow(Weight("w", n - 1), 1, zero, {"w": delta}, alphabets, codes)
    assert (last.level, last.code) == (0.0, None)  # zeros at the end go without saying


def test_every_single_value_has_the_papers_word(make_case: Make) -> None:
    case = make_case(5, 2, coder="huffman")
    words = first_words(case.step.groups[0].encoded, 3000)
    said = [f.code for f in every(case) if not f.exact]
    assert [w.word for w in words] == [s.word for s in said if s][: len(words)]
    assert len(words) == len(said)
    assert all(s is not None and s.run is None for s in said)


def test_a_base_and_exact_tensors() -> None:
    live = {"w": np.array([1.5, np.nan], np.float32)}
    before = {"w": np.array([1.0, 2.0], np.float32)}
    for step, known, delta in ((0, {}, 1.5), (3, before, 0.5)):
        f = follow(Weight("w", 0), step, known, live, (), ())
        assert (f.exact, f.restored, f.delta, f.code) == (True, 1.5, delta, None)


def test_naming_a_weight() -> None:
    weight = Weight("conv.1:a.weight", 12)
    assert Weight.read(str(weight)) == weight
    assert weight.text((5, 4)).endswith(" (3, 0)")
    for text in ("", "w", "w:", ":3", "w:-1", "w:x", "w:³"):
        with pytest.raises(ValueError, match="does not name a weight"):
            Weight.read(text)
    arrays = {"conv.1:a.weight": np.arange(13, dtype=np.float32)}
    assert weight.is_in(arrays)
    assert weight.of(arrays) == 12.0
    assert not Weight("conv.1:a.weight", 13).is_in(arrays)
    assert not Weight("other", 0).is_in(arrays)


def test_a_weight_that_is_not_there(make_case: Make) -> None:
    case = make_case()
    with pytest.raises(KeyError):
        follow(Weight("none", 0), 1, case.before, case.after, (), ())
    with pytest.raises(IndexError, match="tiny has 3 elements"):
        follow(Weight("tiny", 3), 1, case.before, case.after, (), ())
