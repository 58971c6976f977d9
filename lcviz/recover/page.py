"""Recover: what a crash costs with each way to save, at equal bytes on disk, tried out live."""

from __future__ import annotations

import datetime
from collections.abc import Hashable

import streamlit as st

from codec import Coding
from demo_models import DATASETS, MODELS
from lcviz.lab.recovery.methods import SHARES
from lcviz.lab.recovery.recovery import Outcome, Protocol
from lcviz.lab.recovery.rework import CrashExperiment
from lcviz.lab.workload import workload
from lcviz.server.jobs import FinishedPart, View
from lcviz.text import plural
from lcviz.ui import widgets
from lcviz.ui.experiment import Asking, ControlTexts
from lcviz.ui.glossary import explained

from .page_rework import rework_section
from .page_timelines import timelines
from .timelines import Drill

INTERVALS = (1, 2, 5, 10)
MOST_SEEDS = 10
METHODS = {
    "full": "Every value, exactly. It loses only what was trained since the checkpoint.",
    "SCAR": "The blocks of weights that have changed most since they were last saved, as many as "
    "fit, exactly; all other blocks stay as they were saved before.",
    "TOPN": "The single weights that have changed most, as many as fit, exactly, each with its "
    "place; all others stay as they were.",
    "LC Huffman": "LC-Checkpoint as in the paper: all weights, each moved by the middle of its "
    "bucket; as many buckets as fit. Every value needs at least one bit, 3.125 % of float32.",
    "LC run-length": "Our addition: one code word for a run of zeros and the value after it.",
}
Key = tuple[CrashExperiment, int]
Outcomes = tuple[Outcome, ...]


def page() -> None:
    """The whole page."""
    st.title("Recover: what a crash costs", anchor=False)
    st.markdown(
        explained(
            "A crash loses what was trained since the last [[checkpoint]], and whatever that "
            "checkpoint had left out. The **[[rework]]** is how many iterations it takes to win "
            "that back. Below, one training is saved in five ways, crashes, and is restored from "
            "each. All go on with the same batches. Every way but [[full|full checkpoint]] may "
            "take the same share of bytes on disk."
        )
    )
    key = _parameters()
    _explanation()
    experiment, seeds = key
    asking = Asking("recover", experiment, seeds, experiment.fail)

    def dashboard(view: View[Outcomes], watching: bool) -> None:
        asking.controls(view, watching, _texts(asking, view))
        if (asked := asking.elsewhere) is not None:
            _elsewhere(asked)
        if view.found:
            rework_section(experiment, seeds, [one.value for one in view.found])

    asking.follow(dashboard)
    own, interval = workload(experiment.model), experiment.protocol.interval
    drill = Drill(own, 0, interval, Coding(budget=experiment.share))
    timelines("recover", drill)


def _parameters() -> Key:
    with st.container(border=True, key="recover-parameters"):
        grid = st.grid(3, min_column_width=260, key="recover-choices")
        with grid.cell():
            model = st.selectbox(
                "Model",
                list(MODELS),
                key="recover_model",
                bind="query-params",
                format_func=lambda name: MODELS[name].title,
                help="On built-in data, with plain SGD and settings under which the loss still "
                "falls clearly at the crash. Larger models take longer: a seed of logistic "
                "regression takes seconds, one of AlexNet half a minute.",
            )
            st.caption(DATASETS[MODELS[model].default_data].sentence)
        with grid.cell():
            share = widgets.choice(
                "Size limit, % of float32",
                {s: f"{100 * s:g} %" for s in SHARES},
                default=0.05,
                key="recover_share",
                help="Bytes of its record on disk, header and indices included, against the same "
                "values in float32. “Full” takes all of it.",
            )
        with grid.cell():
            interval = widgets.choice(
                "Save every … iterations",
                INTERVALS,
                default=1,
                key="recover_interval",
                help="What was trained since the last checkpoint is lost with every method.",
            )
        with grid.cell():
            fail_at = widgets.whole_number(
                "Crash at iteration T",
                10,
                500,
                Protocol.fail_at,
                10,
                key="recover_fail_at",
                text="The last iteration before the crash.",
            )
        with grid.cell():
            seeds = st.slider(
                "Paired seeds",
                1,
                MOST_SEEDS,
                5,
                key="recover_seeds",
                bind="query-params",
                help="Each seed has its own first weights and batches, the same for all methods. "
                "More seeds give a narrower interval.",
            )
        with grid.cell():
            cap = widgets.whole_number(
                "Give up after",
                10,
                300,
                Protocol.cap,
                10,
                key="recover_cap",
                text="Iterations of rework. What is not back by then is marked, and counted as "
                "so many: its true rework is that or more.",
            )
    protocol = Protocol(fail_at, interval, cap)
    st.caption(_last_checkpoint(protocol))
    return CrashExperiment(model, share, protocol), seeds


def _last_checkpoint(protocol: Protocol) -> str:
    """How far before the crash it is, and how to see what an interval costs."""
    last, interval = protocol.fail_at // protocol.interval * protocol.interval, protocol.interval
    before = protocol.fail_at - last
    if before:
        n = plural(before, "iteration")
        return f"The last checkpoint is that of iteration {last}: {n} before the crash."
    text = f"The last checkpoint is that of iteration {last}, just before the crash."
    if interval > 1:
        worst = protocol.fail_at + interval - 1
        text += f" To see what an interval of {interval} can cost, let it crash at {worst}."
    return text


def _explanation() -> None:
    with st.container(horizontal=True, key="recover-methods"):
        st.markdown(
            "Protocol",
            width="content",
            help="Rework counts iterations until the loss on fixed held-out examples is at or "
            "below its value just before the crash. A loss jumps from batch to batch, so it is "
            "smoothed: the undisturbed training, averaged over 11 iterations, plus what the "
            "restored one is above it at the same iteration. Jumps that both make cancel. Between "
            "two iterations it is interpolated.",
        )
        for name, text in METHODS.items():
            st.markdown(f"**{name}**", width="content", help=text)


def _texts(asking: Asking[Outcomes], view: View[Outcomes]) -> ControlTexts:
    seeds, done = asking.parts, len(view.found)
    return ControlTexts(
        start="Crash it" if not done else f"Go on with seed {done}",
        icon=":material/bolt:",
        help="Trains, crashes and recovers once for every seed.",
        stop_help="Seeds that are finished are kept.",
        working=f"Seed {done}, the {_ordinal(done + 1)} of {seeds}: {100 * view.share:.0f} %.",
        done=_age(view.found, own=asking.asked == asking.key) if done == seeds else "",
        kept=f" {done} of {plural(seeds, 'seed')} finished and kept." if done else "",
    )


def _ordinal(n: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(n, f"{n}th")


def _elsewhere(asked: tuple[Hashable, int]) -> None:
    """Name an experiment that this session has asked for and does not show."""
    experiment, seeds = asked
    assert isinstance(experiment, CrashExperiment), "nothing else is asked for on this page"
    p = experiment.protocol
    st.info(
        f"You started another experiment: {MODELS[experiment.model].title} at "
        f"{100 * experiment.share:g} %, T = {p.fail_at}, saved every "
        f"{plural(p.interval, 'iteration')}, {plural(seeds, 'seed')}. It stops within 20 seconds "
        "if no page shows it. Choose its parameters again to watch it.",
        icon=":material/swap_horiz:",
    )


def _age(found: tuple[FinishedPart[Outcomes], ...], *, own: bool) -> str:
    """When it was computed; and for a session that has not asked, that the result was kept."""
    last = max(one.at for one in found)
    when = datetime.datetime.fromtimestamp(last, datetime.UTC)
    text = f"Finished on {when.day} {when:%B} at {when:%H:%M} UTC"
    if own:
        return f"{text}."
    return f"{text}, and kept: the same seeds would give the same numbers again."
