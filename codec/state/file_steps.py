"""The step of each file of a series, read from the files' names.

The step is the last whole number that all names have in the same place, different in each name:

    checkpoint-10.pt, checkpoint-9.pt                          10, 9
    epoch=1-step=200.ckpt, epoch=2-step=400.ckpt               200, 400
    m_e2_l0.7.pt, m_e10_l0.65.pt                               2, 10; 0.7 is no whole number
    step=5-v1.pt, step=10-v1.pt                                5, 10; v1 is a version
    ckpt-5_fp16.pt, ckpt-10_fp16.pt                            5, 10; fp16 is a number format
    checkpoint-100/model.safetensors, checkpoint-200/model…    100, 200

Two numbers are in the same place if the same word stands before them (like "step"), or if each is
the second number of its name, for example. A number with letters directly after it (1k, 1e3, 16bit)
does not count as whole. The numbers of parts (00001-of-00002) are no steps.
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
    """The files by rising step, which is read from their names.

    A file's extension does not count. If all names are alike, their folders are compared, then the
    folders above. A single file whose name has no whole number is step 0.

    Raises SettingsError, which names the files, if the names share no whole number, if two files
    have the same one, or if several files look like parts of one checkpoint.
    """
    if not paths:
        return []
    if parts := parts_of_one(paths):
        raise SettingsError(
            f"{parts[0]} and {len(parts) - 1} more: by their names they are parts of one "
            "checkpoint, not steps; put the parts into one file first"
        )
    stems = [path.stem for path in paths]
    if len(paths) == 1:
        return [((whole_numbers(stems[0]) or [0])[-1], paths[0])]
    for names, places_of in product((_differing(paths), stems), (_places, _versions)):
        candidates = [
            [places[place] for places in places_by_file]
            for places_by_file in map(list, zip(*map(places_of, names), strict=True))
            for place in _shared(places_by_file)
        ]  # in each, one number for every file
        distinct = (steps for steps in candidates if len(set(steps)) == len(steps))
        if candidates:
            return numbered(paths, next(distinct, candidates[0]))  # which raises for twins
    raise SettingsError(_nothing_shared(paths, stems))


def parts_of_one(paths: Iterable[Path]) -> list[Path]:
    """The files whose names say that they are parts of one checkpoint, as x-00001-of-00002 and
    x-00002-of-00002 in one folder. Of several such checkpoints the first; empty if there is none.
    """
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
    """The files with these steps, by rising step.

    steps: in the order of the files; None means 0, 1, 2, … Raises SettingsError if there is not one
    step per file, or two files have the same step.
    """
    steps = range(len(paths)) if steps is None else steps
    if len(steps) != len(paths):
        were = "step was" if len(steps) == 1 else "steps were"
        files = "file" if len(paths) == 1 else "files"
        raise SettingsError(f"{len(steps)} {were} given for {len(paths)} {files}")
    return _without_twins(list(zip(steps, paths, strict=True)))


def by_numbers(name: str) -> tuple[list[str | int], str]:
    """A sorting key that puts 9 before 10."""
    parts = re.split("([0-9]+)", name)  # every other part is a number
    return [int(part) if i % 2 else part for i, part in enumerate(parts)], name


def _without_twins(series: Series) -> Series:
    """The files by rising step. Raises SettingsError for two files of the same step."""
    series = sorted(series)
    for (step, path), (next_step, twin) in pairwise(series):
        if step == next_step:
            raise SettingsError(f"{path} and {twin}: both would be step {step}")
    return series


def _differing(paths: Sequence[Path]) -> list[str]:
    """The files' names if they differ, else the names of the nearest folders that differ."""
    levels = [[path.stem for path in paths]]
    levels += map(list, zip(*([folder.name for folder in path.parents] for path in paths)))
    return next((names for names in levels if len({*names}) > 1), levels[0])


def _places(name: str) -> Iterator[Places]:
    """The whole numbers of a name without versions: by the word before each, then by position."""
    by_word: Places = {}
    by_position: Places = {}
    words: list[str] = []
    for before, number, is_version in _numbers(name):
        words.append(before)
        if number is not None and not is_version:
            by_word[before, words.count(before)] = number
            by_position[len(words)] = number
    yield by_word
    yield by_position


def _versions(name: str) -> Iterator[Places]:
    """The number after a single v: the step only if the names have no other number."""
    versions = [n for _, n, is_version in _numbers(name) if is_version and n is not None]
    yield {"v": versions[-1]} if versions else {}


def _numbers(name: str) -> Iterator[tuple[str, int | None, bool]]:
    """For every number the word before it, the number if it is whole, whether it is a version."""
    end = 0
    for match in _NUMBER.finditer(name):
        before, end = name[end : match.start()], match.end()
        letters = _LETTERS.findall(before)[0].lower()  # directly before it
        is_whole = match[0].isdecimal() and letters not in _FORMATS and not name[end:][:1].isalpha()
        word = before.strip(_SEPARATORS).lower()
        yield word, int(match[0]) if is_whole else None, letters == _VERSION


def _shared(places_by_file: Sequence[Places]) -> list[Hashable]:
    """The places where all names have a whole number, the last place first."""
    first, *more = places_by_file
    return [place for place in reversed(first) if all(place in places for places in more)]


def _nothing_shared(paths: Sequence[Path], names: Sequence[str]) -> str:
    """The message about names without a common whole number."""
    without = [p for p, name in zip(paths, names) if all(n is None for _, n, _ in _numbers(name))]
    if without:
        more = f"; {len(without) - 1} more have none either" if without[1:] else ""
        return f"{without[0]}: its name has no whole number that could be its step{more}"
    return (
        f"{paths[0]} and {len(paths) - 1} more: their names have no whole number in the same "
        "place, which could be the step"
    )
