"""Chains that are written, looked at and damaged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import codec

GOLDEN = Path(__file__).parents[1] / "golden"


def save_all(
    path: Path | str, states: Iterable[Any], first: int = 0, stride: int = 1, **settings: Any
) -> list[codec.Saved]:
    """Save states at the steps stride · first, stride · (first + 1) …; what the saves say."""
    with codec.Checkpointer(path, **settings) as checkpoints:
        return [checkpoints.save(stride * i, s).result() for i, s in enumerate(states, first)]


def tracker_of(checkpoints: codec.Checkpointer) -> codec.Tracker[Any]:
    """What a writer that has saved something follows its states with."""
    assert checkpoints.tracker is not None
    return checkpoints.tracker


def records_in(path: Path) -> dict[str, bytes]:
    """The bytes of all records, by name."""
    return {p.name: p.read_bytes() for p in sorted(path.glob("*.safetensors"))}


def kinds_in(path: Path) -> str:
    """The first letter of every record's kind: "bdd"."""
    return "".join(entry.kind[0] for entry in codec.Chain(path).entries)


def flip(path: Path, at: int = -1) -> None:
    """Flip a bit of a byte: the last one, or another."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def shorten(path: Path) -> None:
    """Lose the last byte."""
    path.write_bytes(path.read_bytes()[:-1])


def all_steps(path: Path) -> dict[int, tuple[Any, ...]]:
    """Every step of a chain: tensors bit by bit, digests and values."""
    chain, found = codec.Chain(path), {}
    for step in chain.steps:
        at = chain.at(step)
        assert at.step == step
        tensors = {name: array.tobytes() for name, array in at.track.arrays.items()}
        found[step] = (tensors, dict(at.track.sums), at.track.values, at.track.layout)
    return found
