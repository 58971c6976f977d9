"""Tune, bucket by bucket: the newest delta with its largest buckets alone, or without some."""

from __future__ import annotations

import math
from dataclasses import dataclass

import streamlit as st

import codec
from lcviz.lab.anatomy import BucketKey, rank
from lcviz.run.run import Run
from lcviz.run.snapshot import CLOSED, PLAYING, Snapshot
from lcviz.text import exponent_text, loss_text, minus, percent_text, plural
from lcviz.ui import follow_weight as traced
from lcviz.ui import session as state
from lcviz.ui import widgets
from lcviz.ui.glossary import explained
from lcviz.ui.settings import SCOPES

from .by_bucket import Apart, Curve, apart, marks
from .by_bucket_figure import kept_panel, kept_sentence
from .page_newest_delta import GONE, about, live_loss, loss_of, newest

MODES = {"largest": "Keep the largest", "without": "Leave out any"}
SLICE = 0.15  # seconds of measuring between two looks
PACE = 0.3  # seconds between them, while something is left to measure
_HELD = "tune-curve"  # in the session
_MODE, _OUT = "tune_mode", "tune_out"


@dataclass(frozen=True)
class Held:
    """What is looked at: the curve of one delta with one scope, and the loss of what was saved."""

    run_id: str
    scope: str
    curve: Curve
    live_loss: float

    @property
    def step(self) -> int:
        """Of the delta."""
        return self.curve.delta.moment.step


def kept_buckets() -> None:
    """The whole section."""
    st.markdown(
        explained(
            "How many [[buckets|bucket]] does a checkpoint need? The model is **rebuilt** from the "
            "[[track]] and the largest k buckets of the newest delta, or without buckets of your "
            "choice, and its [[loss]] measured on the run's own task."
        )
    )
    run = state.current_run()
    if run is None:
        state.await_example()
        return
    pace = _pace(run)
    st.fragment(_kept, run_every=pace)(run, pace)


def _pace(run: Run) -> float | None:
    """Seconds to the next look."""
    held: Held | None = st.session_state.get(_HELD)
    measuring = held is not None and held.run_id == run.id and not held.curve.done
    measuring &= st.session_state.get(_MODE) == "largest"
    return PACE if measuring else state.poll_interval(run)


def _kept(run: Run, pace: float | None) -> None:
    run.watch()
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or pace != _pace(run):
        st.rerun()  # the whole page: polling changes pace, or another tab has reset the run
    if not about(run, snapshot):
        return
    with st.container(horizontal=True, key="tune-kept-choices"):
        mode = widgets.choice(
            "Do what",
            list(MODES),
            default="largest",
            key=_MODE,
            format_func=MODES.__getitem__,
            bind="query-params",
        )
        scope = widgets.choice(
            "Buckets over",
            list(SCOPES),
            default="model",
            key="tune_scope",
            format_func=SCOPES.__getitem__,
            bind="query-params",
            help="Of the whole model, or of each tensor: then the k largest of every one are kept.",
        )
    try:
        held = _held(run, snapshot, str(scope))
    except codec.LccError as exc:
        st.error(f"This delta cannot be taken apart. {exc}", icon=":material/error:")
        return
    if held is None:
        st.info(GONE)
    elif not held.curve.delta.alphabets:
        st.info("In this step every tensor was stored exactly, so there is nothing to take apart.")
    elif not held.curve.delta.most:
        st.info(f"Step {held.step} changed no value, so its delta has no buckets.")
    elif mode == "largest":
        _largest(held, run)
    else:
        _without(held, run)
    if pace != _pace(run):  # there is something to measure now, or nothing any more
        st.rerun()


def _held(run: Run, snapshot: Snapshot, scope: str) -> Held | None:
    """The newest delta; while the run plays the one that is looked at, until another is wanted."""
    held: Held | None = st.session_state.get(_HELD)
    same = held is not None and (held.run_id, held.scope) == (run.id, scope)
    if held is not None and same:
        if held.step == snapshot.newest.step:
            return held
        if snapshot.status == PLAYING:
            with st.container(horizontal=True, vertical_alignment="center", key="tune-newer"):
                wanted = st.button(
                    "Take the newest",
                    icon=":material/skip_next:",
                    key="tune-newest",
                    help="The next delta has other buckets, and its curve is measured anew.",
                )
                st.markdown(f"Step {held.step} of a run that goes on.", width="content")
            if not wanted:
                return held
    delta = newest(run, snapshot)
    if delta is None:
        return held if same else None
    taken = apart(delta.layout, delta.before, delta.moment, scope)
    held = Held(run.id, scope, Curve(taken, loss_of(run)), live_loss(run, snapshot))
    st.session_state[_HELD] = held
    return held


def _largest(held: Held, run: Run) -> None:
    delta, most = held.curve.delta, held.curve.delta.most
    default = min(2 ** (run.settings.bits or 8) - 1, most)
    k = st.slider(
        "Largest buckets kept, k",
        0,
        most,
        default,
        key="tune_k",
        bind="query-params",
        help="With bits x, priority promotion keeps 2ˣ − 1. 0 leaves the track as it was.",
    )
    loss = held.curve.loss(k)
    _numbers(held, delta.distance(delta.largest(k)), loss, delta.values(k))
    held.curve.go_on(SLICE)
    left = held.curve.total - len(held.curve.losses)
    widgets.tables_toggle()
    with st.container(border=True, key="tune-kept"):
        panel = kept_panel(
            held.step,
            held.curve.losses,
            most,
            marks(most),
            k,
            held.live_loss,
            _marked(held, run),
            each=held.scope == "tensor",
        )
        widgets.show(panel, "kept")
        if left:
            done = len(held.curve.losses) / held.curve.total
            st.progress(done, f"Measuring the curve: {left} of {held.curve.total} points left")


def _marked(held: Held, run: Run) -> tuple[int, BucketKey] | None:
    """The bucket that all charts highlight, and from which k on it is kept."""
    key = traced.marked(run, run.snapshot().at(held.step))
    k = None if key is None else rank(held.curve.delta.alphabets, key)
    return None if key is None or k is None else (k, key)


def _without(held: Held, run: Run) -> None:
    delta = held.curve.delta
    named = {exponent_text(b.exponent, b.sign): b for b in delta.buckets}
    chosen = st.session_state.get(_OUT, [])
    if any(name not in named for name in chosen):  # another delta has others
        st.session_state[_OUT] = [name for name in chosen if name in named]
    out = st.pills(
        "Buckets left out",
        list(named),
        selection_mode="multi",
        key=_OUT,
        bind="query-params",
        help="By sign and exponent, the largest first; those of all alphabets at once. Click one "
        "to leave it out, again to have it back.",
    )
    keys = {(named[name].exponent, named[name].sign) for name in out}
    rebuilt = delta.without(keys)
    loss = loss_of(run)(rebuilt)
    gone = sum(b.kept + b.dropped for b in delta.buckets if (b.exponent, b.sign) in keys)
    _numbers(held, delta.distance(rebuilt), loss, _all(delta) - gone)
    what = f"Without {plural(len(out), 'bucket')} of {len(named)}" if out else "With every bucket"
    st.markdown(kept_sentence(what, loss, held.live_loss))


def _all(delta: Apart) -> int:
    return sum(b.kept + b.dropped for b in delta.buckets)


def _numbers(held: Held, distance: float, loss: float, changed: int) -> None:
    n = sum(a.n for a in held.curve.delta.alphabets)
    off = loss - held.live_loss
    cards = (
        (
            "Loss, rebuilt",
            loss_text(loss),
            minus(f"{off:+.6f}") + " to live" if math.isfinite(off) else "no number",
            "Of the rebuilt model, on up to 256 held-out examples.",
        ),
        (
            "Loss, live",
            loss_text(held.live_loss),
            f"at step {held.step}",
            "Of the model that was saved, on the same examples.",
        ),
        ("Distance", percent_text(distance), "of the way trained", "‖rebuilt − u‖ / ‖u − u₀‖."),
        (
            "Values changed",
            f"{changed:,}",
            f"of {n:,}, {percent_text(changed / n)}",
            "The others stay as the track has them.",
        ),
    )
    widgets.cards(cards, "tune-kept-numbers", 4, 150)
