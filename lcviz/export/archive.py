"""A chain as one archive, verified on the very bytes that are offered for download.

An archive is packed and read again from its bytes. Every step is rebuilt and compared with the
digest of the encoder's track before anybody may download it.
"""

from __future__ import annotations

import hashlib
import io
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors.torch import load

import codec
from codec import Coding
from codec.inspect import (
    Arrays,
    DeltaRest,
    Entry,
    Layout,
    Track,
    is_tensor,
    layout_of,
    leaves,
    to_arrays,
    to_safetensors,
)
from demo_models import Task
from lcviz.lab.progress import Progress
from lcviz.run.run import Run
from lcviz.run.snapshot import RunError, Snapshot
from lcviz.run.whole_state import weights_of
from lcviz.text import kept_number

MOST_NAME = 100  # characters of an archive's name, without its endings


@dataclass(frozen=True)
class Package:
    """A verified archive of a chain.

    name: file name without ending. data: the .lcc.zip. entries: the files of its records. digests:
    SHA-256 of each record. coding: that of the newest delta, None if there is none. steps: every
    step, rebuilt from data. tracks: xxh3-128 of each step's tensors. full_nbytes: of all steps in
    float32. at: time of the check, in seconds since the epoch. deltas: step, settings and what is
    left of each record that is not a base.
    """

    name: str
    data: bytes
    entries: tuple[Entry, ...]
    digests: tuple[str, ...]
    coding: Coding | None
    steps: tuple[int, ...]
    tracks: tuple[str, ...]
    full_nbytes: int
    at: float
    deltas: tuple[DeltaRest, ...] = ()

    @property
    def file(self) -> str:
        """Name of the archive."""
        return f"{self.name}.lcc.zip"

    @cached_property
    def sha256(self) -> str:
        """Of the archive. Cached: the page asks in every rerun, and 300 MB take a while."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class RestoredFile:
    """One step as a plain .safetensors file.

    name: without ending. data: the file. loss: of the state read back from data, on the run's probe
    examples; None without a run. left_out: number of values that are not tensors, which such a file
    cannot hold.
    """

    step: int
    name: str
    data: bytes
    loss: float | None
    left_out: int


def pack(run: Run, progress: Progress | None = None) -> Package:
    """Pack a run's chain as it is now and verify the bytes.

    Raises:
        RunError: something does not restore, or differs from what the run saved.
        codec.LccError: the chain cannot be read, or the archive cannot be written.
    """
    saved_steps = run.snapshot().steps
    chain = codec.Chain(run.path)
    tracks = {c.step: c.track for c in _snapshot_with(run, chain.steps[-1]).checkpoints}
    try:
        with tempfile.TemporaryDirectory(dir=run.path.parent) as folder:
            path = Path(folder) / "run.lcc.zip"
            chain.pack(path)
            data = path.read_bytes()
    except OSError as exc:  # for example, another tab has reset the run
        raise RunError(f"The chain of this run cannot be packed. {exc}") from exc
    settings = run.settings
    optimizer = "-optimizer" if settings.optimizer_state else ""
    coding = settings_name(settings.coding)
    name = f"{settings.model}-{settings.data}-{coding}{optimizer}-seed{settings.seed}"
    package = verify(name, data, tracks, progress)
    check_complete(package, saved_steps)
    return package


def verify(
    name: str, data: bytes, tracks: Mapping[int, str] | None, progress: Progress | None = None
) -> Package:
    """Rebuild every step from an archive's bytes, and compare its digest with that of its track.

    Args:
        name: for the archive, without ending.
        data: the archive.
        tracks: step -> xxh3-128 of the track's tensors; None: only the archive's records are
            compared.
        progress: called after every step.

    Raises:
        RunError: something does not restore, or differs.
    """
    steps, track_digests, deltas, full_nbytes, coding = [], [], [], 0, None
    try:
        chain = codec.Chain(io.BytesIO(data))
        record_digests = tuple(
            hashlib.sha256(chain.read_bytes(e)).hexdigest() for e in chain.entries
        )
        for position in chain.every_step():
            step, digest = position.step, digest_of(position.track.layout, position.track.arrays)
            if tracks is not None and digest != tracks.get(step):
                raise RunError(f"Step {step} of the packed chain is not the track of the run.")
            steps.append(step)
            track_digests.append(digest)
            full_nbytes += position.track.layout.nbytes
            if position.entry.kind != "base":
                coding, rest = position.record.coding, position.record.rest
                if coding and rest:
                    deltas.append(DeltaRest(step, coding, rest))
            if progress:
                progress(len(steps), len(chain.entries))
    except codec.LccError as exc:
        raise RunError(f"The packed chain does not restore. {exc}") from exc
    return Package(
        name,
        data,
        chain.entries,
        record_digests,
        coding,
        tuple(steps),
        tuple(track_digests),
        full_nbytes,
        time.time(),
        tuple(deltas),
    )


def check_complete(package: Package, steps: Iterable[int]) -> None:
    """Raise RunError unless the package has all of these steps."""
    if missing := set(steps) - set(package.steps):
        raise RunError(f"The packed chain lacks the steps {sorted(missing)}.")


def digest_of(layout: Layout, state: Arrays) -> str:
    """xxh3-128 of a track's tensors."""
    return Track.of(layout, state).digest


def safe_name(name: str) -> str:
    """A visitor's name for an archive, made safe for any disk, shell and script."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:MOST_NAME].strip("-.") or "chain"


def settings_name(coding: Coding) -> str:
    """The settings of a chain as a part of file names."""
    quantizer = "" if coding.uniform or coding.by_bits else f"-{coding.quantizer}"
    target = f"{coding.target}{kept_number(coding)}"
    return f"{target}{quantizer}-{coding.scope}-{coding.coder}"


def _snapshot_with(run: Run, step: int) -> Snapshot:
    """A snapshot that has `step`: a record is on disk shortly before the run reports it."""
    deadline = time.monotonic() + 10
    while (snapshot := run.snapshot()).newest.step < step and time.monotonic() < deadline:
        time.sleep(0.01)
    return snapshot


def restore(package: Package, step: int, task: Task | None = None) -> RestoredFile:
    """One step of a package as .safetensors, read back and compared bit for bit.

    Args:
        package: the verified archive.
        step: a saved step.
        task: of the run, to compute the loss of the state that was read back.

    Raises:
        codec.LccError: the step cannot be restored, or such a file cannot hold it.
        RunError: the file differs from the restored state.
    """
    state = codec.restore(io.BytesIO(package.data), step)
    values: dict[str, Any] = state
    if not all(is_tensor(value) for value in state.values()):
        values = dict(leaves(state))
    tensors = {name: value for name, value in values.items() if is_tensor(value)}
    data = to_safetensors(tensors)
    layout, file_tensors = layout_of(tensors), load(data)
    step_arrays, file_arrays = to_arrays(tensors, layout), to_arrays(file_tensors, layout)
    for name in tensors:  # as bytes: equal NaNs are equal, and signed zeros differ
        if file_arrays[name].tobytes() != step_arrays[name].tobytes():
            raise RunError(f"Tensor {name!r} of the written file differs from the restored state.")
    loss = task.probe_loss(weights_of(file_tensors)) if task else None
    left_out = len(values) - len(tensors)
    return RestoredFile(step, f"{package.name}-step{step}", data, loss, left_out)
