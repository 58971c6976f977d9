"""A training loop's parts in one object: a task, its optimizer and its batches.

    training = Training(make_task("lenet5", "digits", seed=0), "sgd", lr=0.05, batch_size=32)
    for iteration in range(1, 101):
        loss = training.iterate(iteration)
    checkpoint = training.state()      # later, or in another Training of the same settings:
    training.load(checkpoint)

`iterate` depends only on the state and the number of the iteration, so a loaded training continues
exactly like the one that was saved.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from demo_models.optimizers import begin_state, make_optimizer
from demo_models.task import Task


class Training:
    """A task with an optimizer.

    Args:
        task: what is trained; its model changes in place.
        optimizer, lr, momentum, beta2: see `make_optimizer`, which also says what it raises.
        batch_size: examples an iteration.

    Raises:
        BatchError: the data cannot fill a batch of this size.
    """

    def __init__(
        self,
        task: Task,
        optimizer: str,
        lr: float,
        momentum: float = 0.0,
        batch_size: int = 32,
        beta2: float = 0.999,
    ) -> None:
        self.task, self._batch_size = task, batch_size
        self._optimizer = make_optimizer(optimizer, task.model.parameters(), lr, momentum, beta2)
        task.batch(1, batch_size)  # a bad batch size fails here, not later

    def iterate(self, iteration: int) -> float:
        """Take one step on the batch of `iteration` (1, 2, ...); returns the batch's mean loss."""
        self._optimizer.zero_grad()
        loss = self.task.loss(self.task.batch(iteration, self._batch_size))
        loss.backward()
        self._optimizer.step()
        return loss.item()

    def begin_optimizer(self) -> None:
        """Give the optimizer its first state before the first iteration; see `begin_state`.

        Checkpoints of `state` then hold the same tensors from the start. Iterations stay the same.
        """
        begin_state(self._optimizer)

    def state(self) -> dict[str, Any]:
        """All that the next iteration depends on.

        Returns:
            "model": its state_dict, and "optimizer": the optimizer's, unless that is empty.
            Both hold the live tensors, not copies.
        """
        optimizer = self._optimizer.state_dict()
        state = {"optimizer": optimizer} if optimizer["state"] else {}
        return {"model": self.task.model.state_dict(), **state}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a copy of what `state` returned.

        Raises:
            RuntimeError, ValueError: torch's, for the state of another model or optimizer.
        """
        self.task.model.load_state_dict(state["model"])
        if "optimizer" in state:
            # A copy: the optimizer would adopt the tensors, and change them.
            self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        else:
            self._optimizer.state.clear()
