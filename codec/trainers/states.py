"""States for a chain: the state of the bare model, and whether this process holds all of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from codec.errors import ShardedError
from codec.record.track import Track
from codec.state.tensors import Layout, spec_of, to_arrays
from codec.state.tree import flatten

ELSEWHERE = (
    "use codec.dcp.ChainWriter with torch.distributed.checkpoint, where each rank saves its own"
)
COMPILED = "_orig_mod"  # what torch.compile calls the model in its wrapper


def state_of(model: Any) -> dict[str, Any]:
    """The state_dict of the bare model: names without "module." or "_orig_mod.", tensors shared
    with the model.

    Raises ShardedError if this process holds only a part of it.
    """
    model = bare(model)
    refuse_parts(model)
    state: dict[str, Any] = model.state_dict()
    return state


def refuse_parts(model: Any) -> None:
    """Raise ShardedError if this process holds only a part of a model."""
    wrapped = _imported("torch.distributed.fsdp", "FullyShardedDataParallel")
    if wrapped and any(isinstance(module, wrapped) for module in model.modules()):
        raise sharded("its modules are FullyShardedDataParallel")
    refuse_shards([*model.named_parameters(), *model.named_buffers()])


def refuse_shards(tensors: Iterable[tuple[str, Any]]) -> None:
    """Raise ShardedError if one of these named tensors is a part of a larger one."""
    distributed = _imported("torch.distributed.tensor", "DTensor")
    for name, tensor in tensors:
        if distributed and isinstance(tensor, distributed):
            raise sharded(f"{name!r} is a DTensor")
        if hasattr(tensor, "ds_id"):
            raise sharded(f"DeepSpeed has {name!r}")


def sharded(reason: str) -> ShardedError:
    """The error for a model or training that is spread over processes."""
    return ShardedError(f"the model is sharded, {reason}: {ELSEWHERE}")


def digest_of(state: Mapping[str, Any], is_skipped: Callable[[str], bool]) -> str:
    """xxh3-128, hex, of a whole state, without the names for which ``is_skipped`` is true.

    Raises DTypeError or StateMismatchError for what a chain cannot hold.
    """
    parts = flatten(state, is_skipped)
    specs = (spec_of(name, tensor, lossy=False) for name, tensor in parts.tensors.items())
    layout = Layout(tuple(specs), parts.structure)
    return Track.of(layout, to_arrays(parts.tensors, layout), parts.values).digest


def bare(model: Any) -> Any:
    """The model without the wrappers that add a prefix to every name."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    while True:
        if isinstance(model, DistributedDataParallel | DataParallel):
            model = model.module
        elif COMPILED in dict(model.named_children()):
            model = model.get_submodule(COMPILED)
        else:
            return model


def _imported(module: str, name: str) -> Any:
    """A class, or None if its module was not imported: then no object of it exists."""
    return getattr(sys.modules.get(module), name, None)
