"""What is taken along from a run: checked on the very bytes that are offered.

An archive is packed, opened again from its bytes, and every step is rebuilt and compared with
the digest of the encoder's track before anybody may download it.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load

import codec
from codec.files import to_safetensors
from codec.record import track_digest
from codec.source import Entry
from codec.track import digest_sums
from codec.walk import Position

from .session import Run
from .snapshot import RunError, Snapshot


@dataclass(frozen=True)
class Package:
    """A verified archive of a run's chain.

    name: file name without ending. data: the .lcc.zip. entries: its records. tables: of each
    record how many code tables it needed, and how many of them are ones sent before. steps:
    those that were rebuilt from data and compared. track: xxh3-128 of the newest step's track.
    """

    name: str
    data: bytes
    entries: tuple[Entry, ...]
    tables: tuple[tuple[int, int], ...]
    steps: tuple[int, ...]
    track: str


@dataclass(frozen=True)
class Restored:
    """One step as a plain .safetensors file.

    data: the file. loss: of the state read back from data, on the run's probe.
    """

    step: int
    name: str
    data: bytes
    loss: float


def pack(run: Run, progress: Callable[[int, int], None] | None = None) -> Package:
    """Pack the chain as it is now and verify the bytes.

    progress(records checked, records in all). Raises RunError if anything does not restore;
    codec.LccError if the chain cannot be read or the archive not be written.
    """
    saved = run.snapshot().steps
    chain = codec.Chain(run.path)
    tracks = {c.step: c.track for c in _snapshot_with(run, chain.steps[-1]).checkpoints}
    with tempfile.TemporaryDirectory(dir=run.path.parent) as folder:
        path = Path(folder) / "run.lcc.zip"
        chain.pack(path)
        data = path.read_bytes()
    steps, tables = [], []
    try:
        for position in codec.Chain(io.BytesIO(data)).replay():
            step = position.step
            if _digest(position) != tracks.get(step):
                raise RunError(f"Step {step} of the packed chain is not the track the run had.")
            steps.append(step)
            tables.append(_tables(position.delta))
            if progress:
                progress(len(steps), len(chain.entries))
    except codec.LccError as exc:
        raise RunError(f"The packed chain does not restore. {exc}") from exc
    if missing := set(saved) - set(steps):
        raise RunError(f"The chain on disk has lost its records of steps {sorted(missing)}.")
    s = run.settings
    kept = f"bits{'all' if s.bits is None else s.bits}"
    if s.budget is not None:
        kept = f"budget{100 * s.budget:g}"
    name = f"{s.model}-{s.data}-{kept}-{s.scope}-{s.coder}-seed{s.seed}"
    return Package(name, data, chain.entries, tuple(tables), tuple(steps), tracks[steps[-1]])


def _digest(position: Position) -> str:
    """Of the rebuilt track, from all of its values."""
    sums = digest_sums(position.layout, position.state)
    return track_digest(position.layout, position.state, sums)


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
    """One step of a package as .safetensors, read back and compared bit for bit.

    Raises codec.LccError if the step cannot be restored, RunError if the file differs.
    """
    state = codec.restore(io.BytesIO(package.data), step)
    data = to_safetensors(state)
    back = load(data)
    for name, tensor in state.items():
        expected = tensor.numpy()
        if not np.array_equal(_bits(back[name]), _bits(expected)):
            raise RunError(f"Tensor {name!r} of the written file differs from the restored state.")
    return Restored(step, f"{package.name}-step{step}", data, run.task.probe_loss(back))


def _bits(array: np.ndarray) -> np.ndarray:
    """The bytes of an array: equal NaNs and signed zeros compare as what they are."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
