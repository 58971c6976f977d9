"""Checkpoints that a visitor brings: files or a chain, checked one by one, put in order.

What is refused is told in a sentence a file, and the others are taken. A .pt is read by a process
of its own (unpickle) and stands as .safetensors in the visitor's place from then on. Nothing here
knows a screen.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath

from safetensors import SafetensorError, safe_open

import codec
from codec.caps import short
from codec.errors import SourceError
from codec.state.tensor_files import SUFFIXES, TORCH
from codec.storage.source import entry_of
from lcviz.server.foreign_files import Tensors, check_members, check_torch_zip, tensors_of
from lcviz.server.pt_reader import Reader
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text

from .file_order import in_order, odd, parts_of_one
from .opened import Opened, OwnFile

MOST_FILES = 200
MOST_EACH = 2**30  # bytes of a file on this machine; an upload ends sooner, see pages
MOST_NAME = 255  # characters of a file's name: the last ones, with its number and suffix
ARCHIVE = ".zip"
Named = Sequence[tuple[str, Path]]  # what the visitor calls it, where it is
Tell = Callable[[int, int, str], None]  # done, of how many, which one now


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
    found = [(p.name, p) for p in inside if p.suffix.lower() in SUFFIXES]
    if not found:
        raise SourceError(f"{path}: has neither {', '.join(SUFFIXES)} files in it nor records")
    return found


def open_own(named: Named, place: VisitorFolder, tell: Tell) -> Opened:
    """Look at every file, and convert what is no .safetensors.

    tell(files done, in all, name of the next) is called often; if it raises, nothing stays behind
    but in the place. Raises SourceError if there are too many files, FullError.
    """
    if len(named) > MOST_FILES:
        raise SourceError(f"These are {len(named)} files; up to {MOST_FILES} can be opened at once")
    chains = [one for one in named if one[0].lower().endswith(ARCHIVE) or one[1].is_dir()]
    if chains and len(named) > 1:
        raise SourceError(
            f"{_shown(chains[0][0])}: is a chain, a series of its own; open it alone, or the others"
        )
    named = [(_shown(name), path) for name, path in named]
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
            except FullError:
                raise
            except (SourceError, codec.ChainError, codec.RecordError, MemoryError, OSError) as exc:
                refused.append(_sentence(name, exc))
                if path.parent == place.path:  # an upload
                    place.remove(path)
    try:
        files, order = in_order(taken)
    except SourceError as exc:
        return Opened(place, refused=(*refused, f"{exc}."))
    return Opened(place, files, order, tuple(refused), (*parts_of_one(files), *odd(files)))


def _shown(name: str) -> str:
    """A file's name as it is shown, and ordered by; it never becomes a path."""
    last = PurePosixPath(name.replace("\\", "/")).name or "unnamed"
    # Names on a disk may be no Unicode, and a page can show nothing else.
    return last.encode("utf-8", "backslashreplace").decode()[-MOST_NAME:]


def _sentence(name: str, exc: Exception) -> str:
    if isinstance(exc, MemoryError):
        return f"{name}: does not fit into this machine's memory."
    if isinstance(exc, OSError):
        return f"{name}: cannot be read: {exc.strerror or exc}."
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
    if not status.st_size:
        raise SourceError("the file is empty")
    if status.st_size > MOST_EACH:
        raise SourceError(
            f"has {nbytes_text(status.st_size)}; up to {nbytes_text(MOST_EACH)} are taken"
        )
    return status.st_size


def _file(
    name: str, path: Path, place: VisitorFolder, reader: Reader, look: Callable[[], None]
) -> OwnFile:
    """One checkpoint. Raises SourceError without the name, FullError."""
    nbytes = _regular(path)
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise SourceError(f"is none of {', '.join((*SUFFIXES, '.lcc.zip'))}")
    digest = _sha256(path)
    if suffix not in TORCH:
        return OwnFile(name, nbytes, digest, path, path, _tensors(path))
    with path.open("rb") as file:
        check_torch_zip(file, nbytes)
    target = place.path / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.safetensors"
    place.remove(target)  # of an attempt that was left
    place.take(2 * nbytes)  # what it may become at most
    try:
        answer = reader.convert(path, target, look)
        if "error" in answer:
            raise SourceError(answer["error"])
        if _sha256(path) != digest:
            raise SourceError("has changed while it was read; open it again")
        tensors = _tensors(target)
    except BaseException:
        target.unlink(missing_ok=True)
        place.take(-2 * nbytes)
        raise
    place.take(target.stat().st_size - 2 * nbytes)
    under, left_out = tuple(answer["under"]), tuple(answer["left_out"])
    return OwnFile(name, nbytes, digest, path, target, tensors, under, left_out)


def _sha256(path: Path) -> str:
    """Of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tensors(path: Path) -> Tensors:
    """Of a .safetensors file, of which only the header is read.

    Raises SourceError, also for what its own library would refuse later; OSError.
    """
    with path.open("rb") as file:
        found = tensors_of(file, os.fstat(file.fileno()).st_size)
    try:
        with safe_open(path, "numpy"):
            pass
    except SafetensorError as exc:
        raise SourceError(f"has a header that is none: {short(exc)}") from exc
    return found


def _chain(name: str, path: Path, place: VisitorFolder) -> Opened:
    """A chain as an archive in the place. Raises SourceError, FullError, ChainError, OSError."""
    here = path.parent == place.path  # an upload: it stays where it is
    target = path if here else place.path / "opened.lcc.zip"
    taken = 0 if here else codec.Chain(path).nbytes if path.is_dir() else _regular(path)
    place.take(taken)
    try:
        if path.is_dir():
            codec.Chain(path).pack(target)
        else:
            with path.open("rb") as file:
                check_members(file)
            if not here:
                shutil.copyfile(path, target)
        with target.open("rb") as file:
            codec.Chain(file)
    except BaseException:
        if not here:
            target.unlink(missing_ok=True)
            place.take(-taken)
        raise
    own = name if name.lower().endswith(ARCHIVE) else f"{name}.zip"
    archive = OwnFile(own, target.stat().st_size, _sha256(target), target, target, {})
    return Opened(place, archive=archive)
