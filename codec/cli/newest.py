"""The newest intact checkpoint of a folder, whoever has written it.

    checkpoint-500/, step_100/    a folder: each of its files, and those that an index names
    with .metadata                a distributed checkpoint: all that its metadata names
    run.lcc, run.lcc.zip          a chain: its newest step restores
    last.ckpt, x.safetensors      a file: its length, and the checksums of torch.save

Digests that `guard` has written are compared too. No code in a checkpoint runs: what a pickle names
is neither imported nor called.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from codec.caps import typed
from codec.chain.chain import Chain
from codec.errors import LccError, SettingsError, SourceError
from codec.state.file_steps import steps_of_files
from codec.state.tensor_files import DAMAGED, HEAD, SUFFIXES, TORCH, check_torch_file
from codec.storage import guard
from codec.storage.folder import check_regular

METADATA, TRAINER_STATE = ".metadata", "trainer_state.json"
ARCHIVE = ".lcc.zip"
_ZIP = b"PK\3\4"


class Newest(NamedTuple):
    """The newest intact checkpoint, None if there is none; and why newer ones are not intact."""

    path: Path | None
    problems: tuple[tuple[Path, str], ...]


def newest_intact(folder: Path) -> Newest:
    """The newest checkpoint in a folder that is intact.

    The number in their names decides which one is newer, if all have one in the same place; else
    the time at which they were last written.

    Raises:
        SettingsError: There is no such folder, or it is a checkpoint itself.
    """
    if not folder.is_dir():
        raise SettingsError(f"{folder}: is not a folder")
    candidates = _candidates(folder)
    marks = {METADATA} if any(path.is_dir() for path in candidates) else {METADATA, TRAINER_STATE}
    if any((folder / name).exists() for name in marks) or guard.is_chain(folder):
        raise SettingsError(f"{folder}: is a checkpoint; give the folder that holds several")
    problems: list[tuple[Path, str]] = []
    for path in _newest_first(candidates):
        try:
            alike = [p for p in candidates if p != path and _form(p) == _form(path)]
            _check_digests(path)
            _check(path, alike)
        except (LccError, OSError) as exc:
            problems.append((path, str(exc)))
        else:
            return Newest(path, tuple(problems))
    return Newest(None, tuple(problems))


def _candidates(folder: Path) -> list[Path]:
    """The checkpoints in a folder, and empty folders with names like theirs.

    Where there are such folders, files beside them are none: a Trainer puts its last model there.
    """
    paths = [p for p in sorted(folder.iterdir()) if p.exists() and not p.name.startswith(".")]
    found = [path for path in paths if any(map(_is_weights, _files(path)))]
    forms = {_form(path) for path in found if path.is_dir()}
    return [path for path in paths if path.is_dir() and _form(path) in forms] or found


def _is_weights(path: Path) -> bool:
    return path.suffix in (*SUFFIXES, ".distcp") or path.name.endswith((ARCHIVE, METADATA))


def _form(path: Path) -> str:
    """A name without its numbers."""
    return re.sub("[0-9]+", "0", path.name)


def _files(path: Path) -> list[Path]:
    """A file, or all files in a folder."""
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _newest_first(paths: Sequence[Path]) -> list[Path]:
    try:
        return [path for _, path in reversed(steps_of_files(paths))]
    except SettingsError:  # no number in the same place of all names
        written = {path: max(p.stat().st_mtime for p in (path, *_files(path))) for path in paths}
        return sorted(paths, key=lambda path: written[path], reverse=True)


def _check_digests(path: Path) -> None:
    """Raise SourceError unless files are as when `guard` has seen them."""
    if guard.is_guarded(path) and (problems := guard.check(path).problems):
        raise SourceError(problems[0])


def _check(path: Path, alike: Sequence[Path]) -> None:
    """Raise LccError or OSError unless a checkpoint is intact. alike: others, of the same form."""
    if guard.is_chain(path):
        report = (chain := Chain(path)).verify()
        if report.steps[-1:] != chain.steps[-1:]:
            raise SourceError(report.problems[0])
        return
    if not any(map(_is_weights, _files(path))):
        raise SourceError("has no weights: the save did not end")
    names = _names(path)
    lacking = set.intersection(*map(_names, alike)) - names if len(alike) > 1 else set()
    if "training_args.bin" in names and path.name.startswith("checkpoint-"):
        lacking |= {TRAINER_STATE} - names  # a Trainer writes it last
    if METADATA not in names and any(name.endswith(".distcp") for name in names):
        lacking.add(METADATA)
    if lacking:
        raise SourceError(f"{min(lacking)} is missing: the save did not end")
    for file in _files(path):
        try:
            if file.name == METADATA:
                _check_distributed(file)
            else:
                _check_file(file)
        except SourceError as exc:
            raise SourceError(f"{file.name}: {exc}") from exc


def _names(path: Path) -> set[str]:
    """The names of all files in a folder."""
    return {file.relative_to(path).as_posix() for file in _files(path)} if path.is_dir() else set()


def _check_file(path: Path) -> None:
    """Raise SourceError or OSError unless a file is whole, as far as its format tells."""
    if path.suffix not in (*SUFFIXES, ".json", ".pkl"):  # Accelerate calls a torch.save file so
        return
    with path.open("rb") as file:
        head = file.read(HEAD)
        if not head:
            raise SourceError("is empty")
        if path.suffix in TORCH:
            check_torch_file(head)
            if not head.startswith(_ZIP):
                raise SourceError("is a torch.save file from before torch 1.6, without checksums")
        if head.startswith(_ZIP):
            _check_zip(file)
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "np"):  # compares lengths with the file's
                pass
        except SafetensorError as exc:
            raise SourceError(f"{DAMAGED} ({exc})") from exc
    elif path.suffix == ".json":
        try:
            content = json.loads(path.read_bytes())
            named = content["weight_map"].values() if path.name.endswith(".index.json") else ()
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as exc:
            raise SourceError(f"is not the JSON it should be ({exc})") from exc
        for name in sorted(set(map(str, named))):
            if not (path.parent / name).is_file():
                raise SourceError(f"names {name}, which is missing")


def _check_zip(file: Any) -> None:
    """Raise SourceError unless all members of a zip file have their checksums."""
    try:
        damaged = zipfile.ZipFile(file).testzip()
    except Exception as exc:  # zipfile raises anything for a damaged file
        raise SourceError(f"{DAMAGED} ({exc})") from exc
    if damaged:
        raise SourceError(f"{DAMAGED} (the checksum of {damaged})")


def _check_distributed(metadata: Path) -> None:
    """Raise LccError or OSError unless all is whole that a distributed checkpoint names."""
    folder = metadata.parent
    try:
        stored = list(_Inert(io.BytesIO(metadata.read_bytes())).load().storage_data.values())
        by_chain_writer = all(isinstance(item, dict) and "of" in item for item in stored)
        places = [] if by_chain_writer else [_Place.of(item) for item in stored]
    except Exception as exc:  # a damaged pickle can raise anything
        raise SourceError(f"{DAMAGED} ({type(exc).__name__}: {exc})") from exc
    if by_chain_writer:
        _check_records(folder, [item["of"] for item in stored])
    for place in places:
        check_regular(folder / place.name)
        with (folder / place.name).open("rb") as file:
            if file.seek(0, io.SEEK_END) < place.offset + place.nbytes:
                raise SourceError(f"{place.name} ends before byte {place.offset + place.nbytes:,}")
            file.seek(place.offset)
            if place.is_zip:
                _check_zip(io.BytesIO(file.read(place.nbytes)))


class _Place(NamedTuple):
    """Where a tensor is in a distributed checkpoint. is_zip: as torch.save writes it."""

    name: str
    offset: int
    nbytes: int
    is_zip: bool

    @classmethod
    def of(cls, item: Any) -> _Place:
        """From DCP's metadata; raises anything for something else."""
        fields = vars(item)
        name, offset = typed(fields["relative_path"], str), typed(fields["offset"], int)
        is_zip = "transform_descriptors" not in fields
        return cls(name, offset, typed(fields["length"], int), is_zip)


def _check_records(folder: Path, described: Sequence[Any]) -> None:
    """Raise LccError unless the records restore that a ChainWriter's metadata describes."""
    try:
        from codec.dcp.files import chain_of, records_in, step_at
    except ImportError as exc:
        raise SourceError("cannot be checked without torch") from exc
    step = step_at(folder)
    try:
        chains = {records_in(of, step) for of in described}
    except (TypeError, KeyError, ValueError) as exc:
        raise SourceError(f"{DAMAGED} ({type(exc).__name__}: {exc})") from exc
    for needs in chains:
        if problems := chain_of(step.run, needs).verify().problems:
            raise SourceError(problems[0])


class _Inert(pickle.Unpickler):
    """Reads a pickle's plain values; whatever it names becomes a class that does nothing."""

    def find_class(self, module: str, name: str) -> Any:
        """A new class, so that a pickle changes no other one."""
        return type(name, (_Nothing,), {})


class _Nothing(dict[Any, Any]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            vars(self).update(state)
