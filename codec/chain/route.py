"""Chooses the next record on the way to a step, by the names of files alone.

Not done here: reading the records, and what happens when one is damaged (chain).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set

from codec.storage.source import Entry

NONE: Set[Entry] = frozenset()


def next_entry(
    entries: Sequence[Entry], at: int, step: int | None, bad: Set[Entry] = NONE
) -> Entry | None:
    """The record to apply next.

    Args:
        entries: Sorted by their first step.
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
    entries: Sequence[Entry], at: int, step: int | None, bad: Set[Entry] = NONE
) -> Iterator[Entry]:
    """The records to apply one after another, if none is damaged. See `next_entry`."""
    while (entry := next_entry(entries, at, step, bad)) is not None:
        yield entry
        at = entry.step


def record_to_leave_out(
    entries: Sequence[Entry], entry: Entry | None, stuck: Entry | None, bad: Set[Entry]
) -> Entry | None:
    """The record to leave out to find another way to a step; None if there is no other way.

    Args:
        entries: Sorted by their first step.
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
