"""What the tests of states share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def adam() -> Callable[[int], list[dict[str, Any]]]:
    """States of a training with Adam, from its first step on: eight moments of 788 numbers."""
    torch = pytest.importorskip("torch")

    def states(steps: int) -> list[dict[str, Any]]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(30, 20), torch.nn.Tanh(), torch.nn.Linear(20, 8)
        )
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        made = []
        for step in range(steps):
            x = torch.randn(16, 30) * (torch.rand(30) < 0.2)  # inputs that come and go
            loss = (model(x) - x[:, :8] * 2).square().mean() * 10.0 ** -(step % 5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            made.append(torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, state))
        return made

    return states
