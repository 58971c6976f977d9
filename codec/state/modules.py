"""Copies the tensors of a track into torch modules, all or nothing.

Not done here: reading and verifying the track (chain).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from codec.caps import names_of
from codec.errors import SettingsError, StateMismatchError

from .tensors import Arrays, Layout, from_arrays, is_tensor
from .tree import Parts, unflatten

Keys = dict[str, str]  # key of a module's state_dict -> name of the tensor in the track
# Tensors of modules, and their new values in the same dtype and on the same device.
Pairs = list[tuple[Any, Any]]
EXTRA = "_extra_state"  # how keys end that only load_state_dict knows how to set
WRAPPERS = {"module.": "module", "_orig_mod.": "_orig_mod"}  # prefix of keys -> the inner module


class HasState(Protocol):
    """A torch.nn.Module, as far as it is used here."""

    def state_dict(self) -> Any:
        """Key -> tensor, which shares its memory with the module."""

    def parameters(self) -> Iterator[Any]:
        """All parameters."""

    def buffers(self) -> Iterator[Any]:
        """All buffers."""


Into = HasState | Mapping[str, HasState]


@dataclass(frozen=True)
class _Placeholder:
    """Stands for a tensor in a state. name: the tensor's."""

    name: str


class ModuleLoader:
    """Copies weights and buffers into modules, whose tensors stay where they are.

    Args:
        into: A module, or names of dicts in the state -> modules.

    Raises:
        SettingsError: These are no modules.
    """

    def __init__(self, into: Into) -> None:
        self._modules = dict(into) if isinstance(into, Mapping) else {"": into}
        for module in self._modules.values():
            if not all(hasattr(module, name) for name in ("state_dict", "parameters", "buffers")):
                kind = type(module).__name__
                raise SettingsError(
                    f"into is a torch.nn.Module, or names and modules; got a {kind}"
                )
        self._planned: tuple[Layout, dict[str, Keys]] | None = None

    def load(self, layout: Layout, arrays: Arrays) -> None:
        """Copy a state into the modules.

        Every tensor is checked, converted and on its device before the first one is copied. If a
        copy fails all the same, those before it are undone.

        Args:
            layout: Of the state.
            arrays: Name -> array of its track, or of the part that was read.

        Raises:
            StateMismatchError: Keys or shapes differ from the state's, or a tensor cannot be
                changed in place. All modules have their old values.
        """
        if self._planned is None or self._planned[0] is not layout:
            self._planned = layout, self._plan(layout)
        plan = self._planned[1]
        names = {name for keys in plan.values() for name in keys.values()}
        needed = Layout(tuple(t for t in layout.tensors if t.name in names))
        if missing := names - arrays.keys():
            raise StateMismatchError(
                f"only a part of the state is read, without {names_of(sorted(missing))} of the "
                "module"
            )
        own_arrays = {t.name: arrays[t.name] for t in needed.tensors}
        tensors = from_arrays(own_arrays, needed)
        pairs = [
            pair
            for where, module in self._modules.items()
            for pair in _staged(module, plan[where], tensors)
        ]
        _copy_all(pairs)

    def _plan(self, layout: Layout) -> dict[str, Keys]:
        """By module, where its tensors are. Raises StateMismatchError."""
        placeholders = {t.name: _Placeholder(t.name) for t in layout.tensors}
        no_values = ["null"] * layout.structure.count('"v"')
        state = unflatten(Parts(layout.structure, placeholders, tuple(no_values)))
        mappings = {"": state} | dict(_mappings(state, ""))
        return {where: _found(where, module, mappings) for where, module in self._modules.items()}


def _staged(module: HasState, keys: Keys, tensors: Mapping[str, Any]) -> Pairs:
    """Each tensor of a module with its new value. Raises StateMismatchError."""
    import torch

    pairs = []
    own_state = module.state_dict()
    places = {_place_of(t) for t in (*module.parameters(), *module.buffers())} - {None}
    for key, name in keys.items():
        new, own = torch.as_tensor(tensors[name]), own_state[key]
        if _place_of(own) not in places:
            raise StateMismatchError(
                f"{key!r} in the module's state_dict is no parameter or buffer with values: it may "
                "be a copy, on the meta device or not initialized yet"
            )
        if (new.is_floating_point(), new.is_complex()) != (
            own.is_floating_point(),
            own.is_complex(),
        ):
            raise StateMismatchError(
                f"{name!r} is {new.dtype} in the state and {own.dtype} in the module"
            )
        if new.shape != own.shape:
            raise StateMismatchError(
                f"{name!r} is {list(new.shape)} in the state and {list(own.shape)} in the module, "
                "which keeps its old values"
            )
        pairs.append((own, new.to(own.device, own.dtype)))
    return pairs


def _place_of(tensor: Any) -> int | None:
    """The address of a tensor's memory, 0 for an empty one; None if it has no values."""
    from torch.nn.parameter import is_lazy

    if is_lazy(tensor) or tensor.is_meta:
        return None
    return 0 if not tensor.numel() else int(tensor.untyped_storage().data_ptr())


def _copy_all(pairs: Pairs) -> None:
    """Copy the new values, or none of them. Raises StateMismatchError."""
    import torch

    copied: list[tuple[Any, Any]] = []  # tensors and their old values
    with torch.no_grad():
        try:
            while pairs:
                own, new = pairs.pop()
                copied.append((own, own.clone()))
                own.copy_(new)
        except BaseException as exc:
            for own, old in reversed(copied):
                with suppress(RuntimeError):  # it refuses again: its value is the old one
                    own.copy_(old)
            if not isinstance(exc, RuntimeError):
                raise
            raise StateMismatchError(
                f"a tensor of the module cannot be changed, so it keeps its old values: {exc}"
            ) from exc


def _mappings(state: Mapping[Any, Any], above: str) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """Every dict in a state that is in no list, by its name."""
    for key, value in state.items():
        if isinstance(value, Mapping):
            name = above + str(key).replace("~", "~0").replace("/", "~1")
            yield name, value
            yield from _mappings(value, f"{name}/")


def _found(where: str, module: HasState, mappings: Mapping[str, Mapping[Any, Any]]) -> Keys:
    """Where a module's tensors are in a state. Raises StateMismatchError."""
    wanted = {
        key
        for key, value in module.state_dict().items()
        if is_tensor(value) and not str(key).endswith(EXTRA)
    }
    keys_in = {
        name: {
            key: value.name
            for key, value in mapping.items()
            if isinstance(value, _Placeholder) and not str(key).endswith(EXTRA)
        }
        for name, mapping in mappings.items()
    }
    if where:
        if not keys_in.get(where):
            has = names_of(name for name, keys in keys_in.items() if name and keys) or "none"
            raise StateMismatchError(f"the state has no dict of tensors {where!r}; it has {has}")
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
    for prefix, inner in WRAPPERS.items():
        if wanted and all(key.startswith(prefix) for key in wanted):
            raise StateMismatchError(
                f"the module's keys begin with {prefix!r}: pass the module inside, module.{inner}"
            )
    nearest = max(keys_in, key=lambda name: len(keys_in[name].keys() & wanted))
    raise StateMismatchError(
        f"no dict in the state has the module's tensors; {nearest or 'the state'!r} comes "
        f"nearest: {_differing(keys_in[nearest], wanted)}"
    )


def _differing(keys: Keys, wanted: set[str]) -> str:
    """The keys that only one of both has."""
    missing, unknown = sorted(wanted - keys.keys()), sorted(keys.keys() - wanted)
    parts = [f"it lacks {names_of(missing)}"] if missing else []
    parts += [f"the module lacks {names_of(unknown)}"] if unknown else []
    return ", ".join(parts)
