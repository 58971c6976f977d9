"""The anatomy of a delta against what the codec itself makes of the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codec
from codec import Coding
from codec.scheme import huffman
from codec.scheme.coders import CODERS
from lcviz.lab.anatomy import EVERY_BITS, dissect, n_kept, promotions, record_sizes, totals

MakeCase = Callable[..., Any]


def nbytes_of(e: codec.Encoded) -> int:
    """Code words, table and levels; without the sizes of the streams and their padding."""
    return -(-e.payload_bits // 8) + e.table_nbytes + 4 * e.stored_levels.size


def shapes_of(group: codec.inspect.Group) -> list[tuple[int, ...]]:
    return [t.shape for t in group.tensors]


@pytest.mark.parametrize(
    ("scope", "coder"), [("model", "runlength"), ("tensor", "huffman"), ("model", "context")]
)
def test_promotions_are_what_the_codec_gives(make_case: MakeCase, scope: str, coder: str) -> None:
    """Every x: the bytes with both coders, energy and error of real encoding."""
    case = make_case(3, scope=scope, coder=coder)
    alphabets, codes = dissect(case.changes, case.step)
    found, deltas = promotions(alphabets, codes), case.deltas()
    assert [p.rule for p in found] == [1, 2, 3, 4, 5, 6, 7, 8, None]

    def squares(arrays: list[np.ndarray]) -> float:
        return sum(float(np.square(a, dtype=np.float64).sum()) for a in arrays)

    for p in found:
        quantized = [codec.quantize(d, p.rule) for d in deltas]
        shapes = [shapes_of(group) for group in case.step.groups]
        for name in CODERS:
            encoded = (codec.encode(q, name, shape) for q, shape in zip(quantized, shapes))
            assert p.sizes.of(name) == sum(map(nbytes_of, encoded))
        assert p.sizes.n == sum(d.size for d in deltas)
        assert p.buckets_kept == sum(q.levels.size - 1 for q in quantized)
        assert p.buckets == sum(len(q.buckets) for q in quantized if q.buckets is not None)
        entropy = sum(huffman.entropy(q.counts) for q in quantized)
        assert p.sizes.entropy == pytest.approx(entropy / 8)
        kept = squares([d[q.codes > 0] for d, q in zip(deltas, quantized)])
        lost = squares([d.astype(float) - codec.dequantize(q) for d, q in zip(deltas, quantized)])
        assert p.energy_share == pytest.approx(kept / squares(deltas), rel=1e-12)
        assert p.error == pytest.approx(np.sqrt(lost / squares(deltas)), rel=1e-6)
    for known, uncoded in zip(found, promotions(alphabets), strict=True):  # the record's own runs
        own = known.buckets_kept == sum(a.n_kept for a in alphabets)
        runs = known.sizes.of("runlength") if own else None
        sizes = uncoded.sizes
        assert (sizes.of("huffman"), sizes.of("runlength")) == (known.sizes.of("huffman"), runs)


@pytest.mark.parametrize("bits", [1, 8, None])
def test_more_than_256_levels_keep_the_sizes_right(bits: int | None) -> None:
    """458 buckets at once, with which no track overflows: with E alone, codes need 16 bits."""
    rng = np.random.default_rng(5)
    exponents = np.repeat(np.arange(-126, 103), 4)
    delta = (rng.uniform(1, 1.9, exponents.size) * 2.0**exponents).astype(np.float32)
    delta[::2] *= -1
    step = codec.Tracker({"w": np.zeros(delta.size, np.float32)}, 2).prepare({"w": delta})
    alphabets, (stage,) = dissect({"w": delta}, step)
    quantized = codec.quantize(delta, bits)
    found = promotions(alphabets, [stage])[EVERY_BITS.index(bits)]
    assert stage.dtype == np.uint16
    for coder in CODERS:
        assert found.sizes.of(coder) == nbytes_of(codec.encode(quantized, coder))
    assert found.buckets_kept == n_kept(bits, 458) == quantized.levels.size - 1


@pytest.mark.parametrize(
    ("bits", "budget", "scope", "coder"),
    [
        (1, None, "model", "huffman"),
        (2, None, "tensor", "runlength"),
        (2, None, "model", "context"),
        (None, None, "model", "runlength"),
        (None, 0.1, "tensor", "huffman"),
        (None, 0.1, "model", "runlength"),
    ],
)
def test_written_is_the_record(
    make_case: MakeCase, bits: int | None, budget: float | None, scope: str, coder: str
) -> None:
    """The record's coder took what is on disk; the others, what they would have put there."""
    case = make_case(7, bits, scope, None, coder, budget, 3, quantizer="exponent")
    alphabets, _ = dissect(case.changes, case.step)
    sizes = record_sizes(alphabets, coder)
    assert sizes.of(coder) == sum(nbytes_of(g.encoded) for g in case.step.groups)
    made = Counter[str]()
    for alphabet, group, delta in zip(alphabets, case.step.groups, case.deltas(), strict=True):
        kept = group.encoded.levels.size - 1
        assert alphabet.names == tuple(t.name for t in group.tensors)
        assert alphabet.n_kept == kept
        assert alphabet.buckets.levels.tolist() == group.encoded.levels.tolist()
        assert len(alphabet.buckets) == len(codec.quantize(delta).buckets)
        everything = codec.quantize(delta)
        codes = np.where(everything.codes <= kept, everything.codes, 0).astype(np.uint8)
        buckets = everything.buckets.keeping(kept)
        quantized = codec.Quantized(codes, group.encoded.levels, delta.shape, None, buckets)
        made.update({c: nbytes_of(codec.encode(quantized, c, shapes_of(group))) for c in CODERS})
    for other in set(CODERS) - {coder}:
        assert sizes.of(other) == made[other]
    counts = [np.unique(c, return_counts=True)[1] for c in case.codes()]
    assert sizes.entropy == pytest.approx(sum(huffman.entropy(c) for c in counts) / 8)
    assert sizes.n == sum(d.size for d in case.deltas()) == 2055
    assert (sizes.share(2055), sizes.bits(2055)) == (0.25, 8.0)


def test_what_a_budget_chose_is_one_more_choice(make_case: MakeCase) -> None:
    case = make_case(9, scope="tensor", budget=0.1, quantizer="exponent")
    alphabets, codes = dissect(case.changes, case.step)
    *others, last = promotions(alphabets, codes, Coding(budget=0.1))
    assert (tuple(others), last.rule) == (promotions(alphabets, codes), Coding(budget=0.1))
    groups = case.step.groups
    assert 0 < last.buckets_kept == sum(g.encoded.levels.size - 1 for g in groups) < last.buckets
    assert last.sizes.of("runlength") == sum(nbytes_of(g.encoded) for g in groups)


@pytest.mark.parametrize(
    ("target", "scope", "coder"),
    [
        ({"budget": 0.1}, "model", "runlength"),
        ({"budget": 0.1}, "tensor", "huffman"),
        ({"budget": 0.4}, "model", "context"),
        ({"tolerance": 0.002}, "tensor", "context"),
        ({"tolerance": 0.002}, "model", "huffman"),
    ],
)
def test_equal_steps(make_case: MakeCase, target: dict[str, float], scope: str, coder: str) -> None:
    """A row for each multiple of the step, then those of the dead zone; sizes are the record's."""
    case = make_case(7, None, scope, None, coder, steps=3, **target)
    alphabets, codes = dissect(case.changes, case.step)
    sizes = record_sizes(alphabets, coder)
    groups, deltas = case.step.groups, case.deltas()
    assert sizes.of(coder) == sum(nbytes_of(g.encoded) for g in groups)
    found = promotions(alphabets, codes, Coding(**target))
    assert [p.rule for p in found] == [Coding(**target)]  # no x promotes steps
    for a, own, group, delta in zip(alphabets, codes, groups, deltas, strict=True):
        sent = codec.decode(group.encoded)
        k = sent.levels.size
        assert (a.uniform, a.n_kept) == (group.encoded.uniform, k - 1)
        assert np.where(own < k, own, 0).tolist() == sent.codes.tolist()
        assert a.buckets.levels.tolist() == sent.levels.tolist()
        assert a.counts(a.n_kept).tolist() == sent.counts.tolist()
        energies, residuals = [], []
        for code, bucket in enumerate(a.buckets, 1):
            members = delta[own == code].astype(np.float64)
            assert bucket.count == members.size
            energies.append(np.square(members).sum())
            if code < k:
                residuals.append(np.square(members - sent.levels[code]).sum())
            else:
                assert bucket.exponent == np.frexp(np.abs(members))[1].max() - 1
        np.testing.assert_allclose(a.energy[: len(energies)], energies, rtol=1e-6)
        np.testing.assert_allclose(a.residual[: k - 1], residuals, rtol=1e-6, atol=1e-12)
    decoded = [codec.dequantize(codec.decode(g.encoded)).reshape(-1) for g in groups]
    moved, missed = (np.concatenate(a).astype(np.float64) for a in (deltas, decoded))
    missed = moved - missed
    error = np.linalg.norm(missed) / np.linalg.norm(moved)
    assert found[0].error == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize(("scope", "coder"), [("model", "runlength"), ("tensor", "huffman")])
def test_a_delta_of_zeros(make_case: MakeCase, scope: str, coder: str) -> None:
    """Nothing changed: no bucket, no error, no bytes, no table."""
    case = make_case(scale={"wide": 0.0, "bias": 0.0}, scope=scope, coder=coder)
    alphabets, codes = dissect(case.changes, case.step)
    assert totals(alphabets) == ()
    for c in promotions(alphabets, codes):
        assert (c.buckets, c.buckets_kept) == (0, 0)
        assert {*c.sizes.by_coder.values(), c.sizes.entropy} == {0}
        assert (c.energy_share, c.error) == (1.0, 0.0)


def test_one_bucket_holds_everything() -> None:
    """Every value in one bucket: one symbol too, and no bits are needed."""
    after = {"w": np.linspace(1.0, 1.5, 100, dtype=np.float32)}
    step = codec.Tracker({"w": np.zeros(100, np.float32)}, 2).prepare(after)
    alphabets, codes = dissect(after, step)
    for p in promotions(alphabets, codes):
        assert (p.buckets_kept, p.buckets, p.energy_share) == (1, 1, 1.0)
        assert set(p.sizes.by_coder.values()) == {4}


def test_a_bucket_that_a_budget_kept_in_part() -> None:
    """Its largest values and the rest of it are two rows; together they are the whole delta."""
    rng = np.random.default_rng(0)
    n = 20_000
    delta = (rng.uniform(1.1, 1.9, n) * rng.choice([-1, 1], n)).astype(np.float32)
    delta[:50] = 2.0**-9
    tracker = codec.Tracker({"w": np.zeros(n, np.float32)}, budget=0.02, quantizer="exponent")
    step = tracker.step({"w": delta})
    sent = codec.decode(step.groups[0].encoded)
    (alphabet,), (codes,) = dissect({"w": delta}, step)
    least = np.abs(delta[sent.codes > 0]).min()
    assert 1.1 < least < 1.9
    rows = [(b.exponent, b.sign, b.count, b.level) for b in alphabet.buckets]
    large = np.abs(delta) >= least
    assert [row[0] for row in rows] == [0, 0, 0, 0, -9]
    assert [row[3] for row in rows] == [1, 2, 0, 0, 0]
    assert {(sign, count) for _, sign, count, level in rows if level} == {
        (0, (large & (delta > 0)).sum()),
        (1, (large & (delta < 0)).sum()),
    }
    assert sum(b.count for b in alphabet.buckets) == n
    assert np.where(codes <= alphabet.n_kept, codes, 0).tolist() == sent.codes.tolist()
    assert alphabet.counts(alphabet.n_kept).tolist() == sent.counts.tolist()
    for code, (energy, bucket) in enumerate(zip(alphabet.energy, alphabet.buckets), 1):
        own = delta[codes == code].astype(np.float64)
        assert (own.min(), own.max()) == (bucket.min, bucket.max)
        assert energy == pytest.approx(np.square(own).sum())
    found = promotions((alphabet,), (codes,), Coding(budget=0.02))
    assert found[-1].buckets_kept == 2
    assert found[-1].sizes.of("runlength") == nbytes_of(step.groups[0].encoded)
    assert {t.kept_members + t.dropped_members for t in totals((alphabet,))} >= {50}
    assert sum(t.kept_members for t in totals((alphabet,))) == large.sum()
