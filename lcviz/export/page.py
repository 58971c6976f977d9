"""Open and export: take a chain, or one restored step, along; verified before it is offered."""

from __future__ import annotations

import streamlit as st

import codec
from lcviz.run.run import Run
from lcviz.run.snapshot import RunError
from lcviz.ui import session as state
from lcviz.ui import widgets
from lcviz.ui.settings import describe

from . import archive as export
from . import page_downloads as offered
from . import page_own_files as bring
from .archive import Package
from .receipt import Receipt, of_run

SOURCES = {"run": "The run on Live", "own": "Files of mine"}
_HELD = "package"  # in the session: the run's id, what was packed and verified, its receipt


def page() -> None:
    """The whole page."""
    st.title("Open and export", anchor=False)
    source = widgets.choice(
        "What to take along",
        list(SOURCES),
        default="run",
        key="export_source",
        format_func=SOURCES.__getitem__,
        bind="query-params",
        persist_state="session",
        help="The run that the Live page shows, or checkpoints that you open here: they are "
        "compressed, compared with the originals, and exported.",
    )
    if source == "own":
        bring.own()
    else:
        _run_on_live()


def _run_on_live() -> None:
    """The run of the URL: its records, the downloads, and the code that loads them."""
    run = state.current_run()
    if run is None:
        state.await_example()
        return
    whose = "the example run, " if state.is_example(run) else ""
    st.markdown(f"This is {whose}**{run.task.title}**. {describe(run.settings)}.")
    widgets.tables_toggle()
    try:
        package, receipt = _package(run)
        full = len(package.entries) * run.snapshot().newest.full_nbytes
        offered.archive(package, full, "what a restart would have had when the run saved it")
        step = _one_step(run, package)
    except (RunError, codec.LccError) as exc:
        reason = str(exc).rstrip(".")
        st.error(f"{reason}. Nothing more is offered for download. Reset the run on Live.")
        return
    offered.papers(package, receipt)
    _code(run, package, step)


def _package(run: Run) -> tuple[Package, Receipt]:
    """The verified archive: packed once, and anew when newer checkpoints are asked for."""
    bar = st.empty()  # always there: what comes below keeps its place, and its clicks
    held = st.session_state.get(_HELD)
    if held is None or held[0] != run.id:
        bar.progress(0.0, "Packing the chain…")

        def progress(done: int, total: int) -> None:
            run.watch()
            bar.progress(done / total, f"Checked {done} of {total} records")

        package = export.pack(run, progress)
        bar.empty()
        held = st.session_state[_HELD] = (run.id, package, of_run(run, package))
    st.fragment(_newer, run_every=state.poll_interval(run))(run, held[1])
    return held[1], held[2]


def _newer(run: Run, package: Package) -> None:
    """Watches on while the run plays, and offers what it has saved since."""
    run.watch()
    behind = run.snapshot().newest.step - package.steps[-1]
    if behind > 0 and st.button(
        f"Include newer checkpoints, up to step {run.snapshot().newest.step}",
        icon=":material/refresh:",
        help="What is offered below ends at step "
        f"{package.steps[-1]}; the run has gone on since it was packed.",
    ):
        del st.session_state[_HELD]
        st.rerun()


def _one_step(run: Run, package: Package) -> int:
    step = offered.choose_step(package)
    key = (run.id, package.sha256, step)
    restored = offered.kept_step(key, lambda: export.restore(run, package, step), step)
    live = run.snapshot().at(step).live_loss
    loss = f" Its loss on held-out examples is {restored.loss:.6f}"
    loss += f"; the live model had {live:.6f} at that step." if live is not None else "."
    offered.one_step(restored, loss)
    return step


def _code(run: Run, package: Package, step: int) -> None:
    st.subheader("Load it elsewhere", anchor=False)
    model, data, seed = run.settings.model, run.settings.data, run.settings.seed
    folder = f", folder={run.settings.folder!r}" if run.settings.folder else ""
    st.markdown(
        "With this project, any step of the chain. The loss it prints is the one shown above."
    )
    st.code(
        "import codec\n"
        "import demo_models\n\n"
        f'task = demo_models.make_task("{model}", "{data}", seed={seed}{folder})\n'
        f'state = codec.restore("{package.file}", step={step})\n'
        "task.model.load_state_dict(state)\n"
        "print(task.probe_loss())",
        language="python",
        wrap_lines=True,
    )
    offered.restoring(package, step)
