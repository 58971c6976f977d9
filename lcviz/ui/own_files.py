"""Where a visitor's own files come from: uploads, or a path on this machine.

What was given on one page is there on the others.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st

from codec.errors import LccError, SourceError
from lcviz.server.foreign_files import CHAIN
from lcviz.server.own_files import MOST_FILES, Named, OwnFiles, list_files, open_files
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text, plain

from . import session

UPLOAD_MIB = 200  # a file, as server.maxUploadSize, which is what stops larger ones on their way
MOST_MIB = 500  # of one visitor's uploads together
_TURN = "own-turn"  # in the session: how often something was uploaded
_UPLOAD = "own-uploaded"  # in the session: what was uploaded, in its place, or why not
_PATH = "own-path"  # in the session: the path that was given last
_OPENED = "own-opened"  # in the session: where from, and what was opened or why not


def opened_files(path_key: str) -> OwnFiles | None:
    """What the visitor has opened; None, and why on the page, if there is nothing.

    path_key: the page's parameter of the URL for a path.
    """
    if (
        path_key not in st.session_state
        and path_key not in st.query_params
        and _PATH in st.session_state
    ):
        st.session_state[path_key] = st.session_state[_PATH]
    with st.container(border=True, key="own-where"):
        grid = st.grid(2, min_column_width=320, key="own-places")
        turn = st.session_state.setdefault(_TURN, 0)
        with grid.cell():
            # A new widget for every upload, so that the server drops its copy of the one before. It
            # takes any kind of file: of a wrong one Streamlit would not say what to do.
            st.file_uploader(
                f"Checkpoints of your own, .safetensors or .pt; or one chain, {CHAIN}",
                accept_multiple_files=True,
                key=f"own_upload_{turn}",
                on_change=_received,
                args=(turn,),
                max_upload_size=UPLOAD_MIB,
                help="Files with numbers in their names; or a chain from Download chain or "
                f"Download everything. Up to {MOST_FILES} files, {MOST_MIB} MiB together. "
                "They are kept for this browser tab alone, and deleted with it.",
            )
        with grid.cell():
            path = st.text_input(
                "Or a path on this machine",
                key=path_key,
                bind="query-params",
                persist_state="session",
                placeholder="/path/to/checkpoints",
                on_change=_path_given,
                args=(path_key,),
                help="A folder of .safetensors or .pt files, one such file, a chain's directory, "
                "run.lcc, or an archive, .lcc.zip. Nothing is changed there.",
            )
        upload = st.session_state.get(_UPLOAD)
        if isinstance(upload, str):
            _error(upload)
            upload = None
        elif upload is not None:
            icon = ":material/close:"
            st.button("Close the upload", icon=icon, on_click=_close, key="own-close")
    if upload is not None:
        return _open(upload[1], upload[0], upload[0])
    st.session_state[_PATH] = path
    if path.strip():
        return _open_path(path.strip())
    st.session_state.pop(_OPENED, None)
    return None


def _open_path(text: str) -> OwnFiles | None:
    path = Path(text)
    with suppress(RuntimeError):  # no such user: then there is no such path either
        path = path.expanduser()
    try:
        session.check_may_read(path)
        named = list_files(path)
        session.check_may_read(*(file for _, file in named))
    except SourceError as exc:
        st.session_state.pop(_OPENED, None)
        _error(plain(str(exc)))
        return None
    stamps = []
    for _, file in named:
        with suppress(OSError, ValueError):  # opening it will say what is wrong
            about = file.stat()
            stamps.append((about.st_size, about.st_mtime_ns))
    return _open(named, (text, tuple(named), tuple(stamps)), None)


def _open(named: Named, key: object, upload: VisitorFolder | None) -> OwnFiles | None:
    """Open the files once. key: another one is another series. upload: where uploaded files lie."""
    bar = st.empty()  # always there: what comes below keeps its place, and its clicks
    held = st.session_state.get(_OPENED)
    if held is None or held[0] != key:
        st.session_state.pop(_OPENED, None)

        def tell(done: int, total: int, name: str) -> None:
            bar.progress(done / total, f"Opening {plain(name)}, {done + 1} of {total}")

        place, held = None, None
        try:
            place = upload or session.shelf().place()
            held = (key, open_files(named, place, tell))
        except MemoryError:
            held = (key, "These files do not fit into this machine's memory. Open fewer at once.")
        except (LccError, FullError, OSError) as exc:
            held = (key, plain(str(exc)))
        finally:
            # A visitor who leaves meanwhile leaves nothing behind but the upload.
            if held is None and place is not None and upload is None:
                place.close()
        bar.empty()
        st.session_state[_OPENED] = held
    if isinstance(held[1], str):
        _error(held[1])
        return None
    found: OwnFiles = held[1]
    return found


def _path_given(path_key: str) -> None:
    """Open the path: the upload before it, or why it was refused, makes room."""
    if st.session_state[path_key].strip():
        _close()


def _received(turn: int) -> None:
    """Put what was uploaded into a place of its own."""
    given: list[Any] = st.session_state.get(f"own_upload_{turn}") or []
    # In a fragment, a browser tells of the widget before once more: its files were taken.
    if not given or turn != st.session_state[_TURN]:
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
        st.session_state[_UPLOAD] = _write(given)
    except OSError as exc:
        st.session_state[_UPLOAD] = f"The upload cannot be kept on disk. {exc}"


def _write(given: list[Any]) -> tuple[VisitorFolder, Named]:
    """The files in a new place, under our own names. Raises FullError, OSError."""
    place = session.shelf().place()
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


def _error(sentence: str) -> None:
    st.error(f"{sentence.rstrip('.')}.", icon=":material/error:")
