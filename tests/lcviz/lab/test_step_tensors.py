"""One step, tensor by tensor, against restored states and a walk over every code word."""

from pathlib import Path

import numpy as np
import pytest

import codec
from codec.errors import StepNotFoundError
from codec.state.tensors import TensorSpec
from lcviz.lab.codewords import first_words
from lcviz.lab.step_tensors import numbers, rebuild_step, word_bits
from lcviz.report.buckets import kept_buckets
from tests.lcviz.common import saved

STEPS = 9


@pytest.fixture(scope="module")
def state() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "w": rng.normal(size=(60, 50)).astype(np.float32),
        "half": rng.normal(size=(40,)).astype(np.float16),
        "still": np.ones((4, 5), np.float32),
        "n": np.array(5),
        "ids": np.arange(6),
    }


def write(path: Path, state: dict[str, np.ndarray], **settings: object) -> Path:
    rng = np.random.default_rng(4)
    state = dict(state)
    with codec.Checkpointer(path, **{"bits": 2} | settings) as chain:  # type: ignore[arg-type]
        for i in range(STEPS):
            chain.save(i, state)
            change = 0.01 * rng.normal(size=(60, 50)) * (rng.random((60, 50)) < 0.3)
            state["w"] = (state["w"] + change).astype(np.float32)
            state["half"] = (state["half"] + 0.5).astype(np.float16)
            state["n"] = np.array(state["n"] + 1)
    return path


@pytest.fixture(scope="module", params=[("model", "runlength"), ("tensor", "huffman")])
def chain(
    request: pytest.FixtureRequest,
    state: dict[str, np.ndarray],
    tmp_path_factory: pytest.TempPathFactory,
) -> codec.Chain:
    scope, coder = request.param
    path = write(tmp_path_factory.mktemp("chain") / "run.lcc", state, scope=scope, coder=coder)
    return codec.Chain(path)


def test_a_step_has_the_tensors_that_it_has(tmp_path: Path) -> None:
    """Where they come, go and grow: what is new is stored whole, rows that stay have codes."""
    w = np.random.default_rng(0).normal(size=(60, 50)).astype(np.float32)
    states: list[dict[str, np.ndarray]] = [
        {"w": w, "gone": w[:9].copy(), "n": np.arange(5)},
        {"w": np.concatenate((w * np.float32(1.01), w[:2])), "n": np.arange(6), "new": w[:9] + 1},
        {"w": np.concatenate((w, w[:2])), "n": np.arange(6), "new": w[:9] + 2},
    ]
    saved(tmp_path / "run.lcc", states)
    stored = ({}, {"w": "codes", "n": "whole", "new": "whole"}, {"w": "codes", "new": "codes"})
    for i, own in enumerate(states):
        facts = rebuild_step(codec.Chain(tmp_path / "run.lcc"), i)
        assert [(t.name, t.shape) for t in facts.tensors] == [(k, a.shape) for k, a in own.items()]
        for t in facts.tensors:
            assert t.stored == stored[i].get(t.name, "unchanged" if i else "base")
            if (t.name, i) == ("n", 1):
                assert t.bits == 8 * 8 / 6  # one row of six
            elif t.stored == "whole":
                assert t.bits == 32
    assert kept_buckets(codec.Chain(tmp_path / "run.lcc"), facts).n == facts.groups[0].n


def test_statistics_are_those_of_the_restored_state(chain: codec.Chain) -> None:
    for step in (0, STEPS - 1):
        steps: list[int] = []
        found, state = rebuild_step(chain, step, steps.append), chain.restore(step)
        assert steps == list(range(step + 1))  # progress
        assert [t.name for t in found.tensors] == list(state)
        for t in found.tensors:
            values = np.asarray(state[t.name], np.float64)
            assert (t.shape, t.n, t.n_not_finite) == (values.shape, values.size, 0)
            wanted = (values.min(), values.max(), values.mean(), values.std())
            assert (t.low, t.high, t.mean, t.std) == pytest.approx(wanted, rel=1e-12)
        assert found.tensors[1].dtype == "F16"
    with pytest.raises(StepNotFoundError):
        rebuild_step(chain, 99)


def test_changed_values_are_those_that_differ(chain: codec.Chain) -> None:
    before, after = rebuild_step(chain, 4), rebuild_step(chain, 5)
    for t in after.tensors:
        a, b = before.state[t.name], after.state[t.name]
        if t.stored == "codes":
            assert t.changed == np.count_nonzero(a != b)
            if t.changed:
                assert t.largest == pytest.approx(np.abs(b - a).max(), rel=1e-4)
    stored = [(t.name, t.stored) for t in after.tensors]
    coded = [(name, "codes") for name in ("w", "half", "still")]
    assert stored == [*coded, ("n", "whole"), ("ids", "unchanged")]
    names = {t.name: t for t in after.tensors}
    assert (names["still"].changed, names["still"].largest, names["n"].bits) == (0, None, 64)
    assert all(t.stored == "base" for t in rebuild_step(chain, 0).tensors)


def test_moments_are_in_their_measure(tmp_path: Path) -> None:
    """Second moments in octaves, first ones in roots of the second after the step."""
    rng, states = np.random.default_rng(5), []
    for i in range(4):
        g = rng.normal(size=(2, 300)).astype(np.float32) * np.float32(1.5**i)
        moments = {n: {"exp_avg": g[n], "exp_avg_sq": g[n] ** 2} for n in range(2)}
        states.append({"optimizer": {"state": moments}})
    saved(tmp_path / "run.lcc", states)
    before, after = (rebuild_step(codec.Chain(tmp_path / "run.lcc"), i) for i in (2, 3))
    m, v = ("optimizer/state/1/exp_avg", "optimizer/state/1/exp_avg_sq")
    own = {t.name: t for t in after.tensors}
    assert (own[m].target, own[v].target) == ("roots=0.5", "octaves=0.25")
    rise = after.state[v].view(np.int32) - before.state[v].view(np.int32)
    assert (own[v].changed, own[v].largest) == (np.count_nonzero(rise), abs(rise).max() / 2**23)
    moved = (after.state[m] - before.state[m]) / np.sqrt(after.state[v])
    assert own[m].changed == np.count_nonzero(moved) > 0
    assert own[m].largest == pytest.approx(abs(moved).max(), rel=1e-4)
    assert kept_buckets(codec.Chain(tmp_path / "run.lcc"), after).n == 0


def test_bits_are_those_of_the_words_that_end_there(chain: codec.Chain) -> None:
    facts = rebuild_step(chain, 6)
    for group in facts.groups:
        e = group.encoded
        sizes = [t.size for t in group.tensors]
        found = word_bits(e, codec.decode(e).codes, sizes)
        assert found.sum() == e.payload_bits
        slow = np.zeros(len(sizes), np.int64)
        for word in first_words(e, group.n):
            owner = np.searchsorted(np.cumsum(sizes), word.at, side="right")
            slow[owner] += len(word.word) + len(word.rest)
        assert found.tolist() == slow.tolist()
        for spec, bits in zip(group.tensors, found):
            (own,) = (t for t in facts.tensors if t.name == spec.name)
            assert own.bits == bits / spec.size


def test_bits_of_several_streams() -> None:
    rng = np.random.default_rng(0)
    tracker = codec.Tracker({"a": np.zeros(150_000, np.float32), "b": np.zeros(99, np.float32)})
    for _ in range(4):
        moved = {k: rng.normal(size=v.shape) ** 5 for k, v in tracker.state.items()}
        after = {k: v + moved[k].astype(np.float32) for k, v in tracker.state.items()}
        (group,) = tracker.step(after).groups
        e = group.encoded
        assert word_bits(e, codec.decode(e).codes, [150_000, 99]).sum() == e.payload_bits
    assert e.payload.streams.size > 1


def test_what_is_not_finite_is_counted(tmp_path: Path) -> None:
    values = np.array([np.nan, np.inf, 1, 3, -np.inf, 2, 2, 2, 2], np.float32)
    state = {"w": values, "none": np.full(9, np.nan, np.float32)}
    found = rebuild_step(codec.Chain(saved(tmp_path / "run.lcc", [state], bits=2)), 0)
    w, none = found.tensors
    assert (w.n_not_finite, w.low, w.high, w.mean) == (3, 1, 3, 2)
    assert (none.n_not_finite, none.low, none.std) == (9, None, None)


def test_bfloat16_is_rounded_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    ties = np.array([0x3F808000, 0x3F818000], np.uint32).view(np.float32)
    special = np.float32([np.inf, 3.38e38, 0, -0.0, 1e-42])
    track = np.concatenate([rng.normal(size=1000).astype(np.float32), special, ties])
    wanted = torch.from_numpy(track).to(torch.bfloat16)
    lossy = numbers(track, TensorSpec("w", "BF16", track.shape, True, "torch"))
    assert np.array_equal(lossy, wanted.float().numpy())
    beyond = numbers(np.float32([3.4e38]), TensorSpec("w", "BF16", (1,), True, "torch"))
    assert beyond == torch.finfo(torch.bfloat16).max  # a track may exceed what a weight can be
    bits = wanted.view(torch.int16).numpy().view(np.uint16)
    exact = numbers(bits, TensorSpec("w", "BF16", track.shape, False, "torch"))
    assert np.array_equal(exact, wanted.float().numpy())
    assert numbers(np.zeros(2, np.uint8), TensorSpec("w", "F8_E4M3", (2,), False, "torch")) is None
