"""A step's directory and its files: records, and what says that the step is whole.

    run/step-9/__0_5f0c….base.safetensors
    run/step-10/__0_a81b….delta.safetensors     <- builds on it

A rank's record and those that it builds on are a chain whose files lie in several directories, see
`chain_of`. DCP's metadata names them: directories beside each other, never paths, and the first
digits of digests. So directories that move together stay readable.

Not done here: reading and writing files (storage.folder), what is in a record (record), which
records a chunk is in (bundles).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystem

from codec.caps import printable
from codec.chain.chain import Chain
from codec.chain.replay import Position
from codec.errors import ChainError, DigestError, ParentError, SettingsError, StepOrderError
from codec.record.record import Record
from codec.storage.directory import TEMPORARY, write_errors
from codec.storage.entry import Entry
from codec.storage.folder import Disk, Folder, Span
from codec.storage.location import Location
from codec.storage.read_ahead import ReadAhead
from codec.storage.source import Source

METADATA = ".metadata"
DIGITS = 16  # of a digest in a file's name: no two records of a step share one
_DIGITS = re.compile(f"[0-9a-f]{{{DIGITS}}}")
_FILE = re.compile(rf"__[0-9]{{1,9}}_{_DIGITS.pattern}\.(?:base|delta)\.safetensors")


@dataclass(frozen=True)
class Step:
    """A step's directory in that of a training's steps. str() has none of a URL's secrets."""

    run: Folder
    name: str

    def __str__(self) -> str:
        return f"{self.run}/{self.name}"

    @property
    def place(self) -> Path | str:
        """Its path or URL."""
        return self.run.place(self.name)

    def beside(self, name: str) -> Step:
        """Another step of the run."""
        return Step(self.run, name)

    def files(self) -> list[str]:
        """The names of its files. Raises OSError."""
        return list(self.run.names(self.name))

    def has(self, file: str) -> bool:
        """Whether there is such a file. Raises ChainError if nobody answers."""
        return self.run.all_exist([f"{self.name}/{file}"])


@dataclass(frozen=True)
class RecordAt:
    """Where a record is: its step's directory, the rank that wrote it, its kind, and the first
    digits of its digest."""

    step: str
    rank: int
    kind: str
    digits: str

    @property
    def file(self) -> str:
        """Its file in the step's directory."""
        return f"__{self.rank}_{self.digits}.{self.kind}.safetensors"

    @property
    def name(self) -> str:
        """Its file in the directory of the steps."""
        return f"{self.step}/{self.file}"


def step_at(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Step:
    """The step in a directory or behind a URL.

    Links are resolved: run/latest may point elsewhere later. Raises SettingsError for anything else
    than a path or URL.
    """
    location = Location(path, storage_options)
    if location.remote is None:
        real = Path(os.path.realpath(location.path))
        return Step(Disk(real.parent), real.name)
    place, mark, query = os.fspath(path).partition("?")
    run, slash, name = place.rstrip("/").rpartition("/")
    if not slash or run.endswith("/"):
        raise SettingsError(f"{location}: is no directory of a step, as s3://bucket/run/step-10")
    return Step(Location(f"{run}{mark}{query}", storage_options).folder(), name)


def is_record(name: str) -> bool:
    """Whether a file is a rank's record."""
    return bool(_FILE.fullmatch(name))


def is_temporary(name: str) -> bool:
    """Whether a killed writer left this file."""
    return name.startswith(TEMPORARY)


def is_name(text: Any) -> bool:
    """Whether a directory can have this name: it is not empty and not a path."""
    return (
        isinstance(text, str) and text not in ("", ".", "..") and not {"/", "\\", "\0"} & set(text)
    )


def write(step: Step, rank: int, record: Record, data: bytes) -> RecordAt:
    """Write a record into its step's directory, durably. Raises WriteError."""
    at = RecordAt(step.name, rank, record.kind, record.digest[:DIGITS])
    with write_errors(f"{step}/{at.file}", "cannot be written"):
        step.run.put(at.name, data)
    return at


def described(needs: Sequence[RecordAt], step: Step) -> dict[str, Any]:
    """Records of a step in DCP's metadata, a pickle of plain Python types.

    needs: from a base to the newest. Directories are None for the step's own, which may be renamed.
    """
    records = tuple((None if at.step == step.name else at.step, at.digits) for at in needs)
    return {"rank": needs[-1].rank, "records": records}


def records_in(of: Any, step: Step) -> tuple[RecordAt, ...]:
    """The records that metadata describe, see `described`. Raises TypeError, KeyError, ValueError
    for other metadata."""
    rank = of["rank"]
    needs: list[RecordAt] = []
    for directory, digits in of["records"]:
        name = step.name if directory is None else directory
        if not is_name(name) or not _DIGITS.fullmatch(digits):
            raise ValueError("invalid names")
        needs.append(RecordAt(name, rank, "delta" if needs else "base", digits))
    if not needs or not all(is_record(at.file) for at in needs):
        raise ValueError("invalid names")
    return tuple(needs)


def chain_of(run: Folder, needs: Sequence[RecordAt]) -> Chain:
    """The chain of a rank's records, from a base to the newest. Its steps count them, from 0 on.

    Raises ParentError if a record is missing, ChainError if nobody answers.
    """
    files = {printable(at.name): at for at in needs}
    steps = {name: n for n, name in enumerate(files)}
    nbytes: dict[str, int] = {}

    def size(name: str) -> int:
        try:
            return run.nbytes(files[name].name) or 0
        except FileNotFoundError as exc:
            why = "" if files[name] == needs[-1] else f"; {printable(needs[-1].name)} builds on it"
            gone = _describe_missing(run, [files[name].step])
            raise ParentError(f"{run}/{name}: is missing{gone}{why}") from exc
        except OSError as exc:
            raise ChainError(f"{run}/{name}: cannot be read: {exc}") from exc

    def sizes() -> dict[str, int]:
        nbytes.update(zip(files, run.each(size, files)))
        return nbytes

    def read(name: str) -> bytes:
        return run.read_whole(files[name].name, nbytes[name])

    def read_spans(name: str, spans: Sequence[Span]) -> list[bytes]:
        return run.read_spans(files[name].name, spans)

    def entry(name: str, nbytes: int) -> Entry:
        return Entry(steps[name], files[name].kind, name, nbytes)

    source = Source(str(run), sizes, read, read_spans, is_remote=run.is_remote, entry=entry)
    if run.is_remote:
        ahead = ReadAhead(read)
        source = replace(source, read=ahead.read, expect=ahead.expect)
    return Chain(source)


def rebuilt(run: Folder, needs: Sequence[RecordAt]) -> Position:
    """The track at the newest of a rank's records; all digests are checked.

    needs: see `chain_of`. Raises ChainError, RecordError.
    """
    position = chain_of(run, needs).at()
    check_newest(position.record, needs)
    return position


def check_newest(record: Record, needs: Sequence[RecordAt]) -> None:
    """Raise DigestError unless this is the newest of these records."""
    if not record.digest.startswith(needs[-1].digits):
        expected = f"the record of digest {needs[-1].digits}…"
        raise DigestError(record.where, expected, record.digest)


def check_steps_exist(run: Folder, steps: Iterable[str], where: Step) -> None:
    """Raise ParentError, with their names, if directories of steps are missing."""
    if missing := removed_among(run, steps):
        raise ParentError(f"{where}: cannot be read{_describe_missing(run, missing)}")


def removed_among(run: Folder, steps: Iterable[str]) -> list[str]:
    """Those of these steps whose directories are gone, by name. Raises ChainError.

    In a store none: it has no directories, and missing files tell more.
    """
    if run.is_remote:
        return []
    try:
        there = run.names()
    except OSError as exc:
        raise ChainError(f"{run}: cannot be listed: {exc}") from exc
    return sorted({step for step in steps if there.get(step) is not False})


def _describe_missing(run: Folder, steps: Iterable[str]) -> str:
    missing = removed_among(run, steps)
    if not missing:
        return ""
    names = ", ".join(map(printable, missing[:10]))
    names += f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    return f": {run} no longer holds {names}; put back what was moved or removed from there"


class StepFiles(FileSystem):
    """The files of a step, as PyTorch's writer and reader of `.metadata` use them.

    What is written gets its name when it is renamed: durably, and only if the name is free.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._unnamed: dict[str, bytes] = {}

    @contextlib.contextmanager
    def create_stream(
        self, path: str | os.PathLike[str], mode: str
    ) -> Generator[io.IOBase, None, None]:
        """A file in memory. Raises OSError."""
        name, stream = os.path.basename(path), io.BytesIO()
        if mode == "rb":
            stream = io.BytesIO(self._step.run.read_whole(f"{self._step.name}/{name}"))
        yield stream
        self._unnamed[name] = stream.getvalue()

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Write a new file. Raises StepOrderError, WriteError, OSError."""
        data, name = self._unnamed.pop(os.path.basename(path)), os.path.basename(new_path)
        try:
            self._step.run.put_new(f"{self._step.name}/{name}", data)
        except FileExistsError as exc:
            raise StepOrderError(
                f"{self._step}/{name}: has come late from an earlier save of this step, which is "
                "whole by now"
            ) from exc

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """False: a mark is never replaced."""
        return False
