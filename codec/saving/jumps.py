"""Writes jumps beside the records of a chain: see `codec.record.jump`.

    saves     0  1  2  …  8  …  16  …  32  …  64  …  96
    jumps     0 ───────▶  8 ──▶ 16 ──▶ …
              0 ────────────────────────────▶ 64
                                       32 ──────────▶ 96

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

# Length -> how many saves lie between the beginnings of two jumps. Long jumps overlap, so that
# there is one between any two steps that are 95 saves apart.
EVERY = {8: 8, 64: 32}
WORTH = 0.5  # of the bytes of the records that it leads over; a larger jump is not written

_log = logging.getLogger(__name__)


@dataclass
class _Begin:
    """Where jumps of a length begin. n and nbytes: of the records since."""

    length: int
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
        self._begins: list[_Begin] = []
        self._n = 0  # records since the layout has changed last

    def add(self, record: Record, tracker: Tracker) -> None:
        """Take the newest record, and the track after it. May write jumps."""
        track = tracker.track
        if self._begins and self._begins[0].track.layout != track.layout:
            self._begins, self._n = [], 0
        for begin in self._begins:
            begin.n += 1
            begin.nbytes += record.nbytes
            if begin.n == begin.length:
                self._write(begin, record, track, tracker.coding)
        self._begins = [begin for begin in self._begins if begin.n < begin.length]
        lengths = [length for length, every in EVERY.items() if self._n % every == 0]
        self._n += 1
        if lengths:
            try:
                copied = track.copy()
            except MemoryError:
                _log.warning("step %d: no memory for the beginning of a jump", record.step)
                return
            self._begins += (_Begin(n, record.step, record.identity, copied) for n in lengths)

    def _write(self, begin: _Begin, record: Record, track: Track, coding: Coding) -> None:
        """Write a jump if it is worth its bytes."""
        name = record_name(record.step, "jump", begin.step)
        place = Place(record.step, None, begin.identity, record.identity, begin.step)
        try:
            data = dump_jump(place, begin.track, track, coding, record.rest)
            if len(data) <= WORTH * begin.nbytes:
                check_jump(data, name, begin.track, track)
                self._store.publish(name, data)
        except (LccError, MemoryError) as exc:
            _log.warning("%s is left out: %s", name, str(exc) or "out of memory")
