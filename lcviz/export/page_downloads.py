"""What is offered of a verified archive: all of it, one step, the receipt, and the scripts."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from lcviz.text import nbytes_text, plain, plural
from lcviz.ui import widgets

from . import archive as export
from .archive import Package, Restored
from .bundle import everything
from .receipt import Receipt, dumped, rows
from .records_figure import record_sizes
from .scripts import NAME, RECEIPT, reproducing

MOST_STEPS = 20_000  # of the slider: a browser keeps every one of them
_STEP = "export_step"
RESTORED = "export-restored"  # in the session: a step as a plain file


def archive(package: Package, full: int, like: str) -> None:
    """The whole chain. full: bytes of the same in float32. like: what each step is equal to."""
    st.subheader("The whole chain", anchor=False)
    n, first, last = len(package.steps), package.steps[0], package.steps[-1]
    st.success(
        f"Verified: all {plural(n, 'step')}, {first} to {last}, were rebuilt from the "
        f"{len(package.data):,} bytes offered here, and each is bit-identical to {like} (xxh3-128 "
        f"digest of step {last}: {package.track}).",
        icon=":material/verified:",
    )
    st.download_button(
        f"Download {plain(package.file)} ({nbytes_text(len(package.data))})",
        package.data,
        package.file,
        "application/zip",
        key="download-chain",
        on_click="ignore",
        type=widgets.main_button(),
        icon=":material/download:",
    )
    st.caption(f"The same checkpoints in full float32: {nbytes_text(full)}.")
    widgets.show(record_sizes(package.entries, package.tables), "records")


def choose_step(package: Package) -> int:
    """The heading and the slider of one step."""
    st.subheader("One restored step", anchor=False)
    if len(package.steps) == 1:
        return package.steps[0]
    steps = package.steps[-MOST_STEPS:]
    if len(steps) < len(package.steps):
        st.caption(f"The newest {MOST_STEPS:,} of {len(package.steps):,} steps can be chosen.")
    if st.session_state.get(_STEP, steps[-1]) not in steps:  # of another chain
        del st.session_state[_STEP]
    return int(
        st.select_slider(
            "Step",
            steps,
            steps[-1],
            key=_STEP,
            bind="query-params",
            persist_state="session",
        )
    )


def one_step(restored: Restored, loss: str = "") -> None:
    """One step as a plain file. loss: a sentence to end with."""
    left_out = (
        f" {plural(restored.left_out, 'value')} of the state are no tensors, and not in it."
        if restored.left_out
        else ""
    )
    st.success(
        f"Verified: the file was read back from its {len(restored.data):,} bytes and equals the "
        f"restored step {restored.step} bit for bit.{left_out}{loss}",
        icon=":material/verified:",
    )
    st.download_button(
        f"Download {plain(restored.name)}.safetensors ({nbytes_text(len(restored.data))})",
        restored.data,
        f"{restored.name}.safetensors",
        "application/octet-stream",
        key="download-step",
        on_click="ignore",
        icon=":material/download:",
    )


def papers(package: Package, receipt: Receipt) -> None:
    """The receipt, for people and for machines, the script that makes it all again, and all."""
    st.subheader("Receipt and script", anchor=False)
    st.markdown(
        "The receipt says what the archive is, what it was made from, and what was checked; the "
        "script makes the archive again and compares it with the receipt, byte for byte."
        if receipt["of"] != "archive"
        else "The receipt says what the archive is, and what was checked."
    )
    st.info(receipt["reproducible"], icon=":material/replay:")
    with st.container(horizontal=True, key="export-papers"):
        st.download_button(
            "Download everything",
            lambda: everything(package, receipt),
            f"{package.name}.zip",
            "application/zip",
            key="download-all",
            on_click="ignore",
            type=widgets.main_button(),
            icon=":material/folder_zip:",
            help="One zip: the archive, its receipt, the script that makes it again, and the short "
            "one that restores a step.",
        )
        st.download_button(
            "Receipt",
            dumped(receipt),
            RECEIPT,
            "application/json",
            key="download-receipt",
            on_click="ignore",
            icon=":material/receipt_long:",
            help="It is no signature: whoever changes the archive can write another receipt.",
        )
        if receipt["of"] != "archive":
            st.download_button(
                "Script",
                reproducing(receipt),
                NAME,
                "text/x-python",
                key="download-script",
                on_click="ignore",
                icon=":material/code:",
                help="Run it in the root of this project, beside the receipt. Exit code 0: the "
                "same bytes. 1: others, and a sentence says what.",
            )
    with st.container(border=True, key="export-receipt"):
        st.markdown("\n".join(f"- **{what}:** {plain(value)}" for what, value in rows(receipt)))
    st.markdown(
        "Inspect checks a receipt against its archive. So does the command line; the script makes "
        "the archive again."
        if receipt["of"] != "archive"
        else "Inspect checks a receipt against its archive. So does the command line."
    )
    lines = f"python -m lcviz receipt {RECEIPT} {package.file}"
    if receipt["of"] == "files":
        lines += f"\npython {NAME} FILES-OR-THEIR-FOLDER"
    elif receipt["of"] == "run":
        lines += f"\npython {NAME}" + (" FOLDER" if receipt["data"]["from_folder"] else "")
    st.code(lines, language="bash", wrap_lines=True)
    if receipt["of"] != "archive":
        st.caption(
            "Byte for byte on this machine and with these versions; elsewhere sums may come out in "
            "another order, and the script says which versions differ."
        )


def restoring(package: Package, step: int) -> None:
    """How to load what was downloaded, without the dashboard."""
    st.markdown("On the command line: check every record, then write one step as a plain file.")
    st.code(
        f"python -m codec verify {package.file}\n"
        f"python -m codec restore {package.file} --step {step} -o step{step}.safetensors",
        language="bash",
        wrap_lines=True,
    )
    st.markdown("The restored file needs nothing of ours:")
    st.code(
        "from safetensors.torch import load_file\n\n"
        f'state = load_file("{package.name}-step{step}.safetensors")  # name -> tensor',
        language="python",
        wrap_lines=True,
    )


def plain_step(package: Package, step: int) -> Restored:
    """One step of a package of a visitor's own; see `kept_step`."""
    return kept_step((package.sha256, step), lambda: export.plain(package, step), step)


def kept_step(key: object, make: Callable[[], Restored], step: int) -> Restored:
    """A restored step, made once for as long as it is looked at: after a thousand deltas that takes
    seconds. key: another one is another step."""
    waiting = st.empty()  # always there: what comes below keeps its place, and its clicks
    held = st.session_state.get(RESTORED)
    if held is None or held[0] != key:
        with waiting, st.spinner(f"Restoring step {step:,} from the archive…"):
            held = st.session_state[RESTORED] = key, make()
    restored: Restored = held[1]
    return restored
