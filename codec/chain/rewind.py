"""Rewinds a chain to an earlier step, and keeps the old chain in a directory inside.

A training that resumes from its own checkpoint often begins before the chain's newest record. It
repeats the later steps, perhaps with other results, and one chain cannot hold both. Records never
change, so a hard link to each of them, or in an object store a copy, keeps the old chain:

    run.lcc/
      00000000.base.safetensors
      00000500.delta.safetensors
      until-730.lcc/                  all records up to step 730; on disk only those after 500
                                      take space

Not done here: the call before a training goes on (trainers.run), the track of the shorter chain
(saving.recorder).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codec.errors import ChainNotFoundError, RewoundWarning, warn
from codec.storage.entry import Entry
from codec.storage.location import Location

from .chain import Chain


def rewind(
    path: str | os.PathLike[str] | Location,
    step: int | None,
    *,
    takes_over: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Path | str | None:
    """Let a chain end at ``step``, and keep the old chain in a new directory.

    After any error, every step restores from one of the two chains.

    Args:
        path: The chain's directory or URL; nobody else may write there.
        step: The new end. If the chain does not have this step, it ends at the newest step before;
            None removes all steps.
        takes_over: Take the chain over from an earlier writer of an object store, as
            Checkpointer's ``resume=True`` does.
        storage_options: As for `Checkpointer`.

    Returns:
        The place of the old chain, with RewoundWarning; None if nothing comes after the step.

    Raises:
        SettingsError: The place can only be read.
        LockedError: Another writer is at work.
        WriteError: The disk or store refuses.
    """
    place = path if isinstance(path, Location) else Location(path, storage_options)
    if not _after(place, step)[1]:  # nothing is locked or taken over for it
        return None
    with place.store(takes_over=takes_over) as store:
        entries, after = _after(place, step)
        if not after:
            return None
        newest = max(e.step for e in entries)
        # Shared oldest first, removed newest first: stopped anywhere, both chains restore.
        by_step = sorted(entries, key=lambda e: e.step)
        old_chain = store.share((e.name for e in by_step), f"until-{newest}")
        store.remove(e.name for e in sorted(after, key=lambda e: -e.step))
    then = "begins again" if step is None else f"goes on from step {step}"
    warn(f"{place}: {then} and was at {newest}; the old chain is {old_chain}", RewoundWarning)
    return old_chain


def _after(place: Location, step: int | None) -> tuple[tuple[Entry, ...], list[Entry]]:
    """All records, and those after a step; none if there is no chain."""
    try:
        entries = Chain(place).entries
    except ChainNotFoundError:
        return (), []
    return entries, [e for e in entries if step is None or e.step > step]
