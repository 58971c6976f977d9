"""Chooses the records on the way to a step, by the names and sizes of files alone.

Not done here: reading the records, and what happens when one is damaged (chain).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence, Set
from heapq import heappop, heappush

from codec.storage.source import Entry

NONE: Set[Entry] = frozenset()
A_RECORD = 2**15  # the cost of asking for a record, in bytes that are read in that time


def next_entry(
    entries: Sequence[Entry], at: int, step: int | None, bad: Set[Entry] = NONE
) -> Entry | None:
    """The record to apply next.

    Args:
        entries: Sorted by their first step, without jumps.
        at: The step of the track.
        step: The step to reach; None for as far as possible.
        bad: Records to leave out.

    Returns:
        A delta or merged record; None if there is none up to ``step``.
    """
    for i in range(bisect_right(entries, at, key=lambda e: e.first), len(entries)):
        entry = entries[i]
        if step is not None and entry.first > step:
            break
        if entry.kind != "base" and entry not in bad:
            return entry
    return None


def following(
    entries: Sequence[Entry],
    jumps: Sequence[Entry],
    at: int,
    step: int | None,
    bad: Set[Entry] = NONE,
) -> list[Entry]:
    """The records to apply one after another, of the fewest bytes.

    If none lead to the step, those that lead furthest. Only a jump may lead past a base, since the
    records after a base build on it.

    Args:
        entries: Sorted by their first step, without jumps.
        jumps: The jumps.
        at: The step of the track.
        step: The step to reach; None for as far as possible.
        bad: Records to leave out. Bases among them are as if they were not there.
    """
    bases = [e.step for e in entries if e.kind == "base" and e not in bad]
    by_begin: dict[int, list[Entry]] = {}
    for jump in jumps:
        if jump not in bad and (step is None or jump.step <= step):
            by_begin.setdefault(jump.first, []).append(jump)

    def edges(place: int) -> Iterator[Entry]:
        entry = next_entry(entries, place, step, bad)
        if entry is not None and bisect_right(bases, place) == bisect_left(bases, entry.first):
            yield entry
        yield from by_begin.get(place, ())

    # Dijkstra's algorithm: steps are nodes, records lead from one to another.
    arrived_by: dict[int, tuple[int, Entry]] = {}
    costs, done, queue = {at: 0}, set[int](), [(0, at)]
    while queue:
        cost_here, place = heappop(queue)
        if place in done:
            continue
        done.add(place)
        for entry in edges(place):
            cost_there = cost_here + cost([entry])
            if entry.step not in costs or cost_there < costs[entry.step]:
                costs[entry.step], arrived_by[entry.step] = cost_there, (place, entry)
                heappush(queue, (cost_there, entry.step))
    way: list[Entry] = []
    place = max(done)
    while place != at:
        place, entry = arrived_by[place]
        way.append(entry)
    return way[::-1]


def cost(way: Sequence[Entry]) -> int:
    """Bytes that stand for the time to read these records."""
    return sum(entry.nbytes + A_RECORD for entry in way)


def record_to_leave_out(
    entries: Sequence[Entry], entry: Entry | None, stuck: Entry | None, bad: Set[Entry]
) -> Entry | None:
    """The record to leave out to find another way to a step; None if there is no other way.

    Args:
        entries: Sorted by their first step, without jumps.
        entry: The record that failed.
        stuck: The last record applied, if no usable record follows it.
        bad: Records that are left out already.
    """
    usable = [e for e in entries if e not in bad and e != entry and e.kind != "base"]
    if stuck and any(e.first <= stuck.step < e.step for e in usable):
        return stuck  # a record that overlaps it goes further
    if entry and any(e.first <= entry.step and e.step >= entry.first for e in usable):
        return entry
    return None
