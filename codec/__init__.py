"""LC-Checkpoint: compressed checkpoints that restore exactly the tracked state.

    q = codec.quantize(delta, bits=2)          exponent buckets, priority promotion
    e = codec.encode(q)                        Huffman code
    t = codec.Tracker({"w": u0}, bits=2)       deltas to the tracked state
    with codec.Checkpointer.of("run.lcc", model=model, optimizer=optimizer) as checkpoints:
        for step in range(checkpoints.next_step, 1000):        a chain of records on disk
            ...
            checkpoints.save(step)
    state = codec.restore("run.lcc")
    for update in codec.follow("run.lcc", model):     newer steps, as they are saved
        ...

Every error is in `codec.errors`; the five that people catch are here too. Tools that look inside
(at buckets, tracks, records) find their names in `codec.inspect`.

The packages follow the data: `state` turns a nested state into arrays, `scheme` numbers into bits,
`record` one delta into bytes; `storage` stores records, `chain` reads and maintains many of them,
`saving` is what a training loop holds. `cli`, `rerun`, `dcp` and `trainers` stand on them. `reader`
decodes chains once more, in one file of numpy that imports nothing of these.

The scheme: Chen, Liu, Ren, Jin, "On Efficient Constructions of Checkpoints", ICML 2020.
"""

from codec import errors
from codec.chain.chain import Chain, restore, verify
from codec.chain.follow import Follower, Update, follow
from codec.chain.rewind import rewind
from codec.chain.upkeep import Change, compact, pack, unpack
from codec.chain.verify import Report
from codec.errors import ChainError, LccError, RecordError, SettingsError, WriteError
from codec.saving.checkpointer import Checkpointer
from codec.saving.saved import Saved
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta, apply
from codec.scheme.quantize import Quantized, dequantize, quantize
from codec.scheme.stream import Encoded, decode, encode
from codec.scheme.tracker import Tracker
from codec.scheme.warmup import warm_up
from codec.scheme.workers import set_threads, threads
from codec.version import __version__

__all__ = [
    "Chain",
    "ChainError",
    "Change",
    "Checkpointer",
    "Coding",
    "Delta",
    "Encoded",
    "Follower",
    "LccError",
    "Quantized",
    "RecordError",
    "Report",
    "Saved",
    "SettingsError",
    "Tracker",
    "Update",
    "WriteError",
    "__version__",
    "apply",
    "compact",
    "decode",
    "dequantize",
    "encode",
    "errors",
    "follow",
    "pack",
    "quantize",
    "restore",
    "rewind",
    "set_threads",
    "threads",
    "unpack",
    "verify",
    "warm_up",
]
