"""Which files of a series a chain has already: where `compress --resume` goes on.

Not done here: reading steps from files' names (steps), writing (checkpointer).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codec.chain.chain import Chain
from codec.chain.replay import Position
from codec.errors import SettingsError, StepOrderError
from codec.saving.recorder import describe_difference
from codec.state.file_steps import Series
from codec.state.policy import Policy
from codec.state.tensor_files import naming, read_state
from codec.state.tensors import Layout, same_bits, spec_of, to_arrays
from codec.state.tree import Parts, take_apart, value_names


@dataclass(frozen=True)
class Plan:
    """What becomes of the files of a series.

    stored: the chain has them. removed: before the chain's oldest step, whose history was
    compacted away. new: to be appended.
    """

    stored: Series
    removed: Series
    new: Series


def mapping_of(mappings: Sequence[Series], there: Sequence[int]) -> Series:
    """The first mapping unless it contradicts the steps that are there, and another one has some
    of them and contradicts none."""
    usual, *others = mappings
    if not there or _fits(usual, there):
        return usual
    known = set(there)
    fitting = (own for own in others if _fits(own, there) and any(s in known for s, _ in own))
    return next(fitting, usual)


def plan(series: Series, chain: Chain, policy: Policy) -> Plan:
    """Which files the chain has, and which come after it. Nothing is written.

    Files whose steps the chain has are compared with it: those at a base bit by bit; the newest of
    them in all that the chain stores exactly, which are names, shapes, dtypes, exact tensors and
    values. policy: says which parts of the files are left out.

    Raises SettingsError, which names file and step, for a file that differs, and for one that the
    chain has as its oldest base, under another step; StepOrderError for one that the chain neither
    has nor can append; SourceError; RecordError or ChainError if the chain cannot be read.
    """
    steps, newest = set(chain.steps), chain.steps[-1]
    stored = [(step, path) for step, path in series if step in steps]
    new = [(step, path) for step, path in series if step > newest]
    lacking = [(step, path) for step, path in series if step < newest and step not in steps]
    bases = [entry.step for entry in chain.entries if entry.kind == "base"]
    for step, path in stored:
        if step in bases or step == stored[-1][0]:
            _check_same(step, path, chain, policy)
    oldest = chain.at(min(bases, default=chain.steps[0]))
    compacted = oldest.record.parent is not None or oldest.record.replaces is not None
    for step, path in lacking:
        if not (compacted and stored and step < oldest.step):
            raise StepOrderError(
                f"{path}: is step {step}, which {chain.where} lacks, and lies before its newest "
                f"step, {newest}; a chain only grows: leave such files out ({len(lacking)} here), "
                "give their steps with --steps, or choose another output"
            )
    if oldest.step not in dict(stored) and _is_original(oldest):
        for step, path in new:
            if not _difference(path, oldest, policy):
                raise SettingsError(
                    f"{path}: would be step {step}, but {chain.where} has it already, as step "
                    f"{oldest.step}: give the steps of the files with --steps"
                )
    return Plan(stored, lacking, new)


def _fits(series: Series, there: Sequence[int]) -> bool:
    known = set(there)
    return all(step in known or step > there[-1] for step, _ in series)


def _check_same(step: int, path: Path, chain: Chain, policy: Policy) -> None:
    """Raise SettingsError if a file is not what the chain has as this step."""
    if found := _difference(path, chain.at(step), policy):
        raise SettingsError(
            f"{path}: is not what {chain.where} has as step {step}: {found}; if the file is "
            "another step, give it with --steps; if it is of another series, choose another "
            "output; --policy has to leave out the same names as before"
        )


def _is_original(position: Position) -> bool:
    """Whether the chain has the state as it was given: not where a base was made of deltas."""
    return position.record.kind == "base" and position.record.replaces is None


def _difference(path: Path, position: Position, policy: Policy) -> str:
    """The first thing in which a file differs from what the chain stores exactly of a step; "" if
    there is none."""
    state = read_state(path)
    with naming(path):
        parts = take_apart(state, policy.is_skipped)
        layout = _layout(parts, position.track.layout)
    if layout != position.track.layout:
        return describe_difference(position.track.layout, layout)
    names = value_names(layout.structure)
    for name, before, now in zip(names, position.track.values, parts.values, strict=True):
        if before != now:
            return f"value {name!r} is another one"
    for spec in layout.tensors:
        if not spec.lossy or _is_original(position):
            array = to_arrays(parts.tensors, Layout((spec,)))[spec.name]
            if not same_bits(array, position.track.arrays[spec.name]):
                return f"tensor {spec.name!r} has other numbers"
    return ""


def _layout(parts: Parts, known: Layout) -> Layout:
    """The layout of a state. What its files do not say is as in a known layout: which tensors are
    lossy, and from which library they came."""
    there = {spec.name: spec for spec in known.tensors}
    specs = []
    for name, tensor in parts.tensors.items():
        spec = spec_of(name, tensor, lossy=False)
        if (like := there.get(name)) and (like.dtype, like.shape) == (spec.dtype, spec.shape):
            spec = replace(spec, lossy=like.lossy, library=like.library, family=like.family)
        specs.append(spec)
    return Layout(tuple(specs), parts.structure)
