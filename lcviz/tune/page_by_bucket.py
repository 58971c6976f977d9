"""Tune, bucket by bucket: the newest delta with its largest buckets alone, or without some."""

from __future__ import annotations

import math
from dataclasses import dataclass

import streamlit as st

import codec
from lcviz.lab.anatomy import BucketKey, rank
from lcviz.run.run import Run
from lcviz.run.snapshot import CLOSED, Snapshot
from lcviz.text import exponent_text, loss_text, percent_text, plural
from lcviz.ui import follow_weight, session, widgets
from lcviz.ui.coding_form import SCOPES
from lcviz.ui.glossary import explained
from lcviz.ui.polling import polled

from .by_bucket import LossCurve, SplitDelta, marks, split_delta
from .by_bucket_figure import by_bucket_panel, rebuilt_sentence
from .page_run import GONE, has_delta, live_loss, loss_of, newest_delta, stays

MODES = {"largest": "Keep the largest", "without": "Leave out any"}
SLICE = 0.15  # seconds of measuring between two refreshes
PACE = 0.3  # seconds between two refreshes, while something is left to measure
_VIEW = "tune-curve"  # in the session
_MODE, _OUT, _K = "tune_mode", "tune_out", "tune_k"


@dataclass(frozen=True)
class BucketView:
    """What is shown: the curve of one delta with one scope, and the loss of the saved model."""

    run_id: str
    scope: str
    curve: LossCurve
    live_loss: float

    @property
    def step(self) -> int:
        """Of the delta."""
        return self.curve.delta.state.step


def section() -> None:
    """The whole section."""
    st.markdown(
        explained(
            "How many [[buckets|bucket]] does a checkpoint need? The model is rebuilt from the "
            "[[track]] and some of them."
        )
    )
    run = session.current_run()
    if run is None:
        session.await_example()
        return
    pace = _pace(run)
    polled(pace, _by_bucket, run, pace)


def _pace(run: Run) -> float | None:
    """Seconds to the next refresh."""
    view: BucketView | None = st.session_state.get(_VIEW)
    measuring = view is not None and view.run_id == run.id and not view.curve.done
    measuring &= st.session_state.get(_MODE) == "largest"
    return PACE if measuring else session.poll_interval(run)


def _by_bucket(run: Run, pace: float | None) -> None:
    run.watch()
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or pace != _pace(run):
        st.rerun()  # the whole page: polling changes pace, or another tab has reset the run
    if not has_delta(run, snapshot):
        return
    with st.container(horizontal=True, key="tune-by-bucket-choices"):
        mode = widgets.choice("Do what", MODES, default="largest", key=_MODE)
        scope = widgets.choice(
            "Buckets over",
            SCOPES,
            default="model",
            key="tune_scope",
            help="Of the whole model, or of each tensor: then the k largest of every one are kept.",
        )
    try:
        view = _view(run, snapshot, scope)
    except codec.LccError as exc:
        st.error(f"This delta cannot be taken apart. {exc}", icon=":material/error:")
        return
    if view is None:
        st.info(GONE)
    elif not view.curve.delta.alphabets:
        st.info("Every tensor was stored exactly: there is nothing to take apart.")
    elif not view.curve.delta.most:
        st.info(f"Step {view.step} changed no value: its delta has no buckets.")
    elif mode == "largest":
        _largest(view, run)
    else:
        _without(view, run)
    if pace != _pace(run):  # there is something to measure now, or nothing any more
        st.rerun()


def _view(run: Run, snapshot: Snapshot, scope: str) -> BucketView | None:
    """The newest delta; while the run plays the one shown before, until another is wanted."""
    view: BucketView | None = st.session_state.get(_VIEW)
    same = view is not None and (view.run_id, view.scope) == (run.id, scope)
    if view is not None and same and stays(snapshot, view.step):
        return view
    delta = newest_delta(run, snapshot)
    if delta is None:
        return view if same else None
    taken = split_delta(delta.layout, delta.before, delta.state, scope)
    view = BucketView(run.id, scope, LossCurve(taken, loss_of(run)), live_loss(run, snapshot))
    st.session_state[_VIEW] = view
    return view


def _largest(view: BucketView, run: Run) -> None:
    delta, most = view.curve.delta, view.curve.delta.most
    default: int | None = min(2 ** (run.settings.coding.bits or 8) - 1, most)
    if st.session_state.get(_K, 0) > most:  # of a delta that had more
        st.session_state[_K], default = default, None
    k = st.slider(
        "Largest buckets kept, k",
        0,
        most,
        default,
        key=_K,
        bind="query-params",
        help="With bits x, priority promotion keeps 2ˣ − 1. 0 leaves the track as it was.",
    )
    loss = view.curve.loss(k)
    _numbers(view, delta.distance(delta.largest(k)), loss, delta.values(k))
    view.curve.go_on(SLICE)
    left = view.curve.total - len(view.curve.losses)
    with st.container(border=True, key="tune-by-bucket"):
        panel = by_bucket_panel(
            view.step,
            view.curve.drawn | {k: loss},
            most,
            marks(most),
            k,
            view.live_loss,
            _marked(view, run),
            each=view.scope == "tensor",
        )
        widgets.show(panel, "by-bucket")
        if left:
            done = len(view.curve.losses) / view.curve.total
            st.progress(done, f"Measuring: {left} of {view.curve.total} points left")
    widgets.tables_toggle()


def _marked(view: BucketView, run: Run) -> tuple[int, BucketKey] | None:
    """The bucket that all charts highlight, and from which k on it is kept."""
    key = follow_weight.marked(run, run.snapshot().at(view.step))
    k = None if key is None else rank(view.curve.delta.alphabets, key)
    return None if key is None or k is None else (k, key)


def _without(view: BucketView, run: Run) -> None:
    delta = view.curve.delta
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
    _numbers(view, delta.distance(rebuilt), loss, _all(delta) - gone)
    what = f"Without {plural(len(out), 'bucket')} of {len(named)}" if out else "With every bucket"
    st.markdown(rebuilt_sentence(what, loss, view.live_loss))


def _all(delta: SplitDelta) -> int:
    return sum(b.kept + b.dropped for b in delta.buckets)


def _numbers(view: BucketView, distance: float, loss: float, changed: int) -> None:
    n = sum(a.n for a in view.curve.delta.alphabets)
    off, live = loss - view.live_loss, loss_text(view.live_loss)
    where = f"{abs(off):.6f} {'above' if off > 0 else 'below'} live"
    rebuilt = "Of the rebuilt model, on up to 256 held-out examples."
    share, others = percent_text(changed / n), "The others stay as the track has them."
    cards = (
        ("Loss, rebuilt", loss_text(loss), where if math.isfinite(off) else "not finite", rebuilt),
        ("Loss, live", live, f"at step {view.step}", "Of the saved model, on the same examples."),
        (
            "Distance",
            percent_text(distance),
            "of the distance trained",
            "‖rebuilt − u‖ / ‖u − u₀‖.",
        ),
        ("Values changed", f"{changed:,}", f"of {n:,}, {share}", others),
    )
    widgets.cards(cards, "tune-by-bucket-numbers", 4, 150)
