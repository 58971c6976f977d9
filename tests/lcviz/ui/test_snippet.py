"""The lines that are given away run, and do what they were asked for."""

from __future__ import annotations

import textwrap
from pathlib import Path

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


@pytest.mark.parametrize("setting", SETTINGS)
def test_they_run(setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened, loop, closed = in_a_loop(setting).split("# ")
    loop = "for step in range(11):\n    train()\n" + textwrap.indent("# " + loop, "    ")
    torch.manual_seed(0)
    model = torch.nn.Linear(30, 20)
    trained = torch.nn.Linear(30, 20)

    def train() -> None:
        with torch.no_grad():
            model.weight += 0.1 * (trained.weight - model.weight)

    exec(opened + loop + "# " + closed, {"model": model, "train": train})
    chain = codec.Chain("run.lcc")
    assert chain.steps == tuple(range(0, 11, setting.interval))
    *_, newest = chain.replay()
    assert newest.record.coding == setting.coding
