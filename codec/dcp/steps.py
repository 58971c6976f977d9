"""A saved step as a whole, without a state to fill: its records, a check of them, its state.

Read only steps of people you trust: reading unpickles `.metadata`, which DCP wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from codec.caps import names_of
from codec.chain.chain import Chain
from codec.errors import ChainError, LccError, RecordError
from codec.storage.folder import Folder

from .files import METADATA, RecordAt, Step, chain_of, check_newest, is_record
from .rank_writer import read_item
from .reader import metadata_of, numbered_steps, reader_of, steps_in


@dataclass(frozen=True)
class StepRecord:
    """The newest record of some chunks of a step.

    Attributes:
        needs: The records from a base to this one. It lies in the step, or in an earlier one if the
            chunks have not changed since.
        chunks: Names of the chunks.
    """

    needs: tuple[RecordAt, ...]
    chunks: tuple[str, ...]

    @property
    def at(self) -> RecordAt:
        """Where it is."""
        return self.needs[-1]

    def chain(self, run: Folder) -> Chain:
        """The chain that leads to it. Raises what `chain_of` raises."""
        return chain_of(run, self.needs)


def records_of(step: Step) -> list[StepRecord]:
    """The records of a step, by rank.

    Raises:
        ChainNotFoundError: There is no whole checkpoint.
        ChainError: Its metadata is damaged.
        SourceError: No ChainWriter saved it.
    """
    chunks: dict[tuple[RecordAt, ...], list[str]] = {}
    for item in (metadata_of(step).storage_data or {}).values():
        needs, name = read_item(item, step)
        chunks.setdefault(needs, []).append(name)
    found = [StepRecord(needs, tuple(names)) for needs, names in chunks.items()]
    return sorted(found, key=lambda record: (record.at.rank, record.at.file))


def describe_broken(step: Step) -> str:
    """Why a directory that has records, but not the files that make it a whole step, is none.

    Returns "" for a directory without records, or if it cannot be listed.
    """
    with suppress(OSError, ChainError):
        files = step.files()
        if any(map(is_record, files)) and METADATA not in files:
            return _describe_broken(step)
    return ""


def _describe_broken(step: Step) -> str:
    """See `describe_broken`. Raises OSError, ChainError."""
    text = f"{step}: has records, but no {METADATA}, so it cannot be loaded"
    users, is_sure = _users_of(step)
    if users:  # when a step is no longer kept, its metadata goes first
        return f"{text}. Do not remove it, for other steps need its records: {names_of(users)}"
    if not is_sure:
        return f"{text}; load another step"
    return (
        f"{text}: the save failed, or is not done yet. No other step needs its records: load "
        "another one if there is one, and when no save is running, remove this directory or save "
        "to it again"
    )


def _users_of(step: Step) -> tuple[list[str], bool]:
    """The names of the steps that need a step's records, and whether these are surely all.

    A step needs the directory of this name, or files of these names, wherever they lie now. It is
    not sure if the metadata of a step cannot be read. Raises OSError.
    """
    files = {name for name in step.files() if is_record(name)}
    users, is_sure = [], True
    for other in steps_in(step.run):
        try:
            others = records_of(other) if other.has(METADATA) else []
            needs = {at for record in others for at in record.needs}
            if other != step and any(at.step == step.name or at.file in files for at in needs):
                users.append(other.name)
        except LccError:
            is_sure = False
    return users, is_sure


def describe_none_whole(run: Folder) -> str:
    """Why a directory of steps has no newest one; "" if it holds no steps, or cannot be listed."""
    failed = ""
    with suppress(OSError, ChainError):
        for step in (*reversed(numbered_steps(run)), *steps_in(run)):
            if step.has(METADATA):
                return (
                    f"{run}: holds no whole step with a number in its name; name the step's "
                    f"directory, as {step}, for info, verify or restore"
                )
            failed = failed or describe_broken(step)
    return f"{run}: holds no whole step. {failed}" if failed else ""


def verify_step(step: Step, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """Check every chunk of a step, back to its base, with `codec.verify`.

    Args:
        step: The step.
        progress: Called with (records done, records in all) after each record.

    Returns:
        Everything that is wrong, each as one sentence.

    Raises:
        ChainError, SourceError: As `records_of`.
    """
    problems: list[str] = []
    records = records_of(step)
    for done, record in enumerate(records, 1):
        try:
            chain = record.chain(step.run)
            problems += chain.verify().problems
            check_newest(chain.part("*").read(chain.entries[-1]), record.needs)
            if missing := set(record.chunks) - chain.layout().numbers.keys():
                problems.append(f"{step}: {record.at.file} has no chunk {min(missing)!r}")
        except (RecordError, ChainError) as exc:
            problems.append(str(exc))
        if progress:
            progress(done, len(records))
    return problems


def state_of(step: Step) -> dict[Any, Any]:
    """The whole state of a step, in one process: nested as it was saved, tensors on the CPU.

    Raises:
        ChainError, RecordError: A record is missing or damaged. Also what `records_of` raises.
    """
    records_of(step)  # raises what DCP would wrap
    state: dict[Any, Any] = {}
    planner = _EmptyStateDictLoadPlanner()  # as torch's own `dcp_to_torch_save`
    try:
        _load_state_dict(state, reader_of(step), planner=planner, no_dist=True)
    except CheckpointException as exc:
        reasons = [reason for reason, _ in exc.failures.values()]
        raise next((r for r in reasons if isinstance(r, LccError)), exc) from exc
    return state
