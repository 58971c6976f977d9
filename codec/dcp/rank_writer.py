"""One rank's part of a save: its plan becomes records. The rank's state changes only at the commit.

Also reads how DCP's metadata names records. Not done here: DCP's protocol (writer).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult

from codec.errors import BudgetError, SourceError, WriteError
from codec.record.reason import Reason
from codec.record.record import Record
from codec.record.settings import ChainSettings, refuse_lossy
from codec.scheme.budget import SharedBudget
from codec.state.family import ROOTS
from codec.state.moments import second_of, with_measures
from codec.state.policy import LOSSY, Mode, moments_among
from codec.state.tensors import Layout

from .bundles import Bundle, WrittenBundle, new_bundle
from .chunks import Chunk, Rules, fit_records, tree_name, value_of, with_ties
from .files import RecordAt, Step, described, records_in, removed_among, write

_log = logging.getLogger(__name__)


@dataclass
class RankState:
    """What a rank keeps between saves.

    Attributes:
        bundles: Its chunks and their tracks.
        n: Saves since the last one that needs no other directory; -1 before the first save. The
            same on all ranks, whether they had chunks in a save or not.
        reason: Why chunks that have no track are saved as bases.
        exact: Fully qualified names of tensors that may be lossy and are exact in the step to
            resume from; empty later on.
        chain: The settings in that step.
    """

    bundles: list[Bundle] = field(default_factory=list)
    n: int = -1
    reason: Reason = Reason.FIRST
    exact: frozenset[str] = frozenset()
    chain: ChainSettings | None = None

    def needs(self) -> set[RecordAt]:
        """The records that a save may build on."""
        return {at for bundle in self.bundles for at in bundle.needs}


@dataclass
class RankSave:
    """One rank's part of a save, to be committed once all ranks are done.

    Attributes:
        bundles: The rank's bundles after the save.
        results: What DCP gets.
        nbytes: Bytes of the new records.
        written: The new records.
        n: See `RankState`.
    """

    bundles: list[WrittenBundle] = field(default_factory=list)
    results: list[WriteResult] = field(default_factory=list)
    nbytes: int = 0
    written: list[RecordAt] = field(default_factory=list)
    n: int = 0

    def commit(self) -> RankState:
        """Advance the tracks; returns the rank's state after the save."""
        return RankState([bundle.commit() for bundle in self.bundles], self.n, Reason.LAYOUT)


class RankWriter:
    """Writes one rank's part into a step's directory.

    Args:
        step: The directory.
        rank: This rank.
        rules: Which chunks are lossy.
        settings: Those of the chain.
        before: The rank's state; with an empty one all records are bases. Only `RankSave.commit`
            changes it.
    """

    def __init__(
        self, step: Step, rank: int, rules: Rules, settings: ChainSettings, before: RankState
    ) -> None:
        self._step, self._rank, self._rules, self._settings = step, rank, rules, settings
        self._coding, self._before = settings.coding, before
        self.part = RankSave(n=before.n + 1)

    def run(self, plan: SavePlan, planner: SavePlanner) -> RankSave:
        """Write the records.

        Raises:
            BudgetError: The budget is too small for any change of a bundle's chunks.
            DTypeError, StateMismatchError: A tensor cannot be stored.
            RecordError: A record cannot be read again.
            SettingsError: Exact tensors of the step to resume from would become lossy by default.
            WriteError: The disk refuses.
        """
        paths: Any = getattr(planner, "mappings", None) or {}
        keys = {item.index.fqn: (item.index.fqn,) for item in plan.items} | paths
        moments = moments_among(tree_name(fqn, path) for fqn, path in keys.items())
        chunks = [self._rules.chunk(i, keys[i.index.fqn], moments, planner) for i in plan.items]
        chunks = with_ties(chunks, self._rules, planner)
        specs = with_measures([c.spec for c in chunks])
        chunks = [replace(c, spec=spec) for c, spec in zip(chunks, specs)]
        self._check_exact(chunks)
        if self._rank == 0 and (sentence := self._rules.describe_moments(chunks)):
            _log.warning("%s: %s", self._step, sentence)
        whole = list(self._deltas(chunks, planner))
        lossy, exact = ([c for c in whole if c.spec.lossy is kind] for kind in (True, False))
        reason = self._before.reason
        self._bases(lossy, planner, reason)  # exact chunks leave their bundles
        self._bases(exact, planner, Reason.NOT_SMALLER if self._before.bundles else reason)
        return self.part

    def _check_exact(self, chunks: Sequence[Chunk]) -> None:
        """Raise SettingsError if tensors of the step to resume from would become lossy unsaid."""
        before, by_pattern = self._before, self._rules.policy.mode_by_pattern
        lossy: dict[str, Mode] = {}
        for chunk in chunks:
            fqn = chunk.item.index.fqn
            if chunk.spec.lossy and fqn in before.exact and by_pattern(fqn) is None:
                lossy[fqn] = chunk.spec.family.target or LOSSY
        refuse_lossy(lossy, self._settings, before.chain, self._step)

    def _deltas(self, chunks: Sequence[Chunk], planner: SavePlanner) -> Iterable[Chunk]:
        """Write the deltas of chunks that have a track; a budget is divided among the lossy ones.

        Returns the chunks to be stored whole: those without a track, and those that left a bundle.
        """
        tracked, whole = self._by_bundle(chunks)
        sizes = [Layout(tuple(c.spec for c in members)).lossy_nbytes for _, members in tracked]
        shared = None
        if self._coding.budget is not None:
            shared = SharedBudget(self._coding.budget, sum(sizes))
        written: dict[int, WrittenBundle] = {}
        order = range(len(tracked))
        for i in sorted(order, key=lambda i: sizes[i]) if shared else order:
            bundle, members = tracked[i]
            values = {c.name: value_of(c, planner) for c in members}
            allowance = shared.allowance(sizes[i]) if shared else None
            try:
                # Changed pickles are small: they share a file with other chunks stored whole.
                pickles = {c.name for c in members if c.data is not None}
                written[i] = bundle.delta(values, self._put, allowance, pickles)
            except BudgetError as exc:
                text = f"{self._step}, rank {self._rank}: {exc}"
                raise BudgetError(text, exc.budget) from exc
            if shared and sizes[i]:
                shared.spend(sizes[i], written[i].budgeted_nbytes)
        for i, (_, members) in enumerate(tracked):
            leaving = written[i].leaving
            whole |= {c.name: c for c in members if c.name in leaving}
            self._note(written[i], [c for c in members if c.name not in leaving])
        return whole.values()

    def _by_bundle(
        self, chunks: Sequence[Chunk]
    ) -> tuple[list[tuple[Bundle, list[Chunk]]], dict[str, Chunk]]:
        """The bundles of the step before with their chunks, and the other chunks by name.

        Bundles without chunks are dropped: another rank has their chunks now. Of two bundles that
        hold a chunk, the newer one counts. A first moment is stored in one record with the second
        one beside it: if they are in two bundles, or one of them in none, both begin anew.
        """
        newest_first = self._before.bundles[::-1]
        homes = {c.name: next((b for b in newest_first if b.holds(c.spec)), None) for c in chunks}
        for chunk in chunks:
            second = second_of(chunk.name)
            if chunk.spec.measure == ROOTS and homes[chunk.name] is not homes[second]:
                homes[chunk.name] = homes[second] = None
        by_bundle = [
            (bundle, [c for c in chunks if homes[c.name] is bundle])
            for bundle in self._before.bundles
        ]
        tracked = [(bundle, members) for bundle, members in by_bundle if members]
        return tracked, {c.name: c for c in chunks if homes[c.name] is None}

    def _bases(self, chunks: Sequence[Chunk], planner: SavePlanner, reason: Reason) -> None:
        """Write bases of these chunks: either all lossy or all exact."""
        families: dict[str, list[Chunk]] = {}  # one moment is read by the other
        for chunk in chunks:
            families.setdefault(second_of(chunk.name) or chunk.name, []).append(chunk)
        sizes = ((pair, sum(c.spec.track_nbytes for c in pair)) for pair in families.values())
        for pairs in fit_records(sizes):
            group = [c for pair in pairs for c in pair]
            values = {c.name: value_of(c, planner) for c in group}
            specs = [c.spec for c in group]
            self._note(new_bundle(specs, values, self._settings, reason, self._put), group)

    def _note(self, written: WrittenBundle, chunks: Sequence[Chunk]) -> None:
        """Add a bundle with these chunks to the rank's part."""
        if not chunks:  # all of them have left
            return
        self.part.bundles.append(written)
        self.part.nbytes += written.nbytes
        item, nbytes = described(written.needs, self._step), written.nbytes
        for chunk in chunks:
            stored, index = {"of": item, "tensor": chunk.name}, chunk.item.index
            self.part.results.append(WriteResult(index, nbytes, stored))
            nbytes = 0  # the record's bytes count with its first chunk

    def _put(self, record: Record, data: bytes) -> RecordAt:
        at = write(self._step, self._rank, record, data)
        self.part.written.append(at)
        return at


def check_written(step: Step, results: list[list[WriteResult]]) -> None:
    """Raise WriteError unless the ranks' records exist, and the steps that they build on.

    Raises ChainError if nobody answers.
    """
    needs = [read_item(result.storage_data, step)[0] for part in results for result in part]
    if removed := removed_among(step.run, {at.step for records in needs for at in records}):
        raise WriteError(
            f"{step}: builds on {removed[0]}, which was removed meanwhile; wait for a save before "
            "you remove steps, and keep what codec.dcp.needed names"
        )
    newest = {records[-1].name for records in needs}
    if step.run.all_exist(newest):
        return
    missing = sorted(name for name in newest if not step.run.all_exist([name]))
    raise WriteError(
        f"{step}: {missing[0]} was removed before the step was whole ({len(missing)} of this "
        "save's records are missing); is another job saving to this directory? Give each job "
        "its own directory"
    )


def read_item(item: Any, step: Step) -> tuple[tuple[RecordAt, ...], str]:
    """Where a chunk is, by its item in DCP's metadata.

    Returns:
        The records from a base to the newest, which hold the chunk, and its name there.

    Raises:
        SourceError: No ChainWriter wrote the item.
    """
    try:
        needs, tensor = records_in(item["of"], step), item["tensor"]
        if not isinstance(tensor, str):
            raise TypeError("an invalid name")
    except (TypeError, KeyError, ValueError) as exc:
        raise SourceError(
            f"{step}: was not written by a ChainWriter; load it with DCP's own reader"
        ) from exc
    return needs, tensor
