"""DCP's storage writer: chunks are delta-coded against tracks, one directory a step.

A step is whole once it has its `.metadata`, which DCP writes last, after all ranks have written
their part. The next save looks for it, and only then advances a rank's tracks. So a rank that fails
or is killed costs only this step.

Not done here: how a plan becomes records (rank_writer), reading (reader), which steps stay
(retention).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Concatenate, NoReturn

from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.metadata import STATE_DICT_TYPE, Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from codec.errors import ChainError, SettingsError, StepOrderError, WriteError
from codec.record.reason import Reason
from codec.record.settings import ChainSettings, Overrides
from codec.saving.history import History
from codec.scheme.coding import UNSET
from codec.scheme.warmup import load_beside
from codec.storage.directory import write_errors
from codec.storage.folder import Folder

from .chunks import Rules, copy_with_ties
from .current_save import CurrentSave, P, R
from .files import METADATA, Step, StepFiles, is_name, is_record, is_temporary, step_at
from .plans import naming_pairs, with_pairs
from .rank_writer import RankSave, RankState, RankWriter, check_written
from .reader import resume_from
from .retention import Retention

_log = logging.getLogger(__name__)

BASE_EVERY = 50  # deltas of a bundle that a restore reads at most, besides its base


def _stage_of_save(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make a method a stage of a save, see current_save: it may raise LockedError, and ChainError
    for an error of the disk."""

    @functools.wraps(method)
    def run(writer: ChainWriter, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return writer._current.run(method, writer, *args, **kwargs)
        except OSError as exc:
            raise ChainError(f"{writer._step}: cannot be read or listed: {exc}") from exc

    return run


class ChainWriter(FileSystemWriter):
    """For `dcp.save` and `dcp.async_save`: one object for the whole training, on each rank.

    Steps are directories beside each other. A save elsewhere writes bases, with one UserWarning. A
    save raises, wrapped by DCP: StepOrderError if the directory holds a whole checkpoint,
    BudgetError, DTypeError, StateMismatchError, WriteError, ChainError if the store behind a URL
    does not answer, and RecordError or ChainError if the step to resume from cannot be read.

    The settings from bits to distance are those of `Coding`. Without any target the distance is
    0.3, the scope is "tensor", the coder "runlength". With ``resume``, these and the policy are
    those of the step to go on from, unless they are given; the log says what differs, and with
    another policy the first save holds bases. What is exact in that step becomes lossy only if a
    pattern that is given says so; else a save raises SettingsError. An alphabet belongs to one
    chunk, or with scope "model" to a rank's record. A budget limits each rank's deltas of a save,
    headers included: it is a share of the float32 size of the lossy chunks that get a delta. Bases
    and an optimizer's moments are not counted.

    Args:
        path: The step's directory, as for `FileSystemWriter`; a save's checkpoint_id overrides it.
        policy: Pattern of fully qualified names, "model.head.*", with dots where a chain has / ->
            "lossy", "exact" or a target, see `Rules`. The first save refuses a pattern that matches
            nothing on any rank, unless its mode ends in "?" ("exact?"). Without ``resume`` it logs
            that an optimizer's moments are lossy.
        base_every: Saves with deltas between two that need no other directory; None: no limit. The
            default is 50, or ``keep_steps`` if that is less.
        keep_steps: How many of the newest whole steps stay. The coordinator removes earlier steps
            of this training on which none of these builds; None removes nothing. At most keep_steps
            + base_every directories exist; by default that is at most twice ``keep_steps``. Steps
            saved by an earlier process count if ``resume`` names one of them and they were saved
            with ``keep_steps`` too. Other files stay.
        resume: Directory of the step to go on from. Tracks are rebuilt from it for the chunks that
            this rank still has. Without it, or if another version wrote that step, the first save
            of a process is a base.
        storage_options: For the filesystem of URLs, see `codec.Chain`.

    Raises:
        SettingsError: A setting is out of range.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        bits: int | None = UNSET,
        scope: str | None = None,
        coder: str | None = None,
        *,
        budget: float | None = None,
        tolerance: float | None = None,
        quantizer: str | None = None,
        distance: float | None = None,
        policy: Mapping[str, str] | None = None,
        base_every: int | None = UNSET,
        keep_steps: int | None = None,
        resume: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._retention = None if keep_steps is None else Retention(keep_steps)
        if base_every is UNSET:  # with keep_steps, about twice as many directories stay
            base_every = BASE_EVERY if keep_steps is None else min(keep_steps, BASE_EVERY)
        History(base_every)
        if keep_steps is not None and base_every is None:
            raise SettingsError(
                "base_every=None makes no base after the first, which every step then builds on; "
                f"give a number of steps with keep_steps={keep_steps}"
            )
        self._overrides = Overrides(
            bits, scope, coder, budget, tolerance, quantizer, distance, policy
        )
        self._settings = self._overrides.over(ChainSettings.default("tensor"))
        self._rules = Rules(policy, has_logged_moments=resume is not None)
        self._base_every = base_every
        self._options = storage_options
        self._resume = None if resume is None else step_at(resume, storage_options)
        self._state = RankState()
        # The step of the newest save, and this rank's part of it, which is not committed.
        self._pending: tuple[Step | None, RankSave] = (None, RankSave())
        self._run: Folder | None = None  # the directory of the steps' directories
        self._warned = False
        self._current = CurrentSave()
        self._is_coordinator = False
        self._next = threading.local()  # `step`: where each thread's next save goes
        self._step: Step | None = None
        super().__init__("", sync_files=False, overwrite=False)  # see StepFiles
        load_beside()  # while the training computes its first iterations
        if path is not None:
            self._go_to(step_at(path, storage_options))

    def stage(self, state_dict: STATE_DICT_TYPE) -> STATE_DICT_TYPE:
        """Copy the state for `async_save`, after the state before is saved.

        Two saves at once would follow the same step. Raises LockedError if the save of the state
        before never began.
        """
        self._current.wait()
        copied: STATE_DICT_TYPE = copy_with_ties(state_dict, super().stage(state_dict), {})
        self._current.stage()
        return copied

    def storage_meta(self) -> StorageMeta | None:
        """Begin a save: DCP calls this first, and again when it finishes. Raises LockedError."""
        step = self._next.__dict__.pop("step", None)
        if not self._current.is_at_work():
            self._current.begin()
            if step is not None:
                self._current.run(self._go_to, step)
        return super().storage_meta()

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Set the directory of this thread's next save; another thread may be saving meanwhile.

        Raises SettingsError.
        """
        if checkpoint_id is not None:
            try:
                self._next.step = step_at(checkpoint_id, self._options)
            except SettingsError:
                self._current.drop()
                raise

    @_stage_of_save
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Set up a save. Raises SettingsError if it has no directory or no collectives."""
        if not kwargs.get("use_collectives", True):
            raise SettingsError(
                "use_collectives=False leaves a step whole on some ranks only; leave it out"
            )
        super().set_up_storage_writer(is_coordinator, *args, **kwargs)
        self._is_coordinator = is_coordinator
        if self._step is None:
            raise SettingsError("pass dcp.save a checkpoint_id, the step's directory")
        if not is_name(self._step.name):
            raise SettingsError(f"{self._step}: is not a valid name of a step's directory")

    @_stage_of_save
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the directory. Raises StepOrderError, WriteError, ChainError."""
        self._commit_if_whole()
        step = self._directory
        with write_errors(step, "cannot be written"):
            step.run.make(step.name)
        self._check_free(step)
        return naming_pairs(plan) if plan.usable else plan

    @_stage_of_save
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Check the policy, and remove the files of a failed save: no rank is writing yet.

        Puts moments of a parameter on one rank, see `plans`.

        Raises SettingsError for a pattern of the policy that matches nothing on any rank.
        """
        if all(plan.usable for plan in plans):  # else DCP has cached the items
            self._rules.check_matches(item.index.fqn for plan in plans for item in plan.items)
        step = self._directory
        if not step.run.is_remote:  # elsewhere they stay, as a listing takes too long
            for file in step.files():
                if is_record(file) or is_temporary(file):
                    self._withdraw(f"{step.name}/{file}")
        return with_pairs(plans)

    @_stage_of_save
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's records: each is checked first, and durable afterwards."""
        step = self._directory
        if step.run != self._run:
            self._enter_run(step)
        if self._resume is not None:
            if self._resume.run != self._run:
                raise SettingsError(
                    f"steps must lie beside each other: {step} cannot go on from {self._resume}, "
                    "which lies elsewhere"
                )
            self._state, self._settings = resume_from(self._resume, self._rank, self._overrides)
            chain = self._state.chain
            if self._is_coordinator and chain and (text := self._settings.differences(chain)):
                _log.warning("%s: goes on with %s", self._resume, text)
            if self._overrides.policy is None:
                patterns = self._settings.policy.given
                self._rules = Rules(patterns, has_logged_moments=True, is_checked=True)
            if self._retention and self._is_coordinator:
                self._retention.resume(self._resume)
            self._resume = None
        if not step.run.all_exist(at.name for at in self._state.needs()):
            # Records that the next delta would build on were removed, perhaps not those of all
            # ranks. `n` stays, so that all ranks write their next base at the same step.
            self._state = replace(self._state, bundles=[], reason=Reason.PARENT_GONE)
        if self._retention and self._is_coordinator:
            self._retention.begin(step)
        due = self._base_every is not None and self._state.n >= self._base_every
        before = self._state
        if due:
            before = replace(before, bundles=[], n=-1, reason=Reason.MANY_DELTAS)
        saving = RankWriter(step, self._rank, self._rules, self._settings, before)
        try:
            part = saving.run(plan, planner)
        except BaseException:
            for at in saving.part.written:
                self._withdraw(at.name)
            raise
        self._pending = step, part
        if not self._is_coordinator:  # DCP lets the coordinator finish
            self._current.end()
        future: Future[list[WriteResult]] = Future()
        future.set_result(part.results)
        return future

    @_stage_of_save
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write `.metadata` durably, which makes the step whole. Then remove earlier steps.

        Raises:
            WriteError: The disk refuses, or a record or an earlier step that this step needs was
                removed, for example by another job that saves into the same directory.
            StepOrderError: Another job has made the step whole.
        """
        step, retention = self._directory, self._retention if self._is_coordinator else None
        try:
            self._check_free(step)
            check_written(step, results)
            if retention:
                retention.list_earlier(step)
            self._write_metadata(metadata, results)
        except StepOrderError:
            if retention:
                retention.forget(step)
            raise
        if retention:
            retention.remove_old()
        self._current.end()

    def _write_metadata(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Make the step whole, durably. Raises StepOrderError, WriteError.

        After an error the step may be whole all the same: the next save looks.
        """
        step = self._directory
        try:
            super().finish(metadata, results)
        except (OSError, WriteError) as exc:
            self._withdraw(f"{step.name}/{METADATA}")
            raise WriteError(
                f"{step}: writing its {METADATA} failed: {exc}. If {METADATA} is there, the step "
                "is whole"
            ) from exc

    def _withdraw(self, name: str) -> None:
        """Remove a file of a failed save from a disk, if possible: it would be ignored.

        In a store it stays, where a removal may arrive after a later save.
        """
        run = self._directory.run
        if not run.is_remote:
            with contextlib.suppress(OSError):
                run.remove(name)

    def __reduce__(self) -> NoReturn:
        """Raise SettingsError: in another process the tracks would be lost."""
        self._current.drop()
        raise SettingsError(
            "a ChainWriter cannot be pickled: another process would not have its tracks; "
            "use dcp.async_save with AsyncCheckpointerType.THREAD"
        )

    def _go_to(self, step: Step) -> None:
        self._step = step
        self.fs, self.path = StepFiles(step), str(step)
        super().reset()

    def _enter_run(self, step: Step) -> None:
        """Go on in another directory of steps; deltas cannot build on records elsewhere."""
        had_bundles = bool(self._state.bundles)
        run, self._run = self._run, step.run
        self._state = RankState(reason=Reason.ELSEWHERE if had_bundles else Reason.FIRST)
        if had_bundles and not self._warned:
            self._warned = True
            warnings.warn(
                f"{step} does not lie beside the steps in {run}, so this save needs no other and "
                "is as large as a plain one. Deltas are between directories beside each other: "
                "for them save to run/step-10, run/step-20, not to run/step-10/dcp",
                stacklevel=2,
            )

    @property
    def _directory(self) -> Step:
        assert self._step is not None, "set_up_storage_writer has checked it"
        return self._step

    @property
    def _rank(self) -> int:
        return self.rank or 0

    def _check_free(self, step: Step) -> None:
        """Raise StepOrderError if a whole checkpoint is in this directory."""
        if step.has(METADATA):
            raise StepOrderError(
                f"{step}: holds a whole checkpoint, which is never overwritten; choose another "
                "checkpoint_id"
            )

    def _commit_if_whole(self) -> None:
        """Advance the tracks if the last save is whole, else forget it.

        If a file system shows `.metadata` late, the tracks stay, and the next delta starts from
        them. `.metadata` may also belong to a retry with a new writer, which has removed this
        writer's records. Raises ChainError if nobody answers.
        """
        step, part = self._pending
        if step is None:
            return
        # Another save may have made the step whole. Without an answer, the next save asks again.
        is_own = step.has(METADATA) and step.run.all_exist(at.name for at in part.written)
        self._pending = None, RankSave()
        if is_own:
            # If the commit is interrupted, the next save is a base.
            self._state = RankState(reason=Reason.INTERRUPTED)
            self._state = part.commit()
