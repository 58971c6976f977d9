"""What Inspect opens: the run on Live, a path on this machine, an uploaded archive, or a run that
the server watches."""

from __future__ import annotations

import os
import re
import tempfile
import time
import weakref
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import streamlit as st

import codec
from codec.errors import SourceError
from lcviz.lab.records import AT_ONCE, Catalogue, Key, list_records, read_contents
from lcviz.lab.step_tensors import StepFacts
from lcviz.report.exponents import StepExponents
from lcviz.run.run import Run
from lcviz.server.foreign_files import CHAIN, chain_inside, extract
from lcviz.text import nbytes_text, plain
from lcviz.ui import session, widgets

from . import page_watch
from .page_parts import progress_bar, sentence
from .watch import Watched
from .watch_paths import linked_records

UPLOAD_MIB = 200  # as server.maxUploadSize, which stops larger ones on their way
_URL = re.compile("[A-Za-z][A-Za-z0-9+.:-]+:/")  # C:/ is a drive
_TURN = "inspect-turn"  # in the session: how often something was uploaded
_UPLOAD = "inspect-upload"  # in the session: the uploaded file, or why it was refused
_FINDINGS = "inspect-findings"  # in the session: what is known of the chain being looked at
# What any session has read of a run last; others need not read it again.
_READ: weakref.WeakKeyDictionary[Run, Findings] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class ChainSource:
    """Where a chain is.

    key: identifies it. what: in words. target: its path or URL, or an open archive. folder: where
    records may still come, None of an archive. run: whose chain it is, if it is one of this server.
    watched: set if the server watches it.
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
        """As it is now. Raises ChainError, SettingsError, SourceError."""
        if self.watched is not None:
            return page_watch.chain(self.watched)
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

    exponents: by record. undecoded: why the first record that does not decode fails. step: the last
    one that was rebuilt, with its key. report: what verifying found, and how many records there
    were. follow_after: until then following new steps rests, on the clock `time.monotonic`.
    noticed: when records were added, ns, for a URL, where nothing else tells.
    """

    key: object
    catalogue: Catalogue = field(default_factory=Catalogue)
    exponents: dict[Key, tuple[StepExponents, ...]] = field(default_factory=dict)
    undecoded: str = ""
    step: tuple[object, StepFacts] | None = None
    report: tuple[codec.Report, int] | None = None
    follow_after: float = 0.0
    noticed: int = 0

    @property
    def newest(self) -> int:
        """When the last record came, ns, 0 if that is not known."""
        return max((r.stamp for r in self.catalogue.records), default=0) or self.noticed


class Upload:
    """An uploaded archive, in a file without a name on the visitors' shelf of this server.

    Of a zip from Export's *Download everything*, only the chain inside is kept. The file is gone
    once it is closed, at the latest with the session. Raises OSError if the disk refuses it,
    FullError if the shelf is full, SourceError if it must not be opened.
    """

    def __init__(self, name: str, content: memoryview) -> None:
        self.name = name
        if not name.lower().endswith(".zip"):
            raise SourceError(
                f"is no chain. Upload an archive, {CHAIN}, as Export's Download chain gives it; "
                "checkpoint files can be opened on Export"
            )
        with ExitStack() as opened:
            self.place = place = session.shelf().place()
            opened.callback(place.close)
            self.file = opened.enter_context(tempfile.TemporaryFile())
            place.take(len(content))
            self.file.write(content)
            self.file.seek(0)
            if (inside := chain_inside(self.file, len(content))) is not None:
                place.take(inside.file_size)
                chain = opened.enter_context(tempfile.TemporaryFile())
                extract(self.file, inside, chain)
                self.file.close()
                place.take(-len(content))
                self.file = chain
                self.file.seek(0)
            self.close = weakref.finalize(self, opened.pop_all().close)


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
        otherwise = "the chain of the run on Live" if choice is None else "what is chosen above"
        own = _UPLOAD in st.session_state or st.session_state.get("inspect_path")
        own = bool(own or st.query_params.get("inspect_path"))
        label = "Open a path or archive" + (" instead" if choice is not None else "")
        path = ""
        box = widgets.opened(label, "folder_open", "inspect-else", ("inspect_path",), own)
        if box is not None:
            with box:
                path = _elsewhere(otherwise)
        upload = st.session_state.get(_UPLOAD)
        if isinstance(upload, str):
            st.error(upload, icon=":material/error:")
        elif upload is not None:
            label = f"Close the upload {plain(upload.name)}"
            st.button(label, icon=":material/close:", on_click=_drop, key="inspect-close")
    if isinstance(upload, Upload):
        return ChainSource(upload, f"the uploaded archive **{plain(upload.name)}**", upload.file)
    if path.strip():
        try:
            return _at(path.strip())
        except SourceError as exc:
            st.error(sentence(exc), icon=":material/error:")
            return None
    if choice == page_watch.ALL:
        return "compare"
    if isinstance(choice, Watched):  # named by whoever started the server: all may open it
        folder, target = choice.folder, choice.target
        archive = isinstance(target, Path) and not folder
        key = ("watched", choice.name, _changed(Path(target)) if archive else None)
        return ChainSource(key, f"**{plain(choice.name)}**", target, folder, watched=choice)
    run = session.current_run()
    if run is None:
        session.await_example("inspect")
        return None
    whose = "the example run" if session.is_example(run) else "the run on Live"
    what = f"the chain of {whose}, **{run.task.title}**"
    return ChainSource(run.id, what, run.path, run.path, run)


def _elsewhere(otherwise: str) -> str:
    """The fields for a path and an archive; returns the path. otherwise: what opens without."""
    grid = st.grid(2, min_column_width=320, key="inspect-places")
    with grid.cell():
        path: str = st.text_input(
            "Path on this machine",
            key="inspect_path",
            bind="query-params",
            persist_state="session",
            placeholder=otherwise,
            on_change=_path_given,
            help="Of a chain's directory, run.lcc, or of an archive, .lcc.zip. Another "
            "process may be writing to it: nothing is locked or changed. Empty: "
            f"{otherwise.removeprefix('the chain of ')}.",
        )
    with grid.cell():
        # A new widget for every upload: the server's copy of the one before is let go.
        turn = st.session_state.setdefault(_TURN, 0)
        st.file_uploader(
            "Or an archive, .lcc.zip",
            key=f"inspect_upload_{turn}",
            on_change=_received,
            args=(turn,),
            max_upload_size=UPLOAD_MIB,
            help="From Export's Download chain or Download everything. It is kept for this browser "
            "tab alone, and deleted with it.",
        )
    return path


def _at(text: str) -> ChainSource:
    """Raises SourceError for a path that a visitor of this server may not name, and for a URL."""
    if _URL.match(text) and not os.path.exists(text):
        raise SourceError(
            "Only a path on this server's disks can be opened here. Name a URL when you start the "
            "server: streamlit run app.py -- --run URL"
        )
    path = Path(text)
    with suppress(RuntimeError):  # no such user: then there is no such path either
        path = path.expanduser()
    session.check_may_read(path)
    folder = None
    with suppress(OSError, ValueError):  # a name that is too long: opening it will say so
        folder = path if path.is_dir() else None
    key = (text, None if folder else _changed(path))
    return ChainSource(key, f"**{plain(path.name or text)}**", path, folder)


def leave() -> None:
    """Make room for what is watched."""
    st.session_state["inspect_path"] = ""
    _drop()


def _changed(path: Path) -> int | None:
    """When an archive changed last, ns."""
    try:
        return path.stat().st_ctime_ns
    except (OSError, ValueError):
        return None


def _path_given() -> None:
    """The last request is shown: an upload, or why it was refused, makes room."""
    if st.session_state["inspect_path"].strip():
        _drop()


def _drop() -> None:
    """Close the upload, or forget why it was refused."""
    before = st.session_state.pop(_UPLOAD, None)
    if isinstance(before, Upload):
        before.close()


def _received(turn: int) -> None:
    """Put an upload into a file."""
    given: Any = st.session_state.get(f"inspect_upload_{turn}")
    if given is None:
        return
    _drop()
    st.session_state[_TURN] = turn + 1
    most = UPLOAD_MIB * 2**20
    upload: Upload | str
    if given.size > most:
        upload = f"{plain(given.name)} has {nbytes_text(given.size)}; up to {nbytes_text(most)} "
        upload += "can be uploaded. Enter its path on this machine instead."
    else:
        try:
            upload = Upload(given.name, given.getbuffer())
        except SourceError as exc:
            upload = f"{plain(given.name)}: {sentence(exc)}"
        except OSError as exc:
            upload = f"The upload cannot be stored. {sentence(exc)}"
    st.session_state[_UPLOAD] = upload


def read(source: ChainSource) -> Findings:
    """The chain's records; only those not known yet are read. Raises ChainError.

    What was read stays known if the visitor leaves meanwhile.
    """
    findings: Findings | None = st.session_state.get(_FINDINGS)
    if findings is None or findings.key != source.key:
        findings = st.session_state[_FINDINGS] = Findings(source.key)
        if source.run is not None and (found := _READ.get(source.run)) is not None:
            findings.catalogue, findings.exponents = found.catalogue, dict(found.exponents)
            findings.undecoded = found.undecoded
    chain = source.chain()
    listed = list_records(chain, source.folder)
    known = len(findings.catalogue.records)
    with progress_bar("Read {} of {} records") as progress:
        for catalogue in read_contents(chain, listed, findings.catalogue):
            findings.catalogue = catalogue
            if len(listed) - known > AT_ONCE:
                progress(len(catalogue.records), len(listed))
    if source.run is not None:
        own = (findings.key, findings.catalogue, findings.exponents, findings.undecoded)
        _READ[source.run] = Findings(*own)  # without the step that this session has rebuilt
    if 0 < known < len(findings.catalogue.records):
        findings.noticed = time.time_ns()
    return findings
