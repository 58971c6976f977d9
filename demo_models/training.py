"""A training loop's parts in one object: a task, its optimizer and its batches.

    training = Training(make_task("lenet5", "digits", seed=0), "sgd", lr=0.05, batch_size=32)
    for iteration in range(1, 101):
        loss = training.iterate(iteration)
    checkpoint = training.state()      # later, or in another Training of the same settings:
    training.load(checkpoint)

What `iterate` does depends on the state and the number of the iteration alone, so a training
that was loaded goes on as the one that was saved.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from demo_models.optimizers import make_optimizer
from demo_models.task import Task


class Training:
    """Trains `task` with an optimizer of these settings, see `make_optimizer`.

    Raises what that does, and BatchError for a batch size that the data cannot fill.
    """

    def __init__(
        self, task: Task, optimizer: str, lr: float, momentum: float = 0.0, batch_size: int = 32
    ) -> None:
        self.task, self._batch_size = task, batch_size
        self._optimizer = make_optimizer(optimizer, task.model.parameters(), lr, momentum)
        task.batch(1, batch_size)  # a bad batch size is found here, not later

    def iterate(self, iteration: int) -> float:
        """Take one step on the batch of iteration 1, 2, ...; gives the batch's mean loss."""
        self._optimizer.zero_grad()
        loss = self.task.loss(self.task.batch(iteration, self._batch_size))
        loss.backward()
        self._optimizer.step()
        return loss.item()

    def state(self) -> dict[str, Any]:
        """Give all that the next iteration depends on: tensors of the live model, not copies.

        "model" is its state_dict; "optimizer", the optimizer's, is there if it remembers anything.
        """
        told = self._optimizer.state_dict()
        memory = {"optimizer": told} if told["state"] else {}
        return {"model": self.task.model.state_dict(), **memory}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave; it is copied. Raises what torch's load_state_dict does."""
        self.task.model.load_state_dict(state["model"])
        if "optimizer" in state:
            # It would take the tensors over, and change them.
            self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        else:
            self._optimizer.state.clear()
