"""Recover: what a crash costs with each way to save, at equal bytes on disk, tried out live."""

from __future__ import annotations

import datetime
import secrets

import streamlit as st

from demo_models import DATASETS, MODELS

from .. import state
from ..figures.panel import plural
from ..jobs import ACTIVE, DONE, FAILED, STOPPED, WAITING, CrowdedError, Found, View
from ..lab.methods import SHARES
from ..lab.recovery import Outcome, Protocol
from ..lab.rework import Experiment
from .recovered import recovered

INTERVALS = (1, 2, 5, 10)
MOST_SEEDS = 10
NOTHING = 0.9995  # a distance from which on nothing was saved
LOSSES = {"trend": "on the trend", "measured": "as measured"}
METHODS = {
    "full": "Every value, exactly. What it loses is only what was trained since the checkpoint.",
    "SCAR": "The blocks of weights that have changed most since they were last saved, as many as "
    "fit, exactly; all other blocks stay as they were saved before.",
    "TOPN": "The single weights that have changed most, as many as fit, exactly, each with its "
    "place; all others stay as they were.",
    "LC Huffman": "LC-Checkpoint as in the paper: all weights, each moved by the middle of its "
    "bucket; as many buckets as fit. Every value needs a bit at least, 3.125 % of float32.",
    "LC run-length": "The same with one code word for a run of zeros and the value after it: "
    "our addition.",
}
_WHO = "recover-who"  # in the session: an id nobody else has
_ASKED = "recover-asked"  # what this session has asked for last
_LEFT = "recover-left"  # what it does not want to wait for any more
Key = tuple[Experiment, int]


def page() -> None:
    """The whole page."""
    st.title("Recover: what a crash costs", anchor=False)
    st.markdown(
        "A crash loses what was trained since the last checkpoint, and whatever that checkpoint "
        "had left out. How many iterations does it take to win that back, the **rework**? Below "
        "one training is saved in five ways, fails, and is restored from each; all of them go on "
        "with the same batches. Every way but full may take the same share of bytes on disk."
    )
    key = _parameters()
    _explanation()
    # Only the whole page can change the pace, so what is watched is decided here.
    watching = _watched(key)
    pace = state.POLL_SECONDS if watching else None
    st.fragment(_dashboard, run_every=pace)(key, watching)


def _parameters() -> Key:
    with st.container(border=True, key="recover-parameters"):
        grid = st.grid(3, min_column_width=260, key="recover-choices")
        with grid.cell():
            model = st.selectbox(
                "Model", list(MODELS), key="recover_model", bind="query-params",
                format_func=lambda name: MODELS[name].title,
                help="On data that is built in, with plain SGD and settings under which the loss "
                "still falls clearly at the failure. Larger models take longer: a seed of logistic "
                "regression takes seconds, one of AlexNet half a minute.",
            )  # fmt: skip
            st.caption(DATASETS[MODELS[model].default_data].sentence)
        with grid.cell():
            share = st.segmented_control(
                "A checkpoint may take, of float32", SHARES, default=0.05, required=True,
                key="recover_share", bind="query-params", format_func=lambda s: f"{100 * s:g} %",
                help="Bytes of its record on disk, header and indices included, against the same "
                "values in float32. “Full” takes all of it.",
            )  # fmt: skip
        with grid.cell():
            interval = st.segmented_control(
                "Save every … iterations", INTERVALS, default=1, required=True,
                key="recover_interval", bind="query-params",
                help="Iterations between two checkpoints. What was trained since the last one is "
                "lost with every method.",
            )  # fmt: skip
        with grid.cell():
            fail_at = st.number_input(
                "Fails at iteration T", 10, 500, Protocol.fail_at, 10, key="recover_fail_at",
                bind="query-params", help="The last iteration before the failure.",
            )  # fmt: skip
        with grid.cell():
            seeds = st.slider(
                "Paired seeds", 1, MOST_SEEDS, 5, key="recover_seeds", bind="query-params",
                help="Each seed is another beginning and other batches, the same for all methods. "
                "More seeds, a narrower interval.",
            )  # fmt: skip
        with grid.cell():
            cap = st.number_input(
                "Look for rework up to", 10, 300, Protocol.cap, 10, key="recover_cap",
                bind="query-params",
                help="Iterations after the failure. What is not back by then is marked, and "
                "counted as so many: its true rework is that or more.",
            )  # fmt: skip
    protocol = Protocol(int(fail_at), int(interval), int(cap))
    st.caption(_last_checkpoint(protocol))
    return Experiment(str(model), float(share), protocol), int(seeds)


def _last_checkpoint(protocol: Protocol) -> str:
    """How far before the failure it is, and how to see what an interval costs."""
    last, interval = protocol.fail_at // protocol.interval * protocol.interval, protocol.interval
    before = protocol.fail_at - last
    if before:
        n = plural(before, "iteration")
        return f"The last checkpoint is that of iteration {last}: {n} before the failure."
    text = f"The last checkpoint is that of iteration {last}, just before the failure."
    if interval > 1:
        worst = protocol.fail_at + interval - 1
        text += f" To see what an interval of {interval} can cost, let it fail at {worst}."
    return text


def _explanation() -> None:
    with st.container(horizontal=True, key="recover-methods"):
        st.markdown(
            "Protocol", width="content",
            help="Rework is counted on the loss of fixed held-out examples: iterations until it "
            "is at or below its value just before the failure. A loss jumps from batch to batch, "
            "so it is taken on the trend: the undisturbed training, averaged over 11 iterations, "
            "plus what the restored one is above it at the same iteration. Jumps that both make "
            "cancel, and between two iterations it is interpolated.",
        )  # fmt: skip
        for name, text in METHODS.items():
            st.markdown(f"**{name}**", width="content", help=text)


def _who() -> str:
    return str(st.session_state.setdefault(_WHO, secrets.token_hex(8)))


def _watched(key: Key) -> bool:
    """Whether this session follows what is under way: also what others have asked for."""
    view = state.all_jobs().look(*key)
    return view.status in ACTIVE and st.session_state.get(_LEFT) != key


def _dashboard(key: Key, watching: bool) -> None:
    view: View[tuple[Outcome, ...]] = state.all_jobs().look(*key, _who() if watching else None)
    if watching != _watched(key):
        st.rerun()  # the whole page: polling begins or ends
    _controls(key, view, watching)
    if view.found:
        recovered(*key, [one.value for one in view.found])


def _controls(key: Key, view: View[tuple[Outcome, ...]], watching: bool) -> None:
    _, seeds = key
    done, problem = len(view.found), None
    with st.container(horizontal=True, vertical_alignment="center", key="recover-controls"):
        if watching:
            if st.button("Stop", icon=":material/stop:", key="recover-stop",
                         type=state.main_button(),
                         help="Seeds that are finished are kept."):  # fmt: skip
                st.session_state[_LEFT] = key
                state.all_jobs().leave(_who())
                st.rerun()
            st.markdown(_where(view, seeds), width="content")
        elif view.status != DONE:
            label = "Crash it" if not done else f"Go on with seed {done}"
            if st.button(label, icon=":material/bolt:", key="recover-start",
                         type=state.main_button(),
                         help="Trains, fails and recovers once for every seed."):  # fmt: skip
                problem = _ask(key)
        else:
            st.markdown(_age(key, view.found), width="content")
    if watching and view.status != WAITING:
        st.progress((done + view.share) / seeds)
    if problem:
        st.error(problem, icon=":material/hourglass_disabled:")
    elif view.status == FAILED:
        st.error(view.message, icon=":material/error:")
    elif not watching and view.status in ACTIVE:
        st.info("Somebody else has asked for this one: it goes on for them.")
    elif view.status == STOPPED:
        kept = f" {done} of {plural(seeds, 'seed')} finished and kept." if done else ""
        st.info(f"{view.message}{kept}", icon=":material/stop_circle:")
    _elsewhere(key)


def _ask(key: Key) -> str:
    """Get in line; returns why that is not possible, if it is not."""
    experiment, seeds = key
    try:
        state.all_jobs().ask(experiment, seeds, experiment.fail, _who())
    except CrowdedError as exc:
        problem = str(exc)
    else:
        st.session_state[_ASKED] = key
        st.session_state.pop(_LEFT, None)
        st.rerun()
    return problem


def _where(view: View[tuple[Outcome, ...]], seeds: int) -> str:
    others = f" Shared with {plural(view.watchers - 1, 'other page')}." if view.watchers > 1 else ""
    if view.status == WAITING:
        return (
            "Waiting: one experiment trains at a time on this server. In line before this one: "
            f"{view.ahead}.{others}"
        )
    return (
        f"Seed {len(view.found)}, the {_ordinal(len(view.found) + 1)} of {seeds}: "
        f"{100 * view.share:.0f} %.{others}"
    )


def _ordinal(n: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(n, f"{n}th")


def _elsewhere(key: Key) -> None:
    """Tell of an experiment that this session has asked for and does not show."""
    asked = st.session_state.get(_ASKED)
    if asked is None or key == asked or st.session_state.get(_LEFT) == asked:
        return
    if state.all_jobs().look(*asked).status in ACTIVE:
        st.info(
            f"The experiment that you started is another one, {_named(asked)}. It stops within "
            "20 seconds if no page shows it; choose its parameters again to see it go on.",
            icon=":material/swap_horiz:",
        )


def _named(key: Key) -> str:
    experiment, seeds = key
    p = experiment.protocol
    return (
        f"{MODELS[experiment.model].title} at {100 * experiment.share:g} %, T = {p.fail_at}, saved "
        f"every {plural(p.interval, 'iteration')}, {plural(seeds, 'seed')}"
    )


def _age(key: Key, found: tuple[Found[tuple[Outcome, ...]], ...]) -> str:
    """When it was computed; if this session has not asked, that nothing was done again."""
    last = max(one.at for one in found)
    when = datetime.datetime.fromtimestamp(last, datetime.UTC)
    text = f"Finished on {when.day} {when:%B} at {when:%H:%M} UTC"
    if st.session_state.get(_ASKED) == key:
        return f"{text}."
    return f"{text}, and kept: the same seeds would give the same numbers again."
