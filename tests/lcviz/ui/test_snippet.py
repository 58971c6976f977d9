"""The lines that are given away run, and do what they were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import codec
from codec import Coding
from lcviz.lab.tuner.candidates import Setting
from lcviz.ui.snippet import in_a_loop

SETTINGS = (
    Setting(Coding(3, "tensor", "huffman"), 1),
    Setting(Coding(None), 2),
    Setting(Coding(budget=0.2), 5),
)


@pytest.mark.parametrize("optimizer", [False, True])
@pytest.mark.parametrize("setting", SETTINGS)
def test_they_run(
    setting: Setting, optimizer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice: the second time they go on."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    trained, seen = torch.nn.Linear(30, 20), []
    for n in (8, 11):
        model = torch.nn.Linear(30, 20)
        adam = torch.optim.Adam(model.parameters(), 0.01)

        def train(step: int, model: Any = model, adam: Any = adam) -> None:
            seen.append(step)
            adam.zero_grad()
            (model.weight - trained.weight).square().mean().backward()
            adam.step()

        names = {"model": model, "optimizer": adam, "train": train, "n": n}
        exec(in_a_loop(setting, optimizer=optimizer), names)
    chain = codec.Chain("run.lcc")
    assert chain.steps == tuple(range(0, 11, setting.interval))
    newest = max(step for step in chain.steps if step < 8)
    assert seen == [*range(8), *range(newest + 1, 11)]
    *_, position = chain.replay()
    assert position.record.coding == setting.coding
    state = codec.restore("run.lcc")
    assert ("optimizer" in state) == optimizer
    assert names["weights"].keys() == state["model"].keys()
