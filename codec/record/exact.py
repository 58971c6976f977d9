"""The exact part of a step: all that it stores besides the codes of lossy tensors.

A delta record has the arrays of one step. A merged record has those of many steps; each name then
has the step's index, counted from 0:

                                         delta        merged record
    a tensor that is stored whole        t/NAME       t/INDEX/NAME
    the residual of an exact tensor      d/NAME       d/INDEX/NAME
    small exact tensors in one array     small        small/INDEX
    values that are not tensors          values       values/INDEX
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from codec.caps import short
from codec.errors import MalformedRecordError, PayloadError
from codec.scheme.delta import Delta
from codec.scheme.residual import Residual
from codec.state.tensors import Arrays, Layout, TensorSpec

from .container import Content, Described, FileArrays, StoredArrays
from .residuals import RESIDUALS, read_residual, residual_parts
from .small import SMALL, joined, read_small, split_small
from .values import VALUES, read_values, values_array

PREFIX = "t/"  # begins the array name of a tensor stored whole: no tensor's name can clash
# An index has four digits at most: a merged record has at most 4096 steps.
_INDEXED = re.compile(
    f"(?:({PREFIX}|{RESIDUALS})|({SMALL}|{VALUES})/)(0|[1-9][0-9]{{0,3}})(?(1)/(.*))", re.DOTALL
)


@dataclass(frozen=True)
class ExactPart:
    """The exact part of a step.

    Attributes:
        exact: Name -> tensor that the step stores whole.
        residuals: Name -> residual: the tensor after the step is that before it plus this.
        values: Number -> change of a value that is not a tensor.
    """

    exact: Arrays
    residuals: Mapping[str, Residual]
    values: Mapping[int, str]

    @classmethod
    def of(cls, delta: Delta) -> ExactPart:
        """The exact part of a delta of one step."""
        residuals = {name: residual for name, (residual,) in delta.residuals.items()}
        return cls(delta.exact, residuals, delta.values)

    def arrays(self, layout: Layout | None, index: int | None = None) -> dict[str, Content]:
        """The arrays of a record.

        layout: see `record.dump_delta`. index: of the step in a merged record; None for a delta.
        """
        before, after = ("", "") if index is None else (f"{index}/", f"/{index}")
        exact, small = split_small(self.exact, layout, SMALL + after)
        return {
            **{f"{PREFIX}{before}{name}": array for name, array in exact.items()},
            **residual_parts(self.residuals, RESIDUALS + before),
            **small,
            **values_array(self.values, VALUES + after),
        }


def arrays_by_index(arrays: Arrays, n: int) -> list[Arrays]:
    """The arrays of each of n steps of a merged record, named as in a delta record.

    Raises PayloadError if an array belongs to none of the steps.
    """
    steps: list[Arrays] = [{} for _ in range(n)]
    for name, array in arrays.items():
        match = _INDEXED.fullmatch(name)
        if not match or int(match[3]) >= n:
            raise PayloadError(f"an array {short(name)}, which belongs to none of the {n} steps")
        prefix, single, index, tensor = match.groups()
        steps[int(index)][single or prefix + tensor] = array
    return steps


def arrays_of(
    arrays: FileArrays | StoredArrays,
    names: Iterable[str],
    selected: Collection[str] | None,
    *,
    merged: bool = False,
) -> Arrays:
    """Read the arrays of these names, without those of tensors that are not selected.

    names: of arrays. selected: of tensors; None for all. merged: whether the names have the index
    of a step, as in a merged record.
    """
    if selected is not None:
        tensors = ((name, _tensor_of(name, merged)) for name in names)
        names = [name for name, tensor in tensors if tensor is None or tensor in selected]
        arrays.fetch(names)
    return {name: arrays[name] for name in names}


def _tensor_of(name: str, merged: bool) -> str | None:
    """The tensor of an array; None if it has several tensors, or values."""
    if merged:
        match = _INDEXED.fullmatch(name)
        return match[4] if match else None
    kind, slash, tensor = name.partition("/")
    return tensor if kind + slash in (PREFIX, RESIDUALS) else None


def read_exact_part(
    arrays: Arrays,
    layout: Layout,
    non_finite: Sequence[str],
    where: str,
    selected: Collection[str] | None = None,
) -> ExactPart:
    """Read the arrays that `ExactPart.arrays` made, of one step.

    Args:
        arrays: Named as in a delta record; no others.
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
        raise MalformedRecordError(where, "lossy tensors in non_finite", some_names(non_finite))
    exact: Arrays = {}
    residuals: dict[str, Residual] = {}
    for name, array in arrays.items():
        if name in (SMALL, VALUES):
            continue
        kind, slash, tensor = name.partition("/")
        spec = _spec_of(tensor, layout)
        if spec is None or (spec.lossy and tensor not in names):
            raise MalformedRecordError(where, "arrays of exact tensors", some_names([name]))
        if kind + slash == PREFIX:
            check_exact(array, spec, where)
            exact[tensor] = array
        elif kind + slash == RESIDUALS:
            residuals[tensor] = read_residual(array, spec, name)
        else:
            raise MalformedRecordError(where, f"arrays {PREFIX}… or {RESIDUALS}…", short(name))
    if SMALL in arrays:
        exact = joined(exact, read_small(arrays[SMALL], layout, SMALL))
    if doubled := residuals.keys() & exact.keys():
        raise PayloadError(f"a residual of {short(min(doubled))}, which is also stored whole")
    if selected is not None:
        exact = {name: array for name, array in exact.items() if name in selected}
        names &= frozenset(selected)
    if missing := names - exact.keys():
        expected = "an array of each tensor in non_finite"
        raise MalformedRecordError(where, expected, f"none of {some_names(missing)}")
    return ExactPart(exact, residuals, read_values(arrays.get(VALUES)))


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


def some_names(names: Iterable[str]) -> str:
    """The first few names, sorted, for a message."""
    names = sorted(names)
    if not names:
        return "none"
    first = [repr(name) if len(name) <= 80 else repr(name[:80]) + "…" for name in names[:6]]
    return ", ".join(first) + (" …" if len(names) > 6 else "")
