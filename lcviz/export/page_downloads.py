"""The downloads of a verified archive: all of it, one step, the receipt, and the scripts."""

from __future__ import annotations

from typing import Any

import streamlit as st

from demo_models import Task
from lcviz.report.records_figure import sizes_over_steps
from lcviz.text import nbytes_text, plain, plural
from lcviz.ui import widgets

from .archive import Package, RestoredFile, restore
from .receipt import Receipt, describe, dumped
from .scripts import RECEIPT, REPRODUCE, everything, reproduce_command, reproduce_script

MOST_STEPS = 20_000  # of the slider: a browser keeps every one of them
RESTORED = "export-restored"  # in the session: a step as a plain file
_STEP = "export_step"


def _download(
    label: str, data: Any, file: str, mime: str, key: str, icon: str, **more: Any
) -> None:
    st.download_button(
        label, data, file, mime, key=key, on_click="ignore", icon=f":material/{icon}:", **more
    )


def whole_chain(package: Package, equal_to: str) -> None:
    """The archive. equal_to: what every restored step was compared with."""
    st.subheader("The whole chain", anchor=False)
    nbytes, first, last = len(package.data), package.steps[0], package.steps[-1]
    st.success(
        f"Verified: all {plural(len(package.steps), 'step')}, {first} to {last}, were rebuilt from "
        f"the {nbytes:,} bytes offered here, and each is bit-identical to {equal_to} (xxh3-128 "
        f"digest of step {last}: {package.tracks[-1]}).",
        icon=":material/verified:",
    )
    _download(
        f"Download {plain(package.file)} ({nbytes_text(nbytes)})",
        package.data,
        package.file,
        "application/zip",
        "download-chain",
        "download",
        type=widgets.main_button(),
    )
    st.caption(f"The same checkpoints in full float32: {nbytes_text(package.full_nbytes)}.")
    widgets.show(sizes_over_steps(package.records), "records")


def one_step(package: Package, task: Task | None = None) -> RestoredFile:
    """The slider of steps, and the chosen step as a plain file.

    A step is restored once and kept while it is shown: after a thousand deltas that takes seconds.

    Args:
        package: the verified archive.
        task: of the run, for the loss of the restored step.

    Raises:
        codec.LccError, RunError: the step does not restore.
    """
    st.subheader("One restored step", anchor=False)
    step = _choose_step(package)
    waiting = st.empty()  # always there: what comes below keeps its place, and its clicks
    key = (package.sha256, step, task is None)
    held = st.session_state.get(RESTORED)
    if held is None or held[0] != key:
        with waiting, st.spinner(f"Restoring step {step:,} from the archive…"):
            held = st.session_state[RESTORED] = key, restore(package, step, task)
    restored: RestoredFile = held[1]
    return restored


def _choose_step(package: Package) -> int:
    if len(package.steps) == 1:
        return package.steps[0]
    steps = package.steps[-MOST_STEPS:]
    if len(steps) < len(package.steps):
        st.caption(f"The newest {MOST_STEPS:,} of {len(package.steps):,} steps can be chosen.")
    if st.session_state.get(_STEP, steps[-1]) not in steps:  # of another chain
        del st.session_state[_STEP]
    how: dict[str, Any] = {"key": _STEP, "bind": "query-params", "persist_state": "session"}
    return int(st.select_slider("Step", steps, steps[-1], **how))


def step_file(restored: RestoredFile, loss: str = "") -> None:
    """The download of one step. loss: a sentence to end with."""
    nbytes, left_out = len(restored.data), ""
    if restored.left_out:
        values = plural(restored.left_out, "value")
        left_out = f" {values} of the state are no tensors, and not in it."
    st.success(
        f"Verified: the file was read back from its {nbytes:,} bytes and equals the restored step "
        f"{restored.step} bit for bit.{left_out}{loss}",
        icon=":material/verified:",
    )
    file = f"{restored.name}.safetensors"
    label = f"Download {plain(restored.name)}.safetensors ({nbytes_text(nbytes)})"
    _download(label, restored.data, file, "application/octet-stream", "download-step", "download")


def receipt_and_scripts(package: Package, receipt: Receipt) -> None:
    """The receipt, the script that makes the archive again, and everything in one zip."""
    st.subheader("Receipt and script", anchor=False)
    again = receipt["of"] != "archive"
    intro = "The receipt says what the archive is and what was checked."
    if again:
        intro = (
            "The receipt says what the archive is, what it was made from, and what was checked. "
            "The script makes the archive again and compares it with the receipt, byte for byte."
        )
    st.markdown(intro)
    st.info(receipt["reproducible"], icon=":material/replay:")
    with st.container(horizontal=True, key="export-papers"):
        _download(
            "Download everything",
            lambda: everything(package, receipt),
            f"{package.name}.zip",
            "application/zip",
            "download-all",
            "folder_zip",
            type=widgets.main_button(),
            help="One zip: the archive, its receipt, the script that makes it again, and the "
            "script that restores a step.",
        )
        _download(
            "Receipt",
            dumped(receipt),
            RECEIPT,
            "application/json",
            "download-receipt",
            "receipt_long",
            help="It is no signature: whoever changes the archive can write another receipt.",
        )
        if again:
            _download(
                "Script",
                reproduce_script(receipt),
                REPRODUCE,
                "text/x-python",
                "download-script",
                "code",
                help="Run it in the root of this project, beside the receipt. Exit code 0: the "
                "same bytes. 1: other bytes, and a sentence says what differs.",
            )
    with st.container(border=True, key="export-receipt"):
        lines = (f"- **{what}:** {plain(value)}" for what, value in describe(receipt).items())
        st.markdown("\n".join(lines))
    st.markdown("Inspect checks a receipt against its archive. So does the command line:")
    command = f"python -m lcviz receipt {RECEIPT} {package.file}"
    if again:
        command += f"\n{reproduce_command(receipt)}  # makes the archive again"
    st.code(command, language="bash", wrap_lines=True)
    if again:
        st.caption(
            "Byte for byte on this machine and with these versions; elsewhere sums may come out in "
            "another order, and the script says which versions differ."
        )


def loading_code(package: Package, step: int) -> None:
    """How to load what was downloaded, without the dashboard."""
    st.markdown("On the command line: check every record, then write one step as a plain file.")
    st.code(
        f"python -m codec verify {package.file}\n"
        f"python -m codec restore {package.file} --step {step} -o step{step}.safetensors",
        language="bash",
        wrap_lines=True,
    )
    st.markdown("The restored file loads without lcviz:")
    st.code(
        "from safetensors.torch import load_file\n\n"
        f'state = load_file("{package.name}-step{step}.safetensors")  # name -> tensor',
        language="python",
        wrap_lines=True,
    )
