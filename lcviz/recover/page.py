"""Recover: what a crash costs with each way to save, at equal bytes on disk, measured live."""

from __future__ import annotations

import datetime

import streamlit as st

from lcviz.lab.recovery.methods import SHARES
from lcviz.lab.recovery.recovery import Outcome, Protocol
from lcviz.lab.recovery.rework import CrashExperiment
from lcviz.server.jobs import FinishedPart, View
from lcviz.server.runs import EXAMPLE
from lcviz.text import plural
from lcviz.ui import widgets
from lcviz.ui.experiment import ControlTexts, PageJob
from lcviz.ui.glossary import explained
from lcviz.ui.settings import select_model

from . import page_last_state
from .page_rework import conditions, details, headline, pictures
from .recorded import EXPERIMENT, SEEDS, recorded

INTERVALS = (1, 2, 5, 10)
MOST_SEEDS = 10
FAIL_AT_LIMITS, CAP_LIMITS = (10, 500), (10, 300)  # smallest and largest choice
SOURCES = {"trained": "a demo model", "own": "own files"}
IN_URL = tuple(
    f"recover_{name}" for name in ("model", "share", "interval", "fail_at", "seeds", "cap")
)
METHODS = {
    "full": "Every value, exactly.",
    "SCAR": "The blocks of weights that changed most since they were saved, as many as fit.",
    "TOPN": "The single weights that changed most, as many as fit, each with its place.",
    "LC Huffman": "LC-Checkpoint as in the paper: at least one bit a value, 3.125 % of float32.",
    "LC run-length": "Beyond the paper: equal steps, and one word for a run of zeros.",
}
NAMES = "LC is this codec; [[SCAR]] and [[TOPN]] save what changed most."
Outcomes = tuple[Outcome, ...]  # of one seed, by method
# The experiment, the number of seeds asked for, and the outcomes of the finished seeds.
FinishedSeeds = tuple[CrashExperiment, int, list[Outcomes]]


def page() -> None:
    """The whole page."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="recover-parameters"):
        source = widgets.choice(
            "Try a crash on",
            SOURCES,
            default="trained",
            key="recover_source",
            label_visibility="collapsed",
        )
        share = _share() if source == "own" else EXPERIMENT.share
    if source == "own":
        page_last_state.section(share)
    else:
        _trained()


def _trained() -> None:
    """The experiment on a demo model, trained for it on this server."""
    first = st.container(key="answer")
    experiment, seeds, wrong = EXPERIMENT, SEEDS, ""
    if (box := widgets.opened("Settings", "tune", "recover-settings", IN_URL)) is not None:
        with box:
            experiment, seeds, wrong = _settings()
    job = PageJob("recover", experiment, seeds, experiment.fail)

    def answer(view: View[Outcomes], watching: bool) -> None:
        finished = _finished(job, view)
        experiment, _, by_seed = finished
        st.title(f"Recover: {headline(by_seed, experiment.share)}", anchor=False)
        job.controls(view, watching, _texts(job, view, wrong))
        pictures(*finished)
        _label(finished, recording=not view.finished_parts)

    def more(view: View[Outcomes], _watching: bool) -> None:
        details(_finished(job, view)[-1])

    with first:
        job.follow(answer)
    job.follow(more)


def _finished(job: PageJob[Outcomes], view: View[Outcomes]) -> FinishedSeeds:
    """The seeds that this server has finished; the package's recording if there are none."""
    assert isinstance(job.experiment, CrashExperiment), "this page asks for no other kind"
    if view.finished_parts:
        return job.experiment, job.parts, [part.value for part in view.finished_parts]
    by_seed = list(recorded().by_seed)
    return recorded().experiment, len(by_seed), by_seed


def _label(finished: FinishedSeeds, *, recording: bool) -> None:
    """What the pictures show, and where a recording comes from."""
    experiment, seeds, by_seed = finished
    text, origin = f"{conditions(experiment, seeds)}.", None
    if recording:
        text = f":material/history: **Recorded** {recorded().day}: {text}"
        origin = f"`python -m lcviz.record_example`, with {recorded().versions}."
    elif len(by_seed) < seeds:
        text = f"{text} {len(by_seed)} of them finished."
    st.markdown(f":small[{text}]", help=origin)
    live = f" Saving less often costs more: Live saves every {EXAMPLE.interval}th iteration."
    names = NAMES + (live if experiment.protocol.interval < EXAMPLE.interval else "")
    st.markdown(explained(f":small[{names}]"))  # a caption's grey is too light for links


def _settings() -> tuple[CrashExperiment, int, str]:
    """The experiment, its number of seeds, and what is wrong with the settings ("" if nothing)."""
    grid = st.grid(3, min_column_width=260, key="recover-choices")
    with grid.cell():
        text = "On built-in data, plain SGD. A seed takes seconds, for AlexNet half a minute."
        model = select_model("recover_model", help=text)
    with grid.cell():
        share = _share()
    with grid.cell():
        interval = widgets.choice(
            "Save every … iterations",
            INTERVALS,
            default=EXPERIMENT.protocol.interval,
            key="recover_interval",
            help="What was trained since the last checkpoint is lost with every method.",
        )
    with grid.cell():
        fail_at = widgets.checked_number(
            "Crash at iteration T",
            widgets.Limits(*FAIL_AT_LIMITS, EXPERIMENT.protocol.fail_at, 10),
            key="recover_fail_at",
            text="The last iteration before the crash.",
        )
    with grid.cell():
        seeds = st.slider(
            "Paired seeds",
            1,
            MOST_SEEDS,
            SEEDS,
            key="recover_seeds",
            bind="query-params",
            help="Each has its own first weights and batches, the same for all methods.",
        )
    with grid.cell():
        cap = widgets.checked_number(
            "Give up after",
            widgets.Limits(*CAP_LIMITS, EXPERIMENT.protocol.cap, 10),
            key="recover_cap",
            text="Iterations after T. If the loss is not back by then, all of them count.",
        )
    protocol = Protocol(fail_at or Protocol.fail_at, interval, cap or Protocol.cap)
    st.caption(_last_checkpoint(protocol))
    _explanation()
    problem = "" if fail_at and cap else "Correct the settings first."
    return CrashExperiment(model, share, protocol), seeds, problem


def _share() -> float:
    return widgets.choice(
        "Size limit, % of float32",
        {s: f"{100 * s:g} %" for s in SHARES},
        default=EXPERIMENT.share,
        key="recover_share",
        help="Of a record on disk, header included. The method “full” has no limit.",
    )


def _last_checkpoint(protocol: Protocol) -> str:
    """Where the last checkpoint is, and which crash shows the highest cost of the interval."""
    last, interval = protocol.fail_at // protocol.interval * protocol.interval, protocol.interval
    before = protocol.fail_at - last
    if before:
        return f"The last checkpoint: iteration {last}, {plural(before, 'iteration')} before."
    text = f"The last checkpoint: iteration {last}, just before the crash."
    if interval > 1:
        text += f" To see the interval's highest cost, crash at {protocol.fail_at + interval - 1}."
    return text


def _explanation() -> None:
    with st.container(horizontal=True, key="recover-methods"):
        st.markdown(
            "Protocol",
            width="content",
            help="One training is saved in five ways, crashes, and is restored from each. All go "
            "on with the same batches. The price: the iterations since the checkpoint, plus those "
            "until the loss on fixed held-out examples is back. That loss is smoothed: the loss of "
            "the undisturbed training, averaged over 11 iterations, plus how far the restored one "
            "is above it at each iteration. Jumps that both make cancel.",
        )
        for name, text in METHODS.items():
            st.markdown(f"**{name}**", width="content", help=text)


def _texts(job: PageJob[Outcomes], view: View[Outcomes], wrong: str) -> ControlTexts:
    seeds, done = job.parts, len(view.finished_parts)
    return ControlTexts(
        start="Run it here" if not done else f"Go on with seed {done}",
        icon=":material/bolt:",
        help="Trains, crashes and recovers once for every seed.",
        stop_help="Finished seeds are kept.",
        working=f"Seed {done}, the {_ordinal(done + 1)} of {seeds}: {100 * view.share:.0f} %.",
        done=_age(view.finished_parts) if done == seeds else "",
        after_stop=f" {done} of {plural(seeds, 'seed')} finished and kept." if done else "",
        wrong=wrong,
    )


def _ordinal(n: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(n, f"{n}th")


def _age(parts: tuple[FinishedPart[Outcomes], ...]) -> str:
    """When the parts were computed."""
    last = max(part.at for part in parts)
    when = datetime.datetime.fromtimestamp(last, datetime.UTC)
    return f"Finished on {when.day} {when:%B} at {when:%H:%M} UTC."
