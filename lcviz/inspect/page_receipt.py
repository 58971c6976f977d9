"""Check a receipt that a visitor uploads against the chain that Inspect shows."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

import codec
from lcviz.export.compress import MOST_ARCHIVE
from lcviz.export.receipt import MOST_BYTES, Receipt, ReceiptError, load, problems
from lcviz.text import nbytes_text, plain, plural
from lcviz.ui import widgets

from .page_open import ChainSource
from .page_parts import progress_bar, sentence, show_damage

_CHECKED = "inspect-receipt-checked"  # in the session: what the last check found, and its key


def check_receipt(source: ChainSource) -> None:
    """The uploader, the button, and the verdict."""
    box = widgets.opened("Check a receipt", "receipt_long", "inspect-receipting")
    if box is None:
        return
    with box:
        st.markdown(
            "Upload the receipt.json of this archive. Every record is hashed, every step rebuilt, "
            "and both are compared with it."
        )
        uploaded: Any = st.file_uploader(
            "The receipt, receipt.json",
            key="inspect_receipt",
            max_upload_size=MOST_BYTES // 2**20,
            help="It is kept for this browser tab alone. On the command line: python -m lcviz "
            "receipt receipt.json ARCHIVE.",
        )
        if uploaded is None:
            st.session_state.pop(_CHECKED, None)
            return
        try:
            receipt = load(uploaded.getvalue())
        except ReceiptError as exc:
            widgets.error(sentence(exc))
            return
        key = (source.key, uploaded.file_id)
        _check(source, receipt, key)
        checked_key, mismatches = st.session_state.get(_CHECKED, (None, []))
        if checked_key == key:
            _verdict(receipt, mismatches)


def _check(source: ChainSource, receipt: Receipt, key: object) -> None:
    """The button, and the check when it is clicked; the session keeps what differs."""
    with st.container(horizontal=True, vertical_alignment="center", key="inspect-receipt-row"):
        if not st.button(
            "Check the receipt",
            type="primary",
            key="check-receipt",
            icon=":material/verified:",
        ):
            return
        st.session_state.pop(_CHECKED, None)
        try:
            with progress_bar("Rebuilt {} of {} steps", "stop-receipt") as progress:
                mismatches = list(problems(receipt, _archive(source), progress))
                st.session_state[_CHECKED] = key, mismatches
        except (codec.LccError, OSError) as exc:
            widgets.error(f"This cannot be checked. {sentence(exc)}")


def _archive(source: ChainSource) -> bytes:
    """The bytes of the chain's archive. Raises codec.LccError, OSError."""
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


def _verdict(receipt: Receipt, mismatches: Sequence[str]) -> None:
    if not mismatches:
        steps, records = len(receipt["tracks"]), len(receipt["records"])
        st.success(
            f"As the receipt says: {plural(records, 'record')}, {plural(steps, 'step')}, all "
            f"digests, sizes and settings match, to the last byte of the archive. "
            "A receipt cannot prove what the chain was made from.",
            icon=":material/verified:",
        )
        return
    text = (
        "This is not the chain that the receipt was made for, or one of the two was changed. Ask "
        "whoever gave you both for the archive of SHA-256 "
        f"{plain(receipt['archive']['sha256'][:64])}."
    )
    show_damage(text, [problem[:500] for problem in mismatches], "receipt")
