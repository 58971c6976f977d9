"""Exact checkpoints of every optimizer step, at about a third of the state: gradients are saved, and
a restore runs the optimizer's own steps again.

    checkpoints = GradientCheckpointer("run.lcc", optimizer)     # hooks into optimizer.step()
    checkpoints.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    state = restore("run.lcc", optimizer)                        # equal to the last bit

The chain is an ordinary one. Each record holds, below GRADIENTS, what the steps since the record
before it have used. Parameters and what the optimizer keeps of them are in the bases only. Each save
first runs the same steps on a copy; where they do not lead to the live state, it writes a base.

This package imports torch, and `codec` does not import it. See docs/how-to/exact-states.md.

Read in this order:
    steps         what one step of an optimizer uses, and gradients as bfloat16 where these suffice
    optimizer     a copy of an optimizer that runs steps again
    checkpointer  saves
    restore       restores

Not done here: sparse gradients, step(closure), a GradScaler with a fused optimizer, parameters that
are spread over processes.
"""

from .checkpointer import GradientCheckpointer
from .restore import restore

__all__ = ["GradientCheckpointer", "restore"]
