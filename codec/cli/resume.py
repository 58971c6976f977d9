"""Which files of a series a chain has already, for `compress --resume`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codec.chain.chain import Chain
from codec.chain.replay import Position
from codec.errors import SettingsError, StepOrderError
from codec.state.file_steps import Series
from codec.state.policy import Policy
from codec.state.tensor_files import naming, read_state
from codec.state.tensors import Layout, same_bits, spec_of, to_arrays
from codec.state.tree import Parts, describe_difference, flatten, value_names


@dataclass(frozen=True)
class Plan:
    """The files of a series, sorted: stored (the chain has their steps), removed (older than the
    oldest step of a compacted chain), and new (to append)."""

    stored: Series
    removed: Series
    new: Series


def mapping_of(mappings: Sequence[Series], steps: Sequence[int]) -> Series:
    """The way to number the files that fits a chain with these steps.

    This is the first of the mappings, unless it does not fit, and another one fits and shares a
    step with the chain.
    """
    usual, *unusual = mappings
    if not steps or _fits(usual, steps):
        return usual
    chain_steps = set(steps)
    fitting = (m for m in unusual if _fits(m, steps) and any(step in chain_steps for step, _ in m))
    return next(fitting, usual)


def plan(series: Series, chain: Chain, policy: Policy) -> Plan:
    """Find out which files the chain has and which to append. Nothing is written.

    Files whose steps the chain has are compared with it: those of bases bit by bit, and the newest
    one in all that is stored exactly (names, shapes, dtypes, exact tensors and values).

    Args:
        series: The files by rising step.
        chain: The chain to continue.
        policy: Says which parts of the files are skipped.

    Raises:
        SettingsError: A file differs, or the chain's oldest base is that file under another step.
        StepOrderError: The chain does not have a file's step and cannot append it.
        SourceError: A file cannot be read.
        RecordError, ChainError: The chain cannot be read.
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
                f"{path}: is step {step}, which {chain.where} lacks and cannot add before its "
                f"newest step, {newest}; leave such files out ({len(lacking)} here), give their "
                "steps with --steps, or choose another output"
            )
    if oldest.step not in dict(stored) and _is_original(oldest):
        for step, path in new:
            if not _difference(path, oldest, policy):
                raise SettingsError(
                    f"{path}: would be step {step}, but {chain.where} has it already, as step "
                    f"{oldest.step}: give the steps of the files with --steps"
                )
    return Plan(stored, lacking, new)


def _fits(series: Series, steps: Sequence[int]) -> bool:
    """Whether a chain with these steps has, or can append, each file."""
    chain_steps = set(steps)
    return all(step in chain_steps or step > steps[-1] for step, _ in series)


def _check_same(step: int, path: Path, chain: Chain, policy: Policy) -> None:
    """Raise SettingsError if a file differs from this step of the chain."""
    if difference := _difference(path, chain.at(step), policy):
        raise SettingsError(
            f"{path}: differs from step {step} of {chain.where}: {difference}; if the file is "
            "another step, give it with --steps; if it belongs to another series, choose another "
            "output; --policy has to skip the same names as before"
        )


def _is_original(position: Position) -> bool:
    """Whether this is a base that holds the saved state, not one made from deltas."""
    return position.record.kind == "base" and position.record.replaces is None


def _difference(path: Path, position: Position, policy: Policy) -> str:
    """The first difference between a file and what the chain stores exactly of a step, or ""."""
    state = read_state(path)
    with naming(path):
        parts = flatten(state, policy.is_skipped)
        layout = _layout(parts, position.track.layout)
    if layout != position.track.layout:
        return describe_difference(position.track.layout, layout)
    names = value_names(layout.structure)
    for name, before, now in zip(names, position.track.values, parts.values, strict=True):
        if before != now:
            return f"value {name!r} differs"
    for spec in layout.tensors:
        if not spec.lossy or _is_original(position):
            array = to_arrays(parts.tensors, Layout((spec,)))[spec.name]
            if not same_bits(array, position.track.arrays[spec.name]):
                return f"tensor {spec.name!r} differs"
    return ""


def _layout(parts: Parts, stored: Layout) -> Layout:
    """The layout of a file's state. The chain's stored layout adds what files do not say: which
    tensors are lossy, and their library."""
    stored_specs = {spec.name: spec for spec in stored.tensors}
    specs = []
    for name, tensor in parts.tensors.items():
        spec = spec_of(name, tensor, lossy=False)
        like = stored_specs.get(name)
        if like and (like.dtype, like.shape) == (spec.dtype, spec.shape):
            spec = replace(spec, lossy=like.lossy, library=like.library, family=like.family)
        specs.append(spec)
    return Layout(tuple(specs), parts.structure)
