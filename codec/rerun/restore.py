"""Restores a step from the base before it and the gradients since."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import torch

from codec.chain.chain import Chain
from codec.chain.replay import GRADIENTS, Position
from codec.errors import ParentError, RecordError, RerunError, warn
from codec.scheme.track import Track
from codec.state.tensors import Layout, from_arrays
from codec.state.tree import Parts, unflatten
from codec.storage.location import Location

from .optimizer import OptimizerCopy, entries_of, machine_of
from .steps import lengthened, unwrapped

_STEPS = f"{GRADIENTS}/steps/"


@dataclass(frozen=True)
class Restored:
    """A step of a chain.

    Attributes:
        state: As it was saved.
        copy: Of the optimizer, as it was then; None if the record is no `GradientCheckpointer`'s.
        steps: What the record holds of the optimizer's steps.
        n: Records since the base.
    """

    state: dict[Any, Any]
    copy: OptimizerCopy | None
    steps: list[dict[str, Any]]
    n: int


def restore(
    source: str | os.PathLike[str] | IO[bytes] | Location,
    optimizer: torch.optim.Optimizer,
    step: int | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[Any, Any]:
    """The state of a step, from a chain that a `GradientCheckpointer` wrote.

    Args:
        source, storage_options: As for `codec.Chain`.
        optimizer: Made as in the training that was saved; its parameters may have any values. It
            stays as it is: the steps run on a copy, on the same device.
        step: The number of the checkpoint; None for the newest that restores, with
            SkippedRecordWarning if a newer one is damaged.

    Returns:
        The state, equal to what was saved bit by bit; its tensors are in main memory.

    Raises:
        OptimizerMismatchError: The chain is of another optimizer, or of other parameters.
        RerunError: The steps lead to other bits here, with another version of torch, say.
        RecordError, ChainError: As for `codec.restore`.
    """
    chain = Chain(source, storage_options=storage_options)
    try:
        return restored(chain, optimizer, step).state
    except (RecordError, ParentError):
        if step is not None:
            raise
        position, reason = chain.newest()  # by another way, where records are damaged
        if reason is None:
            raise
        reached = position.step
        warn(f"{chain.where}: restored step {reached} instead of {chain.steps[-1]}: {reason}")
        return restored(chain, optimizer, reached).state


def restored(chain: Chain, optimizer: torch.optim.Optimizer, step: int | None) -> Restored:
    """A step of a chain, see `restore`."""
    optimizer = unwrapped(optimizer)
    copy: OptimizerCopy | None = None
    position: Position | None = None
    base = good = -1
    n = 0
    for position in chain.replay(step):
        if not position.has_gradients:
            copy = None
        else:
            if position.record.kind == "base":
                base, n = position.step, 0
                copy = OptimizerCopy(optimizer)
                own = position.track.restore()[GRADIENTS]
                copy.load(own)
            else:
                assert copy is not None, "a base has the same layout"
                n += 1
                own = _own_of(position.track)
                for taken in own["steps"]:
                    if taken["used"] is not None:
                        _run(copy, **taken)
                copy.overwrite(_changed(own))
            _check(position, copy, own, base, good)
        good = position.step
    assert position is not None, "a replay has a position, or fails"
    if copy is None:
        return Restored(position.whole(), None, [], n)
    state = position.track.restore()
    own = state.pop(GRADIENTS)
    copy.copy_to(own)
    return Restored(state, copy, own["steps"], n)


def _run(copy: OptimizerCopy, gradients: list[torch.Tensor], used: Mapping[str, Any]) -> None:
    """Run a step of a record again."""
    absent, short = set(used["absent"]), set(used["short"])
    found = (
        None if i in absent else lengthened(g, used["factor"]) if i in short else g
        for i, g in enumerate(gradients)
    )
    copy.step(tuple(found), used["settings"])


def _changed(own: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that a record stores because its steps do not lead to them, by name."""
    names = own.get("changed", ())  # old records lack it
    entries = entries_of(own) if names else {}
    return {name: entries[name] for name in names}


def _own_of(track: Track) -> dict[str, Any]:
    """What a record holds below GRADIENTS, with only the tensors that the record itself stores:
    gradients and changed tensors of the optimizer."""
    layout = track.layout
    names = {t.name: t.name for t in layout.tensors}
    places = unflatten(Parts(layout.structure, names, track.values))[GRADIENTS]
    stored = {*_changed(places).values()}
    used = (t for t in layout.tensors if t.name.startswith(_STEPS) or t.name in stored)
    tensors = dict.fromkeys(names) | from_arrays(track.arrays, Layout(tuple(used)))
    own: dict[str, Any] = unflatten(Parts(layout.structure, tensors, track.values))[GRADIENTS]
    return own


def _check(
    position: Position, copy: OptimizerCopy, own: Mapping[str, Any], base: int, good: int
) -> None:
    """Raise RerunError unless the copy is where the optimizer was."""
    if copy.digest != own["digest"]:
        there = machine_of(own["torch"], own["device"])
        advice = f"Step {good} restores here" if good >= base else "The base itself differs"
        raise RerunError(
            f"{position.entry.name}: the steps of {own['optimizer']} lead to other weights or "
            f"another state here ({copy.machine}) than where they were saved ({there}). {advice}; "
            f"with the software and device of then, every step does"
        )
