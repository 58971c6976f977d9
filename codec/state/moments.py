"""A bound between the two moments that Adam keeps of each gradient g.

    m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2

By Cauchy and Schwarz, m^2 <= C v with C = (1 - b1)^2 / ((1 - b2) (1 - b1^2 / b2)). Where v is
lossy, a track may have a v that is far too small for its m, and the next update, about m / sqrt(v),
could be of any size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .policy import is_of_model
from .tensors import Arrays, Layout
from .tree import Parts, unflatten

# The moments' names, as torch's optimizers give them, with what codec.dcp puts behind them.
FIRST, SECONDS = "exp_avg", ("exp_avg_sq", "max_exp_avg_sq")
_FIRST, _SECOND = (
    re.compile(rf"(.*[/.])(?:{'|'.join(names)})(@[0-9,]*)?", re.DOTALL)
    for names in ((FIRST,), SECONDS)
)
ROUNDING = 1.001  # float32's, in sums of many gradients: exact moments stay as they are
LEAST = float(np.finfo(np.float32).tiny)  # below it, float32 loses digits
LARGEST = {"F16": 65504.0, "BF16": 2.0**128 - 2.0**120}  # a track in float32 may exceed it
FLOATS = ("F64", "F32", "F16", "BF16")  # dtypes of first moments that bound the second ones
DEFAULT_C = 1000.0  # where betas are unknown: C of (0, 0.999), above C of all usual betas


def bounded(arrays: Arrays, layout: Layout, values: tuple[str, ...] | None = None) -> Arrays:
    """The arrays, with lossy second moments raised to what their first moments imply, and finite
    values limited to the range of their dtype.

    Args:
        arrays: Of a track, or some of them; none changes. The names of the two moments of a
            parameter differ in their last part only.
        layout: Of the track.
        values: See `Track`; None if they are unknown. They have the betas of optimizers of the form
            {"state": ..., "param_groups": ...}; for all others C is DEFAULT_C.
    """
    lossy = [t for t in layout.tensors if t.lossy and t.name in arrays]
    names = (t.name for t in lossy if not is_of_model(t.name))
    firsts = ((name, first_of(name)) for name in names)
    pairs = [(second, first) for second, first in firsts if first is not None and first in arrays]
    dtypes = {t.name: t.dtype for t in layout.tensors}
    ratios = _ratios(layout, values) if pairs and values is not None else {}
    raised = {
        second: _raised(arrays[second], _as_floats(arrays[first]), ratios.get(second, DEFAULT_C))
        for second, first in pairs
        if arrays[first].shape == arrays[second].shape and dtypes[first] in FLOATS
    }
    arrays = arrays | raised
    limits = {t.name: LARGEST[t.dtype] for t in lossy if t.dtype in LARGEST}
    return arrays | {name: _within(arrays[name], largest) for name, largest in limits.items()}


def first_of(name: str) -> str | None:
    """The name of the first moment beside a second one; None for other names."""
    match = _SECOND.fullmatch(name)
    return f"{match[1]}{FIRST}{match[2] or ''}" if match else None


def seconds_of(name: str) -> tuple[str, ...]:
    """The names that second moments beside a first one have; () for other names."""
    match = _FIRST.fullmatch(name)
    return tuple(f"{match[1]}{second}{match[2] or ''}" for second in SECONDS) if match else ()


def _as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """An array of one of FLOATS, of which an exact BF16 has its bits, as floats."""
    is_bits = array.dtype == np.uint16
    return (array.astype(np.uint32) << 16).view(np.float32) if is_bits else array


def _raised(second: NDArray[np.float32], first: NDArray[Any], ratio: float) -> NDArray[np.float32]:
    """The second moment, raised to first^2 / ratio where it is smaller."""
    with np.errstate(all="ignore"):  # what is not finite stays
        least = first.astype(np.float64) ** 2 / (ROUNDING * ratio)
    least = np.minimum(least, np.finfo(np.float32).max).astype(np.float32)
    return np.where((least > second) & (least > LEAST), least, second)


def _within(array: NDArray[np.float32], largest: float) -> NDArray[np.float32]:
    """The array with its finite values limited to the range from -largest to largest."""
    return np.where(np.isfinite(array), np.clip(array, -largest, largest), array)


def _ratios(layout: Layout, values: tuple[str, ...]) -> dict[str, float]:
    """C of each second moment whose betas are known and bound it."""
    names = {t.name: t.name for t in layout.tensors}
    ratios: dict[str, float] = {}
    for moments, betas in _parameters(unflatten(Parts(layout.structure, names, values))):
        ratio = _ratio(betas)
        if ratio is not None:
            ratios |= {name: ratio for name in moments.values() if isinstance(name, str)}
    return ratios


def _ratio(betas: Any) -> float | None:
    """C of these betas; None if this is no pair of betas, or if they give no bound."""
    if not isinstance(betas, Sequence) or len(betas) < 2:
        return None
    b1, b2 = betas[:2]
    if not (isinstance(b1, float | int) and isinstance(b2, float | int) and b1 * b1 < b2 < 1):
        return None
    return float((1 - b1) ** 2 / ((1 - b2) * (1 - b1 * b1 / b2)))


def _parameters(state: Any) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """Of every parameter in every optimizer: its moments by key, and the betas of its group."""
    if isinstance(state, list | tuple):
        for child in state:
            yield from _parameters(child)
    if not isinstance(state, Mapping):
        return
    by_parameter, groups = state.get("state"), state.get("param_groups")
    if isinstance(by_parameter, Mapping) and isinstance(groups, list | tuple):
        for group in groups:
            if isinstance(group, Mapping) and isinstance(group.get("params"), list | tuple):
                for key in group["params"]:
                    if isinstance(moments := by_parameter.get(key), Mapping):
                        yield moments, group.get("betas")
        return
    for child in state.values():
        yield from _parameters(child)
