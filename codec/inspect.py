"""What tools that look inside the codec need beyond `codec` itself; the dashboard is one of them.

These names are public: they change with a note in the changelog. All other modules of the packages
below `codec` are private.

States and their tensors
    Parts              a state taken apart: tensors, values, structure
    flatten            takes a state apart
    unflatten          makes a state of its parts again
    Front              takes states apart, faster if they have the structure of the last one
    leaves             name and value of everything in a state that is no container
    Layout             the tensors of a state, in order, and the structure around them
    TensorSpec         one of these tensors: name, dtype, shape, whether it is lossy
    layout_of          the layout of a flat mapping of tensors
    Arrays             a mapping from names to numpy arrays
    to_arrays          tensors as arrays of the dtypes that the track has
    from_arrays        arrays as tensors of the library, dtype and shape that they came from
    copy_arrays        a deep copy of arrays
    is_tensor          whether a value counts as a tensor
    same_bits          whether two arrays hold the same bits
    check_array        raises an error unless a track has an array
    check_same_layout  raises an error that names the first difference of two layouts
    state_nbytes       bytes of a saved state, float32 where it is lossy
    following          a record, and an error unless it follows the one before
    lost_before        a sentence if records are missing before the newest base
    CARRIER            dtype -> the numpy dtype that carries its bits
    LOSSY_DTYPES       the dtypes that can be lossy
    TINY_ELEMENTS      tensors with fewer elements are always exact

Settings
    CODERS             name -> coder
    SCOPES             the scopes of an alphabet: model, tensor
    QUANTIZERS         the kinds of levels: exponent, uniform
    DEFAULT_DISTANCE   the target of a save that names none
    MEASURE_OF         the measure and step of each of an optimizer's moments
    Policy             which tensors are lossy, exact or skipped, by patterns of their names
    rules              a policy from texts such as "optimizer/*=exact"
    describe_moments   a sentence that names lossy moments and says how to make them exact

The scheme
    difference         what a track lacks of a state
    Buckets            the exponent buckets of a delta
    Bucket             one of them: all values of one exponent and sign
    n_promoted         how many buckets x bits keep at most
    Codes              an array of codes
    empty_codes        an array for codes, not filled
    Group              tensors that share an alphabet, with their encoding
    CodeTable          the code lengths of an alphabet
    huffman            code lengths, words and the tree of a Huffman code
    Node               a node of that tree
    runlength          tokens: runs of zeros with the symbols that end them
    PrefixCode         a payload of code words
    Payload            any payload; in a context code, values share its bits
    element_bits       the bits that such a payload takes for each element
    Track              the state that a restart would load
    DryRun             a chain that is encoded and counted, but not written
    record_nbytes      bytes that a delta of a dry run would take on disk
    sealed_nbytes      bytes of a record of any arrays
    History            when a `Checkpointer` makes the next base
    is_loading         whether kernels can be loaded and are not yet
    MOST_PLAIN         the most values for which numpy alone makes a context code
    STAGES             the stages of a save, in order, whose seconds a report has

Records and chains
    Entry              a record's step, kind, file name and size
    entry_of           the entry that a file name stands for
    Record             a record whose bytes are intact
    Reason             why a record is a base
    Position           a step of a chain while it is replayed
    peek               the line and the arrays' entries of a file, from its first bytes
    base_of            the track in a base
    delta_of           the delta in a delta record
    FORMAT             the version of the record format
    MOST_BEHIND        the largest share in a record's ``behind``; it stands for more, too
    WARNED_BEHIND      the share from which on a restart is called too far
    Rest               what a delta leaves, as a record's ``rest``
    DeltaRest          a delta's step, settings and rest
    restart_warning    which deltas leave too much for a restart, and what helps
    PREFIX             what stands before the name of a tensor's array
    GRADIENTS          the key of a state that `codec.rerun` wrote
    MAX_STEP           the largest step
    Location           a place for a chain: a directory, an archive or a URL
    fit_to_show        a URL without its secrets
    Source             an open place: how its records are listed and read

Files of others
    SUFFIXES           the suffixes of files that can be read
    TORCH              those of them that torch.save writes
    HEAD               bytes from which `check_torch_file` tells
    check_torch_file   raises an error unless torch.save can have written a file
    check_regular      raises an error unless a file is a regular one
    read_state         the state in a file
    to_safetensors     a state as the bytes of a safetensors file
    file_steps         reads the step of each file from the files' names
    steps_of_files     the files of a series by step
    by_numbers         a key that sorts 9 before 10
    parsed             JSON from a file that nobody vouches for
    typed              the same value, or an error unless it has exactly this type
    short              a value from a file, shortened for a message
    is_unicode         whether a file can hold a text
    MAX_JSON           the most bytes of a JSON text
    MAX_TENSORS        the most tensors of a file
"""
# ruff: noqa: F401  all names are for others

from codec.caps import MAX_JSON, MAX_TENSORS, parsed, short, typed
from codec.chain.replay import (
    GRADIENTS,
    Position,
    following,
    lost_before,
    state_nbytes,
)
from codec.record.container import peek
from codec.record.exact import PREFIX
from codec.record.header import FORMAT, MAX_STEP
from codec.record.reason import Reason
from codec.record.record import Record, base_of, delta_of
from codec.record.track import Track
from codec.saving.checkpointer import Front
from codec.saving.dry_run import DryRun, record_nbytes, sealed_nbytes
from codec.saving.history import History
from codec.saving.saved import STAGES
from codec.scheme import huffman, runlength
from codec.scheme.coders import CODERS
from codec.scheme.coding import DEFAULT_DISTANCE, QUANTIZERS, SCOPES
from codec.scheme.context import MOST_PLAIN
from codec.scheme.delta import Group, check_array, difference
from codec.scheme.huffman import Node
from codec.scheme.payload import Payload
from codec.scheme.prefix import PrefixCode
from codec.scheme.quantize import Bucket, Buckets, Codes, empty_codes, n_promoted
from codec.scheme.remainder import MOST_BEHIND, WARNED_BEHIND, DeltaRest, Rest, restart_warning
from codec.scheme.stream import element_bits
from codec.scheme.tables import CodeTable
from codec.scheme.tracker import check_same_layout
from codec.scheme.warmup import is_loading
from codec.state import file_steps
from codec.state.file_steps import by_numbers, steps_of_files
from codec.state.policy import MEASURE_OF, Policy, describe_moments, rules
from codec.state.tensor_files import (
    HEAD,
    SUFFIXES,
    TORCH,
    check_torch_file,
    read_state,
    to_safetensors,
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
from codec.storage.entry import Entry, entry_of
from codec.storage.folder import check_regular
from codec.storage.location import Location, fit_to_show
from codec.storage.source import Source
