"""The recommendation: many settings tried out, and one chosen that meets a target."""

from __future__ import annotations

import math
from dataclasses import replace

import streamlit as st

from codec.inspect import DEFAULT_DISTANCE, WARNED_BEHIND, is_loading
from lcviz.lab.tuner.candidates import Candidate
from lcviz.lab.tuner.replay import FAILURES
from lcviz.lab.tuner.tuner import Tuned, choose
from lcviz.server.jobs import View
from lcviz.text import UNITS, nbytes_text, plain
from lcviz.ui import navigation, session, widgets
from lcviz.ui.coding_form import in_url
from lcviz.ui.experiment import ControlTexts, PageJob
from lcviz.ui.live_settings import own_training, run_parameters
from lcviz.ui.settings import begin_run
from lcviz.ui.widgets import Limits

from .answer import DAY, basis, default_of, described, headline, measure_of, reason
from .page_sweep import SweepRequest, sweep_controls
from .recommend_figure import frontier_panel
from .recorded import SWEEP, recorded

TARGETS = {"rework": "crash", "distance": "distance", "size": "size", "rate": "a day"}
QUESTION = "which setting should I use?"
OF_FILES = (
    "Distance: ‖restored − u‖ / ‖u − u₀‖ over all tensors. u is the last checkpoint before the "
    "next save, u₀ the first one. If every checkpoint is saved, u is the saved one. The picture "
    "shows the largest distance."
)
OF_TRAINING = (
    "Distance: ‖restored − u‖ / ‖u − u₀‖, u the state before the crash, u₀ the first one. Measured "
    f"at up to {FAILURES} crashes, just before the next checkpoint. 95 of 100 others lose less "
    "than is drawn here."
)
RECORDED = "recorded with python -m lcviz.record\\_example"
Candidates = tuple[Candidate, ...]


def recommendation() -> None:
    """Everything on the page."""
    answer = st.container(key="answer")  # above what it was made of
    request = sweep_controls()
    widgets.tables_toggle()
    sweep = request.sweep
    recording = sweep == SWEEP and not request.wrong
    if sweep.run is not None and request.run is None:  # a new server prepares its example
        with answer:
            _answer(request, recorded(), RECORDED)
        if not session.all_runs().prepared():
            session.rerun_with_example()
        return
    job = PageJob(
        "tune",  # one name: who asks for another answer leaves the first
        sweep.key,
        1,
        lambda _, progress: sweep.try_out(progress),
    )
    if not request.wrong:
        job.begin()

    def dashboard(view: View[Candidates], watching: bool) -> None:
        if view.finished_parts and not request.wrong:
            _answer(request, view.finished_parts[0].value)
            return
        if recording:
            _answer(request, recorded(), RECORDED)
        else:
            st.title(f"Tune: {QUESTION}", anchor=False)
            st.caption(plain(request.wrong) or request.about)
        if not request.wrong:
            working = f"Trying settings out: {100 * view.share:.0f} %"
            if not view.share and is_loading():
                working = (
                    "Loading the codec. The first time, it is compiled, which takes a minute or two"
                )
            texts = ControlTexts("Try settings out", ":material/tune:", working)
            job.controls(view, watching, texts, bar=not recording)

    with answer:
        job.follow(dashboard)


def _answer(request: SweepRequest, candidates: Candidates, how: str = "") -> None:
    """The recommendation, its picture, and what to do with it. how: measured, if not here."""
    title = st.container()
    left, right = st.columns([2, 3], border=True)
    with left:
        tuned, seconds = _tuned(request, candidates)
        measure = measure_of(tuned, request.unit, seconds)
        default = default_of(tuned.candidates)
        if request.files is not None and default not in (None, tuned.recommended):
            st.markdown(f"The codec's default, {described(default, measure)}.")
        valid = not math.isnan(tuned.most)
        if tuned.recommended:
            if request.files is not None and tuned.recommended.distance_bound > WARNED_BEHIND:
                widgets.error(
                    f"Too far for a restart: more than {100 * WARNED_BEHIND:g} % of what was "
                    f"trained. Allow more bytes, or save every {request.unit} with "
                    f"distance={DEFAULT_DISTANCE:g}"
                )
            _use(request, tuned.recommended)
        elif valid:
            st.warning(reason(tuned, measure), icon=":material/search_off:")
    why = reason(tuned, measure) if valid and tuned.recommended else None
    title.title(f"Tune: {headline(tuned, measure) if valid else QUESTION}", anchor=False, help=why)
    about = f"{request.about}; {how}" if how else request.about
    full = nbytes_text(candidates[0].full_nbytes)
    bases = f" In float32 a state has {full}; so has the base that a chain begins with."
    best = tuned.recommended or candidates[0]
    if tuned.target == "rate":
        stored = nbytes_text(30 * measure.nbytes(best))
        bases = (
            f" In float32 a state has {full}. This counts a base of "
            f"{nbytes_text(best.base_nbytes)} after every {best.n_deltas:,} deltas, as the codec "
            f"writes them. In 30 days that makes {stored} on disk, unless "
            "Checkpointer(keep\\_steps=…) removes old steps."
        )
    notes = f"{bases}{tuned.left_out}{basis(tuned)}"
    measured = OF_TRAINING if request.files is None else OF_FILES
    title.caption(f"{about}.{notes}", help=measured)
    with right:
        widgets.show(frontier_panel(tuned, measure, request.unit), "frontier")


def _tuned(request: SweepRequest, candidates: Candidates) -> tuple[Tuned, float]:
    """The recommendation for the target and limit that a visitor chooses.

    Also returns the seconds from one state of the series to the next. If a number is not valid, the
    limit is not a number, and nothing is recommended.
    """
    knows_loss = candidates[0].rework is not None
    targets = {t: text for t, text in TARGETS.items() if t != "rework" or knows_loss}
    target = widgets.choice(
        "Limit",
        targets,
        default=next(iter(targets)),
        key=f"{request.key}_want",
        help="Of the settings that keep the limit, the one with the fewest bytes is recommended; "
        "if the limit is in bytes, the one that loses least.",
    )
    seconds: float | None = 1.0
    if target == "rate":
        pace = Limits(1e-6, 1e9, request.usual_seconds, 1.0)
        words = "Seconds of an iteration"
        if request.files is not None:
            words = f"Seconds from one {request.unit} to the next"
        seconds = widgets.checked_number(words, pace, key=f"{request.key}_seconds")
        # Of a long training, whose chain has bases.
        candidates = tuple(c.with_bases for c in candidates)
    full, settings = candidates[0].full_nbytes, request.sweep.candidate_settings
    most = _most(target, request, candidates, seconds or request.usual_seconds)
    if target == "size" and most is not None:
        most /= full
    if target == "rate" and most is not None and seconds is not None:
        most *= seconds / (DAY * full)
    if most is None or seconds is None:  # all settings are drawn, without a limit
        tuned = choose(candidates, target, math.inf, settings)
        return replace(tuned, recommended=None, most=math.nan), seconds or 1.0
    return choose(candidates, target, most, settings), seconds


def _most(
    target: str, request: SweepRequest, candidates: Candidates, seconds: float
) -> float | None:
    """The limit that a visitor asks for: iterations, a distance, or bytes; None if it is wrong.

    seconds: from one state of the series to the next.
    """
    text, key = None, f"{request.key}_{target}"
    if target == "rework":
        label, unit = "Price of a crash at most, in iterations", 1.0
        limits = Limits(0.1, 100.0, 3.0, 0.5)
    elif target == "distance":
        label, unit = "Distance at most, in % of what was trained", 0.01
        limits = Limits(0.1, 100.0, 100 * DEFAULT_DISTANCE, 1.0)
    else:
        default = default_of(candidates) or candidates[0]
        usual = default.reached(target) * default.full_nbytes
        label, how_often = "Size of a checkpoint at most, in {}", 1.0
        if target == "rate":
            label, how_often = "Written at most, in {} a day", request.usual_seconds / seconds
            usual *= DAY / request.usual_seconds
        name, unit = next((n, u) for n, u in UNITS.items() if usual >= u)
        label, usual = label.format(name), usual * how_often
        step = 10.0 ** math.floor(math.log10(usual / unit))
        first = float(f"{step * math.ceil(usual / unit / step):.1g}")
        limits = Limits(1e-9, 1e9, first, step)
        text = "At first what the codec's default takes, rounded up."
        # The limit follows the seconds until a visitor changes it.
        state, place = st.session_state, f"{key}-first"
        if key in state and state[key] == state.get(place):
            state[key] = first
        state[place] = first
    most = widgets.checked_number(label, limits, key=key, text=text)
    return None if most is None else most * unit


def _use(request: SweepRequest, best: Candidate) -> None:
    """Ways to use the setting: a run on Live or Export with the files, and code."""
    setting = request.in_steps(best.setting)
    if request.files is not None:
        st.container(border=True, width="content").page_link(
            navigation.page("export"),
            label="Compress these files on Export",
            icon=":material/compress:",
            query_params=in_url(best.setting.coding, "export_")
            | {"export_source": "Files of mine"},
        )
        if best.setting.interval > 1:
            st.markdown(
                f":small[Export compresses every {request.unit}; this setting saves every "
                f"{best.setting.interval}.]"
            )
    else:
        settings, problems = request.run_settings(setting), list[str]()
        if widgets.button(
            "Use it on Live",
            lambda: problems.append(begin_run(settings)),
            icon=":material/monitoring:",
            key="tune-use",
            about=settings,
            help="Begins the same training there, from its first iteration, and saves it with "
            "this setting. Your current run stays available at its own link.",
        ):
            if problems[-1]:
                widgets.error(problems[-1])
            else:
                st.switch_page(navigation.page("live"), query_params=run_parameters(settings))
    own_training(setting)
