"""Restores a step from the base before it and the gradients since then."""

from __future__ import annotations

import os
from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import torch

from codec.chain.chain import Chain
from codec.chain.replay import GRADIENTS, Position
from codec.errors import LccError, ParentError, RecordError, RerunError, RerunWarning, warn
from codec.record.track import Track
from codec.state.tensors import Layout, from_arrays
from codec.state.tree import Parts, unflatten
from codec.storage.location import Location

from .optimizer import OptimizerCopy, entries_of, in_words
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
    exact: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[Any, Any]:
    """The state of a step, from a chain that a `GradientCheckpointer` wrote.

    Args:
        source: As for `codec.Chain`.
        optimizer: Made as in the saved training; its parameters may have any values. It does not
            change: the steps run on a copy, on the same device.
        step: The number of the checkpoint; None for the newest that restores, with
            SkippedRecordWarning if a newer one is damaged.
        exact: False also restores a step whose bits differ here, with RerunWarning. To measure the
            difference, it also runs the steps between two bases, if the chain has two.
        storage_options: As for `codec.Chain`.

    Returns:
        The saved state, bit by bit unless there was a RerunWarning; its tensors are in main memory.

    Raises:
        OptimizerMismatchError: The chain is of another optimizer, or of other parameters.
        RerunError: The steps lead to other bits here, for example with another version of torch.
        RecordError, ChainError: As for `codec.restore`.
    """
    chain = Chain(source, storage_options=storage_options)
    try:
        return rerun(chain, optimizer, step, exact=exact).state
    except (RecordError, ParentError):
        if step is not None:
            raise
        position, reason = chain.newest()  # the newest that undamaged records restore
        if reason is None:
            raise
        reached = position.step
        warn(f"{chain.where}: restored step {reached} instead of {chain.steps[-1]}: {reason}")
        return rerun(chain, optimizer, reached, exact=exact).state


def rerun(
    chain: Chain, optimizer: torch.optim.Optimizer, step: int | None, *, exact: bool = True
) -> Restored:
    """Rebuild a step: load a copy of the optimizer at each base and run its recorded steps again.

    Each result is checked against its digest. Raises and warns as `restore` does.
    """
    runner = _Runner(optimizer, exact)
    position: Position | None = None
    for position in chain.replay(step):
        runner.advance(position)
    assert position is not None, "a replay has a position, or fails"
    if runner.copy is None:
        return Restored(position.whole(), None, [], runner.n)
    if runner.problem:
        warn(
            f"{runner.problem}. Step {position.step} was restored with other last bits, by "
            f"{runner.n_steps} steps from its base. {_measured(chain, optimizer, position.step)}",
            RerunWarning,
        )
    state = position.track.restore()
    record = state.pop(GRADIENTS)
    runner.copy.copy_to(record)  # the state shares these tensors: it now has the copy's weights
    return Restored(state, runner.copy, record["steps"], runner.n)


class _Runner:
    """Runs the steps in a chain's records again.

    Attributes:
        copy: Of the optimizer, at the newest record; None if that has no gradients.
        n, n_steps: Records since the base, and steps that were run since then.
        problem: How the newest record's bits differ here; empty if they do not.
        measured: How far the newest base is from where the steps before it lead here; empty if
            that is not known.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, exact: bool) -> None:
        self._optimizer, self._exact = unwrapped(optimizer), exact
        self.copy: OptimizerCopy | None = None
        self.n = self.n_steps = 0
        self.problem = self.measured = self._advice = ""

    def advance(self, position: Position) -> None:
        """Go to the next position of a chain. Raises what `restore` raises."""
        is_base = position.record.kind == "base"
        if not position.has_gradients:
            self.copy = None
            return
        if is_base:
            record = position.track.restore()[GRADIENTS]
            if self.copy is not None:
                self._measure(self.copy, record, position.step)
            self.copy, self.n, self.n_steps = OptimizerCopy(self._optimizer), 0, 0
            self.copy.load(record)
            self._advice = "No step since this base restores here"
        else:
            assert self.copy is not None, "a base has the same layout"
            record = _record_of(position.track)
            self._run(self.copy, record)
            self.copy.overwrite(_changed(record))
            self.n += 1
        self.problem = _problem(position, self.copy, record)
        if not self.problem:
            self._advice = f"Step {position.step} restores here"
        elif is_base or self._exact:
            less = "" if is_base else ". With exact=False, this step restores but for its last bits"
            raise RerunError(f"{self.problem}. {self._advice}. {_remedy(self.copy, record)}{less}")

    def _run(self, copy: OptimizerCopy, record: Mapping[str, Any]) -> None:
        """Run a record's steps again."""
        for step in record["steps"]:
            if (used := step["used"]) is None:  # an empty slot, see `checkpointer`
                continue
            absent, short = set(used["absent"]), set(used["short"])
            whole_gradients = (
                None if i in absent else lengthened(g, used["factor"]) if i in short else g
                for i, g in enumerate(step["gradients"])
            )
            copy.step(tuple(whole_gradients), used["settings"])
            self.n_steps += 1

    def _measure(self, copy: OptimizerCopy, base: Mapping[str, Any], step: int) -> None:
        """Set `measured` at a base, if its steps lead there."""
        n_before = self.n_steps
        self._run(copy, base)
        if self.n_steps > n_before:
            gap, name = copy.largest_gap(base)
            self.measured = (
                f"Measured at the base of step {step}, after {self.n_steps} steps: the largest "
                f"difference is {gap:.1e} of the largest magnitude in {name}"
            )


def _changed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that a record stores because its steps do not lead to them, by name."""
    entries = entries_of(record) if record["changed"] else {}
    return {name: entries[name] for name in record["changed"]}


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


def _problem(position: Position, copy: OptimizerCopy, record: Mapping[str, Any]) -> str:
    """How the copy's bits differ from the saved optimizer's; empty if they do not."""
    if copy.digest == record["digest"]:
        return ""
    here, there = in_words(copy.environment), in_words(record)
    origin = f"the steps of {record['optimizer']} lead"
    if position.record.kind == "base":
        origin = f"a copy of {record['optimizer']}, loaded from this base, leads"
    return (
        f"{position.entry.name}: {origin} to other weights or another state here ({here}) than "
        f"where they were saved ({there})"
    )


def _remedy(copy: OptimizerCopy, record: Mapping[str, Any]) -> str:
    """What makes the copy's steps lead to the saved bits."""
    saved = record["capability"]
    needed = "of the training, on the same kind of processor or device"
    if record["device"] == "cpu" and saved != copy.environment["capability"]:
        needed = f"of the training; set ATEN_CPU_CAPABILITY={saved.lower()} before importing torch"
    return f"To restore every step, use the software {needed}"


def _measured(chain: Chain, optimizer: torch.optim.Optimizer, step: int) -> str:
    """How far off steps lead here, in words: the steps between two bases, of which the second is
    the first after ``step``, or else the newest."""
    bases = [entry.step for entry in chain.entries if entry.kind == "base"]
    second = min(bisect(bases, step), len(bases) - 1)
    runner = _Runner(optimizer, exact=False)
    try:
        for position in chain.every_step(bases[second - 1], bases[second]) if second else ():
            runner.advance(position)
    except LccError as exc:  # the step itself is restored, by other records
        return f"The difference is not known: {exc}"
    return runner.measured or "The difference is not known: no steps lead from a base to the next"
