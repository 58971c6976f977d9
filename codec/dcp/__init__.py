"""PyTorch's distributed checkpoints (DCP), with deltas in the place of whole tensors.

    writer = ChainWriter(bits=2)                                   # one, kept over the training
    dcp.save(state, storage_writer=writer, checkpoint_id="run/step-10")
    dcp.load(state, storage_reader=ChainReader("run/step-10"))     # on any number of ranks

DCP plans, shards and reshards; here chunks become records and records chunks. This package alone
imports torch where it is imported, and `codec` does not import it. See docs/how-to/distributed.md.

Not done here: storage other than directories that all ranks see.
"""

from .reader import ChainReader, needed
from .writer import ChainWriter

__all__ = ["ChainReader", "ChainWriter", "needed"]
