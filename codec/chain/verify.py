"""Checks a whole chain: every record is read and replayed.

Not done here: reading and replaying (chain, replay).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from codec.errors import ChainError, MalformedRecordError, RecordError, VanishedError
from codec.record import record as records
from codec.record.jump import has_tables
from codec.record.merged import steps_of
from codec.record.record import Record
from codec.storage.source import Entry

from .replay import Position, Replay

if TYPE_CHECKING:
    from .chain import Chain

MOST_BEGINS = 8  # copies of tracks at a time, to check jumps from them; a writer needs 3


@dataclass(frozen=True)
class Report:
    """What `verify` found.

    Attributes:
        steps: The steps that restore.
        problems: Everything that is wrong, each as one sentence.
        nbytes: Bytes of all records.
    """

    steps: tuple[int, ...]
    problems: tuple[str, ...]
    nbytes: int

    @property
    def ok(self) -> bool:
        """True if every record is intact and restores."""
        return not self.problems


def verify_chain(chain: Chain, progress: Callable[[int, int], None] | None = None) -> Report:
    """Read and replay every record, see `codec.verify`.

    Raises:
        VanishedError: A record was merged or removed meanwhile.
    """
    steps: set[int] = set()
    around: set[int] = set()  # steps of records that fail, to which a jump may lead
    overlapping: set[int] = set()  # steps of records whose steps the replay has passed
    identities: set[str | None] = set()
    problems = []
    replay, failed, jumps = Replay(), False, _Jumps(chain)
    chain.expect(chain.entries)
    for done, entry in enumerate(chain.entries, 1):
        try:
            record = chain.read(entry, thoroughly=True)
            if replay.is_past(entry):
                overlapping.update(steps_of(record) if entry.kind == "merged" else [entry.step])
            else:
                before = replay.step
                for position in replay.advance(entry, record, all_steps=True):
                    replay.check_values(entry.name)
                    steps.add(position.step)
                    problems += jumps.problems_at(position)
                if not failed and _lacks_steps(chain, entry, record, identities):
                    problems.append(
                        f"{entry.name}: the record before it, digest {record.parent}, is "
                        f"missing; steps between {before} and {entry.step} may be lost"
                    )
                failed = False
            identities.add(record.identity)
        except VanishedError:
            raise
        except (RecordError, ChainError) as exc:
            problems.append(str(exc))
            failed = True
            if chain.usable_jumps:
                around.add(entry.step)
        if progress:
            progress(done, len(chain.entries))
    if replay.track is not None:
        try:
            records.check_whole(chain.where, replay.track)
        except RecordError as exc:
            problems.append(str(exc))
    for step in sorted(overlapping - steps):
        try:
            chain.at(step)
            steps.add(step)
        except VanishedError:
            raise
        except (RecordError, ChainError) as exc:
            problems.append(str(exc))
    for step in sorted(around - steps):
        try:
            chain.at(step)
            steps.add(step)
        except VanishedError:
            raise
        except (RecordError, ChainError):
            pass  # it is among the problems
    return Report(tuple(sorted(steps)), tuple(problems), chain.nbytes)


class _Jumps:
    """Checks the jumps of a chain beside its replay.

    If more than MOST_BEGINS would be under way at a time, the later ones are not checked: a restore
    compares where they lead.
    """

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._begins: dict[int, Position] = {}  # step -> a copy of the track there

    def problems_at(self, position: Position) -> list[str]:
        """What is wrong with the jumps that end here. Raises VanishedError."""
        if position.step != position.record.step:  # in a merged record: no jump is used there
            return []
        problems, step, jumps = [], position.step, self._chain.usable_jumps
        for entry in jumps:
            if entry.step == step and entry.first in self._begins:
                try:
                    self._check(entry, position)
                except VanishedError:
                    raise
                except (RecordError, ChainError) as exc:
                    problems.append(str(exc))
        needed = {e.first for e in jumps if e.step > step}
        self._begins = {begin: p for begin, p in self._begins.items() if begin in needed}
        if step in needed and len(self._begins) < MOST_BEGINS:
            self._begins[step] = replace(position, track=position.track.copy())
        return problems

    def _check(self, entry: Entry, position: Position) -> None:
        """Raises RecordError, ChainError."""
        record, begin = self._chain.read_jump(entry), self._begins[entry.first]
        replay = Replay.at(replace(begin, track=begin.track.copy()))
        for _ in replay.advance(entry, record):
            replay.check_values(entry.name)
        assert replay.track is not None, "advanced or failed"
        if not has_tables(replay.track.tables, position.track.tables):
            expected = f"the code tables of step {position.step}"
            raise MalformedRecordError(entry.name, expected, "others")


def _lacks_steps(chain: Chain, entry: Entry, record: Record, identities: set[str | None]) -> bool:
    """Whether this record is the newest base and records are missing before it.

    Before older bases an interrupted compaction may have removed some. identities: those of the
    records before this one.
    """
    if not identities or entry.kind != "base" or record.parent is None:
        return False
    if identities & {record.parent, record.replaces}:
        return False
    return all(e.kind != "base" or e.step <= entry.step for e in chain.entries)
