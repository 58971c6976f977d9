"""The anatomy of a delta against what the codec itself makes of the same values."""

from collections import Counter

import numpy as np
import pytest

import codec
from codec.scheme import huffman
from codec.scheme.coders import CODERS
from lcviz.lab.anatomy import dissect, kept_sizes, n_kept, record_sizes, totals
from tests.lcviz.common import Make


def nbytes_of(e: codec.Encoded) -> int:
    """Code words, table and levels; without the sizes of the streams and their padding."""
    return -(-e.payload_bits // 8) + e.table_nbytes + 4 * e.stored_levels.size


def shapes_of(group: codec.inspect.Group) -> list[tuple[int, ...]]:
    return [t.shape for t in group.tensors]


@pytest.mark.parametrize("bits", [1, 8, None])
def test_more_than_256_levels_keep_the_sizes_right(bits: int | None) -> None:
    """458 buckets at once, with which no track overflows: with E alone, codes need 16 bits."""
    rng = np.random.default_rng(5)
    exponents = np.repeat(np.arange(-126, 103), 4)
    delta = (rng.uniform(1, 1.9, exponents.size) * 2.0**exponents).astype(np.float32)
    delta[::2] *= -1
    step = codec.Tracker({"w": np.zeros(delta.size, np.float32)}, bits).prepare({"w": delta})
    alphabets, (stage,) = dissect({"w": delta}, step)
    quantized = codec.quantize(delta, bits)
    assert stage.dtype == np.uint16
    for coder in CODERS:
        assert kept_sizes(alphabets).of(coder) == nbytes_of(codec.encode(quantized, coder))
    assert alphabets[0].n_kept == n_kept(bits, 458) == quantized.levels.size - 1


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
    make_case: Make, bits: int | None, budget: float | None, scope: str, coder: str
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
def test_equal_steps(make_case: Make, target: dict[str, float], scope: str, coder: str) -> None:
    """A row for each multiple of the step, then those of the dead zone; sizes are the record's."""
    case = make_case(7, None, scope, None, coder, steps=3, **target)
    alphabets, codes = dissect(case.changes, case.step)
    sizes = record_sizes(alphabets, coder)
    groups, deltas = case.step.groups, case.deltas()
    assert sizes.of(coder) == sum(nbytes_of(g.encoded) for g in groups)
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


@pytest.mark.parametrize(("scope", "coder"), [("model", "runlength"), ("tensor", "huffman")])
def test_a_delta_of_zeros(make_case: Make, scope: str, coder: str) -> None:
    """Nothing changed: no bucket, no bytes, no table."""
    case = make_case(scale={"wide": 0.0, "bias": 0.0}, scope=scope, coder=coder)
    alphabets, _ = dissect(case.changes, case.step)
    assert totals(alphabets) == ()
    sizes = kept_sizes(alphabets)
    assert {*sizes.by_coder.values(), sizes.entropy} == {0}


def test_one_bucket_holds_everything() -> None:
    """Every value in one bucket: one symbol too, and no bits are needed."""
    after = {"w": np.linspace(1.0, 1.5, 100, dtype=np.float32)}
    step = codec.Tracker({"w": np.zeros(100, np.float32)}, 2).prepare(after)
    alphabets, _ = dissect(after, step)
    assert (alphabets[0].n_kept, len(alphabets[0].buckets)) == (1, 1)
    assert set(kept_sizes(alphabets).by_coder.values()) == {4}


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
    assert alphabet.n_kept == 2
    assert kept_sizes((alphabet,)).of("runlength") == nbytes_of(step.groups[0].encoded)
    assert {t.kept_members + t.dropped_members for t in totals((alphabet,))} >= {50}
    assert sum(t.kept_members for t in totals((alphabet,))) == large.sum()
