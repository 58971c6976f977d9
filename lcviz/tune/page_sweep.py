"""What settings are tried out on: the run on Live, another model, or a visitor's own files."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import streamlit as st

import codec
from codec.errors import DTypeError
from demo_models import DATASETS, MODELS
from lcviz.lab.tuner.candidates import Setting
from lcviz.lab.tuner.own_files import OwnFiles, look_into
from lcviz.lab.tuner.replay import LEAST_STATES
from lcviz.lab.tuner.sweep import ITERATIONS, RUN_ITERATIONS, Sweep, stamped
from lcviz.lab.workload import workload
from lcviz.run.run import Run
from lcviz.server.runs import EXAMPLE
from lcviz.text import plain
from lcviz.ui import session, widgets
from lcviz.ui.live_settings import training_parameters

SOURCES = {"run": "the run on Live", "trained": "another model", "own": "own files"}


@dataclass(frozen=True)
class Asked:
    """What a visitor asks for.

    run: on Live, which the recommendation is compared with; None while a new server prepares the
    example. files: of the visitor's own, if it is about those. wrong: why nothing can be tried
    out, if so.
    """

    sweep: Sweep
    run: Run | None
    files: OwnFiles | None = None
    wrong: str = ""

    @property
    def about(self) -> str:
        """In a few words."""
        if self.files is not None:
            return self.files.describe()
        if self.sweep.run is not None:
            which = (
                "The example" if self.run is None or session.is_example(self.run) else "Your run"
            )
            title = MODELS[self.sweep.run.model].title
            data = DATASETS[self.sweep.run.data].title
            return f"{which}: {title} on {data}, the first {RUN_ITERATIONS} iterations repeated"
        return f"{MODELS[self.sweep.model].title}, {ITERATIONS} iterations"

    def in_steps(self, setting: Setting) -> Setting:
        """The setting with its interval counted in steps of the files, not in files."""
        every = self.files.every if self.files is not None else None
        return replace(setting, interval=setting.interval * every) if every else setting

    @property
    def training(self) -> dict[str, str]:
        """The parameters of Live's URL for the training; none for files."""
        if self.sweep.own:
            return {}
        if self.sweep.run is not None:
            s = self.run.settings if self.run is not None else EXAMPLE
            whole = s.optimizer_state
            return training_parameters(self.sweep.run, s.stop_after, self.sweep.seed, moments=whole)
        return training_parameters(workload(self.sweep.model), ITERATIONS)


def asked() -> Asked:
    """The controls."""
    with st.container(horizontal=True, key="tune-parameters"):
        source = widgets.choice(
            "Try settings out on",
            SOURCES,
            default="run",
            key="tune_source",
            help=f"The run: its first {RUN_ITERATIONS} iterations are repeated. Own files: on the "
            "machine that runs this page.",
        )
        if source == "trained":
            model = st.selectbox(
                "Model",
                list(MODELS),
                key="tune_model",
                bind="query-params",
                format_func=lambda name: MODELS[name].title,
                width=260,
                help="On built-in data, with the lab's settings. AlexNet takes minutes.",
            )
        if source == "own":
            place = st.container(width=420)
        wide = widgets.choice(
            "How many",
            {False: "a choice", True: "all"},
            default=False,
            key="tune_wide",
            help="All: also 5 to 8 bits, other budgets and scopes, the paper's coder, and longer "
            "intervals.",
        )
    run = session.current_run()
    if source == "own":
        with place:
            return _own(run, wide=wide)
    if source == "trained":
        return Asked(Sweep(str(model), wide=wide), run)
    s = run.settings if run is not None else EXAMPLE
    return Asked(Sweep("", wide=wide, run=s.workload, seed=s.seed), run)


def _own(run: Run | None, *, wide: bool) -> Asked:
    """The field for a path, and what is there, or why that is nothing to use."""
    text = st.text_input(
        "Folder of checkpoints, or a chain",
        key="tune_own",
        bind="query-params",
        placeholder="/path/to/checkpoints",
        help=f"{LEAST_STATES} or more .safetensors or .pt files with their steps in their names. "
        "Intervals that are too long for the series are left out. A chain holds what a restart "
        "would load; what its saves left out is not judged.",
    ).strip()
    path = Path(text)
    with suppress(RuntimeError):  # no such user: then there is no such path either
        path = path.expanduser()
    sweep = stamped(str(path), wide=wide) if text else Sweep("", "none", wide=wide)
    files, wrong = _looked_into(path, sweep.stamp) if text else (None, "")
    if files is not None and files.odd:
        names = ", ".join(files.odd[:3])
        wrong = f"{files.describe()}: {names}. Name files whose tensors have the same shapes."
    elif files is not None and len(files.steps) < LEAST_STATES:
        wrong = f"{files.describe()}: too few. Name a folder or chain of {LEAST_STATES} or more."
    if wrong:
        st.markdown(f":red[:material/error: {plain(wrong)}]")
    elif files is not None:
        st.markdown(f":material/check: {plain(files.describe())}")
    return Asked(sweep, run, files, wrong or ("" if text else "Name a folder or a chain."))


def _looked_into(path: Path, stamp: int) -> tuple[OwnFiles | None, str]:
    """What is there, or why it cannot be used."""
    try:
        inside = path.iterdir() if path.is_dir() else ()
        session.check_may_read(path, *(p for p in inside if p.is_symlink()))
        return _found(os.fspath(path), stamp), ""
    except DTypeError as exc:  # which advises settings that this page does not have
        why = str(exc).partition(";")[0]
        return None, f"{why}. Export makes a chain of such files without it; open that here."
    except (codec.LccError, OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        return None, f"{why.rstrip('.')}."


@st.cache_data(show_spinner=False, max_entries=20)
def _found(path: str, stamp: int) -> OwnFiles:
    """stamp: tells files that have changed from those before."""
    return look_into(Path(path))
