"""What DCP asks to write, as tensors of a record: their names, and which of them are lossy.

A chunk is a box of a tensor: its fully qualified name, where it begins, its shape and dtype.

Not done here: which chunks share a record (bundles), when they are written (writer).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlanner, WriteItem, WriteItemType
from torch.distributed.tensor import DTensor

from codec.errors import SettingsError, StateMismatchError
from codec.state.family import MODEL, Target
from codec.state.policy import EXACT, MODELS, MOMENTS, SKIP, Policy, describe_moments
from codec.state.tensors import (
    LOSSY_DTYPES,
    TensorSpec,
    can_share,
    fingerprint,
    is_unicode,
    spec_of,
)

VALUE = "bytes"  # in a name, in the place of offsets: a value that is not a tensor
MAX_TRACK_NBYTES = 2**28  # of one record's track: a reader rebuilds one at a time
MAX_RECORD_CHUNKS = 10_000  # in one record: a tenth of what its reader accepts
# With these the names in a flattened optimizer's state begin.
OPTIMIZER_WORDS = ("state", "param_groups", "opt")
_EMPTY = torch.empty(0, dtype=torch.uint8)


@dataclass(frozen=True)
class Chunk:
    """A chunk to write. item: DCP's. spec: its tensor in a record. data: the bytes of a value that
    is not a tensor, as a uint8 tensor."""

    item: WriteItem
    name: str
    spec: TensorSpec
    data: torch.Tensor | None = None


class Rules:
    """Which chunks are lossy: a policy, whose defaults look at the nesting of the state.

    Attributes:
        policy: The patterns.

    Args:
        patterns: Pattern of fully qualified names -> "lossy" or "exact", see `Policy`.
        has_logged_moments: Whether an earlier save has logged that moments are lossy.
        is_checked: Whether an earlier save has checked that every pattern matches a name.

    Raises:
        SettingsError: A pattern is wrong.
    """

    def __init__(
        self,
        patterns: Mapping[str, str] | None = None,
        *,
        has_logged_moments: bool = False,
        is_checked: bool = False,
    ) -> None:
        self.policy = Policy(patterns)
        self._has_logged_moments = has_logged_moments
        self._is_checked = is_checked
        if SKIP in self.policy.modes:
            raise SettingsError(
                "DCP would miss a skipped tensor when it loads; leave it out of the state"
            )

    def check_matches(self, fqns: Iterable[str]) -> None:
        """Check, on the first save, that every pattern matches a name.

        fqns: the fully qualified names of all ranks. Raises what `Policy.check_matches` raises.
        """
        if not self._is_checked:
            self.policy.check_matches(fqns)
            self._is_checked = True

    def chunk(
        self,
        item: WriteItem,
        keys: Sequence[Any],
        moments: Mapping[str, Target],
        planner: SavePlanner,
    ) -> Chunk:
        """The chunk of an item. Raises DTypeError, or StateMismatchError for an invalid name.

        keys: That lead to it in the nested state. moments: Of all ``tree_name``.
        """
        fqn = item.index.fqn
        if not is_unicode(fqn):
            raise StateMismatchError(f"tensor names must be valid Unicode strings; got {fqn!r}")
        name = name_of(item.index)
        if item.type == WriteItemType.BYTE_IO:
            buffer = planner.resolve_data(item)
            assert not isinstance(buffer, torch.Tensor)
            view = buffer.getbuffer()
            data = torch.frombuffer(view, dtype=torch.uint8) if view.nbytes else _EMPTY
            return Chunk(item, name, spec_of(name, data, lossy=False), data)
        plan = item.tensor_data
        assert plan is not None, "DCP plans each tensor's dtype and shape"
        like = torch.empty((), dtype=plan.properties.dtype).expand(plan.chunk.sizes)
        spec = self.policy.spec(
            like, fqn, (), moments, tree_name=tree_name(fqn, keys), stored_name=name
        )
        return Chunk(item, name, spec)

    def describe_moments(self, chunks: Iterable[Chunk]) -> str:
        """A sentence, once, about moments that are lossy without a pattern; otherwise ""."""
        if self._has_logged_moments:
            return ""
        mode_by_pattern = self.policy.mode_by_pattern
        sentence = describe_moments(c.spec for c in chunks if not mode_by_pattern(c.item.index.fqn))
        self._has_logged_moments = bool(sentence)
        return sentence


def tree_name(fqn: str, path: Sequence[Any]) -> str:
    """The name by which a policy's defaults know a tensor: "model/layer/weight".

    path: the keys that lead to it in the nested state. Of {"app": {"model": …}} the outermost does
    not count. A state that is not nested is a model's, or by its names an optimizer's.
    """
    keys = [str(key) for key in path]
    if len(keys) > 2 and keys[0] not in MODELS and keys[1] in MODELS:
        keys = keys[1:]
    if len(keys) == 1:
        words = fqn.split(".")
        if words[0] in OPTIMIZER_WORDS or words[0].startswith("optim"):
            keys = ["optimizer", *keys]
        else:
            keys = ["other" if words[-1] in MOMENTS else "model", *keys]
    return "/".join(keys).replace(".", "/")


def name_of(index: MetadataIndex) -> str:
    """A chunk's name in a record, "layer.weight@0,16". Offsets have no @: names are unique."""
    if index.offset is None:
        return f"{index.fqn}@{VALUE}"
    return f"{index.fqn}@{','.join(map(str, index.offset))}"


def fqn_of(name: str) -> str:
    """The fully qualified name in a chunk's name."""
    return name.rpartition("@")[0]


def value_of(chunk: Chunk, planner: SavePlanner) -> torch.Tensor:
    """The torch tensor, or the bytes as a uint8 tensor.

    Raises StateMismatchError if shape or dtype differ from the plan.
    """
    if chunk.data is not None:
        return chunk.data
    value = planner.resolve_data(chunk.item)
    assert isinstance(value, torch.Tensor)
    spec = spec_of(chunk.name, value, chunk.spec.lossy, chunk.spec.family)
    if spec != chunk.spec:
        raise StateMismatchError(
            f"tensor {chunk.name!r} was planned as {chunk.spec.dtype} {chunk.spec.shape}, and the "
            f"planner gives {spec.dtype} {spec.shape}"
        )
    return value


def with_ties(chunks: Sequence[Chunk], rules: Rules, planner: SavePlanner) -> list[Chunk]:
    """The same chunks; one that shares memory with a chunk that a pattern makes exact is exact."""

    def memory(chunk: Chunk) -> Hashable:
        value = planner.resolve_data(chunk.item)
        mark = fingerprint(value) if isinstance(value, torch.Tensor) else ()
        return mark if mark and can_share(mark) else None

    def kind(chunk: Chunk) -> Hashable:
        return chunk.spec.dtype, chunk.spec.shape

    by_pattern = rules.policy.mode_by_pattern
    exact = [
        c for c in chunks if c.spec.dtype in LOSSY_DTYPES and by_pattern(c.item.index.fqn) == EXACT
    ]
    kinds = set(map(kind, exact))
    alike = [c for c in chunks if c.spec.lossy and kind(c) in kinds]
    if not alike:
        return list(chunks)
    exact_memory = set(map(memory, exact)) - {None}
    tied = {c.name for c in alike if memory(c) in exact_memory}
    return [
        replace(c, spec=replace(c.spec, lossy=False, family=MODEL)) if c.name in tied else c
        for c in chunks
    ]


def copy_with_ties(state: Any, copied: Any, firsts: dict[Hashable, Any]) -> Any:
    """A copy of a nested state in which tensors share memory as they do in the state.

    Args:
        state: The state.
        copied: DCP's copy of it.
        firsts: Memory -> the copy of its first tensor; is filled here.
    """
    if isinstance(state, torch.Tensor):
        local = state.to_local() if isinstance(state, DTensor) else state
        mark = fingerprint(local)
        if not can_share(mark):
            return copied
        placements = getattr(state, "placements", None)
        return firsts.setdefault((mark, state.shape, placements), copied)
    if isinstance(state, Mapping):
        return {key: copy_with_ties(value, copied[key], firsts) for key, value in state.items()}
    if isinstance(state, list | tuple) and type(copied) in (list, tuple):
        return type(copied)(
            copy_with_ties(v, c, firsts) for v, c in zip(state, copied, strict=True)
        )
    return copied


def fit_records(sizes: Iterable[tuple[Any, int]]) -> Iterator[list[Any]]:
    """Split pairs (thing, bytes), in order, into groups of things that fit into one record."""
    group: list[Any] = []
    nbytes = 0
    for thing, size in sizes:
        if group and (nbytes + size > MAX_TRACK_NBYTES or len(group) == MAX_RECORD_CHUNKS):
            yield group
            group, nbytes = [], 0
        group.append(thing)
        nbytes += size
    if group:
        yield group
