"""What of a model goes into a chain: the state of the model itself, whatever is wrapped around it.

Not done here: models that are spread over processes, which are refused (codec.dcp is for them).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from codec.errors import ShardedError

ELSEWHERE = (
    "use codec.dcp.ChainWriter with torch.distributed.checkpoint, where each rank saves its own"
)
COMPILED = "_orig_mod"  # what torch.compile calls the model in its wrapper


def state_of(model: Any) -> dict[str, Any]:
    """The state_dict that the model's own load_state_dict takes; names without "module." or
    "_orig_mod.", tensors shared with the model.

    Raises ShardedError if this process holds only a part of it.
    """
    model = _bare(model)
    refuse_parts(model)
    state: dict[str, Any] = model.state_dict()
    return state


def refuse_parts(model: Any) -> None:
    """Raise ShardedError if this process holds only a part of a model."""
    wrapped = _known("torch.distributed.fsdp", "FullyShardedDataParallel")
    if wrapped and any(isinstance(module, wrapped) for module in model.modules()):
        raise sharded("its modules are FullyShardedDataParallel")
    refuse_shards([*model.named_parameters(), *model.named_buffers()])


def refuse_shards(tensors: Iterable[tuple[str, Any]]) -> None:
    """Raise ShardedError if one of these named tensors is a part of a larger one."""
    distributed = _known("torch.distributed.tensor", "DTensor")
    for name, tensor in tensors:
        if distributed and isinstance(tensor, distributed):
            raise sharded(f"{name!r} is a DTensor")
        if hasattr(tensor, "ds_id"):
            raise sharded(f"DeepSpeed has {name!r}")


def sharded(reason: str) -> ShardedError:
    """That a model or its training is spread over processes, and the way out."""
    return ShardedError(f"the model is sharded, {reason}: {ELSEWHERE}")


def _bare(model: Any) -> Any:
    """Without the wrappers that add a prefix to every name."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    while True:
        if isinstance(model, DistributedDataParallel | DataParallel):
            model = model.module
        elif COMPILED in dict(model.named_children()):
            model = model.get_submodule(COMPILED)
        else:
            return model


def _known(module: str, name: str) -> Any:
    """A class, if what it is in was imported: before that, there is no object of it."""
    return getattr(sys.modules.get(module), name, None)
