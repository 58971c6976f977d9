"""What Inspect looks at: the run on Live, a path on this machine, an uploaded archive, or what
whoever started the server wants to watch."""

from __future__ import annotations

import os
import re
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import streamlit as st

import codec
from lcviz.lab.records import AT_ONCE, Catalogue, read_on, stamps
from lcviz.lab.step_tensors import StepFacts
from lcviz.run.run import Run
from lcviz.server.foreign_files import check_members
from lcviz.server.quota import VisitorFolder
from lcviz.text import nbytes_text, plain
from lcviz.ui import session as state

from . import page_watch as watched
from .exponents import Moved
from .folders import linked_records
from .watch import Watched

UPLOAD_MIB = 200  # as server.maxUploadSize, which is what stops larger ones on their way
_URL = re.compile("[A-Za-z][A-Za-z0-9+.:-]+:/")  # C:/ is a drive
_TURN = "inspect-turn"  # in the session: how often something was uploaded
_UPLOAD = "inspect-upload"  # in the session: the file that was uploaded
_HELD = "inspect-held"  # in the session: what was found out about the chain being looked at


@dataclass(frozen=True, eq=False)
class Source:
    """Where a chain is.

    key: tells it from others. what: in words. target: its path or URL, or an open archive. folder:
    where records may still come, None of an archive. run: whose chain it is, if it is one of this
    server. watched: what it is, if it is watched.
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
            return watched.chain(self.watched)
        chain = codec.Chain(self.target)
        if self.run is None and self.folder is not None:
            state.check_may_read(*linked_records(self.folder))
        return chain


@dataclass(eq=False)
class Held:
    """What is known of the chain being looked at, so that nothing is read or decoded twice.

    moved: by record, see `Read.key`. undecoded: why the first one that does not decode does not.
    step: the last one that was rebuilt, with its record's key. follow_after: when decoding what is
    newest leaves the machine most of its time, on the clock `time.monotonic`.
    report: what verifying found, and how many records there were. noticed: when there were more
    records than before, ns: of a URL nothing else tells.
    """

    key: object
    catalogue: Catalogue = field(default_factory=Catalogue)
    moved: dict[object, tuple[Moved, ...]] = field(default_factory=dict)
    undecoded: str = ""
    step: tuple[object, StepFacts] | None = None
    follow_after: float = 0.0
    report: tuple[codec.Report, int] | None = None
    noticed: int = 0

    @property
    def newest(self) -> int:
        """When the last record came, ns, 0 if that is not known."""
        return max((r.stamp for r in self.catalogue.records), default=0) or self.noticed


class Upload:
    """An archive that came through the browser, in a file without a name: it is gone as soon as
    it is closed, at the latest with the session, and counts among what visitors bring until then.

    Raises OSError if the disk does not take it, FullError, SourceError if it is not to be opened.
    """

    def __init__(self, name: str, content: memoryview) -> None:
        self.name = name
        self._place = state.shelf().place()
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.close = weakref.finalize(self, _close, self.file, self._place)
        try:
            self._place.take(len(content))
            self.file.write(content)
            self.file.flush()
            self.file.seek(0)
            check_members(self.file)
        except BaseException:
            self.close()
            raise


def _close(file: IO[bytes], place: VisitorFolder) -> None:
    file.close()
    place.close()


def choose() -> Source | Literal["compare"] | None:
    """The widgets that say where; None, and why, if there is nothing to look at."""
    watched.problem()
    with st.container(border=True, key="inspect-where"):
        choice = watched.chosen(leave)
        otherwise = "the chain of the run on Live" if choice is None else "what is chosen above"
        if choice is None:
            grid = st.grid(2, min_column_width=320, key="inspect-places")
        else:  # then few look for anything else
            own = _UPLOAD in st.session_state or st.session_state.get("inspect_path")
            own = bool(own or st.query_params.get("inspect_path"))
            beside = st.expander("A path or an archive instead", expanded=own, key="inspect-else")
            grid = beside.grid(2, min_column_width=320, key="inspect-places")
        with grid.cell():
            path = st.text_input(
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
                "Or an archive of your own, .lcc.zip",
                type=["zip"],
                key=f"inspect_upload_{turn}",
                on_change=_received,
                args=(turn,),
                max_upload_size=UPLOAD_MIB,
                help="It is kept for this browser tab alone, and deleted with it.",
            )
        upload = st.session_state.get(_UPLOAD)
        if isinstance(upload, str):
            st.error(upload, icon=":material/error:")
            upload = None
        if upload is not None:
            st.button(
                f"Close the upload {plain(upload.name)}",
                icon=":material/close:",
                on_click=_drop,
                key="inspect-close",
            )
    if upload is not None:
        return Source(upload, f"the uploaded archive **{plain(upload.name)}**", upload.file)
    if path.strip():
        try:
            return _at(path.strip())
        except codec.SourceError as exc:
            st.error(sentence(exc), icon=":material/error:")
            return None
    if choice == watched.ALL:
        return "compare"
    if isinstance(choice, Watched):
        return _of(choice)
    run = state.current_run()
    if run is None:
        state.await_example()
        return None
    whose = "the example run" if state.is_example(run) else "the run on Live"
    return Source(run.id, f"the chain of {whose}, **{run.task.title}**", run.path, run.path, run)


def _at(text: str) -> Source:
    """Raises SourceError for a path that a visitor of this server may not name, and for a URL."""
    if _URL.match(text) and not os.path.exists(text):
        raise codec.SourceError(
            "A path on this server's disks is taken here. A URL is given to the server when it is "
            "started: streamlit run app.py -- --run URL"
        )
    path = Path(text)
    with suppress(RuntimeError):  # no such user: then there is no such path either
        path = path.expanduser()
    state.check_may_read(path)
    folder = None
    with suppress(OSError, ValueError):  # a name that is too long: opening it will say so
        folder = path if path.is_dir() else None
    key = (text, None if folder else _changed(path))
    return Source(key, f"**{plain(path.name or text)}**", path, folder)


def _of(run: Watched) -> Source:
    """Whoever named it when the server was started may open it, and so may all others here."""
    folder = run.folder
    archive = isinstance(run.target, Path) and not folder
    key = ("watched", run.name, _changed(Path(run.target)) if archive else None)
    return Source(key, f"**{plain(run.name)}**", run.target, folder, watched=run)


def leave() -> None:
    """Make room for what is watched."""
    st.session_state["inspect_path"] = ""
    _drop()


def _changed(path: Path) -> int | None:
    """When an archive was last changed, ns."""
    try:
        return path.stat().st_ctime_ns
    except (OSError, ValueError):
        return None


def _path_given() -> None:
    """What was asked for last is shown: an upload, or why it was refused, makes room."""
    if st.session_state["inspect_path"].strip():
        _drop()


def _drop() -> None:
    """Close what was uploaded, and say no more of it."""
    before = st.session_state.pop(_UPLOAD, None)
    if isinstance(before, Upload):
        before.close()


def _received(turn: int) -> None:
    """Put what was uploaded into a file."""
    given: Any = st.session_state.get(f"inspect_upload_{turn}")
    if given is None:
        return
    _drop()
    st.session_state[_TURN] = turn + 1
    if given.size > UPLOAD_MIB * 2**20:
        st.session_state[_UPLOAD] = (
            f"{plain(given.name)} has {nbytes_text(given.size)}; up to "
            f"{nbytes_text(UPLOAD_MIB * 2**20)} can be uploaded. Give its path on this machine."
        )
        return
    try:
        st.session_state[_UPLOAD] = Upload(given.name, given.getbuffer())
    except codec.SourceError as exc:
        st.session_state[_UPLOAD] = f"{plain(given.name)}: {sentence(exc)}"
    except OSError as exc:
        st.session_state[_UPLOAD] = f"The upload cannot be kept on disk. {sentence(exc)}"


def read(source: Source) -> Held:
    """The records, of which only those are read that are not known yet.

    What was read stays known if the visitor does not wait. Raises ChainError.
    """
    held: Held | None = st.session_state.get(_HELD)
    if held is None or held.key != source.key:
        held = st.session_state[_HELD] = Held(source.key)
    chain = source.chain()
    listed = stamps(chain, source.folder)
    known, bar = len(held.catalogue.records), st.empty()
    for catalogue in read_on(chain, listed, held.catalogue):
        held.catalogue, done = catalogue, len(catalogue.records)
        if len(listed) - known > AT_ONCE:
            bar.progress(done / len(listed), f"Read {done:,} of {len(listed):,} records")
    bar.empty()
    if 0 < known < len(held.catalogue.records):
        held.noticed = time.time_ns()
    return held


def reader(text: str, total: int) -> tuple[Callable[[int], None], Callable[[], object]]:
    """A bar for what takes long: (done of total is shown, the bar goes)."""
    bar = st.empty()

    def progress(done: int) -> None:
        bar.progress(min(done / max(total, 1), 1.0), f"{text} {done:,} of {total:,}")

    return progress, bar.empty


def sentence(exc: Exception) -> str:
    """An error of the codec as a sentence in Markdown."""
    # What was uploaded has no path that an error could begin with.
    text = re.sub(
        "^the archive(: (?=is ))?",
        lambda m: "The archive " if m[1] else "The archive",
        str(exc).rstrip("."),
    )
    return plain(text) + "."
