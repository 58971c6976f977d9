"""Writes jumps beside the records of a chain: see `codec.record.jump`.

    saves     0  1  2  …  8  …  16  …  64
    jumps     0 ───────▶  8 ──▶ 16
              0 ─────────────────────▶ 64

A jump is read again and compared before it is written. The chain is whole without it, so a jump
that cannot be written is left out.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from codec.errors import LccError
from codec.record.jump import check_jump, dump_jump
from codec.record.record import Place, Record
from codec.scheme.coding import Coding
from codec.scheme.track import Track
from codec.scheme.tracker import Tracker
from codec.storage.directory import Store
from codec.storage.source import record_name

LENGTHS = (8, 64)  # saves that a jump leads over
WORTH = 0.5  # of the bytes of the records that it leads over; a larger jump is not written

_log = logging.getLogger(__name__)


@dataclass
class _Begin:
    """Where a jump may begin. n and nbytes: of the records since."""

    step: int
    identity: str
    track: Track
    n: int = 0
    nbytes: int = 0


class Jumps:
    """Collects the records of a chain, and writes the jumps that are due.

    store: where the chain is written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._begins: dict[int, _Begin] = {}  # by length

    def add(self, record: Record, tracker: Tracker) -> None:
        """Take the newest record, and the track after it. May write a jump."""
        track = tracker.track
        copied: Track | None = None
        for length in LENGTHS:
            begin = self._begins.get(length)
            if begin is not None and begin.track.layout == track.layout:
                begin.n += 1
                begin.nbytes += record.nbytes
                if begin.n < length:
                    continue
                self._write(begin, record, track, tracker.coding)
            copied = copied or track.copy()
            self._begins[length] = _Begin(record.step, record.identity, copied)

    def _write(self, begin: _Begin, record: Record, track: Track, coding: Coding) -> None:
        """Write a jump if it is worth its bytes."""
        name = record_name(record.step, "jump", begin.step)
        place = Place(record.step, None, begin.identity, record.identity, begin.step)
        try:
            data = dump_jump(place, begin.track, track, coding, record.rest)
            if len(data) <= WORTH * begin.nbytes:
                check_jump(data, name, begin.track, track)
                self._store.publish(name, data)
        except LccError as exc:
            _log.warning("%s is left out: %s", name, exc)
