"""Tune, the recommendation: many settings tried out, and one chosen that meets a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.replay import FAILURES
from lcviz.run.snapshot import RunSettings
from lcviz.server.jobs import View
from lcviz.text import CODER_NAMES, kept_text
from lcviz.ui import navigation, session, widgets
from lcviz.ui.coding_form import SCOPES
from lcviz.ui.experiment import Asking, ControlTexts
from lcviz.ui.live_settings import checkpoint_parameters, own_training

from .answer import Answer, answer, described
from .page_sweep import Asked, asked
from .recommend_figure import frontier_panel
from .recorded import SWEEP, recorded

TARGETS = {
    "rework": "a low price of a crash",
    "distance": "limit the restore error",
    "size": "fit into a size",
}
LIMITS: dict[str, tuple[Any, ...]] = {  # label, lowest, highest, default, step, help
    "rework": ("Price at most, in iterations, of 95 of 100 crashes", 0.1, 100.0, 3.0, 0.5, None),
    "distance": (
        "Relative distance at most, in 95 of 100 crashes",
        *(0.001, 1.0, 0.1, 0.01),
        "Of the distance trained.",
    ),
    "size": ("% of float32 at most, for 95 of 100 checkpoints", 0.1, 100.0, 5.0, 0.5, None),
}
QUESTION = "which setting should I use?"
MEASURED = (
    "Bytes: shares of float32, without the base. Distance: ‖restored − u‖ / ‖u − u₀‖, with u the "
    f"state before the failure and u₀ the first one. Measured at up to {FAILURES} failures, each "
    "just before the next checkpoint. 95 of 100 other failures stay below the values drawn here."
)
Candidates = tuple[Candidate, ...]


def section() -> None:
    """The whole section."""
    found = asked()
    sweep = found.sweep
    if sweep.run is not None and found.run is None:  # a new server prepares its example
        with st.container(key="answer"):
            _recorded(found)
        if not session.all_runs().prepared():
            session.rerun_with_example()
        return
    asking = Asking(
        f"tune-{'run' if sweep.run else 'asked'}",
        sweep.key,
        1,
        lambda _, progress: sweep.try_out(progress),
    )
    if sweep.run is not None:
        asking.begin()

    def dashboard(view: View[Candidates], watching: bool) -> None:
        if view.found and not found.wrong:
            _answer(found, view.found[0].value)
            return
        recording = sweep == SWEEP and not found.wrong
        if not recording:
            st.title(f"Tune: {QUESTION}", anchor=False)
            st.caption(found.about if not found.wrong else "")
        asking.controls(view, watching, _texts(found, view), bar=not recording)
        if recording:
            _recorded(found)

    with st.container(key="answer"):
        asking.follow(dashboard)


def _recorded(found: Asked) -> None:
    """The answer for the example, as it was recorded."""
    st.markdown(":material/history: **Recorded** with `python -m lcviz.record`.")
    _answer(found, recorded())


def recommended(candidates: Candidates) -> Answer:
    """The answer before a visitor asks for anything else."""
    return answer(candidates, "rework", LIMITS["rework"][3])


def _texts(found: Asked, view: View[Candidates]) -> ControlTexts:
    n = len(found.sweep.tried)
    return ControlTexts(
        start=f"Try {n} settings out",
        icon=":material/tune:",
        working=f"Trying {n} settings out: {100 * view.share:.0f} %",
        wrong=found.wrong,
    )


def changes(setting: Setting, run: RunSettings) -> str:
    """What of a run's checkpoints the setting changes."""
    new, old = setting.coding, run.coding
    pairs = (
        (kept_text(old), kept_text(new)),
        (f"buckets over {SCOPES[old.scope]}", f"buckets over {SCOPES[new.scope]}"),
        (CODER_NAMES[old.coder], CODER_NAMES[new.coder]),
        (f"saved every {run.interval}", f"saved every {setting.interval}"),
    )
    told = [f"{before} → {after}" for before, after in pairs if before != after]
    return f"Changes: {'; '.join(told)}." if told else "Live has this setting already."


def _answer(found: Asked, candidates: Candidates) -> None:
    knows_loss, sweep = candidates[0].rework is not None, found.sweep
    title = st.container()
    left, right = st.columns([2, 3], border=True)
    with left:
        answered, target, sound = _chosen(candidates, sweep.tried)
        tuned = answered.tuned
        if tuned.recommended:
            _use(found, tuned.recommended, answered.closer)
        elif sound:
            st.warning(tuned.because, icon=":material/search_off:")
    told = answered.headline if sound else QUESTION
    why = tuned.because if sound and tuned.recommended else None
    title.title(f"Tune: {told}", anchor=False, help=why)
    notes = f"{tuned.left_out}{answered.basis}"
    title.caption(f"{found.about}{'.' * bool(notes)}{notes}", help=MEASURED)
    measure = "rework" if knows_loss and target != "distance" else "distance"
    with right:
        panel = frontier_panel(tuned, measure, sweep.unit, answered.closer)
        widgets.show(panel, "frontier")
    widgets.tables_toggle()


def _chosen(candidates: Candidates, tried: Sequence[Setting]) -> tuple[Answer, str, bool]:
    """The answer to what the visitor wants, which target that is, and whether its limit is one."""
    knows_loss = candidates[0].rework is not None
    targets = {t: text for t, text in TARGETS.items() if t != "rework" or knows_loss}
    target = widgets.choice(
        "I want to",
        targets,
        default=next(iter(targets)),
        key=f"tune_want_{knows_loss}",
        help="What you ask for holds in 95 of 100 cases, as far as 10 failures or fewer of one "
        "training can tell. Of the bits x that keep it, those with the fewest bytes are "
        "recommended; of those that fit into a size, the one that loses least.",
    )
    most = _most(target)
    if most is None:  # all settings are drawn, without a limit
        without = answer(candidates, target, LIMITS[target][3], tried).tuned
        return Answer(replace(without, recommended=None, most=math.nan)), target, False
    return answer(candidates, target, most, tried), target, True


def _use(found: Asked, best: Candidate, closer: Candidate | None) -> None:
    """Links that open Live with each of them, and the lines for another training."""
    _live_link(found, best, "Use it on Live")
    setting = found.in_steps(best.setting)
    if found.run is not None:
        st.markdown(f":small[{changes(setting, found.run.settings)}]")
    if closer is not None:
        st.markdown(f"And with no more bytes, closer: **{described(closer)}**.")
        _live_link(found, closer, f"Use the {closer.setting.coding.target} on Live")
    own_training(setting)


def _live_link(found: Asked, candidate: Candidate, label: str) -> None:
    st.page_link(
        navigation.page("live"),
        label=label,
        icon=":material/monitoring:",
        help="With the training that it was found for." if found.training else None,
        query_params=found.training | checkpoint_parameters(found.in_steps(candidate.setting)),
    )


def _most(target: str) -> float | None:
    """The limit that a visitor asks for, in the target's own unit; None if it is out of range."""
    label, *numbers, text = LIMITS[target]
    most = widgets.checked_number(str(label), *numbers, key=f"tune_{target}", text=text)
    return most / 100 if most is not None and target == "size" else most
