"""Makes a chain of a visitor's own files, measures it, and verifies the archive's bytes.

One job of the server's queue (lcviz.server.jobs): it reports its progress and can be stopped after
every step.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

import codec
from codec import Coding
from codec.errors import SourceError
from codec.inspect import Arrays, DeltaRest, Front, Layout, Policy, copy_arrays, to_arrays
from lcviz.lab.progress import Progress
from lcviz.run.snapshot import RunError
from lcviz.server.own_files import OwnFile, OwnFiles
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text, plural

from .archive import Package, check_complete, digest_of, safe_name, settings_name, verify
from .comparison import ComparedStep, errors, zipped_nbytes
from .receipt import Receipt, of_archive, of_files

MOST_ARCHIVE = 300 * 2**20  # bytes: what one page can offer for download
MOST_ZIPPED = 64 * 2**20  # bytes of files that are also deflated: that takes seconds


@dataclass(frozen=True)
class Compression:
    """What a visitor chooses. left_out: outermost keys of the files, not to be saved."""

    coding: Coding = field(default_factory=Coding.safe)
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Compressed:
    """A verified chain of a visitor's own files.

    steps: each compared with its original. package: without its bytes, which are in the file
    `archive`; sha256 and receipt belong to that file.
    """

    steps: tuple[ComparedStep, ...]
    package: Package
    archive: Path
    sha256: str
    receipt: Receipt

    @property
    def deltas(self) -> list[DeltaRest]:
        """Step, settings and what is left of each delta; behind as measured from the first file."""
        behind = {c.step: c.distance for c in self.steps}
        return [
            d._replace(rest=d.rest._replace(behind=behind[d.step])) for d in self.package.deltas
        ]

    def load(self) -> Package:
        """The package with its bytes. Raises SourceError if they are gone or have changed."""
        try:
            data = self.archive.read_bytes()
        except OSError as exc:
            raise SourceError(
                "The compressed chain was deleted to make space for another; compress again"
            ) from exc
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise SourceError("The compressed chain has changed on disk; compress again")
        return replace(self.package, data=data)


def compress(
    opened: OwnFiles, settings: Compression, place: VisitorFolder, progress: Progress
) -> Compressed:
    """Save every state, compare it with its original, pack the chain, and verify the archive.

    Args:
        opened: what the visitor opened.
        settings: of the chain.
        place: for the archive; it must outlive what is returned.
        progress: called with (done, total); if it raises, chain and archive are deleted.

    Raises:
        codec.LccError: a state cannot be read or saved, or the archive does not restore.
        FullError: the archive is too large for the page or the place.
    """
    path, archive = place.path / "run.lcc", place.path / "run.lcc.zip"
    try:
        steps = _save(opened, settings, place, path, progress)
        place.take(sum(step.nbytes for step in steps))
        codec.Chain(path).pack(archive)
        name = f"own-{len(steps)}step{'s' * (len(steps) != 1)}-" + settings_name(settings.coding)
        n, tracks = len(steps), {step.step: step.track for step in steps}
        package = verify(
            name, archive.read_bytes(), tracks, lambda done, _: progress(n + done, 2 * n)
        )
        check_complete(package, tracks)
    except BaseException as exc:
        place.remove(archive)
        if isinstance(exc, RunError):
            raise codec.ChainError(str(exc)) from exc
        raise
    finally:
        place.remove(path)
    receipt = _receipt(opened, settings, package)
    bare = replace(package, data=b"")
    return Compressed(tuple(steps), bare, archive, package.sha256, receipt)


def _save(
    opened: OwnFiles, settings: Compression, place: VisitorFolder, path: Path, progress: Progress
) -> list[ComparedStep]:
    """Write the chain at path and measure every step."""
    compared, chain_nbytes = [], 0
    file_by_step = {} if opened.archive else {file.step: file for file in opened.files}
    deflates = opened.nbytes <= MOST_ZIPPED
    front, first_state, first_layout = Front(Policy()), Arrays(), Layout(())
    with codec.Checkpointer(path, **settings.coding.header()) as chain:
        for i, (step, state) in enumerate(opened.states(settings.left_out)):
            progress(i, 2 * len(opened.steps))
            parts, layout = front.look_at(state)
            live = to_arrays(parts.tensors, layout)
            if layout != first_layout:  # other tensors: distances count from here
                first_state, first_layout = copy_arrays(live), layout
            saved = chain.save(step, state)
            if not saved.full_nbytes:
                raise SourceError(f"Step {step} holds no values: all of its tensors are empty")
            chain_nbytes += saved.nbytes
            place.take(saved.nbytes)
            if chain_nbytes > MOST_ARCHIVE:
                raise FullError(
                    f"The chain has {nbytes_text(chain_nbytes)} after "
                    f"{plural(i + 1, 'checkpoint')}; this page offers archives of at most "
                    f"{nbytes_text(MOST_ARCHIVE)}. Take fewer files or fewer bits, or compress on "
                    "the command line: python -m codec compress"
                )
            assert chain.tracker is not None, "a step was saved"
            track: Arrays = chain.tracker.state
            file = file_by_step.get(step)
            file_nbytes, zipped = _file_sizes(file, state, settings.left_out, deflates)
            compared.append(
                ComparedStep(
                    step,
                    file.name if file else "",
                    saved.kind,
                    saved.nbytes,
                    saved.full_nbytes,
                    file_nbytes,
                    zipped,
                    *errors(layout, track, live, first_state),
                    digest_of(layout, track),
                )
            )
    return compared


def _file_sizes(
    file: OwnFile | None, state: Mapping[Any, Any], left_out: Collection[str], deflates: bool
) -> tuple[int | None, int | None]:
    """Bytes of a file without the parts that are left out, and deflated; None if not known."""
    if file is None:
        return None, None
    if not file.left_out and not any(key in left_out for key in file.parts):
        with file.source.open("rb") as stream:
            return file.nbytes, zipped_nbytes(stream) if deflates else None
    reduced = io.BytesIO()
    torch.save(state, reduced)  # only files of torch have parts
    nbytes = reduced.tell()
    reduced.seek(0)
    return nbytes, zipped_nbytes(reduced) if deflates else None


def _receipt(opened: OwnFiles, settings: Compression, package: Package) -> Receipt:
    files = [
        {
            "name": f.name,
            "step": f.step,
            "bytes": f.nbytes,
            "sha256": f.sha256,
            "left_out": sorted({*f.left_out, *(settings.left_out & f.parts.keys())}),
        }
        for f in opened.files
    ]
    what = "The states of a chain" if opened.archive else plural(len(files), "checkpoint file")
    return of_files(package, what, settings.coding.header(), files)


def verify_as_is(file: OwnFile, progress: Progress) -> tuple[Package, Receipt]:
    """The chain that a visitor opened, verified, and its receipt.

    Raises RunError if it does not restore, FullError if it is too large.
    """
    if file.nbytes > MOST_ARCHIVE:
        raise FullError(f"This page offers archives of at most {nbytes_text(MOST_ARCHIVE)}")
    name = safe_name(re.sub(r"(\.lcc)?\.zip$", "", file.name, flags=re.IGNORECASE))
    package = verify(name, file.source.read_bytes(), None, progress)
    return package, of_archive(package)
