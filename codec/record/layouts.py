"""A layout as JSON, and the arrays of a delta that changes it. See FORMAT.md.

layout      an edit of the old layout's text, or the new text
structure   an edit of the old structure's text, or the new text
n/NAME      the part of a new layout's tensor that the track lacks
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from codec.caps import MAX_JSON, parsed, short, typed
from codec.errors import MalformedRecordError, PayloadError
from codec.scheme.transition import Transition, has_more_rows, has_same_array
from codec.state import edits, tree
from codec.state.family import Family
from codec.state.selection import Selection
from codec.state.tensors import Arrays, Layout, TensorSpec, is_storable

from .container import Described, FileArrays, StoredArrays
from .values import MAX_TEXT, text_array, text_of

LAYOUT = "layout"
STRUCTURE = "structure"
NEW = "n/"  # before the name of a tensor
_FITS = "a change of the layout before it"


def entries_of(layout: Layout) -> list[list[Any]]:
    """The tensors of a layout as lists, for JSON."""
    return [
        [t.name, t.dtype, list(t.shape), t.lossy, t.library, str(t.family)] for t in layout.tensors
    ]


def specs_of(entries: Any) -> tuple[TensorSpec, ...]:
    """The tensors of a layout from JSON. Raises TypeError, ValueError."""
    return tuple(
        TensorSpec(
            typed(name, str),
            typed(dtype, str),
            tuple(typed(d, int) for d in shape),
            typed(lossy, bool),
            typed(library, str),
            Family.of(typed(family, str)),
        )
        for name, dtype, shape, lossy, library, family in entries
    )


def check_storable(tensors: Iterable[TensorSpec], where: str) -> None:
    """Raise MalformedRecordError unless a state can hold tensors of these descriptions."""
    for t in tensors:
        if not is_storable(t):
            actual = f"{t.dtype!r} of {t.library!r}, lossy: {t.lossy}, family {str(t.family)!r}"
            raise MalformedRecordError(where, "a tensor that a state can hold", actual[:200])


def is_of_transition(name: str) -> bool:
    """Whether this is the name of a transition's array."""
    return name in (LAYOUT, STRUCTURE) or name.startswith(NEW)


def transition_arrays(transition: Transition | None) -> Arrays:
    """The arrays of a transition in a record, by name; {} for None."""
    if transition is None:
        return {}
    arrays = {NEW + name: array for name, array in transition.arrays.items()}
    layouts = transition.before, transition.layout
    for name, (old, new) in {
        LAYOUT: tuple(map(_text_of, layouts)),
        STRUCTURE: tuple(layout.structure for layout in layouts),
    }.items():
        if old != new:
            arrays[name] = text_array(edits.change_of(old, new))
    return arrays


def read_transition(
    arrays: FileArrays | StoredArrays,
    before: Layout,
    where: str,
    selection: Selection | None = None,
) -> Transition | None:
    """The transition of a delta; None if it keeps the layout.

    Args:
        arrays: Name -> array of the record.
        before: The layout of the record before it.
        where: The record, for messages.
        selection: The tensors to read; None for all.

    Raises:
        MalformedRecordError: The arrays are no transition from this layout.
    """
    layout = read_layout(arrays, before, where)
    if layout is None:
        return None
    new = [n.removeprefix(NEW) for n in arrays if n.startswith(NEW)]
    selected = selection.names(layout) if selection else new
    return Transition(before, layout, {n: arrays[NEW + n] for n in new if n in selected})


def read_layout(arrays: FileArrays | StoredArrays, before: Layout, where: str) -> Layout | None:
    """The new layout of a delta; None if it keeps the layout. Only the two texts are read.

    Args, Raises: As `read_transition`.
    """
    new = {n.removeprefix(NEW): arrays.described(n) for n in arrays if n.startswith(NEW)}
    if {LAYOUT, STRUCTURE}.isdisjoint(arrays):
        if new:
            actual = f"an array of {short(min(new))}"
            raise MalformedRecordError(where, "new tensors of a new layout only", actual)
        return None
    try:
        text = _changed(_text_of(before), arrays, LAYOUT, MAX_JSON)
        structure = _changed(before.structure, arrays, STRUCTURE, MAX_TEXT)
        entries = parsed(text.encode(), where, "a layout", MalformedRecordError, list)
        layout = Layout(specs_of(entries), structure)
        tree.check_structure(before.structure, len(before.tensors))
        tree.check_structure(structure, len(layout.tensors))
    except (TypeError, ValueError, PayloadError) as exc:
        raise MalformedRecordError(where, _FITS, short(exc)) from exc
    if layout == before:
        raise MalformedRecordError(where, _FITS, "the same layout")
    check_storable(layout.tensors, where)
    _check_new_arrays(new, before, layout, where)
    return layout


def check_new_values(transition: Transition, numbers: Collection[int], where: str) -> None:
    """Raise MalformedRecordError unless a delta holds every value that the old layout lacks.

    numbers: of the values in the delta.
    """
    for number, origin in enumerate(transition.origins):
        if origin is None and number not in numbers:
            raise MalformedRecordError(where, "every new value", f"no value {number}")


def _check_new_arrays(
    new_arrays: Mapping[str, Described], before: Layout, layout: Layout, where: str
) -> None:
    """Raise MalformedRecordError unless these are the arrays that a transition needs."""
    old_specs = {t.name: t for t in before.tensors}
    if len({t.name for t in layout.tensors}) != len(layout.tensors):
        raise MalformedRecordError(where, _FITS, "two tensors of one name")
    unused = dict(new_arrays)
    for t in layout.tensors:
        array, old = unused.pop(t.name, None), old_specs.get(t.name)
        keeps_array = old is not None and has_same_array(old, t)
        if array is None and keeps_array:
            continue
        shapes = [] if keeps_array else [t.track_shape]
        if old is not None and has_more_rows(old, t):
            shapes.append((t.shape[0] - old.shape[0], *t.track_shape[1:]))
        if array is None or array.shape not in shapes or array.dtype != t.track_dtype:
            either = " or ".join(short(shape) for shape in shapes)
            expected = f"{t.track_dtype} {either} of tensor {t.name!r}"
            if keeps_array:
                expected = f"nothing of tensor {t.name!r}, which keeps its array"
            actual = "nothing" if array is None else f"{array.dtype} {array.shape}"
            raise MalformedRecordError(where, expected, actual)
    if unused:
        actual = f"an array of {short(min(unused))}"
        raise MalformedRecordError(where, "arrays of tensors that the layout has", actual)


def _text_of(layout: Layout) -> str:
    """The text of a layout's tensors: the shortest JSON, in ASCII."""
    return json.dumps(entries_of(layout), separators=(",", ":"))


def _changed(old: str, arrays: Mapping[str, NDArray[Any]], name: str, most: int) -> str:
    """A text after the change in the array of this name. Raises PayloadError.

    most: characters that the text may have.
    """
    if name not in arrays:
        return old
    return edits.applied(old, text_of(arrays[name]), most)
