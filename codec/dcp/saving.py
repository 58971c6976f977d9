"""One rank's part of a save: its plan becomes records, and what it keeps waits for the commit.
And what DCP's metadata tells of records.

Not done here: DCP's protocol (writer).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult

from codec.errors import SourceError, WriteError
from codec.record.record import Record
from codec.scheme.coding import Coding
from codec.state.tensors import Layout, TensorSpec, to_arrays

from .bundles import Bundle, Held, Moved, based, content, stored, whole_spec
from .chunks import Chunk, Rules, grouped, value_of, with_ties
from .files import At, is_name, is_of, is_there, missing, write


@dataclass
class Kept:
    """What a rank knows of its chunks. n: saves since one that needs no other directory, the same
    on all ranks, whether they had chunks in it or not; -1 before the first."""

    bundles: list[Bundle] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    n: int = -1

    def needs(self) -> set[At]:
        """The records that a save may build on."""
        records = {at for bundle in self.bundles for at in bundle.needs}
        return records | {held.at for held in self.held.values()}


@dataclass
class Part:
    """One rank's part of a save that may be committed. written: its records. n: see `Kept`."""

    moved: list[Moved] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    results: list[WriteResult] = field(default_factory=list)
    nbytes: int = 0
    written: list[At] = field(default_factory=list)
    n: int = 0

    def commit(self) -> Kept:
        """What the rank knows after it; tracks advance."""
        return Kept([moved.commit() for moved in self.moved], self.held, self.n)


class Saving:
    """Writes one rank's part into a step's directory.

    kept: what is known of the chunks; an empty one makes everything anew. Only `Part.commit`
    changes it.
    """

    def __init__(self, step: Path, rank: int, rules: Rules, coding: Coding, kept: Kept) -> None:
        self._step, self._rank, self._rules, self._coding = step, rank, rules, coding
        self._kept = kept
        self.part = Part(n=kept.n + 1)

    def run(self, plan: SavePlan, planner: SavePlanner) -> Part:
        """Raises what the codec does about tensors, RecordError, WriteError."""
        paths: Any = getattr(planner, "mappings", None) or {}
        chunks = [self._rules.chunk(item, paths.get(item.index.fqn)) for item in plan.items]
        chunks = with_ties(chunks, self._rules, planner)
        self._lossy([c for c in chunks if c.is_lossy], planner)
        rest = [c for c in chunks if not c.is_lossy]
        for group in grouped((c, c.spec.track_nbytes if c.spec else 0) for c in rest):
            self._exact(group, planner)
        return self.part

    def _lossy(self, chunks: Sequence[Chunk], planner: SavePlanner) -> None:
        left = {chunk.name: chunk for chunk in chunks}
        for bundle in self._kept.bundles:
            own = [c for c in left.values() if c.spec is not None and bundle.holds(c.spec)]
            if own:  # others have gone elsewhere: their track is no longer of use
                values = {c.name: value_of(c, planner) for c in own}
                self._note(bundle.delta(values, self._put), own)
                left = {name: c for name, c in left.items() if name not in values}
        new = ((c, c.spec.track_nbytes) for c in left.values() if c.spec is not None)
        for group in grouped(new):
            values = {c.name: value_of(c, planner) for c in group}
            specs = [c.spec for c in group]
            self._note(based(specs, values, self._coding, self._put), group)

    def _exact(self, chunks: Sequence[Chunk], planner: SavePlanner) -> None:
        """Chunks that are as they were where they are held are told to be there."""
        values = {c.name: value_of(c, planner) for c in chunks}
        specs = {c.name: whole_spec(c.name, c.spec, values[c.name]) for c in chunks}
        arrays = to_arrays(values, Layout(tuple(specs.values())))
        digests = {name: content(array) for name, array in arrays.items()}
        changed: dict[str, TensorSpec] = {}
        for name, spec in specs.items():
            held = self._kept.held.get(name)
            if held is not None and (held.spec, held.digest) == (spec, digests[name]):
                self.part.held[name] = held
            else:
                changed[name] = spec
        nbytes = 0
        if changed:
            at, nbytes = stored(
                list(changed.values()), {name: arrays[name] for name in changed}, self._put
            )
            self.part.nbytes += nbytes
            for name, spec in changed.items():
                self.part.held[name] = Held(spec, digests[name], at)
        told: dict[At, Mapping[str, Any]] = {}  # one object each, so that a pickle has it once
        for chunk in chunks:
            at = self.part.held[chunk.name].at
            self._result(chunk, told.setdefault(at, self._told(at, ())), nbytes)
            nbytes = 0

    def _note(self, moved: Moved, chunks: Sequence[Chunk]) -> None:
        self.part.moved.append(moved)
        self.part.nbytes += moved.nbytes
        told, nbytes = self._told(moved.at, moved.needs), moved.nbytes
        for chunk in chunks:
            self._result(chunk, told, nbytes)
            nbytes = 0

    def _result(self, chunk: Chunk, told: Mapping[str, Any], nbytes: int) -> None:
        """nbytes: of the record, told with the first of its chunks."""
        index: MetadataIndex = chunk.item.index
        self.part.results.append(WriteResult(index, nbytes, {"of": told, "tensor": chunk.name}))

    def _told(self, at: At, needs: tuple[str, ...]) -> Mapping[str, Any]:
        """For the pickle: nothing but Python's own types. step: None in the directory itself."""
        step = None if at.step == self._step.name else at.step
        return {"file": at.file, "digest": at.digest, "step": step, "needs": needs}

    def _put(self, record: Record, data: bytes) -> At:
        at = write(self._step, self._rank, record, data)
        self.part.written.append(at)
        return at


def check_written(step: Path, results: list[list[WriteResult]]) -> None:
    """Raise WriteError unless all is there that the ranks have written, and that it builds on."""
    every = [told(each.storage_data, step)[:2] for part in results for each in part]
    steps = {name for at, names in every for name in (at.step, *names)}
    if lost := missing(step.parent, steps):
        raise WriteError(
            f"{step}: builds on {lost[0]}, which was removed meanwhile; wait for a save before you "
            "remove steps, and keep what codec.dcp.needed names"
        )
    records = {at for at, _ in every}
    gone = sorted(f"{at.step}/{at.file}" for at in records if not is_there(step.parent, [at]))
    if gone:
        raise WriteError(
            f"{step}: {gone[0]} (of this save's records {len(gone)}) went before the step was "
            "whole; is another job saving to this directory? Give each its own"
        )


def told(item: Any, step: Path) -> tuple[At, tuple[str, ...], str]:
    """Where an item of DCP's metadata says that its chunk is: record, names of other directories
    that lead to it, and the chunk's name there. Raises SourceError for one that is not ours."""
    try:
        of = item["of"]
        at = At(of["step"] or step.name, of["file"], of["digest"])
        needs, tensor = tuple(of["needs"]), item["tensor"]
        names = all(map(is_name, (at.step, *needs))) and is_of(at.file, None)
        if not names or not isinstance(at.digest, str) or not isinstance(tensor, str):
            raise TypeError("names that are none")
    except (TypeError, KeyError) as exc:
        raise SourceError(
            f"{step}: was not written by a ChainWriter; load it with DCP's own reader"
        ) from exc
    return at, needs, tensor
