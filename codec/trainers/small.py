"""Small tensors of a checkpoint as values, so that they come and go without a new base.

Trainers keep scores as tensors of one element, under names that change: Lightning's ModelCheckpoint
has the path of each of its best files for a key. To a chain another name is another state, which
begins with a base.

Not done here: the model and the optimizer, whose tensors stay the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from codec.state.tensors import TINY_ELEMENTS, is_torch, refusal

TENSOR = "codec.trainers.tensor"  # key of what takes the place of one


def as_values(state: Any) -> Any:
    """The same with {TENSOR: (dtype, shape, bytes)} for torch tensors of fewer than 8 elements."""

    def convert(value: Any) -> Any:
        import torch

        if not is_torch(value) or refusal(value) or value.numel() >= TINY_ELEMENTS:
            return None  # what is refused, saving it says
        data = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        dtype = str(value.dtype).removeprefix("torch.")
        return {TENSOR: (dtype, tuple(value.shape), data.numpy().tobytes())}

    return _mapped(state, convert)


def as_tensors(state: Any) -> Any:
    """What `as_values` was given."""

    def convert(value: Any) -> Any:
        import torch

        if not isinstance(value, dict) or value.keys() != {TENSOR}:
            return None
        dtype, shape, data = value[TENSOR]
        if not data:
            return torch.zeros(shape, dtype=getattr(torch, dtype))
        flat = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return flat.view(getattr(torch, dtype)).reshape(shape)

    return _mapped(state, convert)


def _mapped(value: Any, convert: Callable[[Any], Any]) -> Any:
    """A copy in which what is converted (not to None) takes the place of what was there."""
    if (converted := convert(value)) is not None:
        return converted
    if isinstance(value, dict):
        mapping = copy.copy(value)  # whatever kind of dict it is
        for key, child in value.items():
            mapping[key] = _mapped(child, convert)
        return mapping
    if isinstance(value, list) or (isinstance(value, tuple) and not hasattr(value, "_fields")):
        return (tuple if isinstance(value, tuple) else list)(_mapped(v, convert) for v in value)
    return value
