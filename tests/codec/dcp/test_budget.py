"""Budgets of distributed checkpoints in one process; tests/distributed has two ranks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

import codec
from codec.dcp import ChainWriter, chunks
from codec.errors import BudgetError
from tests.codec.dcp import steps
from tests.codec.dcp.steps import size

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is (disabled|unavailable)")
SHAPES = {"wide": (300, 120), "deep": (90, 200), "bias": (120,), "tiny": (64,)}
N = sum(torch.Size(shape).numel() for shape in SHAPES.values())
Tensors = dict[str, torch.Tensor]


def walk(step: int, shapes: dict[str, Any] = SHAPES) -> Tensors:
    """A random walk of each tensor."""
    made = {}
    for i, (name, shape) in enumerate(shapes.items()):
        rng = torch.Generator().manual_seed(i)
        made[name] = torch.randn(shape, generator=rng)
        for _ in range(step):
            made[name] += 0.01 * torch.randn(shape, generator=rng)
    return made


def moments(step: int) -> Tensors:
    """Of AdamW for "deep", as a training has them after this step."""
    rng = torch.Generator().manual_seed(7)
    m, v = torch.zeros(SHAPES["deep"]), torch.zeros(SHAPES["deep"])
    for _ in range(step + 3):
        gradient = torch.randn(SHAPES["deep"], generator=rng)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
    return {"exp_avg": m, "exp_avg_sq": v}


def save(writer: ChainWriter, step: Path, model: Tensors, moment: Tensors | None = None) -> None:
    state: dict[str, Any] = {"optim": {"state": {"deep": moment}}} if moment else {}
    state["model"] = model
    dcp.save(state, storage_writer=writer, checkpoint_id=step)


def loaded(step: Path, like: Tensors) -> Tensors:
    """The model of a step."""
    model: Tensors = steps.loaded(step, {"model": like})["model"]
    return model


def error(seen: Tensors, live: Tensors) -> float:
    return max(float((seen[name] - tensor).abs().max()) for name, tensor in live.items())


def distance(seen: Tensors, live: Tensors) -> float:
    squares = (float((seen[name] - tensor).square().sum()) for name, tensor in live.items())
    return math.sqrt(sum(squares))


@pytest.mark.parametrize(
    ("budget", "quantizer", "scope", "most"),
    [
        (0.03, "exponent", "model", 90_000),
        (0.03, "uniform", "tensor", None),
        (0.1, "exponent", "tensor", 1),
        (0.1, "uniform", "model", 90_000),
    ],
)
def test_all_records_together_are_within_the_budget(
    budget: float,
    quantizer: str,
    scope: str,
    most: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one record, as two, and as one for each tensor; some are smaller than a header."""
    if most is not None:
        monkeypatch.setattr(chunks, "MAX_TRACK_NBYTES", most)
    writer = ChainWriter(budget=budget, quantizer=quantizer, scope=scope)
    for step in range(3):
        save(writer, tmp_path / f"{step}", walk(step))
        if step == 0:
            assert size(tmp_path / "0", "delta") == 0
            assert error(loaded(tmp_path / "0", walk(0)), walk(0)) == 0
            continue
        n_files = len(list((tmp_path / f"{step}").glob("*.delta.safetensors")))
        assert n_files == {None: 1, 90_000: 2, 1: 4}[most]
        assert size(tmp_path / f"{step}", "delta") <= budget * 4 * N
        if quantizer == "uniform":
            assert size(tmp_path / f"{step}", "delta") >= 0.9 * budget * 4 * N
        off = error(loaded(tmp_path / f"{step}", walk(step)), walk(step))
        assert 0 < off < (0.2 if budget == 0.03 else 0.06)


def test_moments_come_on_top(tmp_path: Path) -> None:
    """One record has both. The weights fill the budget, nearly as without moments; the moments are
    restored as a single process restores its own."""
    writer, plain = ChainWriter(budget=0.05), ChainWriter(budget=0.05)
    with codec.Checkpointer(tmp_path / "own.lcc", budget=0.05, scope="tensor") as mine:
        for step in range(3):
            save(writer, tmp_path / f"{step}", walk(step), moments(step))
            save(plain, tmp_path / "plain" / f"{step}", walk(step))
            state = {"model": walk(step), "optim": {"state": {"deep": moments(step)}}}
            above = mine.save(step, state).moment_nbytes
            if step == 0:
                continue
            (file,) = (tmp_path / f"{step}").glob("*.delta.safetensors")
            assert above > 0.05 * 4 * N
            assert 0.9 * 0.05 * 4 * N < file.stat().st_size - above <= 0.05 * 4 * N + 2 * 24
            seen = steps.loaded(tmp_path / f"{step}", {"optim": state["optim"]})
            alone = codec.restore(tmp_path / "own.lcc")
            for name, live in moments(step).items():
                moment = seen["optim"]["state"]["deep"][name]
                assert torch.equal(moment, alone["optim"]["state"]["deep"][name])
                assert not torch.equal(moment, live)
            weights, without = (
                loaded(at / f"{step}", walk(step)) for at in (tmp_path, tmp_path / "plain")
            )
            assert distance(weights, walk(step)) == pytest.approx(
                distance(without, walk(step)), rel=0.01
            )


@pytest.mark.parametrize("target", [{"budget": 0.2}, {"tolerance": 0.02, "scope": "model"}])
def test_targets_of_a_policy(tmp_path: Path, target: dict[str, Any]) -> None:
    """A pattern's own target holds, whatever the others have; a budget pays for it."""
    writer = ChainWriter(**target, policy={"*deep": "tolerance=1e-5"})
    plain = ChainWriter(**target)
    for step in range(3):
        save(writer, tmp_path / "own" / f"{step}", walk(step))
        save(plain, tmp_path / "plain" / f"{step}", walk(step))
    seen, without = (loaded(tmp_path / kind / "2", walk(2)) for kind in ("own", "plain"))
    off = {name: error({name: seen[name]}, {name: live}) for name, live in walk(2).items()}
    assert 9e-6 < off["deep"] <= 1e-5 < off["wide"]
    assert error(without, {"deep": walk(2)["deep"]}) > 1e-5
    if "budget" in target:
        assert size(tmp_path / "own" / "2", "delta") <= 0.2 * 4 * N
    else:
        assert 0.015 < off["wide"] <= 0.02


def test_chunks_that_are_not_saved_do_not_count(tmp_path: Path) -> None:
    """Their track stays in the bundle, but the budget is of what is saved."""
    writer = ChainWriter(budget=0.1)
    few = {name: shape for name, shape in SHAPES.items() if name != "wide"}
    n = N - 300 * 120
    save(writer, tmp_path / "0", walk(0))
    save(writer, tmp_path / "1", walk(1))
    save(writer, tmp_path / "2", walk(2, few))
    assert 0.1 * 4 * n < size(tmp_path / "1", "delta") <= 0.1 * 4 * N
    assert 0 < size(tmp_path / "2", "delta") <= 0.1 * 4 * n


def test_a_budget_that_is_too_small(tmp_path: Path) -> None:
    """The error names the rank and a budget that is enough; nothing of the save stays."""
    writer = ChainWriter(budget=0.0005)
    save(writer, tmp_path / "0", walk(0))
    with pytest.raises(CheckpointException) as seen:
        save(writer, tmp_path / "1", walk(1))
    reason = seen.value.failures[0][0]
    assert isinstance(reason, BudgetError)
    assert "rank 0" in str(reason)
    assert f"the lossy tensors' {4 * N:,} bytes is {int(0.0005 * 4 * N):,} bytes" in str(reason)
    assert not list((tmp_path / "1").glob("*.safetensors"))
    assert error(loaded(tmp_path / "0", walk(0)), walk(0)) == 0
    enough = float(str(reason).split("budget=")[1].split()[0])
    writer = ChainWriter(budget=enough, resume=tmp_path / "0")
    save(writer, tmp_path / "1", walk(1))
    assert 0 < size(tmp_path / "1", "delta") <= enough * 4 * N


@pytest.mark.parametrize(
    ("settings", "share"),
    [({}, 0.3), ({"distance": 0.05}, 0.05), ({"distance": 0.5, "scope": "model"}, 0.5)],
    ids=str,
)
def test_a_distance_holds_of_every_chunk_or_of_all(
    tmp_path: Path, settings: dict[str, Any], share: float
) -> None:
    """Without any setting it is 0.3 of each chunk; with scope "model" of a record's chunks."""
    writer, before = ChainWriter(**settings), walk(0)
    for step in range(3):
        save(writer, tmp_path / f"{step}", walk(step))
        seen = loaded(tmp_path / f"{step}", walk(step))
        if step:
            names = [[*SHAPES]] if "scope" in settings else [[name] for name in SHAPES]
            for mine in names:
                live = {name: walk(step)[name] for name in mine}
                assert 0 < distance(seen, live) <= share * distance(before, live)
        before = seen
