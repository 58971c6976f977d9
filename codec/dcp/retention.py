"""Removes old steps. The newest whole steps stay, and those that they build on.

Steps are counted within one run, a directory of steps: a writer that moves to another run leaves
its earlier steps.

Only steps of the writer's own training are removed: those that it saved, the step that it resumed
from, and the steps before. Each step's directory lists them, in EARLIER. Other steps stay, with all
that they build on. If only some records of an old step are still needed, they stay without their
metadata. So each step with metadata can be loaded.

Not done here: when a newer step is whole (writer), what a step builds on (reader).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from codec.errors import ChainError, SettingsError, SourceError
from codec.storage.directory import TEMPORARY, fsync_directory, publish

from .files import is_name, is_of, marks
from .reader import needed

EARLIER = ".earlier-steps.json"  # names of directories, oldest first
MAX_EARLIER = 2**20  # bytes

_log = logging.getLogger(__name__)


class Retention:
    """Removes old steps of one training. keep: how many whole steps stay. Raises SettingsError."""

    def __init__(self, keep: int) -> None:
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise SettingsError(f"keep is a number of steps from 1 on, or None; got {keep!r}")
        self._keep = keep
        self._steps: list[Path] = []  # of this training, oldest first
        self._needs: dict[Path, tuple[object, frozenset[Path]]] = {}  # by their metadata's files

    def resume(self, step: Path) -> None:
        """Go on from a step of this training. Raises what `needed` raises."""
        earlier = _earlier(step)
        earlier += [path for path in needed(step) if path not in earlier]
        steps = [path for path in earlier if path != step] + [step]
        self._steps = steps + [path for path in self._steps if path not in steps]

    def begin(self, step: Path) -> None:
        """Add the newest step."""
        self.forget(step)
        self._steps.append(step)

    def forget(self, step: Path) -> None:
        """Take a step off the list."""
        if step in self._steps:
            self._steps.remove(step)

    def list_earlier(self, step: Path) -> None:
        """Write what `resume` reads into a step's directory, durably. Raises WriteError."""
        names = [path.name for path in self._steps if path.parent == step.parent and path != step]
        data = json.dumps(names).encode()
        publish(step / EARLIER, lambda file: file.write(data), overwrite=True)

    def remove_old(self, ranks: int) -> None:
        """Remove steps that are no longer needed; failures are logged.

        ranks: How many ranks save, for steps where each rank writes its own metadata.
        """
        try:
            gone, broken = self._superseded(ranks)
            # Newest first, and metadata before records: whenever this is interrupted, each step
            # that has metadata is whole.
            for step in reversed(broken):
                _unmark(step)
            for step in gone:
                _remove(step)
                self.forget(step)
                self._needs.pop(step, None)
        except (ChainError, OSError) as exc:
            _log.warning("earlier steps stay: %s", exc)

    def _superseded(self, ranks: int) -> tuple[list[Path], list[Path]]:
        """The steps to remove, and these with all that cannot be loaded without them; oldest first.

        Raises:
            ChainError: The metadata of a step that stays cannot be read.
            OSError: The disk fails.
        """
        steps = [step for step in self._steps if step.parent == self._steps[-1].parent]
        whole = [step for step in steps if _is_whole(step, ranks)]
        if len(whole) < self._keep:
            return [], []
        oldest = steps.index(whole[-self._keep])
        old, newest = steps[:oldest], steps[oldest:]
        needed_steps = self._needs_of(newest)
        if needed_steps.issuperset(old):
            return [], []
        needed_steps |= self._needs_of({*_directories(old[0].parent)} - set(steps))
        gone = [step for step in old if step not in needed_steps]
        return gone, [s for s in old if s in gone or not self._needs_of([s]).isdisjoint(gone)]

    def _needs_of(self, steps: Iterable[Path]) -> set[Path]:
        """The steps that these build on, and these themselves if they are whole."""
        return {path for step in steps for path in self._needed(step)}

    def _needed(self, step: Path) -> frozenset[Path]:
        """`needed`, cached; nothing if the step is not whole, or not saved by a ChainWriter."""
        files = [(mark.name, (s := mark.stat()).st_ino, s.st_mtime_ns) for mark in marks(step)]
        if not files:
            return frozenset()
        cached = self._needs.get(step)
        if cached is None or cached[0] != files:
            try:
                needs = frozenset(needed(step))
            except SourceError:  # plain DCP's
                needs = frozenset()
            cached = self._needs[step] = files, needs
        return cached[1]


def _is_whole(step: Path, ranks: int) -> bool:
    """Whether all ranks can load a step."""
    names = {mark.name for mark in marks(step)}
    return ".metadata" in names or names >= {f"__{rank}.metadata" for rank in range(ranks)}


def _directories(run: Path) -> list[Path]:
    return [path for path in run.iterdir() if path.is_dir()]


def _earlier(step: Path) -> list[Path]:
    """The steps that a step's directory lists; none if it was saved without `keep`."""
    try:
        with open(step / EARLIER, "rb") as file:
            names = json.loads(file.read(MAX_EARLIER))
    except (OSError, ValueError, RecursionError):  # without the list old steps stay: no harm
        return []
    return [step.parent / name for name in names if is_name(name)] if type(names) is list else []


def _unmark(step: Path) -> None:
    """Remove the files that say a step is whole, durably. Raises OSError."""
    if files := marks(step):
        for mark in files:
            mark.unlink(missing_ok=True)
        fsync_directory(step)


def _remove(step: Path) -> None:
    """Remove a ChainWriter's files from a step's directory, and the directory if it is empty.

    Raises OSError.
    """
    if not step.is_dir():
        return
    for path in list(step.iterdir()):
        is_note = path.name == EARLIER or path.name.endswith(".metadata.tmp")
        if is_note or is_of(path.name, None) or path.name.startswith(TEMPORARY):
            path.unlink(missing_ok=True)
    if not any(step.iterdir()):
        os.rmdir(step)
