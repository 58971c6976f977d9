"""Which tensors and values of a state to read, by patterns of their names.

Names are those of tree: "model/encoder.weight". A pattern is a shell pattern, in which * matches /
too. It selects what has a matching name, and everything below a container with a matching name.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from codec.caps import names_of
from codec.errors import SettingsError

from .moments import second_of
from .policy import describe_separators
from .tensors import Arrays, Layout, from_arrays
from .tree import Parts, leaf_names, pruned, unflatten, value_names

Only = str | Iterable[str]  # one pattern, or several


class Selection:
    """Some tensors and values of a state.

    Attributes:
        patterns: Of their names.

    Raises:
        SettingsError: ``only`` is no pattern, or has none.
    """

    def __init__(self, only: Only) -> None:
        several = isinstance(only, Iterable) and not isinstance(only, str)
        patterns: tuple[Any, ...] = tuple(only) if several else (only,)
        self.patterns: tuple[str, ...] = patterns
        if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
            raise SettingsError(
                f'only is a pattern of names, "model/*", or several; got {only!r}'[:300]
            )
        self.selects = lru_cache(maxsize=2**17)(self._selects)
        self._names_in_newest: tuple[Layout, frozenset[str]] | None = None  # layout, names

    def _selects(self, name: str) -> bool:
        """Whether a pattern matches a name, or that of a container above it."""
        return any(_matches(name, pattern) for pattern in self.patterns)

    def names(self, layout: Layout) -> frozenset[str]:
        """The tensors to read: those selected, and the second moments beside first ones.

        A first moment in roots needs the second one, and it may come to be in roots later.
        """
        if self._names_in_newest is None or self._names_in_newest[0] is not layout:
            selected = {
                layout.tensors[number].name
                for name, number in tensor_names(layout)
                if self.selects(name)
            }
            seconds = set(map(second_of, selected)) & layout.numbers.keys()
            self._names_in_newest = layout, frozenset(selected | seconds)
        return self._names_in_newest[1]

    def state_of(self, arrays: Arrays, layout: Layout, values: tuple[str, ...]) -> dict[Any, Any]:
        """The selected part of a state, nested as in the state.

        Mappings lack what is not selected; None takes its place in lists and tuples.

        Args:
            arrays: Name -> array, at least of the tensors to read.
            layout: Of the whole state.
            values: All of them, see `codec.state.tree`.

        Raises:
            SettingsError: See `check_matches`.
            DTypeError: A tensor came from torch and torch is not installed.
        """
        self.check_matches(layout)
        own = Layout(tuple(t for t in layout.tensors if t.name in arrays))
        tensors = from_arrays(arrays, own)
        if not layout.structure:
            return {name: tensor for name, tensor in tensors.items() if self.selects(name)}
        structure, n_left_out = pruned(layout.structure, self.selects, len(values))
        numbered = {t.name: tensors.get(t.name) for t in layout.tensors}
        return unflatten(Parts(structure, numbered, (*values, *n_left_out * ["null"])))

    def check_matches(self, layout: Layout) -> None:
        """Raise SettingsError, with the nearest names, if a pattern selects nothing."""
        names = [name for name, _ in tensor_names(layout)]
        names += value_names(layout.structure)
        for pattern in self.patterns:
            if not any(_matches(name, pattern) for name in names):
                nearest = get_close_matches(pattern, names, 3, 0.0)
                raise SettingsError(
                    f"nothing in the state has a name like {pattern!r}; the nearest names are "
                    f"{names_of(nearest)}; `python -m codec info RUN --tensors` lists all"
                    f"{describe_separators(pattern, names)}"
                )


def tensor_names(layout: Layout) -> Iterable[tuple[str, int]]:
    """Name of every tensor, once for each place it stands in, and its number in the layout.

    By these names tensors are selected.
    """
    if not layout.structure:
        return ((t.name, i) for i, t in enumerate(layout.tensors))
    return ((name, number) for name, tag, number in leaf_names(layout.structure) if tag == "t")


def _matches(name: str, pattern: str) -> bool:
    parts = name.split("/")
    above = ("/".join(parts[:n]) for n in range(len(parts), 0, -1))
    return any(place == pattern or fnmatchcase(place, pattern) for place in above)
