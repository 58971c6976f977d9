"""Budget mode: it fits, it uses what it has, and it is otherwise a step like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import codec
from codec.errors import BudgetError
from codec.inspect import Group
from codec.scheme.coders import CODERS
from codec.scheme.stream import LosslessStage
from codec.scheme.stream import code as coded
from codec.scheme.survivors import packed
from codec.scheme.tables import CodeTable

F32 = np.float32


def sizes_of(
    delta: np.ndarray, coder: str, previous: CodeTable | None
) -> Iterator[tuple[int, int]]:
    """How many bytes any number of buckets takes, each one coded to the end."""
    q = codec.quantize(delta)
    assert q.buckets is not None
    for keep in range(len(q.buckets) + 1):
        buckets = q.buckets.keeping(keep)
        codes = np.where(q.codes <= keep, q.codes, 0).astype(q.codes.dtype)
        counts = buckets.counts(codes.size)
        with packed(codes) as survivors:
            stage = LosslessStage(coder, codes.shape, ((codes.size, 1),), previous)
            yield keep, coded(stage.message(survivors, counts, buckets.levels))[0].nbytes


def n_levels(group: Group) -> int:
    return group.encoded.levels.size - 1


def least(n: int, coder: str) -> float:
    """Bytes into which the largest value of a tensor always fits: plain Huffman has no code word of
    less than a bit."""
    return 24 + (n / 8 if coder == "huffman" else 0)


def deltas(kind: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Dense, heavy-tailed, sparse, clustered, or of many exponents."""
    values = [
        rng.normal(size=n),
        rng.standard_t(1, size=n),
        rng.normal(size=n) * (rng.random(n) < 0.05),
        rng.laplace(size=n) * np.repeat(rng.random(n // 64 + 1) < 0.1, 64)[:n],
        np.ldexp(rng.normal(size=n), rng.integers(-140, 100, n)),
    ][kind]
    return np.clip(values, -1e37, 1e37).astype(F32)


QUANTIZERS = pytest.mark.parametrize("quantizer", ["exponent", "uniform"])
cases = (st.integers(0, 4), st.integers(8, 4000), st.floats(-3, 0), st.sampled_from(list(CODERS)))


@settings(max_examples=15)
@given(*cases, st.integers(0, 2**32 - 1))
@example(1, 300, -1.0, "runlength", 0)
@example(0, 3000, -2.3, "huffman", 1)
def test_it_fits_and_one_more_would_not(
    kind: int, n: int, exponent: float, coder: str, seed: int
) -> None:
    """Against every number of buckets tried out, over a few steps with their table cache."""
    rng = np.random.default_rng(seed)
    share = 10.0**exponent
    tracker = codec.Tracker(
        {"w": np.zeros(n, F32)}, coder=coder, budget=share, quantizer="exponent"
    )
    state = np.zeros(n, F32)
    for _ in range(3):
        state = state + deltas(kind, n, rng)
        track, previous = tracker.state["w"].copy(), tracker.track.tables.get("")
        delta, room = state - track, share * 4 * n
        sizes = dict(sizes_of(delta, coder, previous))
        q = codec.quantize(delta)
        whole = max(keep for keep, nbytes in sizes.items() if nbytes <= room or keep == 0)
        try:
            step = tracker.step({"w": state})
        except BudgetError:
            assert delta.any()
            assert room < least(n, coder)  # the largest value alone always fits into that
            assert tracker.state["w"].tobytes() == track.tobytes()
            continue
        (group,) = step.groups
        assert step.nbytes <= room
        codes = codec.decode(group.encoded).codes
        if codes.tolist() != np.where(q.codes <= whole, q.codes, 0).tolist():
            assert step.nbytes > sizes[whole]
            check_largest_values(delta, codes, group)
        elif whole < len(sizes) - 1:
            assert step.nbytes == sizes[whole]
        expected = np.where(codes > 0, track + group.encoded.levels[codes], track)
        assert tracker.state["w"].tobytes() == expected.tobytes()


def check_largest_values(delta: np.ndarray, codes: np.ndarray, group: Group) -> None:
    """All values from some magnitude on are there, and no others; each level is the middle of its
    own values, which have one exponent and sign."""
    assert np.count_nonzero(codes) > 0
    least = np.abs(delta[codes > 0]).min()
    assert ((codes > 0) == (np.abs(delta) >= least)).all()
    for code, level in enumerate(group.encoded.levels[1:], 1):
        its = delta[codes == code].astype(np.float64)
        assert level == F32((its.min() + its.max()) / 2)
        assert len({*np.frexp(its)[1], *np.sign(its).astype(int) * 1000}) == 2


def test_a_bucket_too_large_for_the_budget_is_kept_in_part() -> None:
    """As after Adam's first step, when every value has changed by nearly the same."""
    rng = np.random.default_rng(0)
    n = 200_000
    delta = (1e-3 * (1 + 1e-6 * rng.normal(size=n)) * rng.choice([-1, 1], n)).astype(F32)
    for outliers in (0, 10):  # some of which fit as buckets of their own
        delta[:outliers] *= 1000
        tracker = codec.Tracker({"w": np.zeros(n, F32)}, budget=0.01, quantizer="exponent")
        step = tracker.step({"w": delta})
        check_largest_values(delta, codec.decode(step.groups[0].encoded).codes, step.groups[0])
        assert 0.7 * 0.01 * 4 * n <= step.nbytes <= 0.01 * 4 * n


@QUANTIZERS
def test_of_equal_values_the_first_are_kept(quantizer: str) -> None:
    """As with updates by sign: none is larger than another. In the end all have moved."""
    rng = np.random.default_rng(0)
    n = 2 * 65_536 + 77
    sign = rng.choice([-1, 1], n)
    w, first = np.zeros(n, F32), {"w": np.zeros(n, F32)}
    tracker = codec.Tracker(first, budget=0.01, quantizer=quantizer)
    w = w + (1e-3 * sign).astype(F32)
    moved = 0
    for _ in range(8):
        step = tracker.step({"w": w})
        assert step.nbytes <= 0.01 * 4 * n
        now = np.count_nonzero(tracker.state["w"])
        assert tracker.state["w"][:now].all()
        assert now > moved or now == n
        moved = now
    assert moved == n
    assert np.abs(tracker.state["w"] - w).max() < 1e-9


@QUANTIZERS
def test_no_weight_stays_behind_for_ever(quantizer: str) -> None:
    """A few values that move far are no reason to forget all others."""
    rng = np.random.default_rng(0)
    n = 20_000
    sign, w = rng.choice([-1, 1], n), np.zeros(n, F32)
    tracker = codec.Tracker({"w": w}, budget=0.02, quantizer=quantizer)
    for _ in range(60):
        w = w + (0.001 * sign * rng.uniform(0.95, 1.05, n)).astype(F32)
        w[:10] += sign[:10]
        tracker.step({"w": w})
    assert tracker.state["w"].all()


@pytest.mark.parametrize(
    ("scope", "coder", "quantizer"),
    [
        ("model", "runlength", "uniform"),
        ("tensor", "huffman", "exponent"),
        ("tensor", "context", "uniform"),
    ],
)
def test_too_small_for_anything(scope: str, coder: str, quantizer: str) -> None:
    """Then nothing would move, save after save: an error says so, and the track stays."""
    rng = np.random.default_rng(0)
    first = {"a": rng.normal(size=500).astype(F32), "b": np.zeros(9, F32), "n": np.array(1)}
    tracker = codec.Tracker(first, None, scope, coder, 1e-9, quantizer=quantizer)
    second = {k: a + a.dtype.type(1) for k, a in first.items()}
    for save in (tracker.step, tracker.prepare):
        with pytest.raises(codec.SettingsError, match=r"too small.*'a'|too small.*'b'"):
            save(second)
        for name, array in first.items():
            assert tracker.state[name].tobytes() == array.tobytes()
    nothing = {**first, "n": np.array(2)}  # exact: stored whatever it costs
    assert tracker.step(nothing).nbytes == 8
    assert tracker.state["n"] == 2
    tracker = codec.Tracker(first, None, scope, coder, 1.0, quantizer=quantizer)
    assert tracker.step(second).groups[0].encoded.levels.size > 1


@settings(max_examples=20)
@given(*cases[1:], st.sampled_from(["exponent", "uniform"]), st.integers(0, 2**32 - 1))
def test_tensors_share_the_room(
    n: int, exponent: float, coder: str, quantizer: str, seed: int
) -> None:
    """All that have changed get something, and together they fit; exact ones come on top."""
    rng = np.random.default_rng(seed)
    share = 10.0**exponent
    first = {
        "a": np.zeros(n, F32),
        "b": np.zeros(50, F32),
        "n": np.zeros(2),
        "c": np.zeros(99, F32),
    }
    tracker = codec.Tracker(first, None, "tensor", coder, share, quantizer=quantizer)
    total = share * 4 * (n + 50 + 99)
    for _ in range(2):
        state = {
            k: a + (deltas(i, a.size, rng) if a.dtype == F32 else 1)
            for i, (k, a) in enumerate(tracker.state.items())
        }
        try:
            step = tracker.step(state)
        except codec.SettingsError:
            assert total < sum(least(size, coder) for size in (n, 50, 99))
            continue
        assert [g.tensors[0].name for g in step.groups] == ["a", "b", "c"]
        before = {k: state[k] - tracker.state[k] for k in "abc"}
        for group in step.groups:
            assert n_levels(group) or not before[group.tensors[0].name].any()
        assert step.nbytes <= total + 16


@QUANTIZERS
def test_the_header_is_paid_for(quantizer: str) -> None:
    rng = np.random.default_rng(0)
    tracker = codec.Tracker({"w": np.zeros(5000, F32)}, budget=0.05, quantizer=quantizer)
    u = {"w": rng.normal(size=5000).astype(F32)}
    seen = []
    for header in (0, 100, 400, 700, 900):
        step = tracker.prepare_arrays(u, lambda *_, n=header: n)  # type: ignore[misc]
        assert step.nbytes + header <= 0.05 * 20_000
        seen.append(step.nbytes)
    assert seen == sorted(seen, reverse=True)
    assert seen[0] > seen[1] > seen[3] > 0
    for header in (999, 1000, 2000):
        with pytest.raises(codec.SettingsError, match=f"header takes {header:,}"):
            tracker.prepare_arrays(u, lambda *_, n=header: n)  # type: ignore[misc]


def test_most_of_a_budget_is_used() -> None:
    """Where every bucket is small beside it."""
    rng = np.random.default_rng(0)
    n = 300_000
    tracker = codec.Tracker({"w": np.zeros(n, F32)}, budget=0.05, quantizer="exponent")
    delta = np.ldexp(rng.uniform(1, 2, n), rng.integers(-60, 60, n)) * rng.choice([-1, 1], n)
    for _ in range(3):
        step = tracker.step({"w": tracker.state["w"] + delta.astype(F32)})
        assert 0.97 * 0.05 * 4 * n < step.nbytes <= 0.05 * 4 * n


def test_most_of_a_budget_is_used_where_most_changes_are_alike() -> None:
    """Steps of one size keep all of them, or only a few larger ones: some blocks keep them."""
    n = 300_000
    rng = np.random.default_rng(0)
    change = rng.choice([-1e-3, 1e-3, 4e-3], n, p=[0.49, 0.49, 0.02]).astype(F32)
    step = codec.Tracker({"w": np.zeros(n, F32)}, budget=0.02).step({"w": change})
    assert 0.97 * 0.02 * 4 * n < step.nbytes <= 0.02 * 4 * n


# Whole records, as a training saves them.


def trained(
    path: Path,
    net: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    shape: tuple[int, ...],
    n: int = 5,
    nested: bool = True,
    **settings: Any,
) -> list[codec.Saved]:
    """Save a short training, every step of it."""
    torch.manual_seed(0)
    saves = []
    with codec.Checkpointer(path, **settings) as checkpoints:
        for step in range(n):
            state: Any = net.state_dict()
            if nested:
                state = {"model": state, "optimizer": optimizer.state_dict(), "step": step}
            saves.append(checkpoints.save(step, state))
            optimizer.zero_grad()
            labels = torch.randint(0, 10, (shape[0],))
            torch.nn.functional.cross_entropy(net(torch.randn(*shape)), labels).backward()
            optimizer.step()
    return saves


def mlp() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = torch.nn.Linear(96, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    return torch.nn.Sequential(*layers)


def test_a_budget_that_tensors_outside_the_model_use_up_is_refused(tmp_path: Path) -> None:
    """It says what takes how much, and what to do; the chain stays as it was."""
    w, policy = {"model": {"w": np.zeros(500, F32)}}, {"ema/*": "bits=all"}
    with codec.Checkpointer(tmp_path / "1.lcc", budget=0.01, policy=policy) as checkpoints:
        checkpoints.save(0, w | {"ema": {"m": np.zeros(500, F32)}})
        # Though the model has not changed.
        with pytest.raises(BudgetError, match=r"step 1.*'ema/m'\) [0-9,]+\. Pass budget="):
            checkpoints.save(1, w | {"ema": {"m": np.arange(500, dtype=F32)}})
    assert codec.verify(tmp_path / "1.lcc").steps == (0,)


def test_a_model_smaller_than_its_header_is_refused(tmp_path: Path) -> None:
    net = torch.nn.Linear(200, 10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(codec.SettingsError, match=r"is 80 bytes.*header takes 1[0-9][0-9],"):
        trained(tmp_path / "run.lcc", net, optimizer, (8, 200), nested=False, budget=0.01)
    with codec.Checkpointer(tmp_path / "still.lcc", budget=0.01) as checkpoints:
        for step in range(3):  # but where nothing has changed, nothing is lost
            checkpoints.save(step, net.state_dict())


def test_exact_bytes_are_those_of_the_file(tmp_path: Path, forks: None) -> None:
    """Counted from the file's own header: everything but the coded array and the line."""
    net, path = mlp(), tmp_path / "run.lcc"
    optimizer = torch.optim.Adam(net.parameters())
    saves = trained(path, net, optimizer, (16, 96), budget=0.2, asynchronous=True)
    for saved, entry in zip(saves, codec.Chain(path).entries, strict=True):
        data = (path / entry.name).read_bytes()
        if saved.kind == "base":
            assert saved.exact_nbytes == saved.nbytes == len(data)
            continue
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        begin, end = header["c"]["data_offsets"]
        line = {"__metadata__": header["__metadata__"], "c": header["c"]}
        lossy = 8 + len(json.dumps(line, separators=(",", ":"))) + end - begin
        assert saved.nbytes - saved.exact_nbytes == lossy
        model = 4 * sum(p.numel() for p in net.parameters())
        assert 0 < saved.moment_nbytes < 0.3 * model
        assert end - begin - saved.moment_nbytes <= 0.2 * model


@QUANTIZERS
def test_small_buckets_that_cluster_less_do_not_mislead(quantizer: str) -> None:
    """What the small buckets cost says nothing of a large one that is a single block."""
    delta = (np.random.default_rng(0).normal(size=2**20) * 1e-6).astype(F32)
    delta[1000:11_485] = 1
    sizes = []
    for share in (0.0005, 0.001, 0.002):
        tracker = codec.Tracker({"w": np.zeros(2**20, F32)}, budget=share, quantizer=quantizer)
        step = tracker.step({"w": delta})
        sizes.append(step.nbytes)
        assert step.groups[0].encoded.levels.size >= 2
        assert step.nbytes <= share * 4 * 2**20
    assert sizes == sorted(sizes)
