"""Why a save wrote a base instead of a delta."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a record is a base. A base holds the text in its field `reason`.

    KERNELS also says why a delta takes more bytes than later ones will, see `Saved`.
    """

    FIRST = "first record"
    ASKED = "asked for"  # by `compact`
    LAYOUT = "layout changed"
    PARENT_GONE = "parent gone"
    MANY_DELTAS = "many deltas since the last base"
    ANOTHER_VERSION = "another version wrote the last base"
    LATE_RECORD = "a record of another writer or failed save may still arrive"
    INTERRUPTED = "the last save was interrupted, or failed its check"
    KERNELS = "compiled kernels not loaded yet"  # a delta of a large state would take seconds
    POLICY = "policy changed"  # of distributed checkpoints
    NOT_SMALLER = "a delta would not be smaller"  # of exact tensors in distributed checkpoints
    ELSEWHERE = "the last step lies elsewhere"  # of distributed checkpoints
    GRADIENTS = "gradients do not lead here"  # of `codec.rerun`
