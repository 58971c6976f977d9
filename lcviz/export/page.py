"""Open and export: a run or files of one's own, verified before they are offered."""

from __future__ import annotations

import io
import weakref

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import codec
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.lab.records import read_all
from lcviz.run.run import Run
from lcviz.run.snapshot import RunError
from lcviz.ui import session, widgets
from lcviz.ui.polling import polled
from lcviz.ui.settings import describe

from . import page_downloads as downloads
from .archive import Package, RestoredFile, pack
from .page_own_files import own_files
from .receipt import Receipt, of_run

SOURCES = {"run": "The run on Live", "own": "Files of mine"}
_PACKED = "package"  # in the session: of a run, `Packed`
Packed = tuple[Package, Receipt, Summary]  # verified
# The example never changes: packed and verified once, it serves all visitors.
_EXAMPLE: weakref.WeakKeyDictionary[Run, Packed] = weakref.WeakKeyDictionary()


def page() -> None:
    """The whole page."""
    with st.container(key="answer"):
        title = st.empty()
        title.title("Open and export", anchor=False)
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
        _run_on_live(title)


def _run_on_live(title: DeltaGenerator) -> None:
    """The downloads of the URL's run, and the code that loads them. title: of the page."""
    run = session.current_run()
    if run is None:
        session.await_example()
        return
    whose = "the example run, " if session.is_example(run) else ""
    about = st.empty()
    try:
        package, receipt, summary = _package(run)
        title.title(f"Export: {downloads.headline(package, summary)}", anchor=False)
        about.markdown(
            f":small[This is {whose}**{run.task.title}**. {describe(run.settings)}. "
            f"{downloads.beside_inspect(summary)}]"
        )
        restored = downloads.offer(
            package,
            receipt,
            "as the run saved them",
            task=run.task,
            told=lambda restored: _losses(run, restored),
        )
    except (RunError, codec.LccError) as exc:
        reason = str(exc).rstrip(".")
        st.error(f"{reason}. Nothing more is offered for download. Reset the run on Live.")
        return
    downloads.instructions(package, receipt, restored.step, _loading(run, package, restored.step))


def _losses(run: Run, restored: RestoredFile) -> str:
    """The loss of a restored step, beside that of what was trained."""
    trained = run.snapshot().at(restored.step).live_loss
    live = f", live {trained:.6f}" if trained is not None else ""
    return f"Loss on held-out examples: restored {restored.loss:.6f}{live}."


def _package(run: Run) -> Packed:
    """The verified archive; packed once, and again when the visitor includes newer checkpoints."""
    bar = st.empty()  # always there: the widgets below keep their places, and clicks reach them

    def progress(done: int, total: int) -> None:
        bar.progress(done / total, f"Checked {done} of {total} records")

    def packed() -> Packed:
        if run in _EXAMPLE:
            return _EXAMPLE[run]
        bar.progress(0.0, "Packing the chain…")
        package = pack(run, progress)
        records = read_all(codec.Chain(io.BytesIO(package.data)))
        bar.empty()
        verified = package, of_run(run, package), summarize(records)
        if session.is_example(run):
            _EXAMPLE[run] = verified
        return verified

    verified = session.cached(_PACKED, run.id, packed)
    polled(session.poll_interval(run), _offer_newer, run, verified[0])
    return verified


def _offer_newer(run: Run, package: Package) -> None:
    """Offer the steps that the run has saved since."""
    newest, last = run.snapshot().newest.step, package.steps[-1]
    if newest > last and widgets.button(
        f"Include newer checkpoints, up to step {newest}",
        lambda: st.session_state.pop(_PACKED),
        key="export-newer",
        icon=":material/refresh:",
        help=f"The downloads below end at step {last}; the run has gone on since.",
    ):
        st.rerun()


def _loading(run: Run, package: Package, step: int) -> str:
    """Python that restores a step into the run's model, and its optimizer if that was saved; it
    prints the loss shown on the page."""
    settings = run.settings
    task = f'"{settings.model}", "{settings.data}", seed={settings.seed}'
    if settings.folder:
        task += f", folder={settings.folder!r}"
    load = "task.model.load_state_dict(state)"
    if settings.optimizer_state:
        batch_size = settings.batch_size
        arguments = f'"{settings.optimizer}", lr={settings.lr!r}, batch_size={batch_size}'
        load = f"""training = demo_models.Training(task, {arguments})
training.load(state)  # the optimizer goes on with the saved moments
# training.iterate({step + 1}) is the next iteration"""
    return f"""import codec
import demo_models

task = demo_models.make_task({task})
state = codec.restore("{package.file}", step={step})
{load}
print(task.probe_loss())"""
