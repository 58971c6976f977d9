"""What is on disk of a step, and what loads from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

from codec.dcp import ChainReader


def zeros(state: Any) -> Any:
    """A state of the same keys and shapes, of which nothing was loaded."""
    if isinstance(state, dict):
        return {name: zeros(value) for name, value in state.items()}
    if isinstance(state, list):
        return [zeros(value) for value in state]
    return torch.zeros_like(state) if isinstance(state, torch.Tensor) else type(state)()


def loaded(step: Path | str, like: Any, **options: Any) -> Any:
    """A step, loaded into zeros of the shapes of `like`."""
    state = zeros(like)
    dcp.load(state, storage_reader=ChainReader(step, **options))
    return state


def size(step: Path, kind: str = "*") -> int:
    """Bytes of a step's files. kind: base or delta; all by default."""
    return sum(file.stat().st_size for file in step.glob(f"*.{kind}.safetensors"))


def kinds(step: Path) -> list[str]:
    """The kinds of a step's records, sorted."""
    return sorted(file.name.split(".")[1] for file in step.glob("*.safetensors"))
