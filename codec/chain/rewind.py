"""Takes a chain back to an earlier step, and keeps what it was as a chain of its own.

A training that resumes from its own checkpoint often begins before the chain's newest record. It
repeats the steps after that, perhaps with other results, and one chain cannot hold both. Records
never change, so a second name for each keeps the old chain:

    run.lcc/
      00000000.base.safetensors
      00000500.delta.safetensors
      until-730.lcc/                  all records up to step 730; only those after 500 take room

Not done here: when to go back (trainers.run), the track of what is left (saving.recorder).
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from codec.errors import ChainNotFoundError, RewoundWarning, warn
from codec.storage.directory import Directory
from codec.storage.location import local_path

from .chain import Chain


def rewind(path: str | os.PathLike[str], step: int | None) -> Path | None:
    """Let a chain end at ``step``, and keep what it was in a directory of its own.

    After any error, every step restores from one of the two.

    Args:
        path: The chain's directory; nobody else may write there.
        step: The new end. If the chain does not have this step, it ends at the newest one before
            it; None removes all steps. A merged record that goes past the step goes as a whole.

    Returns:
        The directory of the chain as it was, with RewoundWarning; None if nothing comes after the
        step.

    Raises:
        SettingsError: The path is not local.
        LockedError: Another writer is at work.
        WriteError: The disk refuses.
    """
    path = local_path(path)
    try:
        Chain(path)
    except ChainNotFoundError:
        return None
    with Directory(path) as directory:
        entries = Chain(path).entries
        after = [e for e in entries if step is None or e.step > step]
        if not after:
            return None
        newest = max(e.step for e in after)
        kept = _free(path, f"until-{newest}")
        # Rising, then from the end: if this stops anywhere, what is there restores.
        directory.share((e.name for e in sorted(entries, key=lambda e: e.step)), kept)
        directory.remove(e.name for e in sorted(after, key=lambda e: -e.step))
    then = "begins anew" if step is None else f"goes on from step {step}"
    warn(f"{path}: {then} and was at {newest}; what it was until then is {kept}", RewoundWarning)
    return kept


def _free(path: Path, name: str) -> Path:
    """A directory that is not there yet."""
    ways = (f"{name}{'' if i == 1 else f'-{i}'}.lcc" for i in itertools.count(1))
    return next(place for way in ways if not (place := path / way).exists())
