"""What is taken along from a run: checked on the very bytes that are offered.

An archive is packed, opened again from its bytes, and every step is rebuilt and compared with
the digest of the encoder's track before anybody may download it.
"""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load

import codec
from codec.record.record import track_digest
from codec.scheme.track import digest_sums
from codec.state.tensor_files import to_safetensors
from codec.state.tensors import Arrays, Layout, is_tensor, layout_of, to_arrays
from codec.state.tree import leaves
from codec.storage.source import Entry
from lcviz.run.run import Run
from lcviz.run.snapshot import RunError, Snapshot

MOST_NAME = 100  # characters of an archive's name: others are added to it


@dataclass(frozen=True)
class Package:
    """A verified archive of a chain.

    name: file name without ending. data: the .lcc.zip. entries: its records, digests: SHA-256 of
    their files. tables: of each record how many code tables it needed, and how many of them are
    ones sent before. steps: those that were rebuilt from data and compared. tracks: xxh3-128 of
    the tensors of each of them. at: seconds since the epoch, when that was.
    """

    name: str
    data: bytes
    entries: tuple[Entry, ...]
    digests: tuple[str, ...]
    tables: tuple[tuple[int, int], ...]
    steps: tuple[int, ...]
    tracks: tuple[str, ...]
    at: float

    @property
    def file(self) -> str:
        """Name of the archive."""
        return f"{self.name}.lcc.zip"

    @property
    def track(self) -> str:
        """Of the newest step."""
        return self.tracks[-1]

    @cached_property
    def sha256(self) -> str:
        """Of the archive; kept, for every look at the page asks, and 300 MB take a while."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Restored:
    """One step as a plain .safetensors file.

    data: the file. loss: of the state read back from data, on the run's probe; None where there
    is no run. left_out: how many values are no tensors, which the file cannot hold.
    """

    step: int
    name: str
    data: bytes
    loss: float | None = None
    left_out: int = 0


def pack(run: Run, progress: Callable[[int, int], None] | None = None) -> Package:
    """Pack the chain as it is now and verify the bytes.

    progress(records checked, records in all). Raises RunError if anything does not restore;
    codec.LccError if the chain cannot be read or the archive not be written.
    """
    saved = run.snapshot().steps
    chain = codec.Chain(run.path)
    tracks = {c.step: c.track for c in _snapshot_with(run, chain.steps[-1]).checkpoints}
    try:
        with tempfile.TemporaryDirectory(dir=run.path.parent) as folder:
            path = Path(folder) / "run.lcc.zip"
            chain.pack(path)
            data = path.read_bytes()
    except OSError as exc:  # also: another tab has reset the run meanwhile
        raise RunError(f"The chain of this run cannot be packed. {exc}") from exc
    s = run.settings
    name = f"{s.model}-{s.data}-{kept_name(s.bits, s.budget)}-{s.scope}-{s.coder}-seed{s.seed}"
    package = check(name, data, tracks, progress)
    if missing := set(saved) - set(package.steps):
        raise RunError(f"The chain on disk has lost its records of steps {sorted(missing)}.")
    return package


def check(
    name: str,
    data: bytes,
    tracks: Mapping[int, str] | None,
    progress: Callable[[int, int], None] | None = None,
) -> Package:
    """Rebuild every step from an archive's bytes and compare it with the digests of ``tracks``,
    or, if nobody has them, with those in its own records alone.

    progress(steps done, steps in all). Raises RunError if anything does not restore or differs.
    """
    steps, tables, found = [], [], []
    try:
        chain = codec.Chain(io.BytesIO(data))
        digests = tuple(hashlib.sha256(chain.read_bytes(e)).hexdigest() for e in chain.entries)
        for position in chain.every_step():
            step = position.step
            digest = digest_of(position.layout, position.state)
            if tracks is not None and digest != tracks.get(step):
                raise RunError(f"Step {step} of the packed chain is not the track the run had.")
            steps.append(step)
            found.append(digest)
            tables.append(_tables(position.delta))
            if progress:
                progress(len(steps), len(chain.entries))
    except codec.LccError as exc:
        raise RunError(f"The packed chain does not restore. {exc}") from exc
    return Package(
        name, data, chain.entries, digests, tuple(tables), tuple(steps), tuple(found), time.time()
    )


def digest_of(layout: Layout, state: Arrays) -> str:
    """xxh3-128 of a track's tensors, from all of their values."""
    return track_digest(layout, state, digest_sums(layout, state))


def safe_name(name: str) -> str:
    """What somebody called an archive, as a name that any disk takes, and no shell, script or
    page can take for anything else."""
    found = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:MOST_NAME].strip("-.")
    return found or "chain"


def kept_name(bits: int | None, budget: float | None) -> str:
    """How much is kept, as a part of file names."""
    if budget is not None:
        return f"budget{100 * budget:g}"
    return f"bits{'all' if bits is None else bits}"


def _tables(delta: codec.Step | None) -> tuple[int, int]:
    """Code tables a record needs, and how many of them were sent before."""
    coded = [group.encoded for group in delta.groups] if delta else []
    return sum(e.table is not None for e in coded), sum(e.cached for e in coded)


def _snapshot_with(run: Run, step: int) -> Snapshot:
    """A snapshot that has ``step``: a record is on disk a moment before the run tells of it."""
    deadline = time.monotonic() + 10
    while (snapshot := run.snapshot()).newest.step < step and time.monotonic() < deadline:
        time.sleep(0.01)
    return snapshot


def restore(run: Run, package: Package, step: int) -> Restored:
    """One step of a run's package, and its loss; see `plain`."""
    restored = plain(package, step)
    return replace(restored, loss=run.task.probe_loss(load(restored.data)))


def plain(package: Package, step: int) -> Restored:
    """One step of a package as .safetensors, read back and compared bit for bit.

    Raises codec.LccError if the step cannot be restored or not be held by such a file, RunError if
    the file differs.
    """
    state = codec.restore(io.BytesIO(package.data), step)
    every: dict[str, Any] = state
    if not all(is_tensor(value) for value in state.values()):
        every = dict(leaves(state))
    tensors = {name: value for name, value in every.items() if is_tensor(value)}
    data = to_safetensors(tensors)
    layout, back = layout_of(tensors), load(data)
    expected, found = to_arrays(tensors, layout), to_arrays(back, layout)
    for name in tensors:
        if not np.array_equal(_bits(found[name]), _bits(expected[name])):
            raise RunError(f"Tensor {name!r} of the written file differs from the restored state.")
    left_out = len(every) - len(tensors)
    return Restored(step, f"{package.name}-step{step}", data, left_out=left_out)


def _bits(array: np.ndarray) -> np.ndarray:
    """The bytes of an array: equal NaNs and signed zeros compare as what they are."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
