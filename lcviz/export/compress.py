"""Makes a chain of what a visitor has opened, measures it, and verifies the archive's bytes.

One job of the server's line (jobs): told step by step, stopped at the next step. Nothing here
knows a screen.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import codec
from codec.errors import SourceError
from codec.saving.checkpointer import Front
from codec.state.policy import Policy
from codec.state.tensors import Arrays, Layout, copy_arrays, to_arrays
from lcviz.lab.progress import Progress
from lcviz.run.snapshot import RunError
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text, plural

from .archive import Package, check, digest_of, kept_name
from .comparison import Compared, errors, zipped_nbytes
from .opened import Opened
from .receipt import Receipt, of_files

MOST_ARCHIVE = 300 * 2**20  # bytes: what one page can offer for download
MOST_ZIPPED = 64 * 2**20  # bytes of files that are also deflated: that takes seconds


@dataclass(frozen=True)
class How:
    """The settings of a Checkpointer that a visitor chooses."""

    bits: int | None = 2
    budget: float | None = None
    scope: str = "model"
    coder: str = "runlength"
    base_every: int | None = 1000


@dataclass(frozen=True)
class Compressed:
    """A chain of a visitor's own.

    steps: what each gained and lost. package: what was verified, without its bytes, which are in
    the file ``archive``, of SHA-256 ``sha256``. how: the settings. receipt: of that archive.
    """

    steps: tuple[Compared, ...]
    package: Package
    archive: Path
    sha256: str
    how: How
    receipt: Receipt

    def loaded(self) -> Package:
        """The package with its bytes. Raises SourceError if they are gone or others."""
        try:
            data = self.archive.read_bytes()
        except OSError as exc:
            raise SourceError("The compressed chain made room for another; compress again") from exc
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise SourceError("The compressed chain has changed on disk; compress again")
        return replace(self.package, data=data)


def compress(opened: Opened, how: How, place: VisitorFolder, progress: Progress) -> Compressed:
    """Save state after state, measure, pack, and verify what was packed.

    place: where the archive comes to lie; whoever wants it keeps it. progress(done, in all) may
    raise to end it, and then nothing stays behind. Raises codec.LccError, FullError.
    """
    path, archive = place.path / "run.lcc", place.path / "run.lcc.zip"
    try:
        return _compress(opened, how, place, path, archive, progress)
    except RunError as exc:
        raise codec.ChainError(str(exc)) from exc
    except BaseException:
        place.remove(archive)
        raise
    finally:
        place.remove(path)


def _compress(
    opened: Opened, how: How, place: VisitorFolder, path: Path, archive: Path, progress: Progress
) -> Compressed:
    n = len(opened.steps)
    found, taken = [], 0
    files = {file.step: file for file in opened.files}
    deflates = sum(file.nbytes for file in opened.files) <= MOST_ZIPPED
    front, first, layout = Front(Policy()), Arrays(), Layout(())
    with codec.Checkpointer(path, **asdict(how)) as chain:
        for i, (step, state) in enumerate(opened.states()):
            progress(i, 2 * n)
            parts, now = front.look_at(state)
            live = to_arrays(parts.tensors, now)
            if now != layout:  # other tensors: what they are measured against begins anew
                first, layout = copy_arrays(live), now
            saved = chain.save(step, state)
            if not saved.full_nbytes:
                raise SourceError(f"Step {step} holds no values: all of its tensors are empty")
            taken += saved.nbytes
            place.take(saved.nbytes)
            if taken > MOST_ARCHIVE:
                raise FullError(
                    f"The chain has {nbytes_text(taken)} after {plural(i + 1, 'checkpoint')}; this "
                    f"page offers archives of {nbytes_text(MOST_ARCHIVE)} at most. Take fewer "
                    "files or fewer bits, or compress on the command line: python -m codec compress"
                )
            assert chain.tracker is not None, "something is saved"
            track: Arrays = chain.tracker.state
            file = files.get(step)
            found.append(
                Compared(
                    step,
                    file.name if file else "",
                    saved.kind,
                    saved.nbytes,
                    saved.full_nbytes,
                    file.nbytes if file else None,
                    zipped_nbytes(file.source) if file and deflates else None,
                    *errors(now, track, live, first),
                    digest_of(now, track),
                )
            )
    place.take(taken)
    codec.Chain(path).pack(archive)
    data = archive.read_bytes()
    name = f"own-{plural(n, 'step').replace(' ', '').replace(',', '')}"
    name += f"-{kept_name(how.bits, how.budget)}-{how.scope}-{how.coder}"
    package = check(
        name, data, {c.step: c.track for c in found}, lambda done, _: progress(n + done, 2 * n)
    )
    if missing := {c.step for c in found} - set(package.steps):
        raise RunError(f"The packed chain has lost its records of steps {sorted(missing)}")
    receipt = _receipt(opened, how, package, found)
    return Compressed(
        tuple(found), replace(package, data=b""), archive, package.sha256, how, receipt
    )


def _receipt(opened: Opened, how: How, package: Package, found: list[Compared]) -> Receipt:
    brought = [opened.archive] if opened.archive else opened.files
    files = [
        {
            "name": f.name,
            "step": f.step,
            "bytes": f.nbytes,
            "sha256": f.sha256,
            "under": list(f.under),
        }
        for f in brought
    ]
    what = plural(len(files), "checkpoint file") if opened.files else "The states of a chain"
    more: Receipt = {"files": files, "full_bytes": sum(c.full_nbytes for c in found)}
    return of_files(package, what, asdict(how), more)
