"""Export: take the chain, or one restored step, along; verified before it is offered."""

from __future__ import annotations

import streamlit as st

import codec

from .. import export, state
from ..export import Package
from ..figures.panel import nbytes_text
from ..figures.records import record_sizes
from ..session import Run
from ..snapshot import RunError
from .settings import describe

_HELD = "package"  # in the session: the run's id and what was packed and verified


def page() -> None:
    """The run of the URL: its records, the downloads, and the code that loads them."""
    st.title("Export the compressed chain")
    run = state.current_run()
    if run is None:
        state.await_example()
        return
    whose = "the example run, " if state.is_example(run) else ""
    st.markdown(f"This is {whose}**{run.task.title}**. {describe(run.settings)}.")
    state.tables_toggle()
    try:
        package = _package(run)
        _archive(run, package)
        step = _one_step(run, package)
    except (RunError, codec.LccError) as exc:
        reason = str(exc).rstrip(".")
        st.error(f"{reason}. Nothing more is offered for download. Reset the run on Live.")
        return
    _code(run, package, step)


def _package(run: Run) -> Package:
    """The verified archive: packed once, and anew when newer checkpoints are asked for."""
    held = st.session_state.get(_HELD)
    if held is not None and held[0] == run.id:
        package: Package = held[1]
    else:
        bar = st.progress(0.0, "Packing the chain…")

        def progress(done: int, total: int) -> None:
            run.watch()
            bar.progress(done / total, f"Checked {done} of {total} records")

        package = export.pack(run, progress)
        bar.empty()
        st.session_state[_HELD] = (run.id, package)
    st.fragment(_newer, run_every=state.poll_interval(run))(run, package)
    return package


def _newer(run: Run, package: Package) -> None:
    """Watches on while the run plays, and offers what it has saved since."""
    run.watch()
    behind = run.snapshot().newest.step - package.steps[-1]
    if behind and st.button(
        f"Include newer checkpoints, up to step {run.snapshot().newest.step}",
        icon=":material/refresh:",
        help="What is offered below ends at step "
        f"{package.steps[-1]}; the run has gone on since it was packed.",
    ):
        del st.session_state[_HELD]
        st.rerun()


def _archive(run: Run, package: Package) -> None:
    full = (len(package.entries)) * run.snapshot().newest.full_nbytes
    st.subheader("The whole chain")
    st.success(
        f"Verified: all {len(package.steps)} steps, 0 to {package.steps[-1]}, were rebuilt from "
        f"the {len(package.data):,} bytes offered here, and each is bit-identical to what a "
        f"restart would have had when the run saved it (xxh3-128 digest of step "
        f"{package.steps[-1]}: {package.track}).",
        icon=":material/verified:",
    )
    st.download_button(
        f"Download {package.name}.lcc.zip ({nbytes_text(len(package.data))})",
        package.data,
        f"{package.name}.lcc.zip",
        "application/zip",
        key="download-chain",
        on_click="ignore",
        type=state.main_button(),
        icon=":material/download:",
    )
    st.caption(f"The same checkpoints in full float32: {nbytes_text(full)}.")
    state.show(record_sizes(package.entries, package.tables), "records")


def _one_step(run: Run, package: Package) -> int:
    st.subheader("One restored step")
    if len(package.steps) > 1:
        step = st.select_slider("Step", package.steps, package.steps[-1], key="export-step")
    else:
        step = package.steps[0]
    restored = export.restore(run, package, step)
    live = run.snapshot().at(step).live_loss
    st.success(
        f"Verified: the file was read back from its {len(restored.data):,} bytes and equals the "
        f"restored step {step} bit for bit. Its loss on held-out examples is {restored.loss:.6f}"
        + (f"; the live model had {live:.6f} at that step." if live is not None else "."),
        icon=":material/verified:",
    )
    st.download_button(
        f"Download {restored.name}.safetensors ({nbytes_text(len(restored.data))})",
        restored.data,
        f"{restored.name}.safetensors",
        "application/octet-stream",
        key="download-step",
        on_click="ignore",
        icon=":material/download:",
    )
    return restored.step


def _code(run: Run, package: Package, step: int) -> None:
    st.subheader("Load it elsewhere")
    model, data, seed = run.settings.model, run.settings.data, run.settings.seed
    folder = f", folder={run.settings.folder!r}" if run.settings.folder else ""
    st.markdown(
        "With this project, any step of the chain. The loss it prints is the one shown above."
    )
    st.code(
        "import codec\n"
        "import demo_models\n\n"
        f'task = demo_models.make_task("{model}", "{data}", seed={seed}{folder})\n'
        f'state = codec.restore("{package.name}.lcc.zip", step={step})\n'
        "task.model.load_state_dict(state)\n"
        "print(task.probe_loss())",
        language="python",
    )
    st.markdown("On the command line: check every record, then write one step as a plain file.")
    st.code(
        f"python -m codec verify {package.name}.lcc.zip\n"
        f"python -m codec restore {package.name}.lcc.zip --step {step} -o step{step}.safetensors",
        language="bash",
    )
    st.markdown("The restored file needs nothing of ours:")
    st.code(
        "from safetensors.torch import load_file\n\n"
        f'state = load_file("{package.name}-step{step}.safetensors")  # name -> tensor',
        language="python",
    )
