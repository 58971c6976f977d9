"""The anatomy of a delta against what the codec itself makes of the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codec
from codec import huffman
from lcviz.lab.anatomy import EVERY_BITS, choice, choices, code_table, dissect, n_kept, totals

MakeCase = Callable[..., Any]
SCOPES = ("model", "tensor")


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("seed", range(4))
def test_choices_are_what_the_codec_gives(make_case: MakeCase, seed: int, scope: str) -> None:
    """Every x, computed from one histogram: the bits, bytes, energy and error of real encoding."""
    case = make_case(seed, scope=scope)
    alphabets, _ = dissect(case.before, case.after, case.step)
    found = choices(alphabets)
    assert [c.bits for c in found] == [1, 2, 3, 4, 5, 6, 7, 8, None]
    deltas = case.deltas()
    energy = sum(float(np.square(d, dtype=np.float64).sum()) for d in deltas)
    for c in found:
        quantized = [codec.quantize(d, c.bits) for d in deltas]
        encoded = [codec.encode(q) for q in quantized]
        assert c.stream_bits == sum(e.payload_bits for e in encoded)
        assert c.nbytes == sum(e.nbytes for e in encoded)
        assert c.n == sum(d.size for d in deltas)
        assert c.buckets_kept == sum(q.levels.size - 1 for q in quantized)
        assert c.buckets == sum(len(q.buckets) for q in quantized if q.buckets is not None)
        assert c.entropy_bits == pytest.approx(sum(huffman.entropy(q.counts) for q in quantized))
        kept = sum(
            float(np.square(d[q.codes > 0], dtype=np.float64).sum())
            for d, q in zip(deltas, quantized)
        )
        lost = sum(
            float(np.square(d.astype(np.float64) - codec.dequantize(q)).sum())
            for d, q in zip(deltas, quantized)
        )
        assert c.energy_share == pytest.approx(kept / energy, rel=1e-12)
        assert c.error == pytest.approx(np.sqrt(lost / energy), rel=1e-6)
        assert c.share == c.nbytes / (4 * c.n)
        assert c.entropy_share == c.entropy_bits / (32 * c.n)
        assert c.bits_per_parameter == 8 * c.nbytes / c.n


@pytest.mark.parametrize("bits", EVERY_BITS)
def test_more_than_256_levels_keep_the_sizes_right(bits: int | None) -> None:
    """All 508 possible buckets at once: with E alone, codes need 16 bits."""
    rng = np.random.default_rng(5)
    exponents = np.repeat(np.arange(-126, 128), 4)
    delta = (rng.uniform(1, 1.9, exponents.size) * 2.0**exponents).astype(np.float32)
    delta[::2] *= -1
    state = {"w": np.zeros(delta.size, np.float32)}
    step = codec.Tracker(state, 2).prepare({"w": delta})
    alphabets, (stage,) = dissect(state, {"w": delta}, step)
    encoded = codec.encode(codec.quantize(delta, bits))
    found = choice(alphabets, bits)
    assert stage.dtype == np.uint16
    assert (found.stream_bits, found.nbytes) == (encoded.payload_bits, encoded.nbytes)
    assert found.buckets_kept == n_kept(bits, 508) == encoded.levels.size - 1


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("bits", [1, 2, 5, None])
def test_run_s_own_choice_is_the_record(make_case: MakeCase, bits: int | None, scope: str) -> None:
    """The choice of the run's own bits costs what the step on disk costs, exact tensors aside."""
    case = make_case(7, bits, scope)
    alphabets, _ = dissect(case.before, case.after, case.step)
    assert choice(alphabets, bits).nbytes == sum(g.encoded.nbytes for g in case.step.groups)
    assert [a.names for a in alphabets] == [
        tuple(t.name for t in g.tensors) for g in case.step.groups
    ]
    for alphabet, group in zip(alphabets, case.step.groups):
        assert alphabet.buckets.level.tolist() == group.quantized.buckets.level.tolist()


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("bits", [1, 2, 3, 8, None])
def test_code_table_is_that_of_the_record(
    make_case: MakeCase, bits: int | None, scope: str
) -> None:
    """Words, counts and levels of the table are those the record was encoded with."""
    case = make_case(11, bits, scope)
    alphabets, _ = dissect(case.before, case.after, case.step)
    for alphabet, group in zip(alphabets, case.step.groups, strict=True):
        rows = code_table(alphabet, bits)
        real = group.encoded
        assert [len(r.word) for r in rows] == real.code_lengths.tolist()
        assert [r.word for r in rows] == huffman.code_words(real.code_lengths)
        assert [r.level for r in rows] == real.levels.tolist()
        occurrences = np.bincount(group.quantized.codes, minlength=len(rows))
        assert [r.count for r in rows] == occurrences.tolist()
        assert [r.symbol for r in rows] == list(range(len(rows)))
        assert (rows[0].exponent, rows[0].sign) == (None, None)
        for row in rows[1:]:
            assert row.exponent is not None
            assert 2.0**row.exponent <= abs(row.level) < 2.0 ** (row.exponent + 1)
            assert row.sign == int(row.level < 0)


def test_words_of_the_table_spell_the_payload(make_case: MakeCase) -> None:
    """Reading the payload's bits by the table alone gives the codes back."""
    case = make_case(13, 3)
    (alphabet,), _ = dissect(case.before, case.after, case.step)
    symbol_of = {r.word: r.symbol for r in code_table(alphabet, 3)}
    (group,) = case.step.groups
    bits = np.unpackbits(group.encoded.payload, bitorder="little")[: group.encoded.payload_bits]
    codes, word = [], ""
    for bit in bits:
        word += str(bit)
        if word in symbol_of:
            codes.append(symbol_of[word])
            word = ""
    assert word == ""
    assert codes == group.quantized.codes.tolist()


@pytest.mark.parametrize("scope", SCOPES)
def test_exponent_stage_is_the_delta_s(make_case: MakeCase, scope: str) -> None:
    """What dissect hands to the removed-bucket experiment is E of the same delta."""
    case = make_case(17, 2, scope)
    alphabets, stage = dissect(case.before, case.after, case.step)
    for alphabet, codes, delta in zip(alphabets, stage, case.deltas(), strict=True):
        expected = codec.quantize(delta)
        assert codes.tolist() == expected.codes.tolist()
        assert [0.0, *alphabet.buckets.representative] == expected.levels.tolist()
        for i in range(len(alphabet.buckets)):
            members = delta[expected.codes == i + 1].astype(np.float64)
            off = members - expected.levels[i + 1]
            assert alphabet.energy[i] == pytest.approx((members**2).sum(), rel=1e-12)
            assert alphabet.residual[i] == pytest.approx((off**2).sum(), rel=1e-5, abs=1e-20)


@pytest.mark.parametrize("scope", SCOPES)
def test_totals_count_every_value_once(make_case: MakeCase, scope: str) -> None:
    case = make_case(19, 2, scope)
    alphabets, _ = dissect(case.before, case.after, case.step)
    found = totals(alphabets)
    delta = np.concatenate(case.deltas())
    kept = np.concatenate([g.quantized.codes for g in case.step.groups]) > 0
    mantissa, exponent = np.frexp(delta)  # 0.5 <= |mantissa| < 1
    for t in found:
        mine = (mantissa != 0) & (exponent - 1 == t.exponent) & ((delta < 0) == t.sign)
        assert (t.kept, t.dropped) == (int((mine & kept).sum()), int((mine & ~kept).sum()))
    assert sum(t.kept + t.dropped for t in found) == np.count_nonzero(delta)
    order = [(-t.exponent, t.sign) for t in found]
    assert order == sorted(set(order))


def test_bucket_kept_in_one_tensor_and_dropped_in_another(make_case: MakeCase) -> None:
    """Scope tensor, one bit: the only bucket that survives in `small` is dropped in `large`."""
    before = {"large": np.zeros(16, np.float32), "small": np.zeros(8, np.float32)}
    after = {
        "large": np.array([4.0] * 10 + [0.25] * 6, np.float32),
        "small": np.array([0.25] * 5 + [0.0] * 3, np.float32),
    }
    step = codec.Tracker(before, 1, "tensor").prepare(after)
    alphabets, _ = dissect(before, after, step)
    four, quarter = totals(alphabets)
    assert (four.exponent, four.kept, four.dropped) == (2, 10, 0)
    assert (quarter.exponent, quarter.kept, quarter.dropped) == (-2, 5, 6)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_delta_of_zeros(make_case: MakeCase, scope: str) -> None:
    """Nothing changed: no bucket, no error, no bits, one code in each table."""
    case = make_case(scale={"wide": 0.0, "bias": 0.0})
    case = type(case)(
        case.before, case.after, codec.Tracker(case.before, 2, scope).prepare(case.after)
    )
    alphabets, _ = dissect(case.before, case.after, case.step)
    assert totals(alphabets) == ()
    for c in choices(alphabets):
        assert (c.buckets, c.buckets_kept, c.stream_bits, c.entropy_bits) == (0, 0, 0, 0)
        assert (c.energy_share, c.error) == (1.0, 0.0)
        assert c.nbytes == len(case.step.groups)  # one length of 0 in each table
    for a in alphabets:
        (row,) = code_table(a, 2)
        assert (row.symbol, row.level, row.count, row.word) == (0, 0.0, a.n, "")


def test_one_bucket_holds_everything() -> None:
    """Every value in one bucket: one symbol too, so that no bits are needed."""
    before = {"w": np.zeros(100, np.float32)}
    after = {"w": np.linspace(1.0, 1.5, 100, dtype=np.float32)}
    step = codec.Tracker(before, 2).prepare(after)
    (alphabet,), _ = dissect(before, after, step)
    for c in choices([alphabet]):
        encoded = codec.encode(codec.quantize(after["w"], c.bits))
        assert (c.buckets_kept, c.buckets, c.stream_bits) == (1, 1, 0)
        assert c.nbytes == encoded.nbytes == 2 + 4
        assert c.energy_share == 1.0
    zero, level = code_table(alphabet, 2)
    assert (zero.count, zero.word) == (0, "")
    assert (level.count, level.word, level.level) == (100, "", 1.25)


@pytest.mark.parametrize(
    ("bits", "n", "kept"), [(1, 30, 1), (2, 30, 3), (2, 2, 2), (8, 300, 255), (None, 300, 300)]
)
def test_n_kept(bits: int | None, n: int, kept: int) -> None:
    assert n_kept(bits, n) == kept
