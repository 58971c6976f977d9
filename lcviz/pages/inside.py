"""Inside one checkpoint: the four panels of the Live page."""

from __future__ import annotations

import streamlit as st

from .. import state
from ..figures.bits import bit_choices
from ..figures.buckets import bucket_histogram
from ..figures.huffman import code_panel
from ..figures.removed import removed_bucket_panel
from ..lab.anatomy import Alphabet, choices, code_table, totals
from ..lab.removed import RemovedBuckets
from ..session import Run
from ..snapshot import PLAYING, Checkpoint, RunError, Snapshot


def inside(run: Run, snapshot: Snapshot, viewed: Checkpoint) -> None:
    """Bucket histogram, bit choices, Huffman code and removed buckets of one saved step."""
    st.subheader(f"Inside the checkpoint of step {viewed.step}", anchor=False)
    if viewed.kind == "base":
        st.info(
            "Step 0 is the base: the starting weights, stored exactly. There is no δ to take "
            "apart yet; every later step has one."
        )
        return
    if viewed.non_finite:
        st.warning(
            f"δ is not finite in {', '.join(viewed.non_finite)}: stored exactly in this step.",
            icon=":material/warning:",
        )
    if not viewed.alphabets:
        st.info("In this step every tensor was stored exactly, so there is nothing to take apart.")
        return
    whole_model = run.settings.scope == "model"
    grid = st.grid(2, min_column_width=420, border=True, key="inside")
    with grid.cell():
        n = sum(a.n for a in viewed.alphabets)
        state.show(bucket_histogram(totals(viewed.alphabets), n, whole_model), "buckets")
    with grid.cell():
        state.show(bit_choices(choices(viewed.alphabets), run.settings.bits), "bits")
    with grid.cell():
        alphabet = _alphabet(viewed)
        name = "The whole model" if whole_model else alphabet.names[0]
        panel = code_panel(code_table(alphabet, run.settings.bits), name)
        state.show(panel, "huffman")
        if not st.session_state.get("tables"):  # the code's table belongs to it, always
            state.show_table(panel.table, "huffman")
    with grid.cell():
        _removed(run, snapshot, viewed)


def _alphabet(viewed: Checkpoint) -> Alphabet:
    """The alphabet whose code is shown: the only one, or that of a chosen tensor."""
    if len(viewed.alphabets) == 1:
        return viewed.alphabets[0]
    by_name = {a.names[0]: a for a in viewed.alphabets}
    largest = max(range(len(by_name)), key=lambda i: viewed.alphabets[i].n)
    name = st.selectbox(
        "Tensor whose code is shown", list(by_name), largest, key="tensor", persist_state="session"
    )
    return by_name[name]


def _removed(run: Run, snapshot: Snapshot, viewed: Checkpoint) -> None:
    """The experiment evaluates the model once a bucket, so while the run plays it waits."""
    playing = snapshot.status == PLAYING
    held = st.session_state.get("removed")
    result: RemovedBuckets | None = held[1] if held and held[0] == run.id else None
    if playing:
        wanted = st.button(
            "Measure removed buckets now",
            key="measure",
            icon=":material/straighten:",
            help="One evaluation of the model for every bucket; training slows down meanwhile. "
            "It is done by itself when the run pauses.",
        )
    if not playing or wanted:
        result = _measure(run, viewed.step)
        st.session_state["removed"] = (run.id, result) if result else None
    if result is not None:
        state.show(removed_bucket_panel(result), "removed")
    elif playing:
        st.markdown("**Error when one bucket is removed**")
        st.caption("Each bucket of δ is left out in turn, the model rebuilt, its loss measured.")


def _measure(run: Run, step: int) -> RemovedBuckets | None:
    bar = st.empty()

    def progress(done: int, total: int) -> None:
        run.watch()
        bar.progress(done / total, f"Rebuilding without bucket {done} of {total}")

    try:
        return run.removed_buckets(step, progress)
    except RunError as exc:
        st.markdown("**Error when one bucket is removed**")
        st.info(str(exc))
        return None
    finally:
        bar.empty()
