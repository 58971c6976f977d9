"""The inputs of one optimizer step: gradients, and the settings of its groups.

Under autocast, and with float32 masters of bfloat16 weights, gradients are float32 but hold
bfloat16 values, times one factor if they were clipped. Such a gradient is stored as bfloat16, with
the factor beside it. The factor is computed from the gradients; each gradient is checked bit by
bit.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SAMPLED = 64  # elements of the largest gradient that are used to find a factor
SIGNIFICANDS = np.arange(128, 256)  # of bfloat16: 8 bits with the leading one
ULPS = np.arange(-2, 3)  # distances to try between the factor and gradient / significand
_NO_SETTINGS = ("params", "param_names")


@dataclass(frozen=True)
class Step:
    """The inputs of one step.

    Attributes:
        gradients: Copies of each parameter's gradient, in the order of the groups; None for a
            parameter without a gradient.
        settings: Of each group.
    """

    gradients: tuple[Tensor | None, ...]
    settings: tuple[dict[str, Any], ...]

    @classmethod
    def next_of(cls, optimizer: torch.optim.Optimizer) -> Step:
        """The inputs of the optimizer's next step."""
        gradients = tuple(
            None if p.grad is None else p.grad.detach().clone() for p in parameters_of(optimizer)
        )
        settings = tuple(
            {key: copy.deepcopy(group[key]) for key in group if key not in _NO_SETTINGS}
            for group in optimizer.param_groups
        )
        return cls(gradients, settings)


def unwrapped(optimizer: Any) -> Any:
    """The optimizer whose `step` runs: a wrapper of Accelerate or Lightning has it inside."""
    while isinstance(inner := getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = inner
    return optimizer


def parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """The parameters of all groups, in order."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def shortened(
    gradients: Sequence[Tensor | None], long: Set[int]
) -> tuple[tuple[Tensor | None, ...], float, list[int]]:
    """Gradients as they are stored: as bfloat16 where that restores them exactly.

    Args:
        gradients: Of each parameter.
        long: Numbers of the gradients that stay float32.

    Returns:
        The gradients; the factor by which a restore multiplies the bfloat16 gradients; and the
        numbers of these.
    """
    floats = {
        i: g
        for i, g in enumerate(gradients)
        if g is not None and g.dtype is torch.float32 and i not in long
    }
    short: dict[int, Tensor] = {}
    factor = _factor_of(max(floats.values(), key=Tensor.numel)) if floats else 1.0
    for i, g in floats.items():
        q = (g.double() / factor).to(torch.bfloat16)
        if same_bits(lengthened(q, factor), g):
            short[i] = q
    if 2 * sum(map(Tensor.numel, short.values())) < sum(map(Tensor.numel, floats.values())):
        short = {}  # few fit: by chance, for example a gradient of zeros
    return tuple(short.get(i, g) for i, g in enumerate(gradients)), factor, list(short)


def lengthened(gradient: Tensor, factor: float) -> Tensor:
    """The float32 gradient of a shortened one."""
    return gradient.float() * factor if factor != 1 else gradient.float()


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same shape, dtype and bits: NaN equals itself, 0 does not equal
    -0."""
    return a.dtype is b.dtype and a.shape == b.shape and torch.equal(bytes_of(a), bytes_of(b))


def bytes_of(tensor: Tensor) -> Tensor:
    """uint8 (bytes,): the content of a tensor."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _factor_of(gradient: Tensor) -> float:
    """A factor f for which gradient / f has bfloat16 values, judged by its largest elements; 1 if
    there is none."""
    flat = gradient.reshape(-1)
    largest = flat.abs().topk(min(SAMPLED, flat.numel())).values.cpu().numpy()
    sample = largest[largest > 0].astype(np.float64)
    if not sample.size or not np.isfinite(sample).all() or _fits(sample, np.float64(1)):
        return 1.0
    near = (sample[0] / SIGNIFICANDS).astype(np.float32)
    ulp = np.spacing(near)
    for candidate in (near[:, None] + ULPS * ulp[:, None]).astype(np.float32).ravel():
        if candidate > 0 and _fits(sample, candidate.astype(np.float64)):
            return math.frexp(float(candidate))[0]  # powers of two change no significand
    return 1.0


def _fits(values: NDArray[np.float64], factor: np.float64) -> bool:
    """Whether all values are float32(factor times a bfloat16 value)."""
    fraction, exponent = np.frexp(values / factor)
    short = np.ldexp(np.rint(np.ldexp(fraction, 8)), exponent - 8)
    return bool(((short * factor).astype(np.float32) == values).all())


def settings_to(optimizer: torch.optim.Optimizer, settings: Sequence[Mapping[str, Any]]) -> None:
    """Give an optimizer's groups these settings."""
    for group, group_settings in zip(optimizer.param_groups, settings, strict=True):
        group.update(copy.deepcopy(dict(group_settings)))
