"""A copy of an optimizer, with parameters of its own, that runs steps again."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import xxhash
from torch import Tensor

from codec.errors import OptimizerMismatchError

from .steps import bytes_of, parameters_of, same_bits, settings_to


class OptimizerCopy:
    """Runs steps on copies of an optimizer's parameters.

    Args:
        optimizer: It stays as it is.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._own = copy.deepcopy(optimizer)  # without its hooks, and parameters without gradients

    def load(self, record: Mapping[str, Any]) -> None:
        """Take over what a record says of its optimizer, see `described`, tensors of the state too.

        Raises:
            OptimizerMismatchError: It was another optimizer, or had other parameters.
        """
        check_match(self._own, record)
        with torch.no_grad():
            for own, stored in zip(parameters_of(self._own), record["parameters"], strict=True):
                own.copy_(stored)
        self._own.load_state_dict(record["state"])

    def fits(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether groups and parameters are those that were copied, whatever their values."""
        return _shape_of(self._own) == _shape_of(optimizer)

    def step(
        self, gradients: Sequence[Tensor | None], settings: Sequence[Mapping[str, Any]]
    ) -> None:
        """Run one step with these gradients and settings."""
        settings_to(self._own, settings)
        parameters = parameters_of(self._own)
        for own, gradient in zip(parameters, gradients, strict=True):
            # A copy: some optimizers write into gradients, and these are saved afterwards.
            own.grad = None if gradient is None else gradient.to(own.device, copy=True)
        self._own.step()
        for own in parameters:
            own.grad = None

    def differing(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor] | None:
        """The tensors of an optimizer whose bits differ from the copy's, by name.

        None if the names, shapes or dtypes of the tensors differ.
        """
        own, other = tensors_of(self._own), tensors_of(optimizer)
        if _kinds(own) != _kinds(other):
            return None
        return {name: other[name] for name in own if not same_bits(own[name], other[name])}

    def overwrite(self, tensors: Mapping[str, Tensor]) -> None:
        """Set parameters and tensors of the state to these values, by name."""
        own = tensors_of(self._own)
        for name, tensor in tensors.items():
            own[name].copy_(tensor)

    def copy_to(self, record: Mapping[str, Any]) -> None:
        """Write parameters and state into the tensors of a record that has them."""
        own = tensors_of(self._own)
        for name, stored in _tensors(record).items():
            stored.copy_(own[name])

    @property
    def machine(self) -> str:
        """See `machine_of`."""
        return machine_of(str(torch.__version__), parameters_of(self._own)[0].device.type)

    @property
    def digest(self) -> str:
        """See `digest_of`."""
        return digest_of(self._own)


def tensors_of(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Name -> tensor of all parameters and all that is kept of them."""
    return _tensors({"parameters": parameters_of(optimizer), "state": optimizer.state_dict()})


def _tensors(record: Mapping[str, Any]) -> dict[str, Tensor]:
    entries = entries_of(record).items()
    return {name: tensor.detach() for name, tensor in entries if isinstance(tensor, Tensor)}


def entries_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> entry in a record, for all parameters and all that is kept of them."""
    found = {f"parameters/{i}": p for i, p in enumerate(record["parameters"])}
    for i, kept in sorted(record["state"]["state"].items()):
        found |= {f"state/{i}/{key}": kept[key] for key in sorted(kept)}
    return found


def place_of(name: str) -> str:
    """The place of an entry of this name in a record, below GRADIENTS."""
    return f"state/{name}" if name.startswith("state/") else name


def digest_of(optimizer: torch.optim.Optimizer) -> str:
    """xxh3-128, hex, over name and content of each of an optimizer's tensors."""
    h = xxhash.xxh3_128()
    for name, tensor in tensors_of(optimizer).items():
        h.update(name.encode())
        h.update(bytes_of(tensor).cpu().numpy().data)
    return h.hexdigest()


def machine_of(version: str, device: str) -> str:
    """What results depend on, in words."""
    return f"torch {version}, {device}"


def described(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What a record says of an optimizer; parameters and state share its memory."""
    parameters = parameters_of(optimizer)
    return {
        "optimizer": _name_of(optimizer),
        "torch": str(torch.__version__),
        "device": parameters[0].device.type,
        "groups": [len(group["params"]) for group in optimizer.param_groups],
        "parameters": [p.detach() for p in parameters],
        "state": optimizer.state_dict(),
    }


def check_match(optimizer: torch.optim.Optimizer, record: Mapping[str, Any]) -> None:
    """Raise OptimizerMismatchError unless an optimizer can run the steps of a record's."""
    advice = (
        "make it as in the training that was saved; codec.restore(source, step) gives the bases"
    )
    if (found := _name_of(optimizer)) != record["optimizer"]:
        raise OptimizerMismatchError(
            f"the chain is of {record['optimizer']}, and this is {found}; {advice}"
        )
    groups = [len(group["params"]) for group in optimizer.param_groups]
    if groups != record["groups"]:
        raise OptimizerMismatchError(
            f"the chain's optimizer has groups of {record['groups']} parameters, and this one "
            f"of {groups}; {advice}"
        )
    for i, (own, stored) in enumerate(zip(parameters_of(optimizer), record["parameters"])):
        if (own.dtype, own.shape) != (stored.dtype, stored.shape):
            raise OptimizerMismatchError(
                f"parameter {i} of the chain is {_shown(stored)}, and of this optimizer "
                f"{_shown(own)}; {advice}"
            )


def _kinds(tensors: Mapping[str, Tensor]) -> dict[str, tuple[Any, ...]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}


def _shape_of(optimizer: torch.optim.Optimizer) -> list[list[tuple[Any, ...]]]:
    return [[(p.dtype, p.shape) for p in group["params"]] for group in optimizer.param_groups]


def _name_of(optimizer: torch.optim.Optimizer) -> str:
    kind = type(optimizer)
    return f"{kind.__module__}.{kind.__qualname__}"


def _shown(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
