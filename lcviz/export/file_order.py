"""The order of checkpoints that a visitor brings, and what is odd about them, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from codec.errors import SettingsError, SourceError
from codec.record.record import MAX_STEP
from codec.state import file_steps as steps
from lcviz.text import plural

from .opened import OwnFile


def in_order(files: Sequence[OwnFile]) -> tuple[tuple[OwnFile, ...], str]:
    """By the steps in their names, else by their names; and which of it, a sentence."""
    by_name = {file.name: file for file in sorted(files, key=lambda f: steps.by_numbers(f.name))}
    names = [Path(name) for name in by_name]
    order = "Ordered by the last number that all names share, which is taken for the step."
    try:
        found = steps.steps_of(names)
    except SettingsError as exc:
        found = list(enumerate(names))
        order = f"Ordered by name, and counted from 0: {exc}."
    if any(step > MAX_STEP for step, _ in found):
        raise SourceError(
            f"A number in the name is too large for a step: {found[-1][1]}; rename it"
        )
    ordered = tuple(replace(by_name[str(path)], step=step) for step, path in found)
    return ordered, order if len(ordered) > 1 else ""


def parts_of_one(files: Sequence[OwnFile]) -> tuple[str, ...]:
    """Whether the files look like parts of one checkpoint: a sentence."""
    parts = steps.parts_of_one([Path(file.name) for file in files])
    if not parts:
        return ()
    return (
        f"{parts[0]} and {plural(len(parts) - 1, 'other')} look like parts of one checkpoint, by "
        "their names. Here each file is a step of its own: put the parts into one file first.",
    )


def odd(files: Sequence[OwnFile]) -> tuple[str, ...]:
    """Which files have other tensors than most, and what differs: sentences."""
    if len(files) < 2:
        return ()
    kinds = Counter(tuple(sorted(file.tensors.items())) for file in files)
    usual = dict(kinds.most_common(1)[0][0])
    found = []
    for file in files:
        if file.tensors != usual:
            lacks, more = usual.keys() - file.tensors.keys(), file.tensors.keys() - usual.keys()
            other = {n for n in usual.keys() & file.tensors.keys() if usual[n] != file.tensors[n]}
            parts = [
                f"{what} {', '.join(sorted(names)[:3])}" + (" and more" if len(names) > 3 else "")
                for what, names in (
                    ("it lacks", lacks),
                    ("it also has", more),
                    ("of another shape or dtype are", other),
                )
                if names
            ]
            found.append(
                f"{file.name} has other tensors than {plural(kinds.most_common(1)[0][1], 'other')}"
                f": {'; '.join(parts)}. A base is written there."
            )
    return tuple(found)
