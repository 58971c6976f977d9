"""The downloads of a verified archive: the chain, a zip with receipt and reader, one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from demo_models import Task
from lcviz.lab.chain_summary import Summary
from lcviz.report.verdict import misses
from lcviz.text import nbytes_text, plain, plural
from lcviz.ui import session, widgets

from .archive import Package, RestoredFile, restore
from .bundle import RECEIPT, everything, install_command, reader_command
from .receipt import Receipt, describe

RESTORED = "export-restored"  # in the session: a step as a plain file
_STEP = "export_step"


def _download(label: str, data: bytes, file: str, key: str, icon: str, **more: Any) -> None:
    mime = "application/zip" if file.endswith(".zip") else "application/octet-stream"
    icon = f":material/{icon}:"
    st.download_button(label, data, file, mime, key=key, on_click="ignore", icon=icon, **more)


def headline(package: Package, summary: Summary) -> str:
    """What was saved and what was lost."""
    nbytes = len(package.data)
    times = f", {package.full_nbytes / nbytes:.1f} × smaller" if package.full_nbytes else ""
    return f"{plural(len(package.steps), 'step')} in {nbytes_text(nbytes)}{times}{misses(summary)}"


def beside_inspect(summary: Summary) -> str:
    """Why Inspect tells another size."""
    return f"Its records take {nbytes_text(summary.nbytes)}, the rest are the entries of the zip."


def offer(
    package: Package,
    receipt: Receipt,
    equal_to: str,
    warning: str = "",
    task: Task | None = None,
    told: Callable[[RestoredFile], str] = lambda _: "",
) -> RestoredFile:
    """All downloads of a verified archive.

    Args:
        package: The archive.
        receipt: The archive's receipt.
        equal_to: What every step was compared with: "as the run saved them".
        warning: A sentence if restarts are too far from what was trained, else "".
        task: The run's, for the loss of the restored step.
        told: A sentence on how close the chosen step is to what was trained, or "".

    Returns:
        The chosen step.

    Raises:
        codec.LccError, RunError: The chosen step does not restore.
    """
    grid = st.grid(2, min_column_width=420, border=True, key="export-downloads")
    with grid.cell():
        _chain(package, receipt, equal_to, warning)
    with grid.cell():
        restored = _one_step(package, task)
        _step_file(restored, told(restored))
        return restored


def _chain(package: Package, receipt: Receipt, equal_to: str, warning: str) -> None:
    """The chain alone, and everything in one zip."""
    nbytes, first, last = len(package.data), package.steps[0], package.steps[-1]
    widgets.verified(
        f"Verified: {plural(len(package.steps), 'step')}, {first} to {last}, rebuilt from these "
        f"{nbytes:,} bytes, bit for bit {equal_to}. This checks what was written, not how close it "
        "is to what was trained.",
        warning,
    )
    _download(
        f"Download chain ({nbytes_text(nbytes)})",
        package.data,
        package.file,
        "download-chain",
        "download",
        type="primary",
        help=f"{plain(package.file)}. In full float32 its steps take "
        f"{nbytes_text(package.full_nbytes)}.",
    )
    # As bytes: a file made only at a click may be deleted before the browser has it.
    whole = everything(package, receipt)
    _download(
        f"Download everything ({nbytes_text(len(whole))})",
        whole,
        f"{package.name}.zip",
        "download-all",
        "folder_zip",
        help="One zip: the chain, its receipt, and reader.py, which restores a step with "
        "numpy alone. The receipt is no signature: whoever changes the chain can write another.",
    )


def _one_step(package: Package, task: Task | None) -> RestoredFile:
    """The slider of steps, and the chosen step as a plain file.

    A step is restored only once while the page shows it: a thousand deltas take seconds.

    Args:
        package: the verified archive.
        task: the run's, for the loss of the restored step.

    Raises:
        codec.LccError, RunError: the step does not restore.
    """
    step = _choose_step(package)
    waiting = st.empty()  # always there: the widgets below keep their places, and clicks reach them

    def restored() -> RestoredFile:
        with waiting, st.spinner(f"Restoring step {step:,} from the archive…"):
            return restore(package, step, task)

    return session.cached(RESTORED, (package.sha256, step, task is None), restored)


def _choose_step(package: Package) -> int:
    if len(package.steps) == 1:
        return package.steps[0]
    newest = package.steps[-widgets.MOST_STEPS :]
    if st.session_state.get(_STEP, newest[-1]) not in newest:  # of another chain
        del st.session_state[_STEP]
    return widgets.step_slider(package.steps, package.steps[-1], _STEP)


def _step_file(restored: RestoredFile, told: str) -> None:
    """The download of one step. told: see `offer`."""
    text = f"The tensors of step {restored.step} were read back bit for bit. {told}".strip()
    if restored.left_out:
        missing = plural(restored.left_out, "value")
        text += f" Such a file holds only tensors, and lacks {missing} of the chain."
    st.markdown(f":small[:material/verified: {text}]")
    file = f"{restored.name}.safetensors"
    label = f"Download step {restored.step} ({nbytes_text(len(restored.data))})"
    text = f"{plain(file)}, which loads without lcviz."
    _download(label, restored.data, file, "download-step", "download", help=text)


def instructions(package: Package, receipt: Receipt, step: int, loading: str = "") -> None:
    """What the receipt says, and commands that install, load and verify the downloads.

    Both boxes are closed at first: the browser draws code with a library of 1.5 MB.

    Args:
        package: The archive.
        receipt: The archive's receipt.
        step: The restored step.
        loading: Python that loads the step into its model; "" if the model is unknown.
    """
    box = widgets.opened("What the receipt says", "receipt_long", "export-receipt")
    if box is not None:
        lines = (f"- **{what}:** {plain(value)}" for what, value in describe(receipt).items())
        box.markdown("\n".join(lines))
    label = "Use it elsewhere: install, load, verify"
    if (box := widgets.opened(label, "terminal", "export-elsewhere")) is not None:
        with box:
            _commands(package, receipt, step, loading)


def _commands(package: Package, receipt: Receipt, step: int, loading: str) -> None:
    without, project, check = st.tabs(["Without lcviz", "With lcviz", "Check the receipt"])
    with without:
        st.markdown(
            "In the unpacked folder of *Download everything*. NumPy alone is enough; with blake3 "
            "and xxhash the reader also checks every digest:"
        )
        install = install_command(receipt, ("numpy", "blake3", "xxhash"))
        _code(f"{install}\n{reader_command(package, step)}", "bash")
        st.markdown(f"In PyTorch, beside the file of *Download step {step}*:")
        _code(install_command(receipt, ("numpy", "torch", "safetensors")), "bash")
        _code(
            "from safetensors.torch import load_file\n\n"
            f'state = load_file("{package.name}-step{step}.safetensors")  # name -> tensor',
            "python",
        )
    with project:
        st.markdown("In this project's folder, with the archive in it:")
        _code(install_command(receipt), "bash")
        if loading:
            _code(loading, "python")
        _code(
            f"python -m codec verify {package.file}\n"
            f"python -m codec restore {package.file} --step {step} -o step{step}.safetensors",
            "bash",
        )
    with check:
        st.markdown("In this project's folder, with the files of *Download everything* in it:")
        _code(install_command(receipt), "bash")
        _code(f"python -m lcviz receipt {RECEIPT} {package.file}", "bash")


def _code(text: str, language: str) -> None:
    st.code(text, language=language, wrap_lines=True)
