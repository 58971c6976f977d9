"""The recommendation: many settings tried out, and one chosen that meets a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from codec.inspect import DEFAULT_DISTANCE
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.replay import FAILURES
from lcviz.lab.tuner.tuner import Tuned, choose
from lcviz.run.snapshot import RunSettings
from lcviz.server.jobs import View
from lcviz.text import CODER_NAMES, kept_text
from lcviz.ui import navigation, session, widgets
from lcviz.ui.coding_form import SCOPES
from lcviz.ui.experiment import ControlTexts, PageJob
from lcviz.ui.live_settings import checkpoint_parameters, own_training
from lcviz.ui.widgets import Limits

from .answer import basis, default_of, described, headline
from .page_sweep import SweepRequest, sweep_controls
from .recommend_figure import frontier_panel
from .recorded import SWEEP, recorded

TARGETS = {
    "rework": "a low price of a crash",
    "distance": "limit the restore error",
    "size": "fit into a size",
}
LABELS = {
    "rework": "Price at most, in iterations, of 95 of 100 crashes",
    "distance": "Relative distance at most, in 95 of 100 crashes",
    "size": "% of float32 at most, for 95 of 100 checkpoints",
}
LIMITS = {
    "rework": Limits(0.1, 100.0, 3.0, 0.5),
    "distance": Limits(0.001, 1.0, DEFAULT_DISTANCE, 0.01),
    "size": Limits(0.1, 100.0, 5.0, 0.5),
}
QUESTION = "which setting should I use?"
MEASURED = (
    "Bytes: shares of float32, without the base. Distance: ‖restored − u‖ / ‖u − u₀‖, with u the "
    f"state before the failure and u₀ the first one. Measured at up to {FAILURES} failures, each "
    "just before the next checkpoint. 95 of 100 other failures stay below the values drawn here."
)
Candidates = tuple[Candidate, ...]


def recommendation() -> None:
    """Everything on the page."""
    request = sweep_controls()
    sweep = request.sweep
    if sweep.run is not None and request.run is None:  # a new server prepares its example
        with st.container(key="answer"):
            _recorded(request)
        if not session.all_runs().prepared():
            session.rerun_with_example()
        return
    job = PageJob(
        f"tune-{'run' if sweep.run else 'asked'}",
        sweep.key,
        1,
        lambda _, progress: sweep.try_out(progress),
    )
    if sweep.run is not None:
        job.begin()

    def dashboard(view: View[Candidates], watching: bool) -> None:
        if view.finished_parts and not request.wrong:
            _answer(request, view.finished_parts[0].value)
            return
        recording = sweep == SWEEP and not request.wrong
        if not recording:
            st.title(f"Tune: {QUESTION}", anchor=False)
            st.caption(request.about if not request.wrong else "")
        job.controls(view, watching, _texts(request, view), bar=not recording)
        if recording:
            _recorded(request)

    with st.container(key="answer"):
        job.follow(dashboard)


def _recorded(request: SweepRequest) -> None:
    """The recorded answer for the example."""
    st.markdown(":material/history: **Recorded** with `python -m lcviz.record_example`.")
    _answer(request, recorded())


def _texts(request: SweepRequest, view: View[Candidates]) -> ControlTexts:
    n = len(request.sweep.candidate_settings)
    return ControlTexts(
        start=f"Try {n} settings out",
        icon=":material/tune:",
        working=f"Trying {n} settings out: {100 * view.share:.0f} %",
        wrong=request.wrong,
    )


def changes(setting: Setting, run: RunSettings) -> str:
    """A sentence about what the setting changes in a run's checkpoints."""
    new, old = setting.coding, run.coding
    pairs = (
        (kept_text(old), kept_text(new)),
        (f"buckets over {SCOPES[old.scope]}", f"buckets over {SCOPES[new.scope]}"),
        (CODER_NAMES[old.coder], CODER_NAMES[new.coder]),
        (f"saved every {run.interval}", f"saved every {setting.interval}"),
    )
    differences = [f"{before} → {after}" for before, after in pairs if before != after]
    if not differences:
        return "Live has this setting already."
    return f"Changes: {'; '.join(differences)}."


def _answer(request: SweepRequest, candidates: Candidates) -> None:
    sweep = request.sweep
    title = st.container()
    left, right = st.columns([2, 3], border=True)
    with left:
        tuned = _tuned(candidates, sweep.candidate_settings)
        if request.files is not None and (default := default_of(tuned)) is not None:
            st.markdown(f"The codec's default, {described(default)}.")
        valid = not math.isnan(tuned.most)
        if tuned.recommended:
            _use(request, tuned.recommended)
        elif valid:
            st.warning(tuned.because, icon=":material/search_off:")
    why = tuned.because if valid and tuned.recommended else None
    title.title(f"Tune: {headline(tuned) if valid else QUESTION}", anchor=False, help=why)
    notes = f"{tuned.left_out}{basis(tuned)}"
    title.caption(f"{request.about}{'.' * bool(notes)}{notes}", help=MEASURED)
    by_distance = candidates[0].rework is None or tuned.target == "distance"
    with right:
        measure = "distance" if by_distance else "rework"
        widgets.show(frontier_panel(tuned, measure, sweep.unit), "frontier")
    widgets.tables_toggle()


def _tuned(candidates: Candidates, candidate_settings: Sequence[Setting]) -> Tuned:
    """The recommendation for the target and limit that a visitor chooses.

    If the limit is not valid, it is not a number, and nothing is recommended.
    """
    knows_loss = candidates[0].rework is not None
    targets = {t: text for t, text in TARGETS.items() if t != "rework" or knows_loss}
    target = widgets.choice(
        "I want to",
        targets,
        default=next(iter(targets)),
        key=f"tune_want_{knows_loss}",
        help="Your limit holds in 95 of 100 cases, as far as 10 failures or fewer of one "
        "training can tell. Of the settings that keep the limit, the one with the fewest bytes "
        "is recommended; of those that fit into a size, the one that loses least.",
    )
    most = _most(target)
    if most is None:  # all settings are drawn, without a limit
        tuned = choose(candidates, target, LIMITS[target].default, candidate_settings)
        return replace(tuned, recommended=None, most=math.nan)
    return choose(candidates, target, most, candidate_settings)


def _use(request: SweepRequest, best: Candidate) -> None:
    """A link that opens Live with this setting, and the code for another training."""
    setting = request.in_steps(best.setting)
    st.page_link(
        navigation.page("live"),
        label="Use it on Live",
        icon=":material/monitoring:",
        help="With the training that it was found for." if request.training else None,
        query_params=request.training | checkpoint_parameters(setting),
    )
    if request.run is not None:
        st.markdown(f":small[{changes(setting, request.run.settings)}]")
    own_training(setting)


def _most(target: str) -> float | None:
    """The limit that a visitor asks for, in the target's own unit; None if it is out of range."""
    text = "Of the distance trained." if target == "distance" else None
    most = widgets.checked_number(LABELS[target], LIMITS[target], key=f"tune_{target}", text=text)
    return most / 100 if most is not None and target == "size" else most
