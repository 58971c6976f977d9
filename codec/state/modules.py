"""Loads the tensors of a track into torch modules, all or nothing.

Not done here: reading and verifying the track (chain).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from codec.caps import names_of
from codec.errors import SettingsError, StateMismatchError

from .moments import bounded
from .tensors import Arrays, Layout, from_arrays, is_tensor
from .tree import Parts, unflatten

Keys = dict[str, str]  # key of a module's state_dict -> name of the tensor in the track


class Module(Protocol):
    """A torch.nn.Module, as far as it is used here."""

    def state_dict(self) -> Any:
        """Key -> tensor, which shares its memory with the module."""

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Any:
        """Copy tensors into those of the module."""


Into = Module | Mapping[str, Module]


@dataclass(frozen=True)
class _Name:
    """Stands for a tensor in a state."""

    text: str


class ModuleLoader:
    """Copies weights and buffers into modules, whose tensors stay where they are.

    Args:
        into: A module, or names of mappings in the state -> modules.

    Raises:
        SettingsError: These are no modules.
    """

    def __init__(self, into: Into) -> None:
        self._modules = dict(into) if isinstance(into, Mapping) else {"": into}
        for module in self._modules.values():
            if not hasattr(module, "load_state_dict") or not hasattr(module, "state_dict"):
                kind = type(module).__name__
                raise SettingsError(
                    f"into is a torch.nn.Module, or names and modules; got a {kind}"
                )
        self._planned: tuple[Layout, dict[str, Keys]] | None = None

    def load(self, layout: Layout, arrays: Arrays) -> None:
        """Copy a state into the modules.

        Every tensor is checked, converted and on its device before the first one is copied.

        Args:
            layout: Of the state.
            arrays: Name -> array of its track.

        Raises:
            StateMismatchError: Keys or shapes differ from the state's. No module has changed.
        """
        if self._planned is None or self._planned[0] is not layout:
            self._planned = layout, self._plan(layout)
        plan = self._planned[1]
        names = {name for keys in plan.values() for name in keys.values()}
        needed = Layout(tuple(t for t in layout.tensors if t.name in names))
        own_arrays = {t.name: arrays[t.name] for t in needed.tensors}
        tensors = from_arrays(bounded(own_arrays, needed), needed)
        staged = [
            (module, self._staged(where, module, plan[where], tensors))
            for where, module in self._modules.items()
        ]
        for module, state in staged:
            module.load_state_dict(state, strict=False)

    def _plan(self, layout: Layout) -> dict[str, Keys]:
        """By module, where its tensors are. Raises StateMismatchError."""
        names = {t.name: _Name(t.name) for t in layout.tensors}
        no_values = ["null"] * layout.structure.count('"v"')
        state = unflatten(Parts(layout.structure, names, tuple(no_values)))
        mappings = {"": state} | dict(_mappings(state, ""))
        return {where: _found(where, module, mappings) for where, module in self._modules.items()}

    @staticmethod
    def _staged(
        where: str, module: Module, keys: Keys, tensors: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The tensors in the dtypes and on the devices of a module. Raises StateMismatchError."""
        import torch

        staged = {}
        own_state = module.state_dict()
        for key, name in keys.items():
            tensor, own = torch.as_tensor(tensors[name]), own_state[key]
            if tensor.shape != own.shape:
                raise StateMismatchError(
                    f"{name!r} is {list(tensor.shape)} in the state and {list(own.shape)} in the "
                    "module, which keeps its old weights"
                )
            staged[key] = tensor.to(own.device, own.dtype)
        return staged


def _mappings(state: Mapping[Any, Any], above: str) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Every mapping in a state, by its name."""
    for key, value in state.items():
        if isinstance(value, Mapping):
            name = f"{above}{key}"
            yield name, value
            yield from _mappings(value, f"{name}/")


def _found(where: str, module: Module, mappings: Mapping[str, Mapping[Any, Any]]) -> Keys:
    """Where a module's tensors are in a state. Raises StateMismatchError."""
    wanted = {key for key, value in module.state_dict().items() if is_tensor(value)}
    keys_in = {
        name: {key: value.text for key, value in mapping.items() if isinstance(value, _Name)}
        for name, mapping in mappings.items()
    }
    if where:
        if where not in keys_in:
            has = names_of(name for name in mappings if name) or "none"
            raise StateMismatchError(f"the state has no mapping {where!r}; it has {has}")
        keys = keys_in[where]
        if keys.keys() != wanted:
            raise StateMismatchError(f"{where!r} and the module differ: {_differing(keys, wanted)}")
        return keys
    fitting = [name for name, keys in keys_in.items() if keys.keys() == wanted]
    if len(fitting) > 1:
        raise StateMismatchError(
            f"{names_of(fitting)} of the state fit the module; say which: "
            f"into={{{fitting[0]!r}: module}}"
        )
    if fitting:
        return keys_in[fitting[0]]
    nearest = max(keys_in, key=lambda name: len(keys_in[name].keys() & wanted))
    differing = _differing(keys_in[nearest], wanted)
    raise StateMismatchError(
        f"no mapping of the state has the module's tensors; {nearest or 'the state'!r} comes "
        f"nearest: {differing}"
    )


def _differing(keys: Keys, wanted: set[str]) -> str:
    """The keys that only one of both has."""
    missing, unknown = sorted(wanted - keys.keys()), sorted(keys.keys() - wanted)
    parts = [f"it lacks {names_of(missing)}"] if missing else []
    parts += [f"the module lacks {names_of(unknown)}"] if unknown else []
    return ", ".join(parts)
