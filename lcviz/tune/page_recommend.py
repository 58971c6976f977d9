"""Tune, the recommendation: many settings tried out, and one chosen that meets a target."""

from __future__ import annotations

from typing import Any

import streamlit as st

from demo_models import DATASETS, MODELS
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.replay import FAILURES
from lcviz.lab.tuner.sweep import ITERATIONS, Sweep, stamped
from lcviz.lab.tuner.tuner import choose
from lcviz.lab.workload import workload
from lcviz.server.jobs import View
from lcviz.ui import navigation, widgets
from lcviz.ui.experiment import Asking, ControlTexts
from lcviz.ui.glossary import explained
from lcviz.ui.live_settings import checkpoint_parameters, own_training, training_parameters

from .recommend_figure import frontier_panel

SOURCES = {"trained": "A training on this server", "own": "Checkpoints of yours"}
TARGETS = {
    "rework": "lose few iterations",
    "distance": "limit the restore error",
    "size": "fit into a size",
}
LIMITS: dict[str, tuple[Any, ...]] = {  # label, lowest, highest, default, step, help
    "rework": ("Iterations of rework at most", 0.1, 100.0, 3.0, 0.5, None),
    "distance": ("Relative distance at most", 0.001, 1.0, 0.1, 0.01, "Of the distance trained."),
    "size": ("Share of float32 that a checkpoint may take, %", 0.1, 100.0, 5.0, 0.5, None),
}
Candidates = tuple[Candidate, ...]


def section() -> None:
    """The whole section."""
    st.markdown(
        explained(
            "More [[bits|bits x]] restore what was trained more closely and cost more bytes; "
            "saving less often costs fewer bytes and more of the training when it crashes. Below, "
            "many settings are **tried out on the same states**, without training again for each: "
            "what every checkpoint would take on disk, how far a restart would be from what was "
            "trained, and how many iterations of work a crash would cost, the **[[rework]]**."
        )
    )
    sweep = _sweep()
    if sweep is None:
        st.info(
            "Name a folder or a chain above, on the machine that runs this page, to try settings "
            "out on it.",
            icon=":material/folder_open:",
        )
        return
    asking = Asking("tune", sweep, 1, lambda _, progress: sweep.try_out(progress))

    def dashboard(view: View[Candidates], watching: bool) -> None:
        if view.found:
            _answer(sweep, view.found[0].value)
        else:
            asking.controls(view, watching, _texts(sweep, view))

    asking.follow(dashboard)


def _sweep() -> Sweep | None:
    with st.container(border=True, key="tune-parameters"):
        asked = "Try settings out on"
        source = widgets.choice(asked, SOURCES, default="trained", key="tune_source")
        grid = st.grid(2, min_column_width=320, key="tune-choices")
        with grid.cell():
            if source == "own":
                own = st.text_input(
                    "Folder of checkpoints, or a chain",
                    key="tune_own",
                    bind="query-params",
                    placeholder="/path/to/checkpoints",
                    help="On the machine that runs this page: 40 or more numbered .safetensors or "
                    ".pt files (weights only), about one for each iteration. A chain holds what a "
                    "restart would load, so changes that it left out are not judged.",
                )
            else:
                model = st.selectbox(
                    "Model",
                    list(MODELS),
                    key="tune_model",
                    bind="query-params",
                    format_func=lambda name: MODELS[name].title,
                    help=f"{ITERATIONS} iterations from seed 0 on built-in data, with the lab's "
                    "settings. Larger models take longer: logistic regression takes seconds, "
                    "AlexNet minutes.",
                )
                st.caption(DATASETS[MODELS[model].default_data].sentence)
        with grid.cell():
            wide = widgets.choice(
                "How many",
                {w: f"{len(Sweep('', wide=w).tried)} settings" for w in (False, True)},
                default=False,
                key="tune_wide",
                help="The choice: 1 to 4 bits, all buckets, budgets of 2, 5 and 10 %, both scopes, "
                "run lengths, every 1, 2 and 5 iterations. All: also 5 to 8 bits, a budget of 1 %, "
                "the paper's coder, and every 10 iterations.",
            )
    if source == "own":
        return stamped(own.strip(), wide=wide) if own.strip() else None
    return Sweep(str(model), wide=wide)


def _texts(sweep: Sweep, view: View[Candidates]) -> ControlTexts:
    return ControlTexts(
        start=f"Try {len(sweep.tried)} settings out",
        icon=":material/tune:",
        working=f"{100 * view.share:.0f} % tried out",
    )


def _answer(sweep: Sweep, candidates: Candidates) -> None:
    knows_loss = candidates[0].rework is not None
    targets = {t: text for t, text in TARGETS.items() if t != "rework" or knows_loss}
    with st.container(border=True, key="tune-target"):
        target = widgets.choice(
            "I want to",
            targets,
            default=next(iter(targets)),
            key=f"tune_want_{knows_loss}",
            help="What you ask for holds in 95 of 100 cases, as far as 10 failures or fewer of one "
            "training can tell. Of the settings that keep it, the one with the fewest bytes is "
            "recommended; of those that fit into a size, the one that loses least.",
        )
        most = _most(target)
        tuned = choose(candidates, target, most, len(sweep.tried))
        if tuned.recommended:
            st.success(tuned.because, icon=":material/recommend:")
            _to_live(sweep, tuned.recommended.setting)
            own_training(tuned.recommended.setting)
        else:
            st.warning(tuned.because, icon=":material/search_off:")
    measure = "rework" if knows_loss and target != "distance" else "distance"
    panel = frontier_panel(tuned, measure, sweep.unit)
    with st.container(border=True, key="tune-frontier"):
        widgets.picture(panel, "frontier")
    costs = "bytes, distance and rework" if knows_loss else "bytes and distance"
    st.markdown(f"**Pareto frontier of {costs}**", help="Settings that no other one beats in all.")
    st.table(panel.table, hide_index=True)
    st.caption(
        "Bytes: shares of the float32 size of all that is saved, without the base. Distance: "
        "‖restored − u‖ / ‖u − u₀‖, with u the state before the failure and u₀ the first one. "
        f"{'It and rework are means' if knows_loss else 'It is a mean'} over {FAILURES} failures, "
        "each just before the next checkpoint; over fewer where checkpoints are far apart."
    )


def _to_live(sweep: Sweep, setting: Setting) -> None:
    """A link that opens Live with this setting, and with the training it was found for."""
    training = {}
    help = "The setting alone: the model is not known."
    if not sweep.own:
        training = training_parameters(workload(sweep.model), ITERATIONS)
        help = "With the training that it was found for: its model, learning rate and batches."
    st.page_link(
        navigation.page("live"),
        label="Use it on Live",
        icon=":material/monitoring:",
        help=help,
        query_params=training | checkpoint_parameters(setting),
    )


def _most(target: str) -> float:
    """The limit that a visitor asks for, in the target's own unit."""
    label, *numbers, text = LIMITS[target]
    how: dict[str, Any] = {"format": "%g", "bind": "query-params", "help": text}
    most = st.number_input(str(label), *numbers, key=f"tune_{target}", **how)
    return most / 100 if target == "size" else most
