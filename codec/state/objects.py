"""The objects of a training: their states, and back into them.

    {"model": …, "optimizer": …, "scheduler": …, "random": {"python": …, "numpy": …, "cpu": …}}

Weights, and averages of weights, are known by their modules, whatever their names; an optimizer's
moments by the names that the optimizer gives them.
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from codec.errors import SettingsError, ShardedError, StateMismatchError

from .policy import AVERAGE, MODEL, is_of_model

RANDOM = "random"  # the key of the random states
ELSEWHERE = (
    "use codec.dcp.ChainWriter with torch.distributed.checkpoint, where each rank saves its own"
)
COMPILED = "_orig_mod"  # what torch.compile calls the model in its wrapper
# How objects return their state and take it again: most of torch's; a generator of torch; one of
# Python. One of numpy has a property instead.
ACCESSORS = (
    ("state_dict", "load_state_dict"),
    ("get_state", "set_state"),
    ("getstate", "setstate"),
)
DEVICES = ("cuda", "xpu")  # modules of torch for devices of which a machine may have several

_log = logging.getLogger(__name__)


class Access(NamedTuple):
    """Functions that return an object's state, and load one."""

    get: Callable[[], Any]
    put: Callable[[Any], Any]


class Objects:
    """Objects of a training by name, and the random states of this process.

    Attributes:
        modules: For a `Policy`: a module is trained if an optimizer has one of its parameters, or
            if there is no optimizer.

    Raises:
        SettingsError: A name is reserved, or an object has no state to save and load.
        ShardedError: This process holds only a part of a module.
    """

    def __init__(self, objects: Mapping[str, Any]) -> None:
        trained: set[int] = set()
        for name, value in objects.items():
            if groups := getattr(value, "param_groups", None):
                if is_of_model(name):
                    raise SettingsError(f"{name}: is an optimizer; give it another name")
                trained |= {id(p) for group in groups for p in group["params"]}
        self.modules: dict[str, str] = {}
        self._access: dict[str, Access] = {}
        for name, value in objects.items():
            if callable(getattr(value, "named_parameters", None)):
                value = bare(value)
                refuse_parts(value)
                is_trained = not trained or any(id(p) in trained for p in value.parameters())
                self.modules[name] = MODEL if is_trained else AVERAGE
            if (access := _access(value)) is None:
                raise SettingsError(
                    f"{f'{name}={value!r}'[:100]}: is no setting, and has no state_dict and "
                    f"load_state_dict. To store a value: save(step, {{{name!r}: …}}); "
                    f"restore()[{name!r}] returns it later"
                )
            self._access[name] = access
        if RANDOM in self._access:
            raise SettingsError(f"{RANDOM!r} is the name of the random states; choose another one")
        self._access[RANDOM] = Access(random_states, set_random_states)

    def state(self, more: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
        """The state to save: an entry for each object, and more. Tensors are shared with the
        objects.

        Raises:
            StateMismatchError: More has the name of an object.
        """
        state: dict[Any, Any] = {name: access.get() for name, access in self._access.items()}
        if twice := state.keys() & (more or {}).keys():
            raise StateMismatchError(f"{min(twice)!r} is the name of an object; choose another one")
        return {**state, **(more or {})}

    def load(self, state: Mapping[Any, Any], where: str) -> None:
        """Load a state into the objects. where: the chain and its step, for messages.

        Raises:
            StateMismatchError: The state lacks an object, or an object does not take its own.
        """
        for name, access in self._access.items():
            if name not in state:
                if name == RANDOM:
                    _log.warning("%s has no random states: these go on as they are", where)
                    continue
                raise StateMismatchError(
                    f"{where} has no {name!r}: give each object the name that it was saved with. "
                    "To go on without its state, load the others yourself: codec.Checkpointer"
                )
            try:
                access.put(state[name])
            except Exception as exc:  # whatever the object's own code raises
                raise StateMismatchError(
                    f"{where}: {name!r} does not take its state: {type(exc).__name__}: {exc}"
                ) from exc


def has_state(value: Any) -> bool:
    """Whether this is an object whose state can be saved and loaded."""
    return _access(value) is not None


def _access(value: Any) -> Access | None:
    """How to get and load an object's state; None if it has none."""
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator
        return Access(lambda: bits.state, partial(setattr, bits, "state"))
    for names in ACCESSORS:
        get, put = (getattr(value, method, None) for method in names)
        if callable(get) and callable(put) and not isinstance(value, type):
            return Access(get, put)
    return None


def random_states() -> dict[str, Any]:
    """The states of the random generators of Python, numpy, torch, and all devices in use."""
    version, words, gauss = random.getstate()  # words: integers of 32 bits
    python = version, np.array(words, np.uint32), gauss
    states: dict[str, Any] = {"python": python, "numpy": np.random.get_state()}
    if (torch := sys.modules.get("torch")) is not None:
        states["cpu"] = torch.get_rng_state()
        used = (name for name in DEVICES if getattr(torch, name).is_initialized())
        states |= {name: getattr(torch, name).get_rng_state_all() for name in used}
        if torch.backends.mps.is_available():
            states["mps"] = torch.mps.get_rng_state()
    return states


def set_random_states(states: Mapping[str, Any]) -> None:
    """Set what `random_states` returned, on the devices that this machine has."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    np.random.set_state(states["numpy"])
    if "cpu" in states:
        import torch

        torch.set_rng_state(states["cpu"])
        for name in DEVICES:
            device = getattr(torch, name)
            for i, state in enumerate(states.get(name, ())[: device.device_count()]):
                device.set_rng_state(state, i)
        if "mps" in states and torch.backends.mps.is_available():
            torch.mps.set_rng_state(states["mps"])


def state_of(model: Any) -> dict[str, Any]:
    """The state_dict of the bare model: names without "module." or "_orig_mod.", tensors shared
    with the model.

    Raises ShardedError if this process holds only a part of it.
    """
    model = bare(model)
    refuse_parts(model)
    state: dict[str, Any] = model.state_dict()
    return state


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


def _imported(module: str, name: str) -> Any:
    """A class, or None if its module was not imported: then no object of it exists."""
    return getattr(sys.modules.get(module), name, None)
