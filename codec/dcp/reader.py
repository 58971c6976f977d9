"""DCP's storage reader: chunks are rebuilt along their chains, then narrowed to what is asked for.

One record's track is in memory at a time, whatever the number of chunks that are taken from it.

Not done here: which part of which chunk goes where (DCP's planner).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from ..errors import ChainError, ChainNotFoundError, MalformedRecordError, SourceError
from ..state import Layout, from_arrays
from ..walk import Walk
from .bundles import Coding, Held, content, resumed
from .files import At, check_there, directory, is_name, is_of, marks, rebuilt
from .saving import Kept


class ChainReader(FileSystemReader):
    """For `dcp.load`, on any number of ranks and for any sharding.

    path: of a step's directory; those that it builds on lie beside it, see `needed`. Its
    `.metadata` is DCP's pickle: load it only from people you trust. Records are checked: bytes,
    parents, tracks.

    Raises SettingsError for a URL. A load raises, wrapped by DCP: SourceError for a step that
    plain DCP wrote, ParentError for a directory that is missing, RecordError, ChainError; where
    `.metadata` is missing or damaged DCP's own AssertionError, which repeats what we say.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(directory(path))

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """The next load is from this directory. Raises SettingsError."""
        super().reset(directory(checkpoint_id) if checkpoint_id else None)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """As DCP keeps it. Raises ChainNotFoundError, ChainError for one that is damaged."""
        try:
            return super().read_metadata(*args, **kwargs)
        except FileNotFoundError as exc:
            raise ChainNotFoundError(
                f"{self.path}: holds no whole checkpoint: a save that failed leaves no .metadata"
            ) from exc
        except Exception as exc:  # a pickle that is cut short can raise anything
            path = self._get_metadata_path(kwargs.get("rank"))
            raise ChainError(
                f"{path}: DCP's metadata cannot be read: {exc!r}; load another step, or put this "
                "file back from a copy"
            ) from exc

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Fill what the planner gives."""
        step = Path(self.path)
        wanted: dict[At, dict[str, list[ReadItem]]] = {}
        needs: set[str] = set()
        for item in plan.items:
            at, names, tensor = told(self.storage_data[item.storage_index], step)
            needs |= {at.step, *names}
            wanted.setdefault(at, {}).setdefault(tensor, []).append(item)
        check_there(step.parent, needs, step)
        for at, tensors in wanted.items():
            self._read(rebuilt(step.parent, at)[0], at, tensors, planner)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _read(
        self, walk: Walk, at: At, tensors: Mapping[str, list[ReadItem]], planner: LoadPlanner
    ) -> None:
        assert walk.layout is not None
        specs = {t.name: t for t in walk.layout.tensors}
        for name, items in tensors.items():
            if name not in specs:
                raise MalformedRecordError(at.file, f"a chunk {name!r}", f"{len(specs)} others")
            value = from_arrays(walk.state, Layout((specs[name],)))[name]
            for item in items:
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(value.numpy().tobytes()))
                    continue
                reach = [o + n for o, n in zip(item.storage_offsets, item.lengths)]
                if len(reach) != value.dim() or any(r > n for r, n in zip(reach, value.shape)):
                    found = f"{tuple(value.shape)}"
                    raise MalformedRecordError(at.file, f"{name!r} up to {reach}", found)
                part = narrow_tensor_by_index(value, item.storage_offsets, item.lengths)
                target = planner.resolve_tensor(item).detach()
                target.copy_(part)
                planner.commit_tensor(item, target)


def needed(path: str | os.PathLike[str]) -> list[Path]:
    """Directories that a step builds on, itself included: the others may be removed without it.

    Raises ChainNotFoundError, ChainError, SourceError, SettingsError for a URL.
    """
    step = directory(path)
    names = {step.name}
    for metadata in _metadata(step):
        for item in (metadata.storage_data or {}).values():
            at, needs, _ = told(item, step)
            names |= {at.step, *needs}
    return [step.parent / name for name in sorted(names)]


def _metadata(step: Path) -> Iterator[Metadata]:
    """Of all ranks; of each by itself where they saved without collectives."""
    reader, names = ChainReader(step), [mark.name for mark in marks(step)]
    if ".metadata" in names or not names:
        yield reader.read_metadata()
        return
    for name in names:
        yield reader.read_metadata(rank=int(name[2:].partition(".")[0]))


def resumed_from(step: Path, rank: int, coding: Coding, use_collectives: bool) -> Kept:
    """What a rank has kept after a save, from its records. Raises what reading them does; a
    ChainError says how to go on without them."""
    try:
        return _kept_at(step, rank, coding, use_collectives)
    except ChainError as exc:
        raise type(exc)(
            f"{exc}. Without resume= the training goes on with a base, which needs no other step"
        ) from exc


def _kept_at(step: Path, rank: int, coding: Coding, use_collectives: bool) -> Kept:
    own = {} if use_collectives else {"rank": rank}
    data = ChainReader(step).read_metadata(**own).storage_data or {}
    found: dict[At, list[str]] = {}
    for item in data.values():
        at, _, tensor = told(item, step)
        if is_of(at.file, rank):
            found.setdefault(at, []).append(tensor)
    kept = Kept()
    for at, tensors in found.items():
        walk, needs = rebuilt(step.parent, at)
        assert walk.layout is not None
        if all(t.lossy for t in walk.layout.tensors):
            kept.bundles.append(resumed(walk, needs, coding))
        else:
            held = {t.name: t for t in walk.layout.tensors if t.name in tensors}
            kept.held |= {
                name: Held(spec, content(walk.state[name]), at) for name, spec in held.items()
            }
    kept.n = max((bundle.n for bundle in kept.bundles), default=0)
    return kept


def told(item: Any, step: Path) -> tuple[At, tuple[str, ...], str]:
    """Where an item of DCP's metadata says that its chunk is: record, names of other directories
    that lead to it, and the chunk's name there. Raises SourceError for one that is not ours."""
    try:
        of = item["of"]
        at = At(of["step"] or step.name, of["file"], of["digest"])
        needs, tensor = tuple(of["needs"]), item["tensor"]
        texts = (at.file, at.digest, tensor)
        if not all(map(is_name, (at.step, *needs))) or not all(isinstance(t, str) for t in texts):
            raise TypeError("names that are none")
    except (TypeError, KeyError) as exc:
        raise SourceError(
            f"{step}: was not written by a ChainWriter; load it with DCP's own reader"
        ) from exc
    return at, needs, tensor
