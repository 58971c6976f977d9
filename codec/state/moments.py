"""What must hold between the two moments that Adam keeps of each gradient g.

    m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2

By Cauchy and Schwarz, m^2 <= C v with C = (1 - b1)^2 / ((1 - b2) (1 - b1^2 / b2)). Where v is
lossy, a track may have a v that is far too small for its m, and the next update, about m / sqrt(v),
could be of any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .tensors import Arrays, Layout
from .tree import Parts, unflatten

FIRST, SECOND = "exp_avg", ("exp_avg_sq", "max_exp_avg_sq")  # as optimizers of torch name them
ROUNDING = 1.001  # float32's, in sums of many gradients: exact moments stay as they are
LEAST = float(np.finfo(np.float32).tiny)  # below it, float32 loses digits


def bounded(arrays: Arrays, layout: Layout, values: tuple[str, ...]) -> Arrays:
    """The arrays, with each lossy second moment at least what the first one says.

    arrays: of a track; none of them changes. values: see `Track`. Optimizers are recognised by
    their form, {"state": ..., "param_groups": ...}, in which a group has betas.
    """
    lossy = {t.name for t in layout.tensors if t.lossy and t.name.rpartition("/")[2] in SECOND}
    if not lossy:
        return arrays
    names = {t.name: t.name for t in layout.tensors}
    found = dict(arrays)
    for state, betas in _moments(unflatten(Parts(layout.structure, names, values))):
        ratio = _most(betas)
        first = arrays.get(state.get(FIRST, ""))
        for key in SECOND:
            name = state.get(key)
            if name not in lossy or first is None or ratio is None:
                continue
            least = first.astype(np.float64) ** 2 / (ROUNDING * ratio)
            least = np.minimum(least, np.finfo(np.float32).max).astype(np.float32)
            second = found[name]
            found[name] = np.where((least > second) & (least > LEAST), least, second)
    return found


def _most(betas: Any) -> float | None:
    """C of these betas; None if they are none, or there is no bound."""
    if not isinstance(betas, Sequence) or len(betas) < 2:
        return None
    b1, b2 = betas[:2]
    if not (isinstance(b1, float | int) and isinstance(b2, float | int) and b1 * b1 < b2 < 1):
        return None
    return float((1 - b1) ** 2 / ((1 - b2) * (1 - b1 * b1 / b2)))


def _moments(state: Any) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """Of every parameter in every optimizer: its moments by key, and the betas of its group."""
    if isinstance(state, list | tuple):
        for child in state:
            yield from _moments(child)
    if not isinstance(state, Mapping):
        return
    own, groups = state.get("state"), state.get("param_groups")
    if isinstance(own, Mapping) and isinstance(groups, list | tuple):
        for group in groups:
            if isinstance(group, Mapping) and isinstance(group.get("params"), list | tuple):
                for key in group["params"]:
                    if isinstance(found := own.get(key), Mapping):
                        yield found, group.get("betas")
        return
    for child in state.values():
        yield from _moments(child)
