"""Whether two states are the same to the last bit."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def bits(value: Any) -> Any:
    """What is equal for two values only if they have the same types, dtypes, shapes and bits, and
    their keys the same order."""
    if (torch := sys.modules.get("torch")) and isinstance(value, torch.Tensor):
        flat = value.detach().reshape(-1)
        raw = flat.view(torch.uint8).numpy().tobytes() if value.numel() else b""
        return "torch", value.dtype, tuple(value.shape), raw
    if isinstance(value, np.ndarray | np.generic):
        return type(value), value.dtype, value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value), [(bits(key), bits(child)) for key, child in value.items()]
    if isinstance(value, list | tuple):
        return type(value), list(map(bits, value))
    # -0.0 is not 0.0, and NaN is NaN.
    return type(value), repr(value) if isinstance(value, float) else value


def same(a: Any, b: Any) -> bool:
    """See `bits`."""
    return bool(bits(a) == bits(b))
