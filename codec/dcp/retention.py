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
from collections.abc import Iterable

from codec.chain.upkeep import check_keep
from codec.errors import ChainError, SourceError
from codec.storage.directory import write_errors
from codec.storage.folder import Folder

from .files import METADATA, Step, is_name, is_record, is_temporary
from .reader import needed_names, numbered_steps, steps_in

EARLIER = ".earlier-steps.json"  # names of directories, oldest first
MAX_EARLIER = 2**20  # bytes

_log = logging.getLogger(__name__)


class Retention:
    """Removes old steps of one training. keep_steps: how many whole steps stay. Raises
    SettingsError."""

    def __init__(self, keep_steps: int) -> None:
        check_keep("keep_steps", keep_steps)
        self._keep_steps = keep_steps
        self._steps: list[Step] = []  # of this training, oldest first
        self._needs: dict[Step, tuple[object, frozenset[Step]]] = {}  # by their metadata's files

    def resume(self, step: Step) -> None:
        """Go on from a step of this training. Raises what `needed` raises."""
        earlier = _earlier(step)
        needs = map(step.beside, sorted(needed_names(step)))
        earlier += [other for other in needs if other not in earlier]
        steps = [other for other in earlier if other != step] + [step]
        self._steps = steps + [other for other in self._steps if other not in steps]

    def begin(self, step: Step) -> None:
        """Add the newest step."""
        self.forget(step)
        self._steps.append(step)

    def forget(self, step: Step) -> None:
        """Take a step off the list."""
        if step in self._steps:
            self._steps.remove(step)

    def list_earlier(self, step: Step) -> None:
        """Write what `resume` reads into a step's directory, durably. Raises WriteError."""
        others = [other for other in self._steps if other.run == step.run and other != step]
        with write_errors(f"{step}/{EARLIER}", "cannot be written"):
            data = json.dumps([other.name for other in others]).encode()
            step.run.put(f"{step.name}/{EARLIER}", data)

    def remove_old(self) -> None:
        """Remove steps that are no longer needed; failures are logged."""
        try:
            self._remove_superseded()
        except (ChainError, OSError) as exc:
            _log.warning("earlier steps stay: %s", exc)

    def _remove_superseded(self) -> list[Step]:
        """Remove steps that are no longer needed; returns them. Raises ChainError, OSError."""
        gone, broken = self._superseded()
        # Newest first, and metadata before records: whenever this is interrupted, each step that
        # has metadata is whole.
        for step in filter(lambda step: step.has(METADATA), reversed(broken)):
            step.run.remove_all(step.name, [METADATA])
        for step in gone:
            _remove(step)
            self.forget(step)
            self._needs.pop(step, None)
        return gone

    @classmethod
    def compact(cls, run: Folder, keep_steps: int) -> list[str]:
        """Remove the steps of a run that the newest ones do not need.

        Args:
            run: The run. Nobody may be saving into it.
            keep_steps: How many of the newest whole steps stay, by the last number in their names.
                Steps without a number, and those of other writers than ChainWriter stay too.

        Returns:
            The names of the removed steps.

        Raises:
            SettingsError: ``keep_steps`` is no number from 1 on.
            ChainError: Nobody answers, or the metadata of a step that stays cannot be read.
        """
        retention = cls(keep_steps)
        try:
            numbered = [step for step in numbered_steps(run) if step.has(METADATA)]
            retention._steps = [step for step in numbered if retention._needed(step)]
            gone = retention._remove_superseded() if retention._steps else []
        except OSError as exc:
            raise ChainError(f"{run}: cannot be read, or steps not removed: {exc}") from exc
        return [step.name for step in gone]

    def _superseded(self) -> tuple[list[Step], list[Step]]:
        """The steps to remove, and these with all that cannot be loaded without them; oldest first.

        Raises:
            ChainError: The metadata of a step that stays cannot be read.
            OSError: The disk fails.
        """
        run = self._steps[-1].run
        steps = [step for step in self._steps if step.run == run]
        whole = [i for i, step in enumerate(steps) if step.has(METADATA)]
        old = steps[: whole[-self._keep_steps]] if len(whole) >= self._keep_steps else []
        needed_steps = self._needs_of(steps[len(old) :]) if old else set()
        if needed_steps.issuperset(old):
            return [], []
        needed_steps |= self._needs_of(set(steps_in(run)) - set(steps))
        gone = [step for step in old if step not in needed_steps]
        return gone, [s for s in old if s in gone or not self._needs_of([s]).isdisjoint(gone)]

    def _needs_of(self, steps: Iterable[Step]) -> set[Step]:
        """The steps that these build on, and these themselves if they are whole."""
        return {other for step in steps for other in self._needed(step)}

    def _needed(self, step: Step) -> frozenset[Step]:
        """`needed`, cached; nothing if the step is not whole, or not saved by a ChainWriter."""
        if not step.has(METADATA):
            return frozenset()
        version = step.run.version(f"{step.name}/{METADATA}")
        cached = self._needs.get(step)
        if cached is None or cached[0] != version:
            try:
                needs = frozenset(map(step.beside, needed_names(step)))
            except SourceError:  # plain DCP's
                needs = frozenset()
            cached = self._needs[step] = version, needs
        return cached[1]


def _earlier(step: Step) -> list[Step]:
    """The steps that a step's directory lists; none if it was saved without `keep_steps`."""
    try:
        names = json.loads(step.run.read_whole(f"{step.name}/{EARLIER}")[:MAX_EARLIER])
    except (OSError, ValueError, RecursionError):  # without the list old steps stay: no harm
        return []
    return [step.beside(name) for name in names if is_name(name)] if type(names) is list else []


def _remove(step: Step) -> None:
    """Remove a ChainWriter's files from a step's directory, and the directory if it is empty.

    Raises OSError.
    """
    ours = [f for f in step.files() if f == EARLIER or is_record(f) or is_temporary(f)]
    step.run.remove_all(step.name, ours)
    step.run.remove_empty(step.name)
