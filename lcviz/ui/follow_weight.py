"""On Live: one weight that is followed, and one bucket that the charts highlight.

Both are in the URL. The bucket of a followed weight is highlighted, unless another is chosen.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import streamlit as st

from lcviz.lab.anatomy import BucketKey, totals
from lcviz.lab.follow_weight import Followed, Weight, follow
from lcviz.run.run import Run
from lcviz.run.snapshot import CLOSED, Checkpoint
from lcviz.text import exponent_text

from . import session, widgets
from .follow_weight_figure import (
    bucket_text,
    level_text,
    name_text,
    number_text,
    said_text,
    weight_over_steps,
)
from .glossary import explained
from .polling import polled

_WEIGHT, _BUCKET = session.WEIGHT, session.BUCKET
_TENSOR, _INDEX = "following-tensor", "following-index"
MOST_STEPS = 500  # of the picture
OWN, NONE = "", "none"


def choosers(run: Run) -> None:
    """The buttons that choose a weight to follow and a bucket to highlight."""
    drawn = weight_followed(), chosen_bucket()
    with st.container(width="content"):
        st.fragment(_popovers)(run, drawn)  # the page around it is not run when one opens


def followed_line(run: Run) -> None:
    """What the newest step did to the followed weight, if there is one."""
    weight = weight_followed()
    if weight is not None:
        polled(session.poll_interval(run), _line, run, weight)


def _popovers(run: Run, drawn: tuple[Weight | None, str | None]) -> None:
    """drawn: the weight and the bucket that the rest of the page shows."""
    weight = weight_followed()
    if (weight, chosen_bucket()) != drawn or run.snapshot().status == CLOSED:
        st.rerun()
    with st.container(horizontal=True, width="content"):
        _popover("Follow one weight", "my_location", _choose_weight, run, weight)
        _popover("Highlight a bucket", "ink_highlighter", _choose_bucket, run, weight)


def _popover(
    label: str,
    icon: str,
    body: Callable[[Run, Weight | None], None],
    run: Run,
    weight: Weight | None,
) -> None:
    """A popover whose content is made only while it is open."""
    popover = st.popover(
        label, type="tertiary", icon=f":material/{icon}:", key=f"open-{icon}", on_change="rerun"
    )
    if popover.open:
        with popover:
            body(run, weight)


def marked(run: Run, checkpoint: Checkpoint) -> BucketKey | None:
    """The bucket that charts of a checkpoint highlight."""
    chosen = session.remembered(_BUCKET) or OWN
    if chosen != OWN:
        return read_bucket(chosen)
    weight = weight_followed()
    found = None if weight is None else at_step(run, checkpoint, weight)
    bucket = None if found is None else found.bucket
    return None if bucket is None else (bucket.exponent, bucket.sign)


def chosen_bucket() -> str | None:
    """The bucket that was chosen to be highlighted, by its name in the URL."""
    return session.remembered(_BUCKET)


def mark(key: BucketKey | None) -> None:
    """Highlight a bucket from now on; None: that of the followed weight."""
    session.remember(_BUCKET, None if key is None else bucket_name(key))


def follow_from_now(weight: Weight | None) -> None:
    """Follow a weight; None: follow none."""
    session.remember(_WEIGHT, None if weight is None else str(weight))


def weight_followed() -> Weight | None:
    """The weight in this URL, None if there is none or it is not the name of one."""
    try:
        return Weight.read(session.remembered(_WEIGHT) or "")
    except ValueError:
        return None


def at_step(
    run: Run, checkpoint: Checkpoint, weight: Weight, *, word: bool = True
) -> Followed | None:
    """What a step did to a weight; None if the run has no such weight, or not the step any more.

    word: with its code word.
    """
    states = run.states(checkpoint.step)
    if states is None or not weight.is_in(states.live):
        return None
    codes = run.codes(checkpoint.step) if word and checkpoint.alphabets else None
    return follow(weight, checkpoint.step, states.before, states.live, checkpoint.alphabets, codes)


def history(run: Run, viewed: Checkpoint) -> None:
    """The followed weight over all steps that are kept, if one is followed."""
    weight = weight_followed()
    if weight is None:
        return
    here = at_step(run, viewed, weight)
    if here is None:
        st.markdown("**The followed weight**")
        st.caption(f"{weight} cannot be shown at step {viewed.step}: {_why_not(run, weight)}")
        return
    checkpoints = {c.step: c for c in run.snapshot().checkpoints}
    steps = run.steps_held()
    stride = -(-len(steps) // MOST_STEPS)
    found = [
        f
        for step in steps[::-1][::stride][::-1]
        if step in checkpoints and (f := at_step(run, checkpoints[step], weight, word=False))
    ]
    widgets.show(weight_over_steps(found, here), "followed")


def bucket_name(key: BucketKey) -> str:
    """A bucket in the URL: 'neg-7' for −2⁻⁷."""
    exponent, sign = key
    return f"{'neg' if sign else 'pos'}{exponent}"


def read_bucket(text: str) -> BucketKey | None:
    """The bucket of a `bucket_name`; None for anything else."""
    sign, exponent = text[:3], text[3:]
    digits = exponent.removeprefix("-")
    if sign not in ("pos", "neg") or not (digits.isascii() and digits.isdecimal()):
        return None
    return int(exponent[:5]), int(sign == "neg")


def _why_not(run: Run, weight: Weight) -> str:
    states = run.states()
    if states is None or weight.is_in(states.live):
        return "that step is no longer kept; choose a later one."
    return "this run has no such weight. Choose another one."


def _choose_weight(run: Run, weight: Weight | None) -> None:
    states = run.states()
    assert states is not None, "a run always holds its newest states"
    st.markdown(
        "Live shows the weight's δ, bucket, level, code word and reconstruction at every step."
    )
    tensors = list(states.live)
    here = weight.tensor if weight is not None and weight.tensor in tensors else tensors[0]
    st.session_state.setdefault(_TENSOR, here)
    if st.session_state[_TENSOR] not in tensors:
        st.session_state[_TENSOR] = here
    tensor = st.selectbox("Tensor of the weight", tensors, key=_TENSOR)
    size = states.live[tensor].size
    st.session_state[_INDEX] = min(st.session_state.get(_INDEX, 0), size - 1)
    index = st.number_input(
        "Element of the tensor",
        0,
        size - 1,
        key=_INDEX,
        help="Counted in C order from 0: the last index runs fastest.",
    )
    st.button(
        "Follow this one",
        key="follow-this",
        on_click=follow_from_now,
        args=(Weight(tensor, int(index)),),
    )
    st.button("Follow a random kept weight", key="follow-kept", on_click=_follow_any, args=(run,))
    if weight is not None:
        st.button("Stop following", key="follow-none", on_click=follow_from_now, args=(None,))


def _follow_any(run: Run) -> None:
    """Follow a weight whose change is kept in the newest delta, chosen at random."""
    states, newest = run.states(), run.snapshot().newest
    assert states is not None, "a run always holds its newest states"
    sizes = {name: array.size for name, array in states.live.items()}
    weight = Weight(max(sizes, key=sizes.__getitem__), 0)
    for alphabet, codes in zip(newest.alphabets, run.codes(newest.step) or ()):
        kept = np.flatnonzero((codes > 0) & (codes <= alphabet.kept))
        if kept.size:
            ends = np.cumsum([sizes[name] for name in alphabet.names])
            i = int(random.choice(kept))
            tensor = int(np.searchsorted(ends, i, "right"))
            name = alphabet.names[tensor]
            weight = Weight(name, i - int(ends[tensor]) + sizes[name])
            break
    follow_from_now(weight)


def _choose_bucket(run: Run, weight: Weight | None) -> None:
    newest = run.snapshot().newest
    chosen = session.remembered(_BUCKET) or OWN
    present = [bucket_name((b.exponent, b.sign)) for b in totals(newest.alphabets)]
    options = [OWN, NONE, *present]
    if chosen not in options and read_bucket(chosen):
        options.append(chosen)  # of another delta
    own = "none, until a weight is followed" if weight is None else "that of the followed weight"

    def option_text(option: str) -> str:
        key = read_bucket(option)
        return {OWN: own, NONE: "none"}[option] if key is None else exponent_text(*key)

    st.session_state["highlighted"] = chosen if chosen in options else OWN
    st.selectbox(
        "Bucket to highlight in all charts",
        options,
        key="highlighted",
        format_func=option_text,
        on_change=lambda: session.remember(_BUCKET, st.session_state["highlighted"] or None),
        help="Those of the newest δ. On Live a click on a bar of the histogram does the same.",
    )


def _line(run: Run, weight: Weight) -> None:
    """What the newest step did to the followed weight."""
    snapshot = run.snapshot()
    found = at_step(run, snapshot.newest, weight)
    if found is None:
        st.markdown(f"**{weight}**: {_why_not(run, weight)}")
        return
    off = found.restored - found.live
    shown = {
        "followed weight": name_text(found),
        "step": f"{found.step}",
        "[[track]] ũ": "–" if found.exact and not found.step else number_text(found.track),
        "trained u": number_text(found.live),
        "δ": number_text(found.delta, "+"),
        "bucket": bucket_text(found),
        "level": level_text(found),
        "code": said_text(found),
        "restored": f"{number_text(found.restored)}, off by {number_text(off, '+')}",
    }
    with st.container(horizontal=True, gap="medium", border=True, key="followed-line"):
        for name, value in shown.items():
            st.markdown(f"{explained(f':small[{name}]')}  \n{value}", width="content")
