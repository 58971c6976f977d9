"""LC-Checkpoint: compressed checkpoints that restore to the last bit of what was tracked.

    q = codec.quantize(delta, bits=2)          exponent buckets, priority promotion
    e = codec.encode(q)                        Huffman code
    t = codec.Tracker({"w": u0}, bits=2)       deltas to the approximate track
    with codec.Checkpointer("run.lcc") as c:   a chain of records on disk
        c.save(step, model.state_dict())
    state = codec.restore("run.lcc")

The scheme: Chen, Liu, Ren, Jin, "On Efficient Constructions of Checkpoints", ICML 2020.
"""

from codec.chain.chain import Chain, restore, verify
from codec.chain.upkeep import Change, compact, merge
from codec.chain.verify import Report
from codec.saving.checkpointer import Checkpointer
from codec.saving.saved import PendingSave, Saved
from codec.scheme.delta import Delta, Group, apply
from codec.scheme.quantize import Bucket, Buckets, Quantized, dequantize, quantize
from codec.scheme.stream import Encoded, decode, encode
from codec.scheme.tracker import Tracker
from codec.scheme.warmup import warm_up
from codec.scheme.workers import set_threads, threads

from .errors import (
    ArchiveError,
    BudgetError,
    ChainError,
    ChainNotFoundError,
    CodeTableError,
    DigestError,
    DTypeError,
    ForeignRecordError,
    InputError,
    LccError,
    LockedError,
    MalformedRecordError,
    NonFiniteError,
    ParentError,
    PayloadError,
    RecordError,
    RewoundWarning,
    SettingsError,
    ShardedError,
    SkippedRecordWarning,
    SourceError,
    StateMismatchError,
    StepNotFoundError,
    StepOrderError,
    StreamError,
    TrackDigestError,
    TruncatedRecordError,
    VanishedError,
    VersionError,
    WriteError,
)

__all__ = [
    "ArchiveError",
    "Bucket",
    "Buckets",
    "BudgetError",
    "Chain",
    "ChainError",
    "ChainNotFoundError",
    "Change",
    "Checkpointer",
    "CodeTableError",
    "DTypeError",
    "Delta",
    "DigestError",
    "Encoded",
    "ForeignRecordError",
    "Group",
    "InputError",
    "LccError",
    "LockedError",
    "MalformedRecordError",
    "NonFiniteError",
    "ParentError",
    "PayloadError",
    "PendingSave",
    "Quantized",
    "RecordError",
    "Report",
    "RewoundWarning",
    "Saved",
    "SettingsError",
    "ShardedError",
    "SkippedRecordWarning",
    "SourceError",
    "StateMismatchError",
    "StepNotFoundError",
    "StepOrderError",
    "StreamError",
    "TrackDigestError",
    "Tracker",
    "TruncatedRecordError",
    "VanishedError",
    "VersionError",
    "WriteError",
    "apply",
    "compact",
    "decode",
    "dequantize",
    "encode",
    "merge",
    "quantize",
    "restore",
    "set_threads",
    "threads",
    "verify",
    "warm_up",
]
