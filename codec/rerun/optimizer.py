"""A copy of an optimizer and its parameters that runs steps again."""

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
    """Runs steps on copies of an optimizer's parameters. The optimizer itself does not change."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        # The copy has no hooks, and its parameters have no gradients.
        self._optimizer = copy.deepcopy(optimizer)

    def load(self, record: Mapping[str, Any]) -> None:
        """Load the parameters and the state in a record, see `described`.

        Raises:
            OptimizerMismatchError: The record is of another optimizer, or of other parameters.
        """
        check_match(self._optimizer, record)
        parameters = parameters_of(self._optimizer)
        with torch.no_grad():
            for parameter, stored in zip(parameters, record["parameters"], strict=True):
                parameter.copy_(stored)
        self._optimizer.load_state_dict(record["state"])

    def fits(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether an optimizer has the groups and parameters of the copy, whatever their values."""
        return _shape_of(self._optimizer) == _shape_of(optimizer)

    def step(
        self, gradients: Sequence[Tensor | None], settings: Sequence[Mapping[str, Any]]
    ) -> None:
        """Run one step with these gradients and settings."""
        settings_to(self._optimizer, settings)
        parameters = parameters_of(self._optimizer)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            # Copied: some optimizers write into gradients, and these are saved afterwards.
            parameter.grad = None if gradient is None else gradient.to(parameter.device, copy=True)
        self._optimizer.step()
        for parameter in parameters:
            parameter.grad = None

    def differing(self, optimizer: torch.optim.Optimizer) -> dict[str, Tensor] | None:
        """The tensors of an optimizer whose bits differ from the copy's, by name.

        None if the names, shapes or dtypes of the tensors differ.
        """
        copies, tensors = tensors_of(self._optimizer), tensors_of(optimizer)
        if _kinds(copies) != _kinds(tensors):
            return None
        return {
            name: tensors[name] for name in copies if not same_bits(copies[name], tensors[name])
        }

    def overwrite(self, tensors: Mapping[str, Tensor]) -> None:
        """Set parameters and tensors of the state to these values, by name."""
        copies = tensors_of(self._optimizer)
        for name, tensor in tensors.items():
            copies[name].copy_(tensor)

    def copy_to(self, record: Mapping[str, Any]) -> None:
        """Write parameters and state into the tensors of a record."""
        copies = tensors_of(self._optimizer)
        for name, stored in _tensors(record).items():
            stored.copy_(copies[name])

    def largest_gap(self, record: Mapping[str, Any]) -> tuple[float, str]:
        """The largest difference from a tensor in a record, divided by the largest magnitude in
        that tensor, and the tensor's name; (0.0, "any tensor") if none differs, inf for a tensor of
        zeros. What the record calls changed does not count."""
        copies, gaps = tensors_of(self._optimizer), [(0.0, "any tensor")]
        for name, stored in _tensors(record).items():
            copied = copies[name].cpu()
            if name not in record["changed"] and not same_bits(copied, stored):
                wide = stored.to(torch.promote_types(stored.dtype, torch.float64))
                gaps.append((float((copied - wide).abs().max() / wide.abs().max()), name))
        return max(gaps)

    @property
    def environment(self) -> dict[str, str]:
        """See `environment_of`."""
        return environment_of(self._optimizer)

    @property
    def digest(self) -> str:
        """See `digest_of`."""
        return digest_of(self._optimizer)


def tensors_of(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Name -> tensor, of the parameters and the optimizer's state."""
    return _tensors({"parameters": parameters_of(optimizer), "state": optimizer.state_dict()})


def _tensors(record: Mapping[str, Any]) -> dict[str, Tensor]:
    entries = entries_of(record).items()
    return {name: tensor.detach() for name, tensor in entries if isinstance(tensor, Tensor)}


def entries_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> entry in a record, of the parameters and the optimizer's state."""
    entries = {f"parameters/{i}": p for i, p in enumerate(record["parameters"])}
    for i, state in sorted(record["state"]["state"].items()):
        entries |= {f"state/{i}/{key}": state[key] for key in sorted(state)}
    return entries


def place_of(name: str) -> str:
    """The place of an entry of this name in a record, below GRADIENTS."""
    return f"state/{name}" if name.startswith("state/") else name


def digest_of(optimizer: torch.optim.Optimizer) -> str:
    """xxh3-128, hex, of the names and contents of an optimizer's tensors."""
    h = xxhash.xxh3_128()
    for name, tensor in tensors_of(optimizer).items():
        h.update(name.encode())
        h.update(bytes_of(tensor).cpu().numpy().data)
    return h.hexdigest()


def environment_of(optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """What the last bits of an optimizer's steps depend on. The capability is the instruction set
    of the processor that torch chose when it was imported: some round a product and a sum once."""
    return {
        "torch": str(torch.__version__),
        "device": parameters_of(optimizer)[0].device.type,
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def in_words(record: Mapping[str, Any]) -> str:
    """What `environment_of` says, in words."""
    words = f"torch {record['torch']}, {record['device']}"
    on_cpu = record["device"] == "cpu"
    return f"{words}, {record['capability']}" if on_cpu else words


def described(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What a record says about an optimizer; its tensors share memory with the optimizer's."""
    parameters = parameters_of(optimizer)
    return {
        "optimizer": _name_of(optimizer),
        **environment_of(optimizer),
        "groups": [len(group["params"]) for group in optimizer.param_groups],
        "parameters": [p.detach() for p in parameters],
        "state": optimizer.state_dict(),
    }


def check_match(optimizer: torch.optim.Optimizer, record: Mapping[str, Any]) -> None:
    """Raise OptimizerMismatchError unless an optimizer can run a record's steps."""
    advice = "make it as in the saved training; codec.restore(source, step) gives the bases"
    if (name := _name_of(optimizer)) != record["optimizer"]:
        raise OptimizerMismatchError(
            f"the chain is of {record['optimizer']}, and this is {name}; {advice}"
        )
    groups = [len(group["params"]) for group in optimizer.param_groups]
    if groups != record["groups"]:
        raise OptimizerMismatchError(
            f"the chain's optimizer has groups of {record['groups']} parameters, and this one "
            f"of {groups}; {advice}"
        )
    for i, (p, stored) in enumerate(zip(parameters_of(optimizer), record["parameters"])):
        if (p.dtype, p.shape) != (stored.dtype, stored.shape):
            raise OptimizerMismatchError(
                f"parameter {i} of the chain is {_describe(stored)}, and of this optimizer "
                f"{_describe(p)}; {advice}"
            )


def _kinds(tensors: Mapping[str, Tensor]) -> dict[str, tuple[Any, ...]]:
    return {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}


def _shape_of(optimizer: torch.optim.Optimizer) -> list[list[tuple[Any, ...]]]:
    return [[(p.dtype, p.shape) for p in group["params"]] for group in optimizer.param_groups]


def _name_of(optimizer: torch.optim.Optimizer) -> str:
    kind = type(optimizer)
    return f"{kind.__module__}.{kind.__qualname__}"


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
