"""One rank's part of a save: its plan becomes records; its state changes only with the commit.

Also how DCP's metadata names records. Not done here: DCP's protocol (writer).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult

from codec.errors import BudgetError, SourceError, WriteError
from codec.record.record import Record
from codec.scheme.budget import SharedBudget
from codec.scheme.coding import Coding
from codec.state.moments import first_of
from codec.state.policy import moments_among
from codec.state.tensors import Layout

from .bundles import Bundle, WrittenBundle, new_bundle
from .chunks import Chunk, Rules, fit_records, tree_name, value_of, with_ties
from .files import RecordAt, is_name, is_of, is_there, missing, write

_log = logging.getLogger(__name__)


@dataclass
class RankState:
    """What a rank keeps between saves.

    Attributes:
        bundles: Its chunks and their tracks.
        n: Saves since one that needs no other directory; -1 before the first. The same on all
            ranks, whether they had chunks in a save or not.
    """

    bundles: list[Bundle] = field(default_factory=list)
    n: int = -1

    def needs(self) -> set[RecordAt]:
        """The records that a save may build on."""
        return {at for bundle in self.bundles for at in bundle.needs}


@dataclass
class RankSave:
    """One rank's part of a save, to be committed once all ranks are done.

    Attributes:
        moved: The bundles with their records.
        results: What DCP gets.
        nbytes: Bytes of its records.
        written: Where they lie.
        n: See `RankState`.
    """

    moved: list[WrittenBundle] = field(default_factory=list)
    results: list[WriteResult] = field(default_factory=list)
    nbytes: int = 0
    written: list[RecordAt] = field(default_factory=list)
    n: int = 0

    def commit(self) -> RankState:
        """Advance the tracks; returns the rank's state after the save."""
        return RankState([moved.commit() for moved in self.moved], self.n)


class RankWriter:
    """Writes one rank's part into a step's directory.

    Args:
        step: The directory.
        rank: This rank.
        rules: Which chunks are lossy.
        coding: How deltas are coded.
        before: The rank's state; with an empty one all records are bases. Only `RankSave.commit`
            changes it.
    """

    def __init__(
        self, step: Path, rank: int, rules: Rules, coding: Coding, before: RankState
    ) -> None:
        self._step, self._rank, self._rules, self._coding = step, rank, rules, coding
        self._before = before
        self.part = RankSave(n=before.n + 1)

    def run(self, plan: SavePlan, planner: SavePlanner) -> RankSave:
        """Write the records.

        Raises:
            BudgetError: The budget holds nothing of chunks that have changed.
            DTypeError, StateMismatchError: A tensor that cannot be stored.
            RecordError: A record cannot be read again.
            WriteError: The disk refuses.
        """
        paths: Any = getattr(planner, "mappings", None) or {}
        keys = {item.index.fqn: (item.index.fqn,) for item in plan.items} | paths
        moments = moments_among(tree_name(fqn, path) for fqn, path in keys.items())
        chunks = [self._rules.chunk(i, keys[i.index.fqn], moments, planner) for i in plan.items]
        chunks = with_ties(chunks, self._rules, planner)
        if self._rank == 0 and (sentence := self._rules.describe_moments(chunks)):
            _log.warning("%s: %s", self._step, sentence)
        left = self._deltas(chunks, planner)
        self._bases([c for c in left if c.spec.lossy], planner)
        self._bases([c for c in left if not c.spec.lossy], planner)
        return self.part

    def _deltas(self, chunks: Sequence[Chunk], planner: SavePlanner) -> Iterable[Chunk]:
        """Write the deltas of chunks that have a track; a budget is divided among the lossy ones.

        Returns the others, and those that have to be stored whole.
        """
        left = {chunk.name: chunk for chunk in chunks}
        known: list[tuple[Bundle, list[Chunk]]] = []
        for bundle in self._before.bundles:
            own = [c for c in left.values() if bundle.holds(c.spec)]
            if own:  # others have gone elsewhere: their track is no longer of use
                known.append((bundle, own))
                names = {c.name for c in own}
                left = {name: c for name, c in left.items() if name not in names}
        sizes = [Layout(tuple(c.spec for c in own)).lossy_nbytes for _, own in known]
        shared = None
        if self._coding.budget is not None:
            shared = SharedBudget(self._coding.budget, sum(sizes))
        moved: dict[int, WrittenBundle] = {}
        for i in sorted(range(len(known)), key=lambda i: sizes[i]) if shared else range(len(known)):
            bundle, own = known[i]
            values = {c.name: value_of(c, planner) for c in own}
            allowance = shared.allowance(sizes[i]) if shared else None
            try:
                # Pickles are small: they share a file with what else is stored whole.
                pickles = {c.name for c in own if c.data is not None}
                moved[i] = bundle.delta(values, self._put, allowance, pickles)
            except BudgetError as exc:
                raise BudgetError(f"{self._step}, rank {self._rank}: {exc}") from exc
            if shared and sizes[i]:
                shared.spend(sizes[i], moved[i].budgeted_nbytes)
        for i, (_, own) in enumerate(known):
            left |= {c.name: c for c in own if c.name in moved[i].left}
            self._note(moved[i], [c for c in own if c.name not in moved[i].left])
        return left.values()

    def _bases(self, chunks: Sequence[Chunk], planner: SavePlanner) -> None:
        """Write bases of chunks without a track: all of them are lossy, or none is."""
        together: dict[str, list[Chunk]] = {}  # a reader bounds one moment by the other
        for chunk in chunks:
            together.setdefault(first_of(chunk.name) or chunk.name, []).append(chunk)
        new = ((pair, sum(c.spec.track_nbytes for c in pair)) for pair in together.values())
        for pairs in fit_records(new):
            group = [c for pair in pairs for c in pair]
            values = {c.name: value_of(c, planner) for c in group}
            specs = [c.spec for c in group]
            self._note(new_bundle(specs, values, self._coding, self._put), group)

    def _note(self, moved: WrittenBundle, chunks: Sequence[Chunk]) -> None:
        if not chunks:  # all of them have left
            return
        self.part.moved.append(moved)
        self.part.nbytes += moved.nbytes
        item, nbytes = self._item(moved.at, moved.needs), moved.nbytes
        for chunk in chunks:
            self._result(chunk, item, nbytes)
            nbytes = 0

    def _result(self, chunk: Chunk, item: Mapping[str, Any], nbytes: int) -> None:
        """nbytes: of the record, with the first of its chunks only."""
        index: MetadataIndex = chunk.item.index
        self.part.results.append(WriteResult(index, nbytes, {"of": item, "tensor": chunk.name}))

    def _item(self, at: RecordAt, needs: tuple[str, ...]) -> Mapping[str, Any]:
        """A record as DCP pickles it, in Python's own types. step: None in the directory itself."""
        step = None if at.step == self._step.name else at.step
        return {"file": at.file, "digest": at.digest, "step": step, "needs": needs}

    def _put(self, record: Record, data: bytes) -> RecordAt:
        at = write(self._step, self._rank, record, data)
        self.part.written.append(at)
        return at


def check_written(step: Path, results: list[list[WriteResult]]) -> None:
    """Raise WriteError unless all is there that the ranks have written, and that it builds on."""
    every = [read_item(each.storage_data, step)[:2] for part in results for each in part]
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


def read_item(item: Any, step: Path) -> tuple[RecordAt, tuple[str, ...], str]:
    """Where an item of DCP's metadata says that its chunk is.

    Returns:
        The record, the names of other directories that lead to it, and the chunk's name there.

    Raises:
        SourceError: No ChainWriter wrote the item.
    """
    try:
        of = item["of"]
        at = RecordAt(of["step"] or step.name, of["file"], of["digest"])
        needs, tensor = tuple(of["needs"]), item["tensor"]
        names = all(map(is_name, (at.step, *needs))) and is_of(at.file, None)
        if not names or not isinstance(at.digest, str) or not isinstance(tensor, str):
            raise TypeError("names that are none")
    except (TypeError, KeyError) as exc:
        raise SourceError(
            f"{step}: was not written by a ChainWriter; load it with DCP's own reader"
        ) from exc
    return at, needs, tensor
