"""The controls that choose what settings are tried out on: a run, a model, or own files."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

from demo_models import DATASETS, MODELS
from lcviz.lab.tuner.candidates import Setting
from lcviz.lab.tuner.replay import LEAST_STATES
from lcviz.lab.tuner.sweep import ITERATIONS, RUN_ITERATIONS, Sweep
from lcviz.lab.workload import workload
from lcviz.run.run import Run
from lcviz.run.snapshot import RunSettings
from lcviz.server.own_files import OwnFiles
from lcviz.server.runs import EXAMPLE
from lcviz.text import plain
from lcviz.ui import session, widgets
from lcviz.ui.own_files import opened_series
from lcviz.ui.settings import LOSS_SHARE, select_model

SOURCES = {"run": "the run on Live", "trained": "another model", "own": "own files"}


@dataclass(frozen=True)
class SweepRequest:
    """The sweep that a visitor asks for.

    run: on Live; None while a new server prepares the example. files: the visitor's own, if
    settings are tried out on them. wrong: why nothing can be tried out; "" if it can.
    """

    sweep: Sweep
    run: Run | None
    files: OwnFiles | None = None
    wrong: str = ""

    @property
    def about(self) -> str:
        """What settings are tried out on, in a few words."""
        if self.files is not None:
            return plain(self.files.describe())
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
        spacing = self.files.spacing if self.files is not None else None
        return replace(setting, interval=setting.interval * spacing) if spacing else setting

    @property
    def unit(self) -> str:
        """What follows what in the series: its intervals are counted in it."""
        if self.files is None:
            return "iteration"
        return "step" if self.files.archive is not None else "file"

    @property
    def key(self) -> str:
        """How the keys of the answer's widgets begin: files have others than a training."""
        return "tune_run" if self.files is None else "tune_files"

    @property
    def usual_seconds(self) -> float:
        """From one unit to the next, until the visitor says how many."""
        return 1.0 if self.files is None else 60.0

    def run_settings(self, setting: Setting) -> RunSettings:
        """Of a run on Live of this training, saved with this setting. Not for files."""
        if self.sweep.run is not None:
            base = self.run.settings if self.run is not None else EXAMPLE
        else:
            w = workload(self.sweep.model)
            training = w.model, w.data, w.folder, w.optimizer, w.lr, w.momentum, w.batch_size
            base = RunSettings(*training, stop_after=ITERATIONS)
        return replace(
            base, coding=setting.coding, interval=setting.interval, loss_share=LOSS_SHARE
        )


def sweep_controls() -> SweepRequest:
    """Draw the controls; returns what they say."""
    with st.container(horizontal=True, key="tune-parameters"):
        source = widgets.choice(
            "Try settings out on",
            SOURCES,
            default="run",
            key="tune_source",
            help=f"The run: its first {RUN_ITERATIONS} iterations are repeated. Own files: "
            f"{LEAST_STATES} or more checkpoints, or a chain, which holds what a restart would "
            "load. Intervals that are too long for the series are left out.",
        )
        if source == "trained":
            text = "On built-in data, with the lab's settings. AlexNet takes minutes."
            model = select_model("tune_model", width=260, help=text)
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
        files, wrong = opened_series("tune_own", LEAST_STATES)
        digest = "none" if files is None else files.digest
        return SweepRequest(Sweep("", digest, wide=wide, opened=files), run, files, wrong)
    if source == "trained":
        return SweepRequest(Sweep(model, wide=wide), run)
    s = run.settings if run is not None else EXAMPLE
    return SweepRequest(Sweep("", wide=wide, run=s.workload, seed=s.seed), run)
