"""Where a visitor's own files come from: uploads, or a path on this machine.

What was given on one page is there on the others.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import streamlit as st

import codec
from codec.errors import LccError, SourceError
from lcviz.server.foreign_files import CHAIN
from lcviz.server.own_files import (
    ARCHIVE,
    MOST_FILES,
    Named,
    OwnFiles,
    chain_file,
    list_files,
    open_files,
)
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text, plain, plural

from . import session, widgets

UPLOAD_MIB = 200  # a file, as server.maxUploadSize, which is what stops larger ones on their way
MOST_SENTENCES = 5  # about single files
MOST_MIB = 500  # of one visitor's uploads together
_TURN = "own-turn"  # in the session: how often something was uploaded
_UPLOAD = "own-uploaded"  # in the session: what was uploaded, in its place, or why not
_PATH = "own-path"  # in the session: which page was given a path last, by its key, and the path
_OPENED = "own-opened"  # in the session: where from, and what was opened or why not


def opened_series(path_key: str, least: int) -> tuple[OwnFiles | None, str]:
    """A series of so many states at least that the visitor has opened, and why it cannot be used,
    "" if it can; what is wrong with single files is on the page.

    path_key: as for `places`.
    """
    own = opened_files(path_key)
    if own is None:
        return None, f"Open {least} or more checkpoints, or a chain."
    for sentence in (*own.refused, *own.odd)[:MOST_SENTENCES]:
        _error(plain(sentence))
    if left_out := {name for file in own.files for name in file.left_out}:
        st.caption(f"Left out, because a chain cannot hold it: {plain(', '.join(left_out))}.")
    try:
        n = len(own.steps)
        told = own.describe() if n else "No checkpoint"
    except codec.ChainError as exc:
        return None, f"{exc}"
    wrong = ""
    if n < least:
        wrong = f"{told}: too few. Open {least} or more."
    elif own.odd:
        wrong = f"{told}: open files whose tensors have the same shapes."
    if wrong:
        widgets.wrong(plain(wrong))
    return own, wrong


def opened_files(path_key: str) -> OwnFiles | None:
    """What the visitor has opened; None, and why on the page, if there is nothing.

    path_key: as for `places`.
    """
    with st.container(border=True, key="own-where"):
        path = places(path_key)
        held = upload()
    if held is not None:
        return _open(held[1], held[0], held[0])
    if path:
        return _open_path(path)
    st.session_state.pop(_OPENED, None)
    return None


def places(path_key: str, *, chains: bool = False, **path_words: str) -> str:
    """The fields for an upload and a path; returns the path, which another page may have been
    given last.

    path_key: the page's parameter of the URL for a path. chains: whether to take over only what is
    a chain. path_words: what the field says, where this page has words of its own: placeholder,
    help.
    """
    page, given = _last_path(path_key)
    if page != path_key and (not chains or not given or is_chain(path_key)):
        st.session_state[path_key] = given
        if given:
            st.query_params[path_key] = given
    grid = st.grid(2, min_column_width=320, key="own-places")
    turn = st.session_state.setdefault(_TURN, 0)
    with grid.cell():
        # A new widget for every upload, so that the server drops its copy of the one before. It
        # takes any kind of file: of a wrong one Streamlit would not say what to do.
        st.file_uploader(
            f"A chain of your own, {CHAIN}"
            if chains
            else f"Checkpoints of your own, .safetensors or .pt; or one chain, {CHAIN}",
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
        words: dict[str, Any] = {
            "placeholder": "/path/to/checkpoints",
            "help": "A folder of .safetensors or .pt files, one such file, a chain's directory, "
            "run.lcc, or an archive, .lcc.zip. Nothing is changed there.",
        }
        path = st.text_input(
            "Or a path on this machine",
            key=path_key,
            bind="query-params",
            persist_state="session",
            on_change=_path_given,
            args=(path_key,),
            **(words | path_words),
        )
    return path.strip()


def upload() -> tuple[VisitorFolder, Named] | None:
    """What was uploaded, with a button that closes it; None, and why if it was refused."""
    held = st.session_state.get(_UPLOAD)
    if isinstance(held, str):
        _error(held)
        return None
    if held is not None:
        names = plain(held[1][0][0]) if len(held[1]) == 1 else plural(len(held[1]), "file")
        icon = ":material/close:"
        st.button(f"Close the upload: {names}", icon=icon, on_click=_close, key="own-close")
    return held


def is_chain(path_key: str) -> bool:
    """Whether what was given last, on this page or another, looks like one chain or its archive.

    Of what this page itself was given, any path does: opening it says what is wrong.
    """
    held = st.session_state.get(_UPLOAD)
    if isinstance(held, tuple):
        return _is_chain(held[1])
    page, path = _last_path(path_key)
    if page == path_key or not path:
        return bool(path)
    try:
        return _is_chain(_listed(path)[1])
    except SourceError:
        return False


def _is_chain(named: Named) -> bool:
    return len(named) == 1 and (named[0][0].lower().endswith(ARCHIVE) or named[0][1].is_dir())


def close(path_key: str) -> None:
    """Forget the upload and the path."""
    st.session_state[path_key] = ""
    st.session_state[_PATH] = (path_key, "")
    _close()


def _last_path(path_key: str) -> tuple[str, str]:
    """Which page was given a path last, by its key, and that path; a link gives one, too."""
    if path_key in st.query_params and path_key not in st.session_state:
        st.session_state[_PATH] = path_key, st.query_params[path_key].strip()
    found: tuple[str, str] = st.session_state.get(_PATH, (path_key, ""))
    return found


def _listed(text: str) -> tuple[Path, Named]:
    """A path, and the files that it stands for. Raises SourceError, also if it must not be read."""
    path = Path(text)
    with suppress(RuntimeError):  # no such user: then there is no such path either
        path = path.expanduser()
    session.check_may_read(path)
    return path, list_files(path)


def _open_path(text: str) -> OwnFiles | None:
    try:
        _, named = _listed(text)
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
    path = st.session_state[path_key].strip()
    st.session_state[_PATH] = path_key, path
    if path:
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
    except SourceError as exc:
        st.session_state[_UPLOAD] = plain(f"{given[0].name}: {exc}")
    except OSError as exc:
        st.session_state[_UPLOAD] = f"The upload cannot be kept on disk. {exc}"


def _write(given: list[Any]) -> tuple[VisitorFolder, Named]:
    """The files in a new place, under our own names; of a zip with a chain in it, the chain.

    Raises SourceError, FullError, OSError.
    """
    place = session.shelf().place()
    try:
        place.take(sum(file.size for file in given))
        named = []
        for i, file in enumerate(given):
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
    upload = st.session_state.pop(_UPLOAD, None)
    st.session_state.pop(_OPENED, None)
    if isinstance(upload, tuple):
        upload[0].close()


def _error(sentence: str) -> None:
    st.error(f"{sentence.rstrip('.')}.", icon=":material/error:")
