"""What Inspect opens: the run on Live, a path on this machine, an uploaded archive, or a run that
the server watches."""

from __future__ import annotations

import os
import re
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

import streamlit as st

import codec
from codec.errors import SourceError
from lcviz.lab.records import AT_ONCE, Catalogue, Key, list_records, read_contents
from lcviz.report.exponents import StepExponents
from lcviz.run.run import Run
from lcviz.server.foreign_files import CHAIN, chain_inside
from lcviz.server.own_files import NamedFiles
from lcviz.server.quota import VisitorFolder
from lcviz.text import plain
from lcviz.ui import own_files, session, widgets

from . import page_watch
from .page_parts import progress_bar, sentence
from .watch import Watched
from .watch_paths import linked_records

NO_CHAIN = (
    "You have opened checkpoint files, which are no chain. Export compresses them into one; Tune "
    "and Recover work with them."
)
_PATH = "inspect_path"  # in the URL
_URL = re.compile("[A-Za-z][A-Za-z0-9+.:-]+:/")  # C:/ is a drive
_FINDINGS = "inspect-findings"  # in the session: what is known of the chain being looked at
_ARCHIVES: weakref.WeakKeyDictionary[VisitorFolder, IO[bytes]] = weakref.WeakKeyDictionary()
# What a session last read of a run: other sessions start from it.
_READ: weakref.WeakKeyDictionary[Run, Findings] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class ChainSource:
    """Where a chain is.

    key: identifies the chain. what: the chain in words. target: its path or URL, or an open
    archive. folder: where records may still come; None for an archive. run: the run of this server
    that writes it, if one does. watched: set if the server watches the chain.
    """

    key: object
    what: str
    target: str | Path | IO[bytes]
    folder: Path | None = None
    run: Run | None = None
    watched: Watched | None = None

    @property
    def grows(self) -> bool:
        """Whether records may still come."""
        return self.folder is not None or isinstance(self.target, str)

    def chain(self) -> codec.Chain:
        """The chain as it is now. Raises ChainError, SettingsError, SourceError."""
        if self.watched is not None:
            return page_watch.watch().places.open(self.watched.target)
        try:
            chain = codec.Chain(self.target)
        except codec.ChainError:
            _check_not_inside(self.target)
            raise
        if self.run is None and self.folder is not None:
            session.check_may_read(*linked_records(self.folder))
        return chain


@dataclass(eq=False)
class Findings:
    """What is known of the chain being looked at, so nothing is read or decoded twice.

    exponents: by record. undecoded: why the first record that does not decode fails. report: of
    verifying, with the number of records verified. follow_after: new steps are not followed before
    this time of `time.monotonic`. noticed: when new records were noticed, ns; needed for a URL,
    whose records have no time.
    """

    catalogue: Catalogue = field(default_factory=Catalogue)
    exponents: dict[Key, StepExponents | None] = field(default_factory=dict)
    undecoded: str = ""
    report: tuple[codec.Report, int] | None = None
    follow_after: float = 0.0
    noticed: int = 0

    @property
    def newest(self) -> int:
        """When the last record came, ns; 0 if unknown."""
        return max((r.stamp for r in self.catalogue.records), default=0) or self.noticed


def _check_not_inside(target: object) -> None:
    """Raise SourceError for the path of a zip that holds a chain beside other files."""
    inside = None
    with suppress(OSError, ValueError):  # no such file: the caller says why it is no chain
        if isinstance(target, Path) and target.is_file():
            with target.open("rb") as file:
                inside = chain_inside(file, target.stat().st_size)
    if inside is not None:
        raise SourceError(
            f"{target} holds a chain and other files: unpack it, and enter the path of the "
            f"{CHAIN} in it. Uploaded, it opens as it is"
        )


def choose() -> ChainSource | Literal["compare"] | None:
    """The widgets that choose a chain; None, with the reason on the page, if there is none."""
    page_watch.problem()
    with st.container(key="inspect-where"):
        choice = page_watch.chosen(leave)
        path, upload = _path_or_upload(choice)
    if upload is not None:
        place, ((name, file),) = upload
        return ChainSource(file, f"The uploaded archive **{plain(name)}**", _archive(place, file))
    if path:
        try:
            return _source_at(path)
        except SourceError as exc:
            widgets.error(sentence(exc))
            return None
    if choice == page_watch.ALL:
        return "compare"
    return _watched(choice) if isinstance(choice, Watched) else _on_live()


def _path_or_upload(
    choice: Watched | str | None,
) -> tuple[str, tuple[VisitorFolder, NamedFiles] | None]:
    """The fields that open something else than what is chosen: a path, or an uploaded chain."""
    default_text = "the run on Live" if choice is None else "what is chosen above"
    label = "Open a path or archive" + (" instead" if choice is not None else "")
    is_chain, path = own_files.is_chain(_PATH), ""
    box = widgets.opened(label, "folder_open", "inspect-else", (_PATH,), is_chain)
    if box is not None:
        with box:
            path = own_files.places(
                _PATH,
                chains=True,
                placeholder=f"{'the chain of ' if choice is None else ''}{default_text}",
                help="Of a chain's directory, run.lcc, or of an archive, .lcc.zip. Another process "
                f"may be writing to it: nothing is locked or changed. Empty: {default_text}.",
            )
    upload = own_files.upload()
    if upload is not None and not is_chain:
        st.info(NO_CHAIN, icon=":material/draft:")
        upload = None
    return path, upload


def _watched(run: Watched) -> ChainSource:
    """A watched run: whoever started the server has named it, so all may open it."""
    is_archive = isinstance(run.target, Path) and not run.folder
    key = ("watched", run.name, _changed(Path(run.target)) if is_archive else None)
    return ChainSource(key, f"**{plain(run.name)}**", run.target, run.folder, watched=run)


def _on_live() -> ChainSource | None:
    """The chain of the run on Live; None while a new server trains its example."""
    run = session.current_run()
    if run is None:
        session.await_example()
        return None
    whose = "the example run" if session.is_example(run) else "the run on Live"
    what = f"The chain of {whose}, **{run.task.title}**"
    return ChainSource(run.id, what, run.path, run.path, run)


def _archive(place: VisitorFolder, file: Path) -> IO[bytes]:
    """The uploaded archive as an open file, so that errors do not name the server's path.

    It is closed when its folder is deleted. Raises OSError.
    """
    if place not in _ARCHIVES:
        opened = _ARCHIVES[place] = file.open("rb")
        weakref.finalize(place, opened.close)
    return _ARCHIVES[place]


def _source_at(text: str) -> ChainSource:
    """The chain at a path. Raises SourceError for a URL or a path that visitors may not open."""
    if _URL.match(text) and not os.path.exists(text):
        raise SourceError(
            "Only a path on this server's disks can be opened here. Name a URL when you start the "
            "server: streamlit run app.py -- --run URL"
        )
    path = session.readable_path(text)
    folder = None
    with suppress(OSError, ValueError):  # a name that is too long: opening it will say so
        folder = path if path.is_dir() else None
    key = (text, None if folder else _changed(path))
    return ChainSource(key, f"**{plain(path.name or text)}**", path, folder)


def leave() -> None:
    """Close the path or upload, so that the page shows what is watched."""
    own_files.close(_PATH)


def _changed(path: Path) -> int | None:
    """When an archive last changed, ns; None if unknown."""
    try:
        return path.stat().st_ctime_ns
    except (OSError, ValueError):
        return None


def read(source: ChainSource) -> Findings:
    """The chain's records; only new ones are read. Raises ChainError.

    What was read stays known if the visitor leaves meanwhile.
    """
    findings = session.cached(_FINDINGS, source.key, lambda: _first_findings(source.run))
    chain = source.chain()
    listed = list_records(chain, source.folder)
    records_known = len(findings.catalogue.records)
    with progress_bar("Read {} of {} records") as progress:
        for catalogue in read_contents(chain, listed, findings.catalogue):
            findings.catalogue = catalogue
            if len(listed) - records_known > AT_ONCE:
                progress(len(catalogue.records), len(listed))
    if source.run is not None:
        _READ[source.run] = findings
    if 0 < records_known < len(findings.catalogue.records):
        findings.noticed = time.time_ns()
    return findings


def _first_findings(run: Run | None) -> Findings:
    """What other sessions have read of a run already."""
    earlier = _READ.get(run) if run is not None else None
    if earlier is None:
        return Findings()
    return Findings(earlier.catalogue, dict(earlier.exponents), earlier.undecoded)
