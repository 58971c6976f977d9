"""Recover: what a crash costs with each way to save, at equal bytes on disk, tried out live."""

from __future__ import annotations

import datetime
from collections.abc import Hashable

import streamlit as st

from codec import Coding
from demo_models import MODELS
from lcviz.lab.recovery.methods import SHARES
from lcviz.lab.recovery.recovery import Outcome, Protocol
from lcviz.lab.recovery.rework import CrashExperiment
from lcviz.lab.workload import workload
from lcviz.server.jobs import FinishedPart, View
from lcviz.server.runs import EXAMPLE
from lcviz.text import plural
from lcviz.ui import widgets
from lcviz.ui.experiment import Asking, ControlTexts
from lcviz.ui.glossary import explained

from . import page_last_state
from .page_rework import conditions, details, headline, pictures
from .page_timelines import TITLE, timelines
from .recorded import COMMAND, RecordingError, recorded
from .timelines import Drill

INTERVALS = (1, 2, 5, 10)
MOST_SEEDS = 10
FAIL_AT, CAP = (10, 500), (10, 300)  # the least and the most
SOURCES = {"trained": "a demo model", "own": "own files"}
DEFAULT, SEEDS = CrashExperiment(next(iter(MODELS)), 0.05, Protocol()), 5
IN_URL = tuple(
    f"recover_{name}" for name in ("model", "share", "interval", "fail_at", "seeds", "cap")
)
TIMELINES_IN_URL = ("recover_timed", "recover_crash", "recover_shows")
TIMED = "alexnet"  # the largest: the ways to save differ most
METHODS = {
    "full": "Every value, exactly.",
    "SCAR": "The blocks of weights that changed most since they were saved, as many as fit.",
    "TOPN": "The single weights that changed most, as many as fit, each with its place.",
    "LC Huffman": "LC-Checkpoint as in the paper: at least one bit a value, 3.125 % of float32.",
    "LC run-length": "Beyond the paper: equal steps, and one word for a run of zeros.",
}
NAMES = "LC is this codec; [[SCAR]] and [[TOPN]] save what changed most."
Outcomes = tuple[Outcome, ...]
Shown = tuple[CrashExperiment, int, list[Outcomes]]  # seeds asked for, and the finished ones


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
        share = _share() if source == "own" else DEFAULT.share
    if source == "own":
        page_last_state.section(share)
    else:
        _trained()


def _trained() -> None:
    """The experiment on a model that is trained for it."""
    first = st.container(key="answer")
    experiment, seeds, wrong = DEFAULT, SEEDS, ""
    if (box := widgets.opened("Settings", "tune", "recover-settings", IN_URL)) is not None:
        with box:
            experiment, seeds, wrong = _settings()
    asking = Asking("recover", experiment, seeds, experiment.fail)

    def answer(view: View[Outcomes], watching: bool) -> None:
        shown = _own(asking, view) or _recorded()
        told = "what a crash costs" if shown is None else headline(shown[2], shown[0].share)
        st.title(f"Recover: {told}", anchor=False)
        asking.controls(view, watching, _texts(asking, view, wrong))
        if (asked := asking.elsewhere) is not None:
            _elsewhere(asked)
        if shown is not None:
            _label(shown, recording=not view.found)
            pictures(*shown)

    def more(view: View[Outcomes], _watching: bool) -> None:
        shown = _own(asking, view) or _recorded(quiet=True)
        if shown is not None:
            details(shown[2])

    with first:
        asking.follow(answer)
    asking.follow(more)
    linked = any(name.startswith(TIMELINES_IN_URL) for name in st.query_params.to_dict())
    box = widgets.opened(TITLE, "timer", "recover-timing", TIMELINES_IN_URL, linked)
    if box is not None:
        with box:
            timed = workload(_timed_model())
            coding = Coding(budget=experiment.share)
            timelines("recover", Drill(timed, 0, experiment.protocol.interval, coding))


def _own(asking: Asking[Outcomes], view: View[Outcomes]) -> Shown | None:
    """What this server has found."""
    assert isinstance(asking.experiment, CrashExperiment), "nothing else is asked for on this page"
    found = [one.value for one in view.found]
    return (asking.experiment, asking.parts, found) if found else None


def _recorded(*, quiet: bool = False) -> Shown | None:
    """The recording of the package. quiet: the page has already said what is wrong with it."""
    try:
        found = recorded()
    except RecordingError as exc:
        if not quiet:
            st.error(str(exc), icon=":material/broken_image:")
        return None
    return found.experiment, len(found.by_seed), list(found.by_seed)


def _label(shown: Shown, *, recording: bool) -> None:
    """What the pictures show, and where a recording comes from."""
    experiment, seeds, by_seed = shown
    text, how = f"{conditions(experiment, seeds)}.", None
    if recording:
        text = f":material/history: **Recorded** {recorded().day}: {text}"
        how = f"`{COMMAND}`, with {recorded().versions}."
    elif len(by_seed) < seeds:
        text = f"{text} {len(by_seed)} of them finished."
    st.markdown(f":small[{text}]", help=how)
    live = f" Saving less often costs more: Live saves every {EXAMPLE.interval}th iteration."
    names = NAMES + (live if experiment.protocol.interval < EXAMPLE.interval else "")
    st.markdown(explained(f":small[{names}]"))  # a caption's grey is too light for links


def _settings() -> tuple[CrashExperiment, int, str]:
    """The experiment, its seeds, and what is wrong with the settings, "" if nothing is."""
    grid = st.grid(3, min_column_width=260, key="recover-choices")
    with grid.cell():
        model = st.selectbox(
            "Model",
            list(MODELS),
            key="recover_model",
            bind="query-params",
            format_func=lambda name: MODELS[name].title,
            help="On built-in data, plain SGD. A seed takes seconds; of AlexNet half a minute.",
        )
    with grid.cell():
        share = _share()
    with grid.cell():
        interval = widgets.choice(
            "Save every … iterations",
            INTERVALS,
            default=DEFAULT.protocol.interval,
            key="recover_interval",
            help="What was trained since the last checkpoint is lost with every method.",
        )
    with grid.cell():
        fail_at = widgets.checked_number(
            "Crash at iteration T",
            *FAIL_AT,
            DEFAULT.protocol.fail_at,
            10,
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
            *CAP,
            DEFAULT.protocol.cap,
            10,
            key="recover_cap",
            text="Iterations after T. What is not back by then costs all that were tried.",
        )
    protocol = Protocol(fail_at or Protocol.fail_at, interval, cap or Protocol.cap)
    st.caption(_last_checkpoint(protocol))
    _explanation()
    wrong = "" if fail_at and cap else "Correct the settings first."
    return CrashExperiment(model, share, protocol), seeds, wrong


def _share() -> float:
    return widgets.choice(
        "Size limit, % of float32",
        {s: f"{100 * s:g} %" for s in SHARES},
        default=DEFAULT.share,
        key="recover_share",
        help="Of a record on disk, its header included. “Full” takes all of it.",
    )


def _timed_model() -> str:
    return st.selectbox(
        "Model",
        list(MODELS),
        list(MODELS).index(TIMED),
        key="recover_timed",
        bind="query-params",
        format_func=lambda name: MODELS[name].title,
        width=420,
    )


def _last_checkpoint(protocol: Protocol) -> str:
    """How far before the crash it is, and how to see what an interval costs."""
    last, interval = protocol.fail_at // protocol.interval * protocol.interval, protocol.interval
    before = protocol.fail_at - last
    if before:
        return f"The last checkpoint: iteration {last}, {plural(before, 'iteration')} before."
    text = f"The last checkpoint: iteration {last}, just before the crash."
    if interval > 1:
        text += f" The most that the interval costs: crash at {protocol.fail_at + interval - 1}."
    return text


def _explanation() -> None:
    with st.container(horizontal=True, key="recover-methods"):
        st.markdown(
            "Protocol",
            width="content",
            help="One training is saved in five ways, crashes, and is restored from each. All go "
            "on with the same batches. The price: iterations since the checkpoint, and those after "
            "them until the loss on fixed held-out examples is back. It is counted on the "
            "smoothed loss, the undisturbed one averaged over 11 iterations plus what the restored "
            "training is above it; jumps that both make cancel.",
        )
        for name, text in METHODS.items():
            st.markdown(f"**{name}**", width="content", help=text)


def _texts(asking: Asking[Outcomes], view: View[Outcomes], wrong: str) -> ControlTexts:
    seeds, done = asking.parts, len(view.found)
    return ControlTexts(
        start="Run it here" if not done else f"Go on with seed {done}",
        icon=":material/bolt:",
        help="Trains, crashes and recovers once for every seed.",
        stop_help="Seeds that are finished are kept.",
        working=f"Seed {done}, the {_ordinal(done + 1)} of {seeds}: {100 * view.share:.0f} %.",
        done=_age(view.found, own=asking.asked == asking.key) if done == seeds else "",
        kept=f" {done} of {plural(seeds, 'seed')} finished and kept." if done else "",
        wrong=wrong,
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
        "if no page shows it. Choose its settings again to watch it.",
        icon=":material/swap_horiz:",
    )


def _age(found: tuple[FinishedPart[Outcomes], ...], *, own: bool) -> str:
    """When it was computed; and for a session that has not asked, that the result was kept."""
    last = max(one.at for one in found)
    when = datetime.datetime.fromtimestamp(last, datetime.UTC)
    text = f"Finished on {when.day} {when:%B} at {when:%H:%M} UTC"
    if own:
        return f"{text}."
    return f"{text}, and kept: the same seeds give the same numbers."
