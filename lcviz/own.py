"""Checkpoints that a visitor brings: files or a chain, checked one by one, put in order.

What is refused is told in a sentence a file, and the others are taken. A .pt is read by a process
of its own (unpickle) and stands as .safetensors in the visitor's place from then on. Nothing here
knows a screen.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from safetensors.torch import load

import codec
from codec.errors import SourceError
from codec.files import SUFFIXES, TORCH, steps_of
from codec.record import MAX_STEP
from codec.source import entry_of

from .figures.panel import nbytes_text, plural
from .lab.foreign import Tensors, check_torch_zip, tensors_of
from .reader import Reader
from .shelf import Place

MOST_FILES = 200
MOST_EACH = 2**30  # bytes of a file on this machine; an upload ends sooner, see pages
ARCHIVE = ".zip"
Named = Sequence[tuple[str, Path]]  # what the visitor calls it, where it is
Tell = Callable[[int, int, str], None]  # done, of how many, which one now


@dataclass(frozen=True, eq=False)
class OwnFile:
    """One checkpoint.

    nbytes, sha256: of the file as it came, source. weights: the .safetensors to read, the source
    itself if it is one. under: keys within which the weights were found. left_out: what else the
    file holds, its first 20 names. step: its place in the series.
    """

    name: str
    nbytes: int
    sha256: str
    source: Path
    weights: Path
    tensors: Tensors
    under: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    step: int = 0

    def state(self) -> dict[str, Any]:
        """Its tensors by name. Raises SourceError if the file is not what it was any more."""
        data = self.weights.read_bytes()
        if self.weights == self.source and hashlib.sha256(data).hexdigest() != self.sha256:
            raise SourceError(f"{self.name}: has changed since it was opened; open it again")
        found = load(data)
        return {name: found[name] for name in sorted(found)}


@dataclass(frozen=True, eq=False)
class Opened:
    """What was opened, the same object as long as it is the same.

    place: where it lies; it lives as long as this. files: by rising step. order: how that was
    found, a sentence. refused: why the others were not taken. odd: what is unlike the rest. For a
    chain archive is its .lcc.zip, and files is empty.
    """

    place: Place
    files: tuple[OwnFile, ...] = ()
    order: str = ""
    refused: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    archive: OwnFile | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        """Of the states. Raises codec.ChainError."""
        if self.archive is not None:
            return codec.Chain(self.archive.source).steps
        return tuple(file.step for file in self.files)

    def states(self) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        """Every step and its state. Raises SourceError, codec.ChainError, codec.RecordError."""
        if self.archive is not None:
            for position in codec.Chain(self.archive.source).every_step():
                yield position.step, position.whole()
        for file in self.files:
            yield file.step, file.state()


def gathered(path: Path) -> list[tuple[str, Path]]:
    """The files that a path names: itself, or what is in a folder; a chain's folder is one.

    Raises SourceError.
    """
    try:
        if not path.is_dir():
            return [(path.name, path)]
        inside = sorted(path.iterdir())
    except (OSError, ValueError) as exc:
        raise SourceError(f"{path}: cannot be listed: {exc}") from exc
    if any(entry_of(p.name, 0) for p in inside):
        return [(path.name, path)]
    found = [(p.name, p) for p in inside if p.suffix in SUFFIXES]
    if not found:
        raise SourceError(f"{path}: has neither {', '.join(SUFFIXES)} files in it nor records")
    return found


def open_own(named: Named, place: Place, tell: Tell) -> Opened:
    """Look at every file, and convert what is no .safetensors.

    tell(files done, in all, name of the next) is called often; if it raises, nothing stays behind
    but in the place. Raises SourceError if there are too many files, FullError.
    """
    if len(named) > MOST_FILES:
        raise SourceError(f"These are {len(named)} files; up to {MOST_FILES} can be opened at once")
    chains = [one for one in named if one[0].endswith(ARCHIVE) or one[1].is_dir()]
    if chains and len(named) > 1:
        raise SourceError(
            f"{chains[0][0]}: is a chain, a series of its own; open it alone, or the others"
        )
    # Names never become paths, but they are shown, and ordered by.
    named = [(PurePosixPath(name.replace("\\", "/")).name or "unnamed", p) for name, p in named]
    taken: list[OwnFile] = []
    refused: list[str] = []
    twice = {name for name, n in Counter(name for name, _ in named).items() if n > 1}
    with closing(Reader()) as reader:
        for i, (name, path) in enumerate(named):
            tell(i, len(named), name)
            try:
                if name in twice:
                    raise SourceError("has the name of another one; rename it")
                if chains:
                    return _chain(name, path, place)

                def look(i: int = i, name: str = name) -> None:
                    tell(i, len(named), name)

                taken.append(_file(name, path, place, reader, look))
            except (SourceError, codec.ChainError, codec.RecordError, MemoryError) as exc:
                refused.append(_sentence(name, exc))
                if path.parent == place.path:  # an upload
                    place.remove(path)
    try:
        files, order = _in_order(taken)
    except SourceError as exc:
        return Opened(place, refused=(*refused, f"{exc}."))
    return Opened(place, files, order, tuple(refused), _odd(files))


def _sentence(name: str, exc: Exception) -> str:
    if isinstance(exc, MemoryError):
        return f"{name}: does not fit into this machine's memory."
    what = "" if isinstance(exc, SourceError) else "is no chain: "
    return f"{name}: {what}{str(exc).rstrip('.')}."


def _regular(path: Path) -> int:
    """Bytes of a file. Raises SourceError for what is none, or too large."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as exc:
        raise SourceError("is not there, or cannot be looked at") from exc
    if not stat.S_ISREG(status.st_mode):
        raise SourceError("is no file")
    if status.st_size > MOST_EACH:
        raise SourceError(
            f"has {nbytes_text(status.st_size)}; up to {nbytes_text(MOST_EACH)} are taken"
        )
    return status.st_size


def _file(name: str, path: Path, place: Place, reader: Reader, look: Callable[[], None]) -> OwnFile:
    """One checkpoint. Raises SourceError without the name, FullError."""
    nbytes = _regular(path)
    suffix = Path(name).suffix
    if suffix not in SUFFIXES:
        raise SourceError(f"is none of {', '.join((*SUFFIXES, '.lcc.zip'))}")
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise SourceError(f"cannot be read: {exc.strerror}") from exc
    digest = hashlib.sha256(data).hexdigest()
    if suffix not in TORCH:
        return OwnFile(name, nbytes, digest, path, path, tensors_of(data))
    del data
    with path.open("rb") as file:
        check_torch_zip(file, nbytes)
    target = place.path / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.safetensors"
    place.remove(target)  # of an attempt that was left
    place.take(2 * nbytes)  # what it may become at most
    try:
        answer = reader.convert(path, target, look)
        if "error" in answer:
            raise SourceError(answer["error"])
        tensors = tensors_of(target.read_bytes())
    except BaseException:
        target.unlink(missing_ok=True)
        place.take(-2 * nbytes)
        raise
    place.take(target.stat().st_size - 2 * nbytes)
    under, left_out = tuple(answer["under"]), tuple(answer["left_out"])
    return OwnFile(name, nbytes, digest, path, target, tensors, under, left_out)


def _chain(name: str, path: Path, place: Place) -> Opened:
    """A chain as an archive in the place. Raises SourceError, FullError, ChainError."""
    target = place.path / "opened.lcc.zip"
    taken = codec.Chain(path).nbytes if path.is_dir() else _regular(path)
    place.take(taken)
    try:
        if path.is_dir():
            codec.Chain(path).pack(target)
        else:
            shutil.copyfile(path, target)
        with target.open("rb") as file:
            codec.Chain(file)
    except BaseException:
        target.unlink(missing_ok=True)
        place.take(-taken)
        raise
    nbytes = target.stat().st_size
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    own = name if name.endswith(ARCHIVE) else f"{name}.zip"
    return Opened(place, archive=OwnFile(own, nbytes, digest, target, target, {}))


def _in_order(files: Sequence[OwnFile]) -> tuple[tuple[OwnFile, ...], str]:
    """By the number in their names, else by their names; and which of it, a sentence."""
    by_name = {file.name: file for file in sorted(files, key=lambda f: f.name)}
    found = steps_of([Path(name) for name in by_name])
    if any(step > MAX_STEP for step, _ in found):
        raise SourceError(f"A number in the name is too large for a step: {found[-1][1]}")
    ordered = tuple(replace(by_name[str(path)], step=step) for step, path in found)
    if len(ordered) < 2:
        return ordered, ""
    numbers = [re.findall("[0-9]+", Path(file.name).stem)[-1:] for file in ordered]
    if all(own and int(own[0]) == file.step for own, file in zip(numbers, ordered)):
        return ordered, "Ordered by the last number in each name, which is taken for the step."
    return ordered, (
        "Ordered by name, and counted from 0: not every name has a number that is its own."
    )


def _odd(files: Sequence[OwnFile]) -> tuple[str, ...]:
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
                for what, names in (("it lacks", lacks), ("it also has", more),
                                    ("of another shape or dtype are", other))
                if names
            ]  # fmt: skip
            found.append(
                f"{file.name} has other tensors than {plural(kinds.most_common(1)[0][1], 'other')}"
                f": {'; '.join(parts)}. A base is written there."
            )
    return tuple(found)
