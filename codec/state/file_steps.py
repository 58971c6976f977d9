"""The step of each file of a series, read from the files' names.

The step is the last whole number that all names have in the same place, different in each name:

    checkpoint-10.pt, checkpoint-9.pt                          10, 9
    epoch=1-step=200.ckpt, epoch=2-step=400.ckpt               200, 400
    m_e2_l0.7.pt, m_e10_l0.65.pt                               2, 10; 0.7 is no whole number
    step=5-v1.pt, step=10-v1.pt                                5, 10; v1 is a version
    ckpt-5_fp16.pt, ckpt-10_fp16.pt                            5, 10; fp16 is a number format
    checkpoint-100/model.safetensors, checkpoint-200/model…    100, 200

Two numbers are in the same place if the same word stands before them (like "step"), or if both are,
for example, the second number of their names. A number with letters directly after it (1k, 1e3,
16bit) is no whole number, and the numbers of parts (00001-of-00002) are no steps.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path

from codec.errors import SettingsError

_PART = re.compile("([0-9]+)-of-([0-9]+)", re.IGNORECASE)  # a checkpoint in several files
# First parts and e4m3 as a whole; then whole and other numbers: 0.7, 1.2.3, 1.5e-3, 1e-05, 1e3.
_NUMBER = re.compile(
    rf"{_PART.pattern}|(?<![a-z])e[0-9]m[0-9]|[0-9]+(?:\.[0-9]+)*(?:e[+-]?[0-9]+)?", re.IGNORECASE
)
_LETTERS = re.compile(r"[^\W\d_]*$")
_FORMATS = ("fp", "bf", "tf", "nf", "mxfp", "float", "bfloat", "int", "uint")  # fp16, int8
_VERSION = "v"  # -v1, which Lightning adds to a name
_SEPARATORS = " -_=.,+~()[]"

Series = list[tuple[int, Path]]  # files and their steps, by rising step
Places = dict[Hashable, int]  # place in a name -> the whole number there, from left to right


def steps_of_files(paths: Sequence[Path]) -> Series:
    """The files by rising step: the first of `mappings`. Raises what that does."""
    return mappings(paths)[0] if paths else []


def mappings(paths: Sequence[Path]) -> list[Series]:
    """Every way to read the files' steps from their names, the usual one first; at least one.

    A file's extension does not count. If all names are alike, their folders are compared, then the
    folders above. A single file whose name has no whole number is step 0.

    Raises SettingsError, which names the files, if the names share no whole number, if two files
    have the same one, or if several files look like parts of one checkpoint.
    """
    if parts := parts_of_one(paths):
        raise SettingsError(
            f"{parts[0]} and {len(parts) - 1} more: by their names they are parts of one "
            "checkpoint, not steps; put the parts into one file first"
        )
    stems = [path.stem for path in paths]
    if len(paths) == 1:
        return [[(number, paths[0])] for number in reversed(whole_numbers(stems[0]) or [0])]
    for names, places_of in product((_differing(paths), stems), (_places, _versions)):
        numbers = [
            [places[place] for places in every]
            for every in map(list, zip(*map(places_of, names), strict=True))
            for place in _shared(every)
        ]
        if all_differ := [own for own in numbers if len(set(own)) == len(own)]:
            return [sorted(zip(own, paths, strict=True)) for own in all_differ]
        if numbers:
            return [_without_twins(list(zip(numbers[0], paths, strict=True)))]  # which raises
    raise SettingsError(_nothing_shared(paths, stems))


def parts_of_one(paths: Iterable[Path]) -> list[Path]:
    """The files that are parts of one checkpoint by their names: x-00001-of-00002 and
    x-00002-of-00002 in one folder. Empty if none are; those of the first of several checkpoints."""
    checkpoints: dict[Hashable, list[Path]] = {}
    for path in paths:
        if part := _PART.search(path.stem):
            around = path.stem[: part.start()], part[2], path.stem[part.end() :]
            checkpoints.setdefault((path.parent, around), []).append(path)
    return next((parts for parts in checkpoints.values() if len(parts) > 1), [])


def whole_numbers(name: str) -> list[int]:
    """The whole numbers of a name without extension, from left to right, without versions."""
    return [n for _, n, is_version in _numbers(name) if n is not None and not is_version]


def numbered(paths: Sequence[Path], steps: Sequence[int] | None) -> Series:
    """The files by rising step, for given steps in the order of the files; None: 0, 1, 2, …

    Raises SettingsError if there is not one step per file, or two files have the same step.
    """
    steps = range(len(paths)) if steps is None else steps
    if len(steps) != len(paths):
        given = f"{len(steps)} step{' was' if len(steps) == 1 else 's were'} given"
        raise SettingsError(f"{given} for {len(paths)} file{'s' * (len(paths) != 1)}")
    return _without_twins(list(zip(steps, paths, strict=True)))


def by_numbers(name: str) -> tuple[list[str | int], str]:
    """A sorting key that puts 9 before 10."""
    parts = re.split("([0-9]+)", name)  # every other part is a number
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name


def _without_twins(series: Series) -> Series:
    """The files by rising step. Raises SettingsError for two files of the same step."""
    series = sorted(series)
    for (step, path), (other, twin) in pairwise(series):
        if step == other:
            raise SettingsError(f"{path} and {twin}: both would be step {step}")
    return series


def _differing(paths: Sequence[Path]) -> list[str]:
    """The names that differ: those of the files, else those of the nearest folders."""
    levels = [[path.stem for path in paths]]
    levels += map(list, zip(*([above.name for above in path.parents] for path in paths)))
    return next((names for names in levels if len({*names}) > 1), levels[0])


def _places(name: str) -> Iterator[Places]:
    """The whole numbers of a name without versions, by the word before each, and by their count."""
    by_word: Places = {}
    by_count: Places = {}
    words: list[str] = []
    for before, number, is_version in _numbers(name):
        words.append(before)
        if number is not None and not is_version:
            by_word[before, words.count(before)] = number
            by_count[len(words)] = number
    yield by_word
    yield by_count


def _versions(name: str) -> Iterator[Places]:
    """The number after a single v: the step only if the names have no other number."""
    found = [n for _, n, is_version in _numbers(name) if is_version and n is not None]
    yield {"v": found[-1]} if found else {}


def _numbers(name: str) -> Iterator[tuple[str, int | None, bool]]:
    """For every number the word before it, the number if it is whole, whether it is a version."""
    end = 0
    for found in _NUMBER.finditer(name):
        before, end = name[end : found.start()], found.end()
        letters = _LETTERS.findall(before)[0].lower()  # directly before it
        is_whole = found[0].isdecimal() and letters not in _FORMATS and not name[end:][:1].isalpha()
        word = before.strip(_SEPARATORS).lower()
        yield word, int(found[0]) if is_whole else None, letters == _VERSION


def _shared(every: Sequence[Places]) -> list[Hashable]:
    """The places where all names have a whole number, the last place first."""
    return [place for place in reversed(every[0]) if all(place in places for places in every)]


def _nothing_shared(paths: Sequence[Path], names: Sequence[str]) -> str:
    """The message about names without a common whole number."""
    without = [p for p, name in zip(paths, names) if all(n is None for _, n, _ in _numbers(name))]
    if without:
        others = f"; {len(without) - 1} more have none either" if without[1:] else ""
        return f"{without[0]}: its name has no whole number that could be its step{others}"
    return (
        f"{paths[0]} and {len(paths) - 1} more: their names have no whole number in the same "
        "place, which could be the step"
    )
