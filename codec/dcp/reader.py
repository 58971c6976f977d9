"""DCP's storage reader: rebuilds chunks along their chains, and copies the parts that DCP asks for.

Only one record's track is in memory at a time.

Not done here: which part of which chunk goes where (DCP's planner).
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from codec import version
from codec.caps import short
from codec.chain.replay import Position, Replay
from codec.errors import ChainError, ChainNotFoundError, MalformedRecordError, RecordError
from codec.record.reason import Reason
from codec.record.settings import ChainSettings, Overrides, settings_at
from codec.state.file_steps import whole_numbers
from codec.state.tensors import Layout, from_arrays
from codec.storage.folder import Folder
from codec.storage.location import Location

from .bundles import bundle_of
from .chunks import fqn_of
from .files import (
    METADATA,
    RecordAt,
    Step,
    StepFiles,
    chain_of,
    check_steps_exist,
    rebuilt,
    step_at,
)
from .rank_writer import RankState, read_item


class ChainReader(FileSystemReader):
    """For `dcp.load`, on any number of ranks and for any sharding.

    A step's `.metadata` is a pickle, written by DCP: load it only from people you trust. Records
    are checked: bytes, parents, tracks. A load raises, wrapped by DCP: ChainNotFoundError if there
    is no whole checkpoint, SourceError for a step that plain DCP wrote, ParentError for a missing
    directory, RecordError, ChainError.

    Args:
        path: A step's directory or URL, beside the directories that it builds on, see `needed`.
        storage_options: For the filesystem of a URL, see `codec.Chain`.

    Raises:
        SettingsError: This is neither a path nor a URL.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__("")
        self._options = storage_options
        self.go_to(step_at(path, storage_options))

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Set the directory of the next load. Raises SettingsError."""
        if checkpoint_id is not None:
            self.go_to(step_at(checkpoint_id, self._options))
        super().reset()

    def go_to(self, step: Step) -> None:
        """Load from this step."""
        self._step = step
        self.fs, self.path = StepFiles(step), str(step)

    def read_metadata(self) -> Metadata:
        """DCP's metadata. If they cannot be read, using them raises ChainNotFoundError, ChainError.

        DCP would turn an error of this method into an AssertionError. It asks no further, for the
        metadata of each rank, as this method takes no arguments.
        """
        try:
            return self.metadata()
        except ChainError as exc:
            return _Unreadable(exc)

    def metadata(self) -> Metadata:
        """DCP's metadata. Raises ChainNotFoundError, or ChainError if they are damaged."""
        try:
            return super().read_metadata()
        except FileNotFoundError as exc:
            raise ChainNotFoundError(_no_metadata(self._step)) from exc
        except Exception as exc:  # a truncated pickle can raise anything
            raise ChainError(
                f"{self._step}/{METADATA}: DCP's metadata cannot be read: {exc!r}; load another "
                "step, or put this file back from a copy"
            ) from exc

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fill the planner's tensors."""
        step = self._step
        items_by_record: dict[tuple[RecordAt, ...], dict[str, list[ReadItem]]] = {}
        for item in plan.items:
            needs, tensor = read_item(self.storage_data[item.storage_index], step)
            items_by_record.setdefault(needs, {}).setdefault(tensor, []).append(item)
        check_steps_exist(step.run, {at.step for needs in items_by_record for at in needs}, step)
        for needs, tensors in items_by_record.items():
            self._read(rebuilt(step.run, needs), tensors, planner)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _read(
        self, position: Position, tensors: Mapping[str, list[ReadItem]], planner: LoadPlanner
    ) -> None:
        """Copy the items, by tensor, from a record's track to the planner's tensors."""
        track, where = position.track, position.entry.name
        specs = {t.name: t for t in track.layout.tensors}
        for name, items in tensors.items():
            if name not in specs:
                raise MalformedRecordError(where, f"a chunk {name!r}", f"{len(specs)} others")
            spec, array = specs[name], track.arrays[name]
            for item in items:
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(array.tobytes()))
                    continue
                ends = [o + n for o, n in zip(item.storage_offsets, item.lengths)]
                if len(ends) != len(spec.shape) or any(e > n for e, n in zip(ends, spec.shape)):
                    raise MalformedRecordError(where, f"{name!r} up to {ends}", f"{spec.shape}")
                box: tuple[Any, ...] = tuple(slice(e - n, e) for e, n in zip(ends, item.lengths))
                part = {name: array[(*box, ...)]}  # only this part of a large chunk is copied
                part_layout = Layout((replace(spec, shape=tuple(item.lengths)),))
                target = planner.resolve_tensor(item).detach()
                target.copy_(from_arrays(part, part_layout)[name])
                planner.commit_tensor(item, target)


class _Unreadable(Metadata):
    """Stands for metadata that cannot be read: each field raises the reason."""

    def __init__(self, reason: ChainError) -> None:
        self.reason = reason

    def _refuse(self) -> NoReturn:
        raise self.reason

    _field: Any = property(_refuse)
    state_dict_metadata = planner_data = storage_data = storage_meta = version = _field


def _no_metadata(step: Step) -> str:
    """Why a directory has no whole checkpoint."""
    try:
        files, below = step.files(), _marked_below(step)
    except OSError as exc:
        return f"{step}: cannot be listed: {exc}"
    if not files and not below and (not isinstance(p := step.place, Path) or not p.is_dir()):
        return f"{step}: there is no such directory"
    text = f"{step}: holds no whole checkpoint: a save that failed leaves no .metadata"
    return f"{text}; its directories do, {short(below)}: load one of these" if below else text


def _marked_below(step: Step) -> list[str]:
    """The directories in a directory that hold metadata. Only looks on disks."""
    place = step.place
    if not isinstance(place, Path):
        return []
    return sorted({path.parent.name for path in place.glob(f"*/{METADATA}")})


def needed(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> list[Path | str]:
    """The directories that a step needs to be loaded: its own, and those that it builds on.

    Returns:
        Their paths, or URLs.

    Raises:
        ChainNotFoundError: There is no whole checkpoint.
        ChainError: Its metadata is damaged.
        SourceError: No ChainWriter saved it.
        SettingsError: This is neither a path nor a URL.
    """
    step = step_at(path, storage_options)
    return [step.beside(name).place for name in sorted(needed_names(step))]


def needed_names(step: Step) -> set[str]:
    """The names of the steps that a step needs, see `needed`."""
    stored = metadata_of(step).storage_data or {}
    needs = (at for item in stored.values() for at in read_item(item, step)[0])
    return {step.name, *(at.step for at in needs)}


def newest_step(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> str | None:
    """The directory of the newest complete step of a training, to load or to resume from.

    A step is complete once it has its `.metadata`, which DCP writes last. The last number in a
    directory's name decides which step is the newest: "step-10" comes after "step-9". Directories
    without a number do not count. Nothing is unpickled.

    Args:
        path: The directory or URL that holds the steps' directories.
        storage_options: For the filesystem of a URL, see `codec.Chain`.

    Returns:
        The step's path or URL; None if there is no complete step.

    Raises:
        ChainError: The directory cannot be listed.
        SettingsError: This is neither a path nor a URL.
    """
    run = Location(path, storage_options).folder()
    try:
        steps = numbered_steps(run)
    except OSError as exc:
        raise ChainError(f"{run}: cannot be listed: {exc}") from exc
    return next((str(step.place) for step in reversed(steps) if step.has(METADATA)), None)


def steps_in(run: Folder) -> list[Step]:
    """All directories in that of the steps, by name. Raises OSError."""
    return [Step(run, name) for name, is_file in sorted(run.names().items()) if not is_file]


def numbered_steps(run: Folder) -> list[Step]:
    """The directories with a number in their names, by the last one. Raises OSError."""
    numbered = [step for step in steps_in(run) if whole_numbers(step.name)]
    return sorted(numbered, key=lambda step: whole_numbers(step.name)[-1])


def metadata_of(step: Step) -> Metadata:
    """A step's metadata. Raises what `ChainReader.metadata` raises."""
    return reader_of(step).metadata()


def reader_of(step: Step) -> ChainReader:
    """A reader of this step."""
    reader = ChainReader(".")
    reader.go_to(step)
    return reader


def resume_from(step: Step, rank: int, overrides: Overrides) -> tuple[RankState, ChainSettings]:
    """A rank's state after a save, rebuilt from its records, and the settings to go on with.

    All ranks go on with bases, as with a new writer, if another version wrote the step, or if
    another policy is given than that in its bases.

    Raises:
        ChainError, RecordError: A record cannot be read; the message says how to go on without.
    """
    way_out = "Without resume= the training goes on with a base, which needs no other step"
    try:
        return _state_at(step, rank, overrides)
    except ChainError as exc:
        raise type(exc)(f"{exc}. {way_out}") from exc
    except RecordError as exc:
        raise type(exc)(exc.where, exc.expected, f"{exc.found}. {way_out}") from exc


def _state_at(step: Step, rank: int, overrides: Overrides) -> tuple[RankState, ChainSettings]:
    chunks: dict[tuple[RecordAt, ...], list[str]] = {}
    for item in (metadata_of(step).storage_data or {}).values():
        needs, name = read_item(item, step)
        chunks.setdefault(needs, []).append(name)
    n = max((len(needs) - 1 for needs in chunks), default=0)  # all ranks write bases together
    own: dict[tuple[RecordAt, ...], Replay] = {}
    field: Mapping[str, Any] = {}
    has_lossy = False
    for needs in chunks:
        if needs[-1].rank == rank:
            position = rebuilt(step.run, needs)
            own[needs] = Replay.at(position)
            field = field or position.settings  # all bases have the same
            if not has_lossy and any(t.lossy for t in position.track.layout.tensors):
                has_lossy, field = True, settings_at(position.settings, position.record)
    if chunks and not own:
        base = chain_of(step.run, next(iter(chunks))[:1]).part("*")
        field = base.read(base.entries[0]).settings
    chain = ChainSettings.of_field(field, str(step)) if field else None
    settings = overrides.over(chain or ChainSettings.default("tensor"))
    bundles = [
        bundle_of(replay, needs, chunks[needs], settings.coding) for needs, replay in own.items()
    ]
    specs = [spec for bundle in bundles for spec in bundle.specs.values()]
    exact = {fqn_of(spec.name) for spec in specs if spec.may_be_lossy and not spec.lossy}
    reason = Reason.LAYOUT
    if any(replay.writer != version.WRITER for replay in own.values()):
        reason, bundles, n = Reason.ANOTHER_VERSION, [], -1
    elif chain and settings.policy.text != chain.policy.text:
        reason, bundles, n = Reason.POLICY, [], -1
    return RankState(bundles, n, reason, frozenset(exact), chain), settings
