"""Where a visitor's own files come from: uploads, or a path on this machine.

What is opened on one page is open on the others.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

import codec
from codec.errors import LccError, SourceError
from lcviz.server.foreign_files import CHAIN
from lcviz.server.own_files import (
    ARCHIVE,
    MOST_FILES,
    NamedFiles,
    OwnFiles,
    chain_file,
    list_files,
    open_files,
)
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text, plain, plural

from . import session, widgets

UPLOAD_MIB = 200  # a file, as server.maxUploadSize, which stops larger ones before they arrive
MOST_SENTENCES = 5  # about single files
MOST_MIB = 500  # of one visitor's uploads together
_UPLOAD = "own-uploaded"  # in the session: an `_Upload`
_PATH = "own-path"  # in the session: the key of the page where a path was given last, and the path
_OPENED = "own-opened"  # in the session: the files opened from a source, or an error


@dataclass
class _Upload:
    """The newest upload, changed in place: any access to the session may end the script halfway.

    turn: how often something was uploaded. value: its folder and files, or why it was refused.
    """

    turn: int = 0
    value: tuple[VisitorFolder, NamedFiles] | str | None = None

    def close(self) -> None:
        """Delete it."""
        value, self.value = self.value, None
        if isinstance(value, tuple):
            value[0].close()


def _newest() -> _Upload:
    upload: _Upload = st.session_state.setdefault(_UPLOAD, _Upload())
    return upload


def opened_series(path_key: str, least: int) -> tuple[OwnFiles | None, str]:
    """The series that the visitor has opened, and why it cannot be used; "" if it can.

    The page shows what is wrong with single files.

    path_key: as for `places`. least: how many checkpoints it needs.
    """
    series = opened_files(path_key)
    if series is None:
        return None, f"Open {least} or more checkpoints, or a chain."
    for sentence in (*series.refused, *series.odd)[:MOST_SENTENCES]:
        widgets.error(plain(sentence))
    if left_out := {name for file in series.files for name in file.left_out}:
        st.caption(f"Left out, because a chain cannot hold it: {plain(', '.join(left_out))}.")
    try:
        n = len(series.steps)
        summary = series.describe() if n else "No checkpoint"
    except codec.ChainError as exc:
        return None, f"{exc}"
    wrong = ""
    if n < least:
        wrong = f"{summary}: too few. Open {least} or more."
    elif series.odd:
        wrong = f"{summary}: open files whose tensors have the same shapes."
    if wrong:
        widgets.wrong(plain(wrong))
    return series, wrong


def opened_files(path_key: str) -> OwnFiles | None:
    """What the visitor has opened; None if it is nothing, or cannot be opened: the page says why.

    path_key: as for `places`.
    """
    with st.container(border=True, key="own-where"):
        path = places(path_key)
        uploaded = upload()
    if uploaded is not None:
        folder, named = uploaded
        return _open(named, folder, folder)
    if path:
        return _open_path(path)
    st.session_state.pop(_OPENED, None)
    return None


def places(path_key: str, *, chains: bool = False, **path_words: str) -> str:
    """The fields for an upload and a path; returns the path.

    A newer path from another page is taken over.

    path_key: the page's parameter of the URL for a path. chains: whether to take over only a path
    of a chain. path_words: the field's placeholder and help, if this page has its own.
    """
    page, last_path = _last_path(path_key)
    if page != path_key and (not chains or not last_path or is_chain(path_key)):
        st.session_state[path_key] = last_path
        if last_path and st.query_params.get(path_key) != last_path:
            st.query_params[path_key] = last_path  # once: from then on the field does it
    grid = st.grid(2, min_column_width=320, key="own-places")
    newest = _newest()
    with grid.cell():
        # A new widget for every upload, so that the server drops its copy of the last upload. It
        # takes any kind of file: Streamlit would refuse a wrong kind without saying what to do.
        files = st.file_uploader(
            f"A chain of your own, {CHAIN}"
            if chains
            else f"Checkpoints of your own, .safetensors or .pt; or one chain, {CHAIN}",
            accept_multiple_files=True,
            key=f"own_upload_{newest.turn}",
            max_upload_size=UPLOAD_MIB,
            help="Files with numbers in their names; or a chain from Download chain or "
            f"Download everything. Up to {MOST_FILES} files, {MOST_MIB} MiB together. "
            "They are kept for this browser tab alone, and deleted with it.",
        )
    with grid.cell():
        words: dict[str, Any] = {
            "placeholder": "/path/to/checkpoints",
            "help": "A folder of .safetensors or .pt files, one such file, a chain's directory, "
            "run.lcc, or an archive, .lcc.zip. Nothing is changed there.",
        }
        path = st.text_input(
            "Or a path on this machine",
            key=path_key,
            on_change=_path_given,
            args=(path_key,),
            **(words | path_words | widgets.IN_URL),
        )
    if files:  # not in a callback: Streamlit repeats an interrupted script alone
        _receive(newest, files)
        st.rerun()
    return path.strip()


def upload() -> tuple[VisitorFolder, NamedFiles] | None:
    """The folder and files of the upload, with a button that closes it.

    Returns None if there is no upload, or if it was refused: then the page says why.
    """
    uploaded = _newest().value
    if isinstance(uploaded, str):
        widgets.error(uploaded)
        return None
    if uploaded is not None:
        _, named = uploaded
        names = plain(named[0][0]) if len(named) == 1 else plural(len(named), "file")
        icon = ":material/close:"
        st.button(f"Close the upload: {names}", icon=icon, on_click=_close, key="own-close")
    return uploaded


def is_chain(path_key: str) -> bool:
    """Whether the upload or the newest path, on this page or another, looks like a chain.

    Any path that was given on this page counts as one: opening it says what is wrong.
    """
    uploaded = _newest().value
    if isinstance(uploaded, tuple):
        return _is_chain(uploaded[1])
    page, path = _last_path(path_key)
    if page == path_key or not path:
        return bool(path)
    try:
        return _is_chain(_listed(path))
    except SourceError:
        return False


def _is_chain(named: NamedFiles) -> bool:
    return len(named) == 1 and (named[0][0].lower().endswith(ARCHIVE) or named[0][1].is_dir())


def close(path_key: str) -> None:
    """Forget the upload and the path."""
    st.session_state[path_key] = ""
    st.session_state[_PATH] = (path_key, "")
    _close()


def _last_path(path_key: str) -> tuple[str, str]:
    """The key of the page where a path was given last, and that path; a link may give one, too."""
    if path_key in st.query_params and path_key not in st.session_state:
        st.session_state[_PATH] = path_key, st.query_params[path_key].strip()
    page_and_path: tuple[str, str] = st.session_state.get(_PATH, (path_key, ""))
    return page_and_path


def _listed(text: str) -> NamedFiles:
    """The files that a path stands for. Raises SourceError, also if it must not be read."""
    return list_files(session.readable_path(text))


def _open_path(text: str) -> OwnFiles | None:
    try:
        named = _listed(text)
        session.check_may_read(*(file for _, file in named))
    except SourceError as exc:
        st.session_state.pop(_OPENED, None)
        widgets.error(plain(str(exc)))
        return None
    stamps = []
    for _, file in named:
        with suppress(OSError, ValueError):  # opening it will say what is wrong
            status = file.stat()
            stamps.append((status.st_size, status.st_mtime_ns))
    return _open(named, (text, tuple(named), tuple(stamps)), None)


def _open(named: NamedFiles, key: object, upload: VisitorFolder | None) -> OwnFiles | None:
    """Open the files, unless they are open; None if that fails: the page says why.

    key: tells one series from another. upload: the folder of uploaded files.
    """
    bar = st.empty()  # always there: what comes below keeps its place, and its clicks

    def tell(done: int, total: int, name: str) -> None:
        bar.progress(done / total, f"Opening {plain(name)}, {done + 1} of {total}")

    def opened() -> OwnFiles | str:
        try:
            place = upload or session.shelf().place()
            try:
                return open_files(named, place, tell)
            except BaseException:
                # A visitor who leaves meanwhile leaves nothing behind but the upload.
                if upload is None:
                    place.close()
                raise
        except MemoryError:
            return "These files do not fit into this machine's memory. Open fewer at once."
        except (LccError, FullError, OSError) as exc:
            return plain(str(exc))
        finally:
            bar.empty()

    files = session.cached(_OPENED, key, opened)
    if isinstance(files, str):
        widgets.error(files)
        return None
    return files


def _path_given(path_key: str) -> None:
    """Remember the path. It replaces the upload, or the reason why that was refused."""
    path = st.session_state[path_key].strip()
    st.session_state[_PATH] = path_key, path
    if path:
        _close()


def _receive(newest: _Upload, files: list[Any]) -> None:
    """Put uploaded files into a folder of their own, in place of the upload before."""
    newest.close()
    total = sum(file.size for file in files)
    value: tuple[VisitorFolder, NamedFiles] | str
    if total > MOST_MIB * 2**20:  # Streamlit refuses single files that are too large
        value = (
            f"These files have {nbytes_text(total)}; up to {nbytes_text(MOST_MIB * 2**20)} can be "
            f"uploaded together, {nbytes_text(UPLOAD_MIB * 2**20)} each. Give their path on this "
            "machine."
        )
    else:
        try:
            value = _write(files)
        except SourceError as exc:
            value = plain(f"{files[0].name}: {exc}")
        except OSError as exc:
            value = f"The upload cannot be kept on disk. {exc}"
    newest.turn, newest.value = newest.turn + 1, value


def _write(files: list[Any]) -> tuple[VisitorFolder, NamedFiles]:
    """Write the files into a new folder, under our own names; of a zip with a chain, the chain.

    Raises SourceError, FullError, OSError.
    """
    place = session.shelf().place()
    try:
        place.take(sum(file.size for file in files))
        named = []
        for i, file in enumerate(files):
            path = place.path / f"upload{i}{Path(file.name).suffix[:20]}"
            path.write_bytes(file.getbuffer())
            if file.name.lower().endswith(ARCHIVE):
                path = chain_file(path, place)
            named.append((file.name, path))
    except BaseException:
        place.close()
        raise
    return place, named


def _close() -> None:
    _newest().close()
    st.session_state.pop(_OPENED, None)
