"""A chain goes back to an earlier step, and what it was until then stays as a chain of its own.

A training that is resumed from a checkpoint of its own begins where that was made, which is often
before the newest record. Its steps come once more, and what they lead to may differ, so that one
chain cannot hold both. Records never change, so a second name each is enough to keep them:

    run.lcc/
      00000000.base.safetensors
      00000500.delta.safetensors
      until-730.lcc/                  all records up to step 730, in no room but for those after 500

Not done here: when to go back (trainers.run), bringing the track to what is left (recorder).
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
    """Let a chain end at ``step``, or at the newest one before that it has; None: before the first.

    path: the chain's directory; nobody else may write there. Returns where the chain as it was is
    now, with RewoundWarning; None if nothing comes after the step. A merged record that goes past
    the step goes as a whole, and the chain then ends before it.

    Raises SettingsError for what is no local path, LockedError, WriteError; whatever happens,
    every step restores from one of the two.
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
        # Rising, so that wherever it stops, what is there restores; then from the end, likewise.
        directory.share((e.name for e in sorted(entries, key=lambda e: e.step)), kept)
        directory.remove(e.name for e in sorted(after, key=lambda e: -e.step))
    then = "begins anew" if step is None else f"goes on from step {step}"
    warn(
        f"{path}: {then} and was at {newest}; what it was until then is {kept}",
        RewoundWarning,
    )
    return kept


def _free(path: Path, name: str) -> Path:
    """A directory that is not there yet."""
    ways = (f"{name}{'' if i == 1 else f'-{i}'}.lcc" for i in itertools.count(1))
    return next(place for way in ways if not (place := path / way).exists())
