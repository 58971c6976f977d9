"""What a visitor has brought and what is known of it: checkpoints in their order, or a chain.

Looking at the files is own's part, their order that of ordered. Nothing here knows a screen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load

import codec
from codec.caps import short
from codec.errors import SourceError
from lcviz.server.foreign_files import Tensors
from lcviz.server.quota import VisitorFolder


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
        try:
            data = self.weights.read_bytes()
        except OSError as exc:
            raise SourceError(f"{self.name}: is not there any more; open it again") from exc
        if self.weights == self.source and hashlib.sha256(data).hexdigest() != self.sha256:
            raise SourceError(f"{self.name}: has changed since it was opened; open it again")
        try:
            found = load(data)
        except (SafetensorError, RuntimeError, TypeError, KeyError, ValueError) as exc:
            raise SourceError(f"{self.name}: cannot be read as tensors: {short(exc)}") from exc
        return {name: found[name] for name in sorted(found)}


@dataclass(frozen=True, eq=False)
class Opened:
    """What was opened, the same object as long as it is the same.

    place: where it lies; it lives as long as this. files: by rising step. order: how that was
    found, a sentence. refused: why the others were not taken. odd: what is unlike the rest. For a
    chain archive is its .lcc.zip, and files is empty.
    """

    place: VisitorFolder
    files: tuple[OwnFile, ...] = ()
    order: str = ""
    refused: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    archive: OwnFile | None = None

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """Of the states. Raises codec.ChainError. Kept: a page asks every second."""
        if self.archive is not None:
            return codec.Chain(self.archive.source).steps
        return tuple(file.step for file in self.files)

    def states(self) -> Iterator[tuple[int, Mapping[Any, Any]]]:
        """Every step and its state. Raises SourceError."""
        if self.archive is not None:
            try:
                for position in codec.Chain(self.archive.source).every_step():
                    yield position.step, position.whole()
            except (codec.ChainError, codec.RecordError) as exc:
                reason = str(exc).rstrip(".")
                raise SourceError(
                    f"{reason}. Inspect shows which steps of the chain still restore"
                ) from exc
        for file in self.files:
            yield file.step, file.state()
