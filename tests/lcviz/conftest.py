"""Helpers of the dashboard's tests, as fixtures: test files import nothing of each other."""

from __future__ import annotations

import queue
import runpy
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from demo_models import MODELS
from lcviz.session import Run, Settings

MakeSettings = Callable[..., Settings]


def _settings(model: str = "logistic-regression", **changes: Any) -> Settings:
    card = MODELS[model]
    optimizer = changes.get("optimizer", "sgd")
    lr, momentum = card.optimizers[optimizer]
    chosen: dict[str, Any] = {
        "data": card.default_data,
        "lr": lr,
        "momentum": momentum,
        "batch_size": card.batch_size,
        "stop_after": 6,
    }
    return Settings(model, **(chosen | changes))


@pytest.fixture(scope="session")
def settings_for() -> MakeSettings:
    """Settings of a short run with a model's own defaults: settings_for(model, **changes)."""
    return _settings


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """A paused run in its own directory, closed after the test: make_run(model, **changes)."""
    made: list[Run] = []

    def make(model: str = "logistic-regression", **changes: Any) -> Run:
        number = len(made)
        run = Run(f"test-{number}", _settings(model, **changes), tmp_path / f"{number}" / "run.lcc")
        made.append(run)
        return run

    yield make
    for run in made:
        run.close()


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Run]]:
    """A finished run, trained once for all tests that only look: finished_runs(model, **changes).

    Tests must not steer these runs, nor touch their files.
    """
    made: dict[Settings, Run] = {}

    def finished(model: str = "logistic-regression", **changes: Any) -> Run:
        settings = _settings(model, **changes)
        if settings not in made:
            run = Run("shared", settings, tmp_path_factory.mktemp("run") / "run.lcc")
            run.play()
            assert run.wait(120).status == "finished"
            made[settings] = run
        return made[settings]

    yield finished
    for run in made.values():
        run.close()


@pytest.fixture
def unhandled(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[BaseException | None]:
    """What ended a thread, in the order of their ends: wait for it with `get(timeout=...)`."""
    ends: queue.Queue[BaseException | None] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", lambda args: ends.put(args.exc_value))
    return ends


@pytest.fixture
def run_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """A script run in this process, which saves its start: exit code and what it says."""

    def run(path: Path, *arguments: str | Path) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        monkeypatch.chdir(path.parent)
        code: Any = 0
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as exc:
            code = exc.code
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of forty checkpoints of one tensor that wanders."""
    generator = torch.Generator().manual_seed(0)
    w = torch.zeros(400)
    for i in range(40):
        w = w + torch.randn(400, generator=generator) * 2.0 ** -(i % 7)
        torch.save({"w": w}, tmp_path / f"{i}.pt")
    return tmp_path
