"""All that saves: each with steps that are told of as saved, and a check that they restore."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import fsspec
import torch
import torch.distributed.checkpoint as dcp
from common import state_of

import codec
from codec import rerun
from codec.dcp import ChainReader, ChainWriter
from codec.rerun import GradientCheckpointer


class Saver(ABC):
    """Saves states into a chain, and notes which steps were reported as saved."""

    def __init__(self, path: Path) -> None:
        self.path: Path | str = path
        self.told: list[int] = []

    def save(self, step: int) -> None:
        """Save a step and wait for it."""
        self._save(step)
        self.told.append(step)

    @abstractmethod
    def _save(self, step: int) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Let others write."""

    @abstractmethod
    def check(self) -> None:
        """Raise unless every step that was told restores, and another writer goes on."""


class InProcess(Saver):
    """Whole states, saved here."""

    asynchronous = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.checkpoints = codec.Checkpointer(path, bits=2, asynchronous=self.asynchronous)

    def _save(self, step: int) -> None:
        self.checkpoints.save(step, state_of(step)).result()

    def close(self) -> None:
        self.checkpoints.close()

    def check(self) -> None:
        report = codec.verify(self.path)
        assert report.ok, report.problems
        assert set(report.steps) >= set(self.told), f"{self.told} told, {report.steps} there"
        for step in self.told:
            restored = codec.restore(self.path, step)
            assert restored["step"] == step
            assert restored["exact"].tobytes() == state_of(step)["exact"].tobytes()
        with codec.Checkpointer(self.path, resume=True) as checkpoints:
            checkpoints.save(10_000, state_of(0))


class InBackground(InProcess):
    """Whole states, saved by another process."""

    asynchronous = True


class InStore(InProcess):
    """Whole states, saved into an object store, which here is this process's memory."""

    def __init__(self, path: Path) -> None:
        self.checkpoints = codec.Checkpointer(f"memory:/{path}", bits=2)
        self.path, self.told = self.checkpoints.path, []

    def check(self) -> None:
        super().check()
        fsspec.filesystem("memory").store.clear()


class Gradients(Saver):
    """Gradients, from which an optimizer's steps are run again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        torch.manual_seed(0)
        self.model = torch.nn.Linear(20, 10)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 0.01)
        self.weights: dict[int, bytes] = {}
        self.checkpoints = GradientCheckpointer(path, self.optimizer)

    def _save(self, step: int) -> None:
        self.optimizer.zero_grad()
        self.model(torch.randn(5, 20)).square().mean().backward()
        self.optimizer.step()
        weights = self.model.weight.detach().numpy().tobytes()
        self.checkpoints.save(step, {"weights": self.model.state_dict()})
        self.weights[step] = weights

    def close(self) -> None:
        self.checkpoints.close()

    def check(self) -> None:
        report = codec.verify(self.path)
        assert report.ok, report.problems
        for step in self.told:
            state = rerun.restore(self.path, self.optimizer, step)
            assert state["weights"]["weight"].numpy().tobytes() == self.weights[step]
        GradientCheckpointer(self.path, self.optimizer, resume=True).close()


class Distributed(Saver):
    """Steps of PyTorch's distributed checkpoints."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writer = ChainWriter(bits=2)

    def _save(self, step: int) -> None:
        state = {"w": torch.from_numpy(state_of(step)["exact"]), "step": step}
        dcp.save(state, storage_writer=self.writer, checkpoint_id=f"{self.path}/step-{step}")

    def close(self) -> None:
        """Nothing is held."""

    def check(self) -> None:
        for step in self.told:
            state: dict[str, Any] = {"w": torch.zeros(50, dtype=torch.float64), "step": -1}
            dcp.load(state, storage_reader=ChainReader(f"{self.path}/step-{step}"))
            assert state["step"] == step
            assert state["w"].numpy().tobytes() == state_of(step)["exact"].tobytes()
