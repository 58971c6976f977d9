"""Open and export: a run or files of one's own, verified before they are offered."""

from __future__ import annotations

import weakref

import streamlit as st

import codec
from lcviz.run.run import Run
from lcviz.run.snapshot import RunError
from lcviz.ui import session, widgets
from lcviz.ui.polling import polled
from lcviz.ui.settings import describe

from . import page_downloads as downloads
from .archive import Package, pack
from .page_own_files import own_files
from .receipt import Receipt, of_run

SOURCES = {"run": "The run on Live", "own": "Files of mine"}
_PACKED = "package"  # in the session: the run's id, its verified package, its receipt
# The example never changes: packed and verified for one visitor, it is so for all.
_EXAMPLE: weakref.WeakKeyDictionary[Run, tuple[Package, Receipt]] = weakref.WeakKeyDictionary()


def page() -> None:
    """The whole page."""
    with st.container(key="answer"):
        st.title("Open and export", anchor=False)
        source = widgets.choice(
            "What to export",
            SOURCES,
            default="run",
            key="export_source",
            persist_state="session",
            label_visibility="collapsed",
            help="The run on the Live page, or checkpoints that you open here: they are "
            "compressed, compared with the originals, and exported.",
        )
    if source == "own":
        own_files()
    else:
        _run_on_live()


def _run_on_live() -> None:
    """The run of the URL: its records, the downloads, and the code that loads them."""
    run = session.current_run()
    if run is None:
        session.await_example()
        return
    whose = "the example run, " if session.is_example(run) else ""
    st.markdown(f":small[This is {whose}**{run.task.title}**. {describe(run.settings)}.]")
    try:
        package, receipt = _package(run)
        restored = downloads.offer(
            package,
            receipt,
            "as the run saved them",
            run.task,
            lambda step: run.snapshot().at(step).live_loss,
        )
    except (RunError, codec.LccError) as exc:
        reason = str(exc).rstrip(".")
        st.error(f"{reason}. Nothing more is offered for download. Reset the run on Live.")
        return
    downloads.instructions(package, receipt, restored.step, _loading(run, package, restored.step))


def _package(run: Run) -> tuple[Package, Receipt]:
    """The verified archive: packed once, and anew when newer checkpoints are asked for."""
    bar = st.empty()  # always there: what comes below keeps its place, and its clicks
    held = st.session_state.get(_PACKED)
    if held is None or held[0] != run.id:
        found = _EXAMPLE.get(run)
        if found is None:
            bar.progress(0.0, "Packing the chain…")

            def progress(done: int, total: int) -> None:
                run.watch()
                bar.progress(done / total, f"Checked {done} of {total} records")

            package = pack(run, progress)
            bar.empty()
            found = package, of_run(run, package)
            if session.is_example(run):
                _EXAMPLE[run] = found
        held = st.session_state[_PACKED] = (run.id, *found)
    polled(session.poll_interval(run), _offer_newer, run, held[1])
    return held[1], held[2]


def _offer_newer(run: Run, package: Package) -> None:
    """Keep watching while the run plays, and offer the steps it has saved since."""
    run.watch()
    newest, last = run.snapshot().newest.step, package.steps[-1]
    if newest > last and widgets.button(
        f"Include newer checkpoints, up to step {newest}",
        key="export-newer",
        icon=":material/refresh:",
        help=f"The downloads below end at step {last}; the run has gone on since.",
    ):
        del st.session_state[_PACKED]
        st.rerun()


def _loading(run: Run, package: Package, step: int) -> str:
    """Python that restores a step into the run's model, and its optimizer if that was saved; it
    prints the loss shown on the page."""
    s = run.settings
    folder = f", folder={s.folder!r}" if s.folder else ""
    load = "task.model.load_state_dict(state)"
    if s.optimizer_state:
        given = f'"{s.optimizer}", lr={s.lr!r}, batch_size={s.batch_size}'
        load = (
            f"training = demo_models.Training(task, {given})\n"
            "training.load(state)  # the optimizer goes on with the saved moments\n"
            f"# training.iterate({step + 1}) is the next iteration"
        )
    return (
        "import codec\n"
        "import demo_models\n\n"
        f'task = demo_models.make_task("{s.model}", "{s.data}", seed={s.seed}{folder})\n'
        f'state = codec.restore("{package.file}", step={step})\n'
        f"{load}\n"
        "print(task.probe_loss())"
    )
