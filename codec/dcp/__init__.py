"""PyTorch's distributed checkpoints (DCP), with deltas in the place of whole tensors.

    writer = ChainWriter()                                         # one, kept over the training
    dcp.save(state, storage_writer=writer, checkpoint_id="run/step-10")
    dcp.load(state, storage_reader=ChainReader("run/step-10"))     # on any number of ranks

DCP plans, shards and reshards; this package turns its chunks into records and back. It imports
torch, and `codec` does not import it. See docs/how-to/distributed.md.

Read in this order:
    writer        the public class for saves: DCP's protocol
    chunks        what DCP asks to write, and which of it is lossy
    bundles       tracks and digests that a rank keeps between saves
    plans         both moments of a parameter on one rank
    rank_writer   one rank's part of a save
    files         a step's directory: records, and the chain that leads to a record
    reader        the public class for loads
    retention     removes old steps
    steps         a step as a whole: its records, a check, its state
    current_save  one save at a time

Not done here: files on disks and behind URLs (storage.folder), reading a chain (chain).
"""

from .reader import ChainReader, needed, newest_step
from .writer import ChainWriter

__all__ = ["ChainReader", "ChainWriter", "needed", "newest_step"]
