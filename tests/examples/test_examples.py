"""The quick sets of examples/killed.py (killed, resumed, and the curve it gives) and serve.py."""

from __future__ import annotations

import importlib
import math
import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import codec


@pytest.fixture
def killed() -> Iterator[ModuleType]:
    """examples/killed.py, found as it is where it is run as a script.

    Its processes are forks of this one, which has imported torch already.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(codec.__file__).parents[1] / "examples"))
        module = importlib.import_module("killed")
        patch.setattr(module, "PROCESSES", multiprocessing.get_context("fork"))
        yield module


# Well after the kills, which may come late; an epoch is 44 steps.
@pytest.mark.parametrize(
    ("steps", "kills"), [(20, [4]), pytest.param(60, [14, 46], marks=pytest.mark.exhaustive)]
)
def test_a_killed_run_goes_on(
    killed: ModuleType, tmp_path: Path, steps: int, kills: list[int]
) -> None:
    """Exact, as if nothing had been; lossy, from the newest step on disk."""
    ended = ["--steps", str(steps)]
    alone = killed.train(tmp_path / "alone", [*ended, "--exact"])
    assert [step for step, _ in alone.told] == list(range(1, steps + 1))
    exact = killed.train(tmp_path / "exact", [*ended, "--exact"], [(step, 0.0) for step in kills])
    assert exact.kills == len(kills)
    assert set(exact.told) == set(alone.told)  # also of steps told twice
    assert (exact.weights == alone.weights).all()

    folder = tmp_path / "lossy"
    assert killed.kill(folder, ended, kills[0], 0.0)
    newest = codec.Chain(folder / "run.lcc").steps[-1]
    assert kills[0] - 1 <= newest < steps
    before = killed.told(folder / "losses.csv")
    told = list(killed.train(folder, ended).told)
    assert told[: len(before)] == before
    assert set(before) <= set(alone.told)  # saving changes no training
    after = dict(told[len(before) :])
    assert list(after) == list(range(newest + 1, steps + 1))
    assert all(math.isfinite(loss) for loss in after.values())
    differences = [abs(after[step] - loss) for step, loss in alone.told if step in after]
    assert 0 < max(differences) < 0.25
    for name in ("exact", "lossy"):
        assert "Warning" not in (tmp_path / name / "output.txt").read_text()


@pytest.mark.exhaustive
def test_a_model_is_served_while_it_trains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its loss falls from one update to the next, up to the last iteration."""
    monkeypatch.syspath_prepend(str(Path(codec.__file__).parents[1] / "examples"))
    serve = importlib.import_module("serve")
    # As a script. Else a process that it spawns runs the last page of the dashboard's tests.
    monkeypatch.setitem(sys.modules, "__main__", serve)
    monkeypatch.setattr(sys, "argv", ["serve.py", "--iterations", "20"])
    threads = torch.get_num_threads()
    try:
        serve.main()
    finally:
        torch.set_num_threads(threads)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert int(rows[-1][0]) == 20
    losses = [float(row[4]) for row in rows]
    assert losses[0] > 5 > losses[-1]
