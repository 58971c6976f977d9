"""Where a visitor's own files come from: uploads, or a path on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st

from codec.errors import LccError, SourceError
from codec.state.tensor_files import SUFFIXES
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text, plain
from lcviz.ui import session as state

from .opened import Opened
from .own_files import MOST_FILES, Named, gathered, open_own

UPLOAD_MIB = 200  # a file, as server.maxUploadSize, which is what stops larger ones on their way
MOST_MIB = 500  # of one visitor's uploads together
_TURN = "export-turn"  # in the session: how often something was uploaded
_UPLOAD = "export-uploaded"  # in the session: what was uploaded, in its place, or why not
_OPENED = "export-opened"  # in the session: where from, and what was opened or why not
Uploaded = tuple[VisitorFolder, Named]


def opened() -> Opened | None:
    """What the visitor has opened; None, and why, if there is nothing."""
    with st.container(border=True, key="export-where"):
        grid = st.grid(2, min_column_width=320, key="export-places")
        turn = st.session_state.setdefault(_TURN, 0)
        with grid.cell():
            # A new widget for every upload: the server's copy of the one before is let go.
            st.file_uploader(
                "Checkpoints of your own",
                type=[s[1:] for s in (*SUFFIXES, ".zip")],
                accept_multiple_files=True,
                key=f"export_upload_{turn}",
                on_change=_received,
                args=(turn,),
                max_upload_size=UPLOAD_MIB,
                help="A series of .safetensors or .pt files, weights only, with numbers in their "
                f"names; or one .lcc.zip. Up to {MOST_FILES} files, {MOST_MIB} MiB together. They "
                "are kept for this browser tab alone, and deleted with it.",
            )
        with grid.cell():
            path = st.text_input(
                "Or a path on this machine",
                key="export_path",
                bind="query-params",
                persist_state="session",
                placeholder="/path/to/checkpoints",
                on_change=_path_given,
                help="A folder of .safetensors or .pt files, one such file, a chain's directory, "
                "run.lcc, or an archive, .lcc.zip. Nothing is changed there.",
            )
        upload = st.session_state.get(_UPLOAD)
        if isinstance(upload, str):
            st.error(upload, icon=":material/error:")
            upload = None
        elif upload is not None:
            st.button(
                "Close the upload", icon=":material/close:", on_click=_close, key="export-close"
            )
    if upload is not None:
        return _open(upload[1], upload[0], upload[0])
    if not path.strip():
        st.session_state.pop(_OPENED, None)
        return None
    return _named(path.strip())


def _named(text: str) -> Opened | None:
    path = Path(text)
    with suppress(RuntimeError):  # no such user: then there is no such path either
        path = path.expanduser()
    try:
        state.check_may_read(path)
        named = gathered(path)
        state.check_may_read(*(file for _, file in named))
    except SourceError as exc:
        st.session_state.pop(_OPENED, None)
        _say(exc)
        return None
    stamps = []
    for _, file in named:
        with suppress(OSError, ValueError):  # opening it will say what is wrong
            about = file.stat()
            stamps.append((about.st_size, about.st_mtime_ns))
    return _open(named, (text, tuple(named), tuple(stamps)), None)


def _open(named: Named, key: object, place: VisitorFolder | None) -> Opened | None:
    """Look at the files, unless that is done. key: another one is another series."""
    bar = st.empty()  # always there: what comes below keeps its place, and its clicks
    held = st.session_state.get(_OPENED)
    if held is None or held[0] != key:
        st.session_state.pop(_OPENED, None)

        def tell(done: int, total: int, name: str) -> None:
            bar.progress(done / total, f"Looking at {plain(name)}, {done + 1} of {total}")

        mine = None
        try:
            mine = place or state.shelf().place()
            held = (key, open_own(named, mine, tell))
        except MemoryError:
            held = (key, "These files do not fit into this machine's memory. Open fewer at once.")
        except (LccError, FullError, OSError) as exc:
            held = (key, f"{plain(str(exc).rstrip('.'))}.")
        finally:
            # One who goes on meanwhile leaves nothing behind, but for what was uploaded.
            if mine is not None and place is None and (held is None or held[0] != key):
                mine.close()
        bar.empty()
        st.session_state[_OPENED] = held
    if isinstance(held[1], str):
        st.error(held[1], icon=":material/error:")
        return None
    found: Opened = held[1]
    return found


def _path_given() -> None:
    """What was asked for last is opened: an upload, or why it was refused, makes room."""
    if st.session_state["export_path"].strip():
        _close()


def _received(turn: int) -> None:
    """Put what was uploaded into a place of its own."""
    given: list[Any] = st.session_state.get(f"export_upload_{turn}") or []
    if not given:
        return
    _close()
    st.session_state[_TURN] = turn + 1
    total = sum(file.size for file in given)
    if total > MOST_MIB * 2**20 or any(file.size > UPLOAD_MIB * 2**20 for file in given):
        st.session_state[_UPLOAD] = (
            f"These files have {nbytes_text(total)}; up to {nbytes_text(MOST_MIB * 2**20)} can be "
            f"uploaded together, {nbytes_text(UPLOAD_MIB * 2**20)} each. Give their path on this "
            "machine."
        )
        return
    try:
        st.session_state[_UPLOAD] = _kept(given)
    except OSError as exc:
        st.session_state[_UPLOAD] = f"The upload cannot be kept on disk. {str(exc).rstrip('.')}."


def _kept(given: list[Any]) -> Uploaded:
    """The files in a new place, under names of ours. Raises FullError, OSError."""
    place = state.shelf().place()
    try:
        place.take(sum(file.size for file in given))
        named = []
        for i, file in enumerate(given):
            path = place.path / f"upload{i}{Path(file.name).suffix[:20]}"
            path.write_bytes(file.getbuffer())
            named.append((file.name, path))
    except BaseException:
        place.close()
        raise
    return place, named


def _close() -> None:
    upload = st.session_state.pop(_UPLOAD, None)
    st.session_state.pop(_OPENED, None)
    if isinstance(upload, tuple):
        upload[0].close()


def _say(exc: Exception) -> None:
    st.error(f"{plain(str(exc).rstrip('.'))}.", icon=":material/error:")
