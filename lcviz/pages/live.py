"""Live: train a small model and watch every checkpoint go through the codec.

What changes while the run plays stands in one polling fragment; the charts in it keep their
place in the page from tick to tick.
"""

from __future__ import annotations

import math
import secrets

import streamlit as st

import codec
import demo_models

from .. import state
from ..figures.curves import loss_curve, size_curve
from ..figures.panel import loss_text, minus, nbytes_text, percent_text
from ..lab.anatomy import tables
from ..lab.measures import lost_iterations
from ..session import Run
from ..snapshot import CLOSED, FAILED, FINISHED, PLAYING, Checkpoint, RunError, Settings, Snapshot
from .inside import inside
from .settings import describe, settings_form

_FOLLOW = "follow"  # in the session: how often the toggle was made, and what it says


def page() -> None:
    """The whole page."""
    settings = settings_form()
    st.title("LC-Checkpoint, live", anchor=False)
    st.markdown(
        "A checkpoint is a copy of the model, saved so that training can go on after a crash. "
        "LC-Checkpoint saves only the **difference δ** between the model and what a restart "
        "would have (the **track**), keeps of it only the largest power-of-two **buckets**, and "
        "writes those with a **Huffman** code, runs of zeros included. What one checkpoint drops, "
        "the next one sees again."
    )
    run = state.current_run()
    if run is None:
        with st.container(key="controls"):
            problem = _start(settings)
        if problem:
            st.error(problem, icon=":material/error:")
        state.await_example()
        return
    poll = state.poll_interval(run)
    st.fragment(_dashboard, run_every=poll)(run, settings, poll)


def _dashboard(run: Run, settings: Settings, poll: float | None) -> None:
    run.watch()
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or poll != state.poll_interval(run):
        st.rerun()  # the whole page: polling changes pace, or another tab has reset the run
    _controls(run, snapshot, settings)
    if snapshot.newest.kind == "base":
        _base_only(snapshot)
        return
    _headline(snapshot, run.settings)
    viewed = _scrubber(run, snapshot)
    _curves(run, snapshot, viewed)
    inside(run, snapshot, viewed)


def _controls(run: Run, snapshot: Snapshot, settings: Settings) -> None:
    playing, over = snapshot.status == PLAYING, snapshot.status in (FINISHED, FAILED)
    problem = None
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        if state.is_example(run):
            problem = _start(settings)
        else:
            label, icon = ("Pause", "pause") if playing else ("Play", "play_arrow")
            if st.button(
                label,
                type=state.main_button(),
                icon=f":material/{icon}:",
                disabled=over,
                key="play",
            ):
                run.pause() if playing else run.play()
                run.wait(5 if playing else 0)  # the iteration under way, so that it is shown
                st.rerun()
            if st.button(
                "Step",
                icon=":material/skip_next:",
                disabled=playing or over,
                key="step",
                help="Train up to the next checkpoint, then pause.",
            ):
                run.step()
                run.wait(30)
                st.rerun()
            if st.button(
                "Reset",
                icon=":material/restart_alt:",
                key="reset",
                help="Begin anew with the settings at the side; this run and its chain are "
                "deleted. Export first what you want to keep.",
            ):
                problem = _begin(settings, play=False, instead_of=run)
        st.markdown(_where(run, snapshot), width="content")
    st.caption(describe(run.settings))
    if problem:
        st.error(problem, icon=":material/error:")
    if snapshot.status == FAILED:
        st.error(snapshot.message, icon=":material/error:")
    elif snapshot.message:
        st.info(snapshot.message, icon=":material/pause_circle:")
    elif settings != run.settings and not state.is_example(run):
        st.info("The settings at the side are not this run's: Reset begins a new run with them.")


def _start(settings: Settings) -> str | None:
    """The button that everybody presses first; says why the run cannot start, if it cannot."""
    wanted = st.button(
        "Start live training",
        type=state.main_button(),
        icon=":material/play_arrow:",
        key="start",
        help="With the settings at the side.",
    )
    return _begin(settings, play=True) if wanted else None


def _where(run: Run, snapshot: Snapshot) -> str:
    title = run.task.title
    if state.is_example(run):
        return f"Below: a finished example, {title}, trained here when the first page was opened."
    text = f"{title}: **iteration {snapshot.iteration}** of {run.settings.stop_after}"
    if snapshot.iteration:
        text += f", {snapshot.rate:.3g} iterations/s"
    return text + (", finished." if snapshot.status == FINISHED else "")


def _begin(settings: Settings, *, play: bool, instead_of: Run | None = None) -> str:
    """Make a run and look at it; returns why it cannot start, and then nothing is lost."""
    try:
        run = state.all_runs().create(settings, instead_of)
    except (RunError, demo_models.DataError, codec.LccError) as exc:
        problem = f"This run cannot start. {exc}"
    else:
        if play:
            run.play()
        _follow(True)
        state.look_at(run)
        st.rerun()
    return problem


def _base_only(snapshot: Snapshot) -> None:
    """Before the first delta there is nothing to take apart."""
    base = snapshot.newest
    st.subheader(f"The base is saved: {nbytes_text(base.nbytes)}, exact", anchor=False)
    st.markdown(
        f"A chain begins with the starting weights, stored bit for bit; their loss is "
        f"{base.live_loss:.6f}. Everything after it is a small delta: *Play* trains on and saves, "
        "*Step* goes to the next checkpoint."
    )


def _headline(snapshot: Snapshot, settings: Settings) -> None:
    newest, every = snapshot.newest, snapshot.checkpoints
    st.subheader(
        f"{nbytes_text(newest.full_nbytes)} → {nbytes_text(newest.nbytes)}; a crash now costs "
        f"{_lost(snapshot)}",
        anchor=False,
        help="Estimated from the loss curve: iterations since the live model last had a loss as "
        "high as the one a restart would begin with.",
    )
    on_disk, full = sum(c.nbytes for c in every), sum(c.full_nbytes for c in every)
    kept = sum(a.kept for a in newest.alphabets)
    buckets = sum(len(a.buckets) for a in newest.alphabets)
    used = tables(a for c in every for a in c.alphabets)
    measured = snapshot.measured[-1]
    live, restored = _number(measured.live_loss), _number(measured.restored_loss)
    cards = (
        (
            "This checkpoint",
            nbytes_text(newest.nbytes),
            f"{newest.full_nbytes / newest.nbytes:.1f} × smaller",
            f"Bytes on disk of step {newest.step}'s record, against the same state in float32.",
        ),
        (
            "Whole chain",
            nbytes_text(on_disk),
            f"instead of {nbytes_text(full)}",
            f"All {len(every)} records on disk, the exact base included, against as many full "
            "float32 checkpoints.",
        ),
        (
            "Buckets kept",
            f"{kept} of {buckets}",
            _keeping(settings),
            f"Of the change in step {newest.step}; the others are set to 0. With bits x at most "
            "2ˣ − 1 are kept, or as many for each tensor; with a budget as many as fit into it.",
        ),
        (
            "Tables used again",
            f"{used.reused:,} of {used.n:,}",
            f"saved {nbytes_text(used.saved_nbytes)}",
            "A code table is written only if that pays: the one sent last is used again while it "
            "costs no more than a new one and its bytes. Saved is what new tables would have cost "
            "more, in words and tables together.",
        ),
        (
            "Distance",
            percent_text(newest.distance),
            "of the way trained",
            "‖ũ − u‖ / ‖u − u₀‖: how far the restored weights ũ are from the live ones u, as a "
            "share of how far training has moved them from their start u₀.",
        ),
        (
            "Loss, live",
            loss_text(live),
            f"at step {measured.step}",
            "Of the live model on up to 256 held-out examples. Classifiers: cross-entropy in "
            "nats; ratings: mean squared error.",
        ),
        (
            "Loss, restored",
            loss_text(restored),
            _change(restored - live),
            "Of the model that a restart from this checkpoint would have, on the same examples.",
        ),
        (
            "In the codec",
            f"{snapshot.codec_seconds:.2f} s",
            f"training {snapshot.train_seconds:.2f} s",
            f"Seconds spent saving, {1000 * snapshot.codec_seconds / len(every):.1f} ms a "
            "checkpoint, decoding again and disk included; and seconds spent training. Taking "
            "deltas apart and measuring losses for this page took "
            f"{snapshot.measure_seconds:.2f} s more.",
        ),
    )
    grid = st.grid(4, min_column_width=130, key="headline")
    for label, value, note, text in cards:
        with grid.cell():
            st.metric(label, value, note, delta_color="off", delta_arrow="off", help=text)


def _keeping(settings: Settings) -> str:
    """What decides how many buckets are kept."""
    if settings.budget is not None:
        return f"budget {percent_text(settings.budget)}"
    return f"bits x = {settings.bits or 'all'}"


def _lost(snapshot: Snapshot) -> str:
    """What a crash now would cost, in words."""
    every = snapshot.measured
    last = every[-1]
    # Losses lag behind where there is no time to measure them: the newest that is known stands for
    # what a checkpoint loses, and to that comes what was trained since the newest one.
    lost = lost_iterations(
        [c.step for c in every],
        [_number(c.live_loss) for c in every],
        _number(last.restored_loss),
        last.step,
    )
    if lost is None:
        return f"the run: the model restored from step {last.step} has no finite loss"
    n = lost + snapshot.iteration - snapshot.newest.step
    if n == 0:
        return "less than 1 iteration of training"
    return f"roughly {n} iteration{'' if n == 1 else 's'} of training"


def _change(difference: float) -> str:
    return minus(f"{difference:+.4f}") + " to live" if math.isfinite(difference) else "no number"


def _number(loss: float | None) -> float:
    """A loss as a float: one that was not measured is NaN."""
    return math.nan if loss is None else loss


def _scrubber(run: Run, snapshot: Snapshot) -> Checkpoint:
    """The checkpoint to look into: the newest, unless another step was chosen."""
    interval, newest = run.settings.interval, snapshot.newest.step
    place = f"scrubber-{run.id}"
    with st.container(horizontal=True, vertical_alignment="center", key="scrubber"):
        follow = _follow_toggle(place)
        state.tables_toggle()
    # What a person can move is never moved by the page: a poll that was under way would bring
    # the old value back, and that looks like a wish. It is made anew where it belongs.
    running = follow and snapshot.status == PLAYING
    if place not in st.session_state or (follow and st.session_state[place][0] != newest):
        st.session_state[place] = newest, secrets.token_hex(4)
    at, made = st.session_state[place]
    key = f"viewed-{run.id}-{'running' if running else made}"
    if running:
        st.session_state[key] = newest
    else:
        st.session_state.setdefault(key, at)

    def leave_newest() -> None:
        if st.session_state.get(place) == (at, made):  # it is also called for one that is gone
            _follow(False)

    # The range is fixed from the start: a slider whose range grew would be made anew each tick.
    step = st.slider(
        "Look inside step",
        0,
        run.settings.stop_after // interval * interval,
        step=interval,
        key=key,
        on_change=None if running else leave_newest,
        disabled=running,
        help="Any saved step; 0 is the base. While the run plays, stop following first.",
    )
    if step > newest:
        st.caption(f"Step {step} is not saved yet: below is the newest, step {newest}.")
    return snapshot.at(step)


def _follow_toggle(place: str) -> bool:
    """Whether the newest step is looked at. place: that of the slider, which is made anew."""
    made, follow = st.session_state.setdefault(_FOLLOW, (0, True))
    key = f"follow-{made}"

    def turn() -> None:
        if st.session_state[_FOLLOW][0] == made:  # it is also called for one that is gone
            st.session_state[_FOLLOW] = made, st.session_state[key]
            st.session_state.pop(place, None)

    st.session_state.setdefault(key, follow)
    st.toggle("Follow the newest", key=key, on_change=turn)
    return bool(follow)


def _follow(follow: bool) -> None:
    """Look at the newest step, or not, with a toggle that says so."""
    made, now = st.session_state.get(_FOLLOW, (0, True))
    if now != follow:
        st.session_state[_FOLLOW] = made + 1, follow


def _curves(run: Run, snapshot: Snapshot, viewed: Checkpoint) -> None:
    every, newest, measured = snapshot.checkpoints, snapshot.newest, snapshot.measured
    live = [_number(c.live_loss) for c in measured]
    restored = [_number(c.restored_loss) for c in measured]
    nbytes, full = [c.nbytes for c in every], [c.full_nbytes for c in every]
    header = newest.nbytes - newest.stream_nbytes
    grid = st.grid(2, min_column_width=420, border=True, key="curves")
    with grid.cell():
        steps = [c.step for c in measured]
        state.show(loss_curve(steps, live, restored, viewed.step), "loss")
    with grid.cell():
        budget = run.settings.budget
        state.show(size_curve(snapshot.steps, nbytes, full, header, viewed.step, budget), "size")
