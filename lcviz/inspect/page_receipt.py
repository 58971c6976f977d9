"""A receipt that a visitor brings, checked against the chain that Inspect looks at."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

import codec
from lcviz.export.compress import MOST_ARCHIVE
from lcviz.export.receipt import MOST_BYTES, Receipt, ReceiptError, load, problems
from lcviz.text import nbytes_text, plain, plural
from lcviz.ui import widgets

from .page_open import Source, sentence

MOST_PROBLEMS = 5  # shown
_CHECKED = "inspect-receipt-checked"  # in the session: the last one, and what was found


@dataclass(frozen=True, eq=False)
class _Checked:
    """key: the chain and the receipt. receipt: as it was told. found: what is wrong, sentences."""

    key: object
    receipt: Receipt
    found: tuple[str, ...]


def check_receipt(source: Source) -> None:
    """The uploader, the button, and the verdict."""
    with st.expander("Check a receipt", icon=":material/receipt_long:", key="inspect-receipting"):
        st.markdown(
            "A receipt says what an archive is. Give the receipt.json that came with this one: "
            "every record is hashed, every step rebuilt, and digests, sizes and settings are "
            "compared with it."
        )
        given: Any = st.file_uploader(
            "The receipt, receipt.json",
            type=["json"],
            key="inspect_receipt",
            max_upload_size=MOST_BYTES // 2**20,
            help="It is kept for this browser tab alone. On the command line: python -m lcviz "
            "receipt receipt.json ARCHIVE.",
        )
        if given is None:
            st.session_state.pop(_CHECKED, None)
            return
        try:
            receipt = load(given.getvalue())
        except ReceiptError as exc:
            st.error(sentence(exc), icon=":material/error:")
            return
        key = (source.key, given.file_id)
        if (checked := _asked(source, receipt, key)) is not None:
            _verdict(checked)


def _asked(source: Source, receipt: Receipt, key: object) -> _Checked | None:
    """What was found, if that is known or wanted."""
    with st.container(horizontal=True, vertical_alignment="center", key="inspect-receipt-row"):
        wanted = st.button(
            "Check the receipt",
            type=widgets.main_button(),
            key="check-receipt",
            icon=":material/verified:",
        )
        stop, bar = st.empty(), st.empty()
    held: _Checked | None = st.session_state.get(_CHECKED)
    if not wanted:
        return held if held is not None and held.key == key else None
    stop.button("Stop", icon=":material/stop:", key="stop-receipt")  # any click ends this run

    def progress(done: int, total: int) -> None:
        if source.run is not None:
            source.run.watch()
        bar.progress(min(done / total, 1.0), f"Rebuilt {done:,} of {total:,} steps")

    try:
        bar.progress(0.0, "Reading the records…")
        found = problems(receipt, _archive(source), progress)
    except (codec.LccError, OSError) as exc:
        st.error(f"This cannot be checked. {sentence(exc)}", icon=":material/error:")
        return None
    finally:
        stop.empty()
        bar.empty()
    held = st.session_state[_CHECKED] = _Checked(key, receipt, tuple(found))
    return held


def _archive(source: Source) -> bytes:
    """The chain as the one archive that its records make. Raises codec.LccError, OSError."""
    chain = source.chain()
    if chain.nbytes > MOST_ARCHIVE:
        raise codec.ChainError(
            f"The chain has {nbytes_text(chain.nbytes)}, and this page checks up to "
            f"{nbytes_text(MOST_ARCHIVE)}; on the command line: python -m lcviz receipt"
        )
    if source.grows:  # packed as Export does it
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.lcc.zip"
            chain.pack(path)
            return path.read_bytes()
    if isinstance(source.target, Path):
        return source.target.read_bytes()
    assert not isinstance(source.target, str), "a URL was packed"
    source.target.seek(0)
    return source.target.read()


def _verdict(checked: _Checked) -> None:
    receipt, found = checked.receipt, checked.found
    steps, records = len(receipt["tracks"]), len(receipt["records"])
    if not found:
        st.success(
            f"As the receipt says: {plural(records, 'record')}, {plural(steps, 'step')}, all "
            "digests, sizes and settings are the same, to the last byte of the archive. "
            + _unchecked(receipt),
            icon=":material/verified:",
        )
        return
    for problem in found[:MOST_PROBLEMS]:
        st.error(sentence(Exception(problem[:500])), icon=":material/error:")
    more = len(found) - MOST_PROBLEMS
    st.warning(
        "This is not the chain that the receipt was made for, or one of the two was changed."
        + (f" {plural(more, 'more difference')} beside these." if more > 0 else "")
        + " Ask whoever gave you both for the archive of SHA-256 "
        + plain(receipt["archive"]["sha256"][:64])
        + ".",
        icon=":material/difference:",
    )


def _unchecked(receipt: Receipt) -> str:
    """What nothing in the archive can show."""
    if receipt["of"] == "archive":
        return "Where the chain came from, nobody has told."
    return (
        "What it was made from, where and when, is only told: the script that came with the "
        "receipt shows it, by making the chain again."
    )
