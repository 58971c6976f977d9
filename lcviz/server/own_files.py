"""A visitor's own checkpoints: files or a chain, checked one by one and put in order.

Files that cannot be used are refused, each with a sentence; the others are opened. A separate
process (lcviz.server.unpickle) reads each .pt and writes all that it holds into the visitor's
folder, as .safetensors.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load

import codec
from codec.errors import SettingsError, SourceError
from codec.inspect import (
    MAX_JSON,
    MAX_STEP,
    SUFFIXES,
    TORCH,
    Parts,
    entry_of,
    file_steps,
    is_tensor,
    short,
    unflatten,
)
from lcviz.server.foreign_files import (
    CHAIN,
    Tensors,
    chain_inside,
    check_torch_zip,
    extract,
    tensors_of,
)
from lcviz.server.pt_reader import Reader
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.server.unpickle import METADATA
from lcviz.text import nbytes_text, plural

MOST_FILES = 200
MOST_EACH = 2**30  # bytes of a file on this machine; lcviz.ui.own_files has the limit of uploads
MOST_NAME = 255  # characters of a file's name: the last ones, with its number and suffix
ARCHIVE = ".zip"
_OPENED = "opened.lcc.zip"  # the archive of a chain in a visitor's folder
NamedFiles = Sequence[tuple[str, Path]]  # the visitor's name of a file, and where it is
Tell = Callable[[int, int, str], None]  # files done, files in all, name of the next


@dataclass(frozen=True, eq=False)
class OwnFile:
    """One checkpoint.

    source: the file as it came, to which nbytes and sha256 belong. converted: the .safetensors to
    read, which may be the source itself. tensors: name -> (dtype, shape). parts: outermost key ->
    bytes of the tensors below it; {} for a flat state. left_out: outermost key that no chain can
    hold -> the reason.
    """

    name: str
    nbytes: int
    sha256: str
    source: Path
    converted: Path
    tensors: Tensors
    parts: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    step: int = 0

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps that it holds. Raises codec.ChainError."""
        return (self.step,)

    def states(self, left_out: Collection[str]) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        """Its steps and their states, without these outermost keys. Raises SourceError."""
        state = self.state()
        for key in [key for key in state if str(key) in left_out]:
            del state[key]
        yield self.step, state

    def state(self) -> dict[Any, Any]:
        """All that it holds. Raises SourceError if the file is gone, changed or unreadable."""
        try:
            data = self.converted.read_bytes()
        except OSError as exc:
            raise SourceError(f"{self.name}: is gone; open it again") from exc
        is_source = self.converted == self.source
        if is_source and hashlib.sha256(data).hexdigest() != self.sha256:
            raise SourceError(f"{self.name}: has changed since it was opened; open it again")
        try:
            state = load(data)
        except (SafetensorError, RuntimeError, TypeError, KeyError, ValueError) as exc:
            raise SourceError(f"{self.name}: cannot be read as tensors: {short(exc)}") from exc
        if not is_source:
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            structure, values, names = json.loads(header["__metadata__"][METADATA])
            parts = Parts(structure, {name: state[name] for name in names}, tuple(values))
            state = unflatten(parts)
        if all(map(is_tensor, state.values())):  # the same order from each kind of file
            return {name: state[name] for name in sorted(state, key=str)}
        return state


class OwnChain(OwnFile):
    """A chain, as the archive `source`: many steps."""

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The steps that it holds. Raises codec.ChainError. Cached: a page asks every second."""
        return codec.Chain(self.source).steps

    def states(self, left_out: Collection[str]) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        """Its steps and their states, whole. Raises SourceError."""
        try:
            for position in codec.Chain(self.source).every_step():
                yield position.step, position.whole()
        except (codec.ChainError, codec.RecordError) as exc:
            reason = str(exc).rstrip(".")
            raise SourceError(
                f"{reason}. Inspect shows which steps of the chain still restore"
            ) from exc


@dataclass(frozen=True, eq=False)
class OwnFiles:
    """What a visitor has opened: a series of files, or one chain. Compared by identity.

    place: its folder, which lives as long as this object. files: by rising step. order: a sentence
    about how they were ordered. refused: a sentence for each file that was not opened. odd:
    sentences about files that are unlike the others.
    """

    place: VisitorFolder
    files: tuple[OwnFile, ...] = ()
    order: str = ""
    refused: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()

    @property
    def archive(self) -> OwnChain | None:
        """The chain, if it is one."""
        return next((file for file in self.files if isinstance(file, OwnChain)), None)

    @property
    def steps(self) -> tuple[int, ...]:
        """All steps. Raises codec.ChainError."""
        return tuple(step for file in self.files for step in file.steps)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that is opened: the same for the same steps and bytes."""
        text = " ".join(f"{file.step} {file.sha256}" for file in self.files)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def nbytes(self) -> int:
        """Bytes of the files."""
        return sum(file.nbytes for file in self.files)

    @property
    def spacing(self) -> int | None:
        """The difference from step to step; None if it varies. Raises codec.ChainError."""
        differences = {later - step for step, later in pairwise(self.steps)}
        return differences.pop() if len(differences) == 1 else None

    def describe(self) -> str:
        """As "60 files, steps 5–300 every 5, 14.8 MB". Needs at least one step.

        Raises codec.ChainError.
        """
        n = len(self.steps)
        kind = f"A chain of {plural(n, 'step')}" if self.archive else plural(n, "file")
        spacing = "unevenly spaced" if self.spacing is None else f"every {self.spacing:,}"
        steps = f"steps {self.steps[0]:,}–{self.steps[-1]:,} {spacing}"
        return f"{kind}, {steps}, {nbytes_text(self.nbytes)}"

    @property
    def parts(self) -> dict[str, int]:
        """Outermost keys of the files -> bytes of the tensors below them, over all files."""
        total: Counter[str] = Counter()
        for file in self.files:
            total.update(file.parts)
        return dict(total)

    def states(self, left_out: Collection[str] = ()) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        """Every step and its state, without these outermost keys. Raises SourceError."""
        return chain.from_iterable(file.states(left_out) for file in self.files)


def list_files(path: Path) -> list[tuple[str, Path]]:
    """The files that a path stands for: those in a folder, else the file or the chain itself.

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
    files = [(p.name, p) for p in inside if p.suffix.lower() in SUFFIXES]
    if not files:
        raise SourceError(f"{path}: holds neither {', '.join(SUFFIXES)} files nor records")
    return files


def open_files(named: NamedFiles, place: VisitorFolder, tell: Tell) -> OwnFiles:
    """Check every file, and convert those that are not .safetensors.

    Args:
        named: the visitor's name of each file, and its path.
        place: the visitor's folder, which may hold uploads, and to which converted files go.
        tell: called often; if it raises, only uploads stay behind.

    Raises:
        SourceError: too many files, or a chain among other files.
        FullError: the disk space for visitors' files is used up.
    """
    if len(named) > MOST_FILES:
        raise SourceError(f"These are {len(named)} files; up to {MOST_FILES} can be opened at once")
    chains = [name for name, path in named if name.lower().endswith(ARCHIVE) or path.is_dir()]
    if chains and len(named) > 1:
        raise SourceError(f"{_display_name(chains[0])}: is a chain; open it alone, or the others")
    named = [(_display_name(name), path) for name, path in named]
    names = Counter(name for name, _ in named)
    opened: list[OwnFile] = []
    refused: list[str] = []
    with closing(Reader()) as reader:
        for i, (name, path) in enumerate(named):
            tell(i, len(named), name)
            try:
                if names[name] > 1:
                    raise SourceError("another file has the same name; rename it")
                waiting = partial(tell, i, len(named), name)
                opened.append(
                    _open_chain(name, path, place)
                    if chains
                    else _open_file(name, path, place, reader, waiting)
                )
            except FullError:
                raise
            except (SourceError, codec.ChainError, codec.RecordError, MemoryError, OSError) as exc:
                refused.append(_sentence(name, exc))
                # The upload is useless, unless it is a chain: Inspect shows which steps restore.
                if path.parent == place.path and not chains:
                    place.remove(path)
    if chains:
        return OwnFiles(place, tuple(opened), refused=tuple(refused))
    try:
        files, order = in_order(opened)
    except SourceError as exc:
        return OwnFiles(place, refused=(*refused, f"{exc}."))
    return OwnFiles(place, files, order, tuple(refused), (*_parts_of_one(files), *_odd(files)))


def _display_name(name: str) -> str:
    """A file's name for pages and for sorting; it never becomes a path."""
    last = PurePosixPath(name.replace("\\", "/")).name or "unnamed"
    # Names on a disk may be invalid Unicode, which pages cannot show.
    return last.encode("utf-8", "backslashreplace").decode()[-MOST_NAME:]


def _sentence(name: str, exc: Exception) -> str:
    if isinstance(exc, MemoryError):
        return f"{name}: does not fit into this machine's memory."
    if isinstance(exc, OSError):
        return f"{name}: cannot be read: {exc.strerror or exc}."
    problem = "" if isinstance(exc, SourceError) else "is not a valid chain: "
    return f"{name}: {problem}{str(exc).removeprefix('the archive: ').rstrip('.')}."


def _regular_nbytes(path: Path) -> int:
    """The bytes of a regular file. Raises SourceError for other paths, empty and large files."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as exc:
        raise SourceError("file not found, or not readable") from exc
    if not stat.S_ISREG(status.st_mode):
        raise SourceError("is not a regular file")
    if not status.st_size:
        raise SourceError("the file is empty")
    if status.st_size > MOST_EACH:
        raise SourceError(
            f"is {nbytes_text(status.st_size)}; the limit is {nbytes_text(MOST_EACH)}"
        )
    return status.st_size


def _open_file(
    name: str, path: Path, place: VisitorFolder, reader: Reader, waiting: Callable[[], None]
) -> OwnFile:
    """Open one checkpoint. Raises SourceError, without the file's name, and FullError."""
    nbytes = _regular_nbytes(path)
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise SourceError(
            f"is not a checkpoint; open files of {', '.join(SUFFIXES)}, or one chain, {CHAIN}"
        )
    digest = _sha256(path)
    if suffix not in TORCH:
        return OwnFile(name, nbytes, digest, path, path, _tensors(path))
    with path.open("rb") as file:
        check_torch_zip(file, nbytes)
    target = place.path / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.safetensors"
    place.remove(target)  # an interrupted attempt may have left it
    most_nbytes = 2 * nbytes + MAX_JSON  # of the target: its tensors and its header
    with _reserved(place, target, most_nbytes):
        answer = reader.convert(path, target, waiting)
        if "error" in answer:
            raise SourceError(answer["error"])
        if _sha256(path) != digest:
            raise SourceError("has changed while it was read; open it again")
        tensors = _tensors(target)
    place.take(target.stat().st_size - most_nbytes)
    return OwnFile(name, nbytes, digest, path, target, tensors, answer["parts"], answer["left_out"])


def _sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tensors(path: Path) -> Tensors:
    """The tensors of a .safetensors file; only its header is read.

    Raises SourceError, also for what the safetensors library would refuse later; OSError.
    """
    with path.open("rb") as file:
        tensors = tensors_of(file, os.fstat(file.fileno()).st_size)
    try:
        with safe_open(path, "numpy"):
            pass
    except SafetensorError as exc:
        raise SourceError(f"has an invalid header: {short(exc)}") from exc
    return tensors


def chain_file(path: Path, place: VisitorFolder) -> Path:
    """The archive of a chain: the file itself, or one extracted into the place from Export's zip.

    A zip that is in the place itself is deleted then. Raises SourceError, FullError, OSError.
    """
    nbytes = _regular_nbytes(path)
    with path.open("rb") as file:
        inside = chain_inside(file, nbytes)
        if inside is None:
            return path
        target = place.path / _OPENED
        with _reserved(place, target, inside.file_size), target.open("wb") as copy:
            extract(file, inside, copy)
    if path.parent == place.path:
        place.remove(path)
    return target


@contextmanager
def _reserved(place: VisitorFolder, target: Path, nbytes: int) -> Iterator[None]:
    """Reserve bytes for a file in the place; freed if it cannot be written. Raises FullError."""
    place.take(nbytes)
    try:
        yield
    except BaseException:
        target.unlink(missing_ok=True)
        place.take(-nbytes)
        raise


def _open_chain(name: str, path: Path, place: VisitorFolder) -> OwnChain:
    """Open a chain as an archive in the place.

    Raises SourceError, FullError, ChainError, OSError.
    """
    target = place.path / _OPENED
    if path.is_dir():
        folder = codec.Chain(path)
        with _reserved(place, target, folder.nbytes):
            folder.pack(target)
    else:
        source = chain_file(path, place)
        if source.parent == place.path:
            target = source
        else:
            with _reserved(place, target, source.stat().st_size):
                shutil.copyfile(source, target)
    try:
        with target.open("rb") as file:
            codec.Chain(file)
    except BaseException:
        if target != path:
            place.remove(target)
        raise
    archive_name = name if name.lower().endswith(ARCHIVE) else f"{name}.zip"
    return OwnChain(archive_name, target.stat().st_size, _sha256(target), target, target, {})


def in_order(files: Sequence[OwnFile]) -> tuple[tuple[OwnFile, ...], str]:
    """Files by the steps in their names, else by name, and a sentence about which it was.

    Raises SourceError for a step that is too large.
    """
    by_name = {f.name: f for f in sorted(files, key=lambda f: file_steps.by_numbers(f.name))}
    names = [Path(name) for name in by_name]
    order = "Ordered by the last number that all names share, which is taken for the step."
    try:
        steps = file_steps.steps_of_files(names)
    except SettingsError as exc:
        steps = list(enumerate(names))
        order = f"Ordered by name, and counted from 0: {exc}."
    if any(step > MAX_STEP for step, _ in steps):
        raise SourceError(
            f"A number in the name is too large for a step: {steps[-1][1]}; rename it"
        )
    ordered = tuple(replace(by_name[str(path)], step=step) for step, path in steps)
    return ordered, order if len(ordered) > 1 else ""


def _parts_of_one(files: Sequence[OwnFile]) -> list[str]:
    """A sentence if the files look like parts of one checkpoint."""
    parts = file_steps.parts_of_one([Path(file.name) for file in files])
    if not parts:
        return []
    return [
        f"By their names, {parts[0]} and {plural(len(parts) - 1, 'other')} look like parts of one "
        "checkpoint. Here each file is a step: put the parts into one file first."
    ]


def _odd(files: Sequence[OwnFile]) -> list[str]:
    """A sentence for each file whose tensors differ from those of most files."""
    if len(files) < 2:
        return []
    kinds = Counter(tuple(sorted(file.tensors.items())) for file in files)
    ((most_common, n),) = kinds.most_common(1)
    usual = dict(most_common)
    return [
        f"{file.name} has other tensors than {plural(n, 'other')}: "
        f"{_differences(file.tensors, usual)}. A base is written there."
        for file in files
        if file.tensors != usual
    ]


def _differences(tensors: Tensors, usual: Tensors) -> str:
    """In what these tensors differ from the usual ones."""
    both = usual.keys() & tensors.keys()
    differences = {
        "it lacks": usual.keys() - both,
        "it also has": tensors.keys() - both,
        "of another shape or dtype are": {k for k in both if usual[k] != tensors[k]},
    }
    return "; ".join(
        f"{verb} {', '.join(sorted(names)[:3])}" + (" and more" if len(names) > 3 else "")
        for verb, names in differences.items()
        if names
    )
