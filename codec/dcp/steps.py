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
from torch.distributed.checkpoint.metadata import BytesStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from codec.caps import names_of
from codec.errors import ChainError, LccError, RecordError

from .bundles import lossy_in
from .files import RecordAt, is_of, marks, marks_among, parent_of, read_beginning, rebuild
from .rank_writer import read_item
from .reader import ChainReader, metadata_of, numbered_steps
from .stores import METADATA, Run, Step

MAX_READ = 1000  # records whose beginnings are read to find out who needs a step


@dataclass(frozen=True)
class StepRecord:
    """The newest record of some chunks of a step.

    Attributes:
        at: Where it is: in the step, or in an earlier one if the chunks have not changed since.
        kind: "base" or "delta".
        chunks: Names of the chunks.
        needs: Names of the other steps that lead to it.
    """

    at: RecordAt
    kind: str
    chunks: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def rank(self) -> int:
        """The rank that wrote it."""
        return int(self.at.file.split("_")[2])


def records_of(step: Step) -> list[StepRecord]:
    """The records of a step, by rank.

    Raises:
        ChainNotFoundError: There is no whole checkpoint.
        ChainError: Its metadata is damaged.
        SourceError: No ChainWriter saved it.
    """
    chunks: dict[RecordAt, list[str]] = {}
    needs: dict[RecordAt, tuple[str, ...]] = {}
    for metadata in metadata_of(step):
        for item in (metadata.storage_data or {}).values():
            at, steps, name = read_item(item, step)
            chunks.setdefault(at, []).append(name)
            needs[at] = steps
    found = [
        StepRecord(at, at.file.split(".")[1], tuple(names), needs[at])
        for at, names in chunks.items()
    ]
    return sorted(found, key=lambda record: (record.rank, record.at.file))


def describe_broken(step: Step) -> str:
    """Why a directory that has records, but not the files that make it a whole step, is none.

    Returns "" for a directory without records, or if it cannot be listed.
    """
    with suppress(OSError, ChainError):
        files = step.files()
        if any(is_of(name, None) for name in files) and not marks_among(files):
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

    They are not if a step cannot be read, or lacks a record that it needs. Raises OSError.
    """
    files = {name for name in step.files() if is_of(name, None)}
    users, is_sure = [], True
    looked_at: dict[RecordAt, bool] = {}
    for name in sorted(step.run.steps()):
        other = step.beside(name)
        try:
            if name != step.name and marks(other) and _needs(other, step.name, files, looked_at):
                users.append(name)
        except LccError:
            is_sure = False
    return users, is_sure


def _needs(step: Step, name: str, files: set[str], looked_at: dict[RecordAt, bool]) -> bool:
    """Whether a step needs the directory of this name, or one of the files, wherever it lies now.

    looked_at: Records that were looked at before, and whether they need one of the files.
    """
    records = records_of(step)
    if any(name in (record.at.step, *record.needs) for record in records):
        return True
    return any(_leads_to(step.run, record.at, files, looked_at) for record in records)


def _leads_to(run: Run, at: RecordAt, files: set[str], looked_at: dict[RecordAt, bool]) -> bool:
    """Whether a record is one of the files, or builds on one. Raises LccError."""
    way: list[RecordAt] = []
    here: RecordAt | None = at
    while here is not None and here not in looked_at and here.file not in files:
        if len(looked_at) >= MAX_READ:
            raise ChainError(f"{run}: has too many records to look at all of them")
        looked_at[here] = False
        way.append(here)
        here = parent_of(run, here)
    leads = here is not None and (here.file in files or looked_at[here])
    looked_at.update(dict.fromkeys(way, leads))
    return leads


def describe_none_whole(run: Run) -> str:
    """Why a directory of steps has no newest one; "" if it holds no steps, or cannot be listed."""
    failed = ""
    with suppress(OSError, ChainError):
        steps = numbered_steps(run)[::-1]
        for step in steps:
            step_marks = marks(step)
            if METADATA in step_marks:
                failed = failed or (
                    f"{step}: its {METADATA} is no file, or was written just now: name this step"
                )
            elif step_marks:
                return (
                    f"{run}: its steps were saved without collectives; name one, as {step}, for "
                    "info, verify or restore"
                )
            failed = failed or describe_broken(step)
        for step in (Step(run, name) for name in sorted(run.steps())):
            if step not in steps and marks(step):
                return (
                    f"{run}: holds no whole step with a number in its name; name the step's "
                    f"directory, as {step}, for info, verify or restore"
                )
            failed = failed or describe_broken(step)
    return f"{run}: holds no whole step. {failed}" if failed else ""


@dataclass(frozen=True)
class StepTensor:
    """A tensor of a step, as a whole.

    Attributes:
        name: Its fully qualified name.
        dtype: Torch's name of it.
        shape: Of all chunks together.
        lossy: Whether its chunks are lossy: {True}, {False}, or both.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    lossy: frozenset[bool]


def contents_of(step: Step) -> tuple[list[StepTensor], list[str]]:
    """The tensors of a step and the names of its other values, by name.

    Of each of its records only the beginning is read.

    Raises:
        ChainError, RecordError: A record is missing or damaged. Also what `records_of` raises.
    """
    lossy: dict[str, set[bool]] = {}
    for record in records_of(step):
        is_lossy = lossy_in(read_beginning(step.run, record.at))
        for chunk in record.chunks:
            lossy.setdefault(chunk.rpartition("@")[0], set()).add(is_lossy(chunk))
    tensors: dict[str, StepTensor] = {}
    values: set[str] = set()
    for metadata in metadata_of(step):
        for name, stored in metadata.state_dict_metadata.items():
            if isinstance(stored, BytesStorageMetadata):
                values.add(name)
                continue
            dtype = str(stored.properties.dtype).removeprefix("torch.")
            flags = frozenset(lossy.get(name, ()))
            tensors[name] = StepTensor(name, dtype, tuple(stored.size), flags)
    return [tensors[name] for name in sorted(tensors)], sorted(values)


def verify_step(step: Step, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """Rebuild every chunk of a step from its base; all digests are checked, as `codec.verify` does.

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
            replay, _ = rebuild(step.run, record.at, thoroughly=True)
            assert replay.track is not None, "rebuilt or failed"
            if missing := set(record.chunks) - replay.track.layout.numbers.keys():
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
    reader = ChainReader(".")
    reader.go_to(step)
    state: dict[Any, Any] = {}
    planner = _EmptyStateDictLoadPlanner()  # as torch's own `dcp_to_torch_save`
    try:
        _load_state_dict(state, reader, planner=planner, no_dist=True)
    except CheckpointException as exc:
        reasons = [reason for reason, _ in exc.failures.values()]
        raise next((r for r in reasons if isinstance(r, LccError)), exc) from exc
    return state
