"""The exact part of a delta: all that it stores besides the codes of lossy tensors.

t/NAME      a tensor that is stored whole
d/NAME      the residual of an exact tensor
small       small exact tensors in one array
values      values that are not tensors
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from codec.caps import names_of, short
from codec.errors import MalformedRecordError, PayloadError
from codec.scheme.delta import Delta
from codec.scheme.residual import Residual
from codec.state.tensors import Arrays, Layout, TensorSpec

from .alphabets import ARRAY
from .container import Content, Described, FileArrays, StoredArrays
from .layouts import is_of_transition
from .residuals import RESIDUALS, read_residual, residual_parts
from .small import SMALL, joined, read_small, split_small
from .values import VALUES, read_values, values_array

PREFIX = "t/"  # begins the array name of a tensor stored whole: no tensor's name can clash


class ExactPart(NamedTuple):
    """The attributes of a `Delta` that its exact part gives."""

    exact: Arrays
    residuals: dict[str, Residual]
    values: dict[int, str]


def exact_arrays(delta: Delta, layout: Layout | None) -> dict[str, Content]:
    """The arrays of the exact part of a delta. layout: see `record.dump_delta`."""
    exact, small = split_small(delta.exact, layout)
    return {
        **{PREFIX + name: array for name, array in exact.items()},
        **residual_parts(delta.residuals),
        **small,
        **values_array(delta.values),
    }


def read_exact_part(
    arrays: FileArrays | StoredArrays,
    layout: Layout,
    non_finite: Sequence[str],
    where: str,
    selected: Collection[str] | None = None,
) -> ExactPart:
    """Read the arrays that `exact_arrays` made.

    Args:
        arrays: Those of a delta record.
        layout: The layout after the step.
        non_finite: The lossy tensors that are stored whole.
        where: The record, for messages.
        selected: The tensors to read; None for all.

    Raises:
        MalformedRecordError: Arrays, layout and ``non_finite`` do not fit.
        PayloadError: The content of an array is malformed.
    """
    names = frozenset(non_finite)
    specs = [_spec_of(name, layout) for name in names]
    if len(specs) < len(non_finite) or not all(spec is not None and spec.lossy for spec in specs):
        raise MalformedRecordError(
            where, "lossy tensors in non_finite", names_of(sorted(non_finite))
        )
    exact: Arrays = {}
    residuals: dict[str, Residual] = {}
    read = _read_arrays(arrays, selected)
    for name, array in read.items():
        if name in (SMALL, VALUES):
            continue
        kind, slash, tensor = name.partition("/")
        spec = _spec_of(tensor, layout)
        if spec is None or (spec.lossy and tensor not in names):
            raise MalformedRecordError(where, "arrays of exact tensors", names_of([name]))
        if kind + slash == PREFIX:
            check_exact(array, spec, where)
            exact[tensor] = array
        elif kind + slash == RESIDUALS:
            residuals[tensor] = read_residual(array, spec, name)
        else:
            raise MalformedRecordError(where, f"arrays {PREFIX}… or {RESIDUALS}…", short(name))
    if SMALL in read:
        exact = joined(exact, read_small(read[SMALL], layout))
    if doubled := residuals.keys() & exact.keys():
        raise PayloadError(f"a residual of {short(min(doubled))}, which is also stored whole")
    if selected is not None:
        exact = {name: array for name, array in exact.items() if name in selected}
        names &= frozenset(selected)
    if missing := names - exact.keys():
        expected = "an array of each tensor in non_finite"
        raise MalformedRecordError(where, expected, f"none of {names_of(sorted(missing))}")
    return ExactPart(exact, residuals, read_values(read.get(VALUES)))


def _read_arrays(arrays: FileArrays | StoredArrays, selected: Collection[str] | None) -> Arrays:
    """The arrays of the exact part, without those of tensors that are not selected."""
    names = [name for name in arrays if name != ARRAY and not is_of_transition(name)]
    if selected is not None:
        names = [n for n in names if n[:2] not in (PREFIX, RESIDUALS) or n[2:] in selected]
        arrays.fetch(names)
    return {name: arrays[name] for name in names}


def _spec_of(name: str, layout: Layout) -> TensorSpec | None:
    number = layout.numbers.get(name)
    return None if number is None else layout.tensors[number]


def check_exact(array: Described, spec: TensorSpec, where: str) -> None:
    """Raise MalformedRecordError unless an array has the shape and dtype of this tensor."""
    if array.shape != spec.track_shape or array.dtype != spec.track_dtype:
        raise MalformedRecordError(
            where,
            f"tensor {spec.name!r} as {spec.track_dtype} {spec.track_shape}",
            f"{array.dtype} {array.shape}",
        )
