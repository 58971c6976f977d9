"""Checks a whole chain: every record is read and replayed.

Not done here: reading and replaying (chain, replay).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codec.errors import ChainError, RecordError, VanishedError
from codec.record import record as records

from .replay import Replay, lost_before

if TYPE_CHECKING:
    from .chain import Chain


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
        VanishedError: A record was removed meanwhile.
    """
    steps: set[int] = set()
    identities: set[str | None] = set()
    problems = []
    replay, failed = Replay(), False
    newest = next((e for e in reversed(chain.entries) if e.kind == "base"), None)
    chain.get_ready(chain.entries)
    for done, entry in enumerate(chain.entries, 1):
        try:
            record = chain.read(entry, thoroughly=True)
            before = replay.step
            replay.advance(entry, record)
            replay.check_values(entry.name)
            steps.add(entry.step)
            if entry == newest and not failed:
                lost = lost_before(entry.name, record.parent, identities)
                if lost:
                    problems.append(f"{lost}; steps between {before} and {entry.step} may be lost")
            failed = False
            identities.add(record.identity)
        except VanishedError:
            raise
        except (RecordError, ChainError) as exc:
            problems.append(str(exc))
            failed = True
        if progress:
            progress(done, len(chain.entries))
    if replay.track is not None:
        try:
            records.check_whole(chain.where, replay.track)
        except RecordError as exc:
            problems.append(str(exc))
    return Report(tuple(sorted(steps)), tuple(problems), chain.nbytes)
