"""Restores a step from the base before it and the gradients since then."""

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
        state: The saved state.
        copy: A copy of the optimizer at that step; None if no `GradientCheckpointer` wrote the
            record.
        steps: The optimizer's steps in the record.
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
        source: As for `codec.Chain`.
        optimizer: Made as in the saved training; its parameters may have any values. It does not
            change: the steps run on a copy, on the same device.
        step: The number of the checkpoint; None for the newest that restores, with
            SkippedRecordWarning if a newer one is damaged.
        storage_options: As for `codec.Chain`.

    Returns:
        The saved state, bit by bit; its tensors are in main memory.

    Raises:
        OptimizerMismatchError: The chain is of another optimizer, or of other parameters.
        RerunError: The steps lead to other bits here, for example with another version of torch.
        RecordError, ChainError: As for `codec.restore`.
    """
    chain = Chain(source, storage_options=storage_options).plain()
    try:
        return rerun(chain, optimizer, step).state
    except (RecordError, ParentError):
        if step is not None:
            raise
        position, reason = chain.newest()  # the newest that undamaged records restore
        if reason is None:
            raise
        reached = position.step
        warn(f"{chain.where}: restored step {reached} instead of {chain.steps[-1]}: {reason}")
        return rerun(chain, optimizer, reached).state


def rerun(chain: Chain, optimizer: torch.optim.Optimizer, step: int | None) -> Restored:
    """Rebuild a step: load a copy of the optimizer at each base and run its recorded steps again.

    Each result is checked against its digest. Raises what `restore` raises.
    """
    optimizer = unwrapped(optimizer)
    copy: OptimizerCopy | None = None
    position: Position | None = None
    base = last_good_step = -1
    n = 0
    for position in chain.replay(step):
        if not position.has_gradients:
            copy = None
        else:
            if position.record.kind == "base":
                base, n = position.step, 0
                copy = OptimizerCopy(optimizer)
                record = position.track.restore()[GRADIENTS]
                copy.load(record)
            else:
                assert copy is not None, "a base has the same layout"
                n += 1
                record = _record_of(position.track)
                for optimizer_step in record["steps"]:
                    if optimizer_step["used"] is not None:  # an empty slot, see `checkpointer`
                        _run(copy, **optimizer_step)
                copy.overwrite(_changed(record))
            _check(position, copy, record, base, last_good_step)
        last_good_step = position.step
    assert position is not None, "a replay has a position, or fails"
    if copy is None:
        return Restored(position.whole(), None, [], n)
    state = position.track.restore()
    record = state.pop(GRADIENTS)
    copy.copy_to(record)  # the state shares these tensors: it now has the weights of the copy
    return Restored(state, copy, record["steps"], n)


def _run(copy: OptimizerCopy, gradients: list[torch.Tensor], used: Mapping[str, Any]) -> None:
    """Run one of a record's steps again."""
    absent, short = set(used["absent"]), set(used["short"])
    whole_gradients = (
        None if i in absent else lengthened(g, used["factor"]) if i in short else g
        for i, g in enumerate(gradients)
    )
    copy.step(tuple(whole_gradients), used["settings"])


def _changed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that a record stores because its steps do not lead to them, by name."""
    names = record.get("changed", ())  # old records lack it
    entries = entries_of(record) if names else {}
    return {name: entries[name] for name in names}


def _record_of(track: Track) -> dict[str, Any]:
    """A delta's record below GRADIENTS, with only the tensors that the delta stores: gradients and
    changed tensors of the optimizer. Other tensors are their names."""
    layout = track.layout
    names = {t.name: t.name for t in layout.tensors}
    places = unflatten(Parts(layout.structure, names, track.values))[GRADIENTS]
    stored = {*_changed(places).values()}
    used = (t for t in layout.tensors if t.name.startswith(_STEPS) or t.name in stored)
    tensors = dict.fromkeys(names) | from_arrays(track.arrays, Layout(tuple(used)))
    record: dict[str, Any] = unflatten(Parts(layout.structure, tensors, track.values))[GRADIENTS]
    return record


def _check(
    position: Position,
    copy: OptimizerCopy,
    record: Mapping[str, Any],
    base: int,
    last_good_step: int,
) -> None:
    """Raise RerunError unless the copy has the bits of the saved optimizer."""
    if copy.digest != record["digest"]:
        there = machine_of(record["torch"], record["device"])
        advice = "The base itself differs"
        if last_good_step >= base:
            advice = f"Step {last_good_step} restores here"
        raise RerunError(
            f"{position.entry.name}: the steps of {record['optimizer']} lead to other weights or "
            f"another state here ({copy.machine}) than where they were saved ({there}). {advice}; "
            "with the software and device of the training, all steps do"
        )
