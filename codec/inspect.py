"""What tools that look inside the codec need beyond `codec` itself; the dashboard is one of them.

These names are public: they are documented where they are defined, and change with a note in the
changelog. All other modules of the packages below `codec` are private.
"""

from codec.caps import MAX_JSON, MAX_TENSORS, parsed, short, typed
from codec.chain.replay import GRADIENTS, Position, is_past, state_nbytes
from codec.record.container import peek, seal
from codec.record.encode import DeltaEncoder
from codec.record.header import DIGEST, FORMAT
from codec.record.merged import merged_of, steps_of
from codec.record.record import (
    MAX_STEP,
    PREFIX,
    RUN,
    Place,
    Record,
    base_of,
    delta_of,
    dump_delta,
)
from codec.saving.checkpointer import Front
from codec.saving.saved import STAGES, PendingSave
from codec.scheme import huffman, runlength
from codec.scheme.coders import CODERS
from codec.scheme.coding import DEFAULT_DISTANCE, QUANTIZERS, SCOPES
from codec.scheme.delta import Group, check_array, difference
from codec.scheme.huffman import Node
from codec.scheme.quantize import Bucket, Buckets, Codes, empty_codes, n_promoted
from codec.scheme.stream import element_bits
from codec.scheme.tables import CodeTable
from codec.scheme.track import Track
from codec.scheme.tracker import check_same_layout
from codec.scheme.warmup import warm_up_beside
from codec.state import edits, file_steps
from codec.state.file_steps import by_numbers, steps_of_files
from codec.state.policy import MOMENT, Policy, describe_moments, rules
from codec.state.tensor_files import (
    HEAD,
    SUFFIXES,
    TORCH,
    check_torch_file,
    read_state,
    to_safetensors,
    write_state,
)
from codec.state.tensors import (
    CARRIER,
    LOSSY_DTYPES,
    TINY_ELEMENTS,
    Arrays,
    Layout,
    TensorSpec,
    copy_arrays,
    from_arrays,
    is_tensor,
    is_unicode,
    layout_of,
    same_bits,
    to_arrays,
)
from codec.state.tree import Parts, flatten, leaves, unflatten
from codec.storage.location import Location, fit_to_show
from codec.storage.source import Entry, check_regular, entry_of

__all__ = [
    "CARRIER",
    "CODERS",
    "DEFAULT_DISTANCE",
    "DIGEST",
    "FORMAT",
    "GRADIENTS",
    "HEAD",
    "LOSSY_DTYPES",
    "MAX_JSON",
    "MAX_STEP",
    "MAX_TENSORS",
    "MOMENT",
    "PREFIX",
    "QUANTIZERS",
    "RUN",
    "SCOPES",
    "STAGES",
    "SUFFIXES",
    "TINY_ELEMENTS",
    "TORCH",
    "Arrays",
    "Bucket",
    "Buckets",
    "CodeTable",
    "Codes",
    "DeltaEncoder",
    "Entry",
    "Front",
    "Group",
    "Layout",
    "Location",
    "Node",
    "Parts",
    "PendingSave",
    "Place",
    "Policy",
    "Position",
    "Record",
    "TensorSpec",
    "Track",
    "base_of",
    "by_numbers",
    "check_array",
    "check_regular",
    "check_same_layout",
    "check_torch_file",
    "copy_arrays",
    "delta_of",
    "describe_moments",
    "difference",
    "dump_delta",
    "edits",
    "element_bits",
    "empty_codes",
    "entry_of",
    "file_steps",
    "fit_to_show",
    "flatten",
    "from_arrays",
    "huffman",
    "is_past",
    "is_tensor",
    "is_unicode",
    "layout_of",
    "leaves",
    "merged_of",
    "n_promoted",
    "parsed",
    "peek",
    "read_state",
    "rules",
    "runlength",
    "same_bits",
    "seal",
    "short",
    "state_nbytes",
    "steps_of",
    "steps_of_files",
    "to_arrays",
    "to_safetensors",
    "typed",
    "unflatten",
    "warm_up_beside",
    "write_state",
]
