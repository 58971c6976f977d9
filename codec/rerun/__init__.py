"""Exact checkpoints of every optimizer step, at about a third of the state's size: records hold
gradients, and a restore runs the optimizer's steps again.

    checkpoints = GradientCheckpointer.of("run.lcc", model=model, optimizer=optimizer)
    checkpoints.save(step)                                       # hooks into optimizer.step()
    state = restore("run.lcc", optimizer)                        # equal to the last bit

The chain is an ordinary one. Below the key GRADIENTS, a record holds the inputs of the steps since
the record before it. Only bases hold the parameters and the optimizer's state. Before a save
writes, it runs the same steps on a copy; tensors that then differ are stored exactly.

This package imports torch, and `codec` does not import it. See docs/how-to/exact-states.md.

Read in this order:
    steps         the inputs of one step, and gradients as bfloat16 where that is exact
    optimizer     a copy of an optimizer that runs steps again
    checkpointer  saves
    restore       restores

Not done here: sparse gradients, a closure that a step calls several times, a GradScaler with a
fused optimizer, parameters spread over processes.
"""

from .checkpointer import GradientCheckpointer
from .restore import restore

__all__ = ["GradientCheckpointer", "restore"]
