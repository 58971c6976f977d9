"""Takes a chain back to an earlier step, and keeps the old chain in a directory inside.

A training that resumes from its own checkpoint often begins before the chain's newest record. It
repeats the later steps, perhaps with other results, and one chain cannot hold both. Records never
change, so a hard link to each of them keeps the old chain:

    run.lcc/
      00000000.base.safetensors
      00000500.delta.safetensors
      until-730.lcc/                  all records up to step 730; those after 500 take disk space

Not done here: the call before a training goes on (trainers.run), the track of the shorter chain
(saving.recorder).
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
    """Let a chain end at ``step``, and keep the old chain in a new directory.

    After any error, every step restores from one of the two chains.

    Args:
        path: The chain's directory; nobody else may write there.
        step: The new end. If the chain does not have this step, it ends at the newest step before;
            None removes all steps. A merged record that goes past the step is removed as a whole.

    Returns:
        The directory of the old chain, with RewoundWarning; None if nothing comes after the step.

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
        old_chain = _free(path, f"until-{newest}")
        # Linked from the first, removed from the last: all that is there restores at any time.
        directory.share((e.name for e in sorted(entries, key=lambda e: e.step)), old_chain)
        directory.remove(e.name for e in sorted(after, key=lambda e: -e.step))
    then = "begins again" if step is None else f"goes on from step {step}"
    warn(f"{path}: {then} and was at {newest}; the old chain is {old_chain}", RewoundWarning)
    return old_chain


def _free(path: Path, name: str) -> Path:
    """The path of a new directory."""
    names = (f"{name}{'' if i == 1 else f'-{i}'}.lcc" for i in itertools.count(1))
    return next(place for name in names if not (place := path / name).exists())
