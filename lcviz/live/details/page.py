"""Live's details: costs, sizes, bits, code and removed buckets, and where the time goes."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from codec import Coding
from codec.inspect import CODERS, Codes
from lcviz.lab.anatomy import (
    EVERY_BITS,
    Alphabet,
    BucketKey,
    first_to_keep,
    promotions,
    record_sizes,
    tables,
)
from lcviz.lab.removed_bucket import RemovedBuckets
from lcviz.lab.tuner.candidates import Setting
from lcviz.live.page_step_slider import viewed_checkpoint
from lcviz.recover.page_timelines import timelines_of_run
from lcviz.run.run import Run
from lcviz.run.snapshot import CLOSED, PLAYING, Checkpoint, RunError, Snapshot
from lcviz.text import ARITHMETIC, CODER_NAMES, nbytes_text, percent_text
from lcviz.ui import follow_weight, session, widgets
from lcviz.ui.charts import Panel
from lcviz.ui.glossary import explained
from lcviz.ui.live_settings import own_training
from lcviz.ui.polling import polled

from .bits_figure import bits_panel
from .code_tables import code_table, token_table
from .huffman_figure import code_panel, token_panel
from .moments_figure import moments_panel
from .page_costs import show_costs
from .removed_bucket_figure import removed_bucket_panel
from .size_figure import size_panel

ENTROPY_HELP = (
    "Shannon's bound: the least that a code of single values can take, without tables and levels. "
    "A code of runs gets below it where zeros cluster."
)
VALUE_COLUMNS = (
    "Symbol 0 is the zero: a change too small to be kept. Level: what all members of a bucket "
    "become. Bits: the length of the code word."
)
TOKEN_COLUMNS = (
    "Token: a run of zeros and the level after it. Extra bits: which of several runs the word "
    "stands for. Escape: a run and a level follow that have no word of their own."
)

_REMOVED = "**Error when one bucket is removed**"
_REMOVED_HELP = "Each bucket of δ is left out in turn, the model rebuilt, its loss measured."


def show_details(run: Run) -> None:
    """All numbers of the run and of the step shown.

    The numbers tick. The pictures stay until the page is run: when a step is chosen, or the run
    pauses.
    """
    polled(session.poll_interval(run), _costs, run)
    polled(None, _checkpoint, run)
    timelines_of_run("live", run.settings)
    setting = Setting(run.settings.coding, run.settings.interval)
    own_training(setting, optimizer=run.settings.optimizer_state)


def _costs(run: Run) -> None:
    snapshot = run.snapshot()
    if snapshot.status == CLOSED:
        return
    show_costs(snapshot, run.settings)


def _checkpoint(run: Run) -> None:
    """What is inside one checkpoint."""
    snapshot = run.snapshot()
    viewed = viewed_checkpoint(snapshot)
    if snapshot.status == CLOSED:
        return
    st.header(
        f"Inside the checkpoint of step {viewed.step}",
        anchor=False,
        help="While the run plays, these pictures stay. Pause, or choose a step, to draw them "
        "anew.",
    )
    coding, codes = run.settings.coding, run.codes(viewed.step)
    marked = follow_weight.marked(run, viewed)
    grid = st.grid(2, min_column_width=420, border=True, key="checkpoint")
    with grid.cell():
        sizes = size_panel(snapshot.checkpoints, viewed.step, coding.budget)
        widgets.show(sizes, "size")
    if not viewed.alphabets:
        with grid.cell():
            st.info("In this step every tensor was stored exactly: there is no δ to show.")
        return
    whole_model = coding.scope == "model"
    with grid.cell():
        if any(a.uniform for a in viewed.alphabets):
            _steps(viewed)
        else:
            _bits(viewed, codes, coding, marked)
    with grid.cell():
        i = _alphabet(viewed)
        alphabet = viewed.alphabets[i]
        name = "The whole model" if whole_model else alphabet.names[0]
        panel, columns = _code(alphabet, codes[i] if codes else None, name, marked)
        widgets.picture(panel, "huffman")
    with grid.cell():
        st.markdown("**The same code as a table**", help=columns)
        widgets.show_table(panel.table, "huffman", max(widgets.TABLE_HEIGHT, panel.height))
    if viewed.moments:
        with grid.cell(column_span="all"):
            widgets.show(moments_panel(viewed), "moments")
    with grid.cell(column_span="all"):
        _removed(run, snapshot, viewed, marked)
    if follow_weight.weight_followed() is not None:
        with grid.cell(column_span="all"):
            follow_weight.history(run, viewed)
    _sizes(viewed, coding.coder)


def _bits(
    viewed: Checkpoint, codes: Sequence[Codes] | None, coding: Coding, marked: BucketKey | None
) -> None:
    """What every x would keep of this δ, and what it would cost."""
    every = promotions(viewed.alphabets, codes, coding)
    now = EVERY_BITS.index(coding.bits) if coding.by_bits else len(every) - 1
    keeps = None if marked is None else first_to_keep(viewed.alphabets, marked)
    widgets.show(bits_panel(every, now, marked, keeps), "by-bits")


def _steps(viewed: Checkpoint) -> None:
    """The uniform steps of each alphabet."""
    st.markdown("**Equal steps**")
    rows = [
        {
            "of": "the whole model" if len(viewed.alphabets) == 1 else a.names[0],
            "step": f"{a.encoded.levels[1]:.4g}" if a.kept else "–",
            "levels": f"{a.kept:,}",
            "values that move": f"{int(a.buckets.count[: a.kept].sum()):,} of {a.n:,}",
            "energy kept": percent_text(float(a.energy[: a.kept].sum() / (a.energy.sum() or 1))),
        }
        for a in viewed.alphabets
    ]
    st.table(pd.DataFrame(rows), hide_index=True)
    other = "Other changes lie in the [[dead zone]] and stay in the next δ."
    st.markdown(explained(f":small[{other}]"))


def _sizes(viewed: Checkpoint, coder: str) -> None:
    """The same symbols with both coders, their entropy, and where the record's bytes are."""
    sizes = record_sizes(viewed.alphabets, coder)
    cards: list[tuple[str, float, str]] = []
    for name, title in CODER_NAMES.items():
        nbytes = sizes.of(name)
        assert nbytes is not None, "a record's own sizes are all known"
        where, text = "instead", "What the same values would have taken, with a new table."
        summary = CODERS[name].summary
        if name == coder:
            where, text = "on disk", "This is on disk."
            if any(a.encoded.arithmetic for a in viewed.alphabets):
                title, summary = ARITHMETIC
        cards.append((f"{title} · {where}", nbytes, f"{summary} {text}"))
    cards.append(("Entropy of single values", sizes.entropy, ENTROPY_HELP))
    shown = [
        (title, nbytes_text(size), f"{sizes.bits(size):.4f} bits per parameter", text)
        for title, size, text in cards
    ]
    widgets.cards(shown, "sizes", len(shown), 200)
    used, coded = tables(viewed.alphabets), sum(a.nbytes for a in viewed.alphabets)
    of_moments = sum(moment.nbytes for moment in viewed.moments)
    header = viewed.nbytes - viewed.exact_nbytes - of_moments - coded
    moments = f"{nbytes_text(of_moments)} of m and v, " if viewed.moments else ""
    # About as long at every step: what is below stays in place.
    st.caption(
        f"On disk: {nbytes_text(coded)} of code words, levels and code tables ({used.reused} of "
        f"{used.n} reused), {nbytes_text(header)} of header, {moments}"
        f"{nbytes_text(viewed.exact_nbytes)} stored exactly: {nbytes_text(viewed.nbytes)} in all."
    )


def _alphabet(viewed: Checkpoint) -> int:
    """Which alphabet's code is shown: the only one, or that of a chosen tensor."""
    if len(viewed.alphabets) == 1:
        return 0
    names = [a.names[0] for a in viewed.alphabets]
    largest = max(range(len(names)), key=lambda i: viewed.alphabets[i].n)
    name = st.selectbox(
        "Tensor whose code is shown",
        names,
        largest,
        key="tensor",
        persist_state="session",
        bind="query-params",
    )
    return names.index(name)


def _code(
    alphabet: Alphabet, codes: Codes | None, name: str, marked: BucketKey | None
) -> tuple[Panel, str]:
    """The record's own code, or the paper's instead, and what its columns mean."""
    runs = alphabet.table is not None and alphabet.table.classes > 1
    if runs and not st.toggle(
        "Show the paper's code of single values instead",
        key="paper",
        persist_state="session",
        bind="query-params",
        help="The paper gives every value a word of its own, this record a run of zeros together "
        "with the level after it.",
    ):
        return token_panel(token_table(alphabet, codes), alphabet, name, marked), TOKEN_COLUMNS
    return code_panel(code_table(alphabet), alphabet, name, marked), VALUE_COLUMNS


def _removed(run: Run, snapshot: Snapshot, viewed: Checkpoint, marked: BucketKey | None) -> None:
    """The experiment evaluates the model once a bucket: while the run plays, only on request."""
    playing = snapshot.status == PLAYING
    held = st.session_state.get("removed")
    result: RemovedBuckets | None = held[1] if held and held[0] == run.id else None
    if not playing or widgets.button(
        "Measure removed buckets now",
        key="measure",
        icon=":material/straighten:",
        help="It slows the training down. When the run pauses, it happens by itself.",
    ):
        result = _measure(run, viewed.step)
        st.session_state["removed"] = (run.id, result) if result else None
    if result is not None:
        widgets.show(removed_bucket_panel(result, marked), "removed")
    elif playing:
        st.markdown(_REMOVED, help=_REMOVED_HELP)


def _measure(run: Run, step: int) -> RemovedBuckets | None:
    bar = st.empty()

    def progress(done: int, total: int) -> None:
        run.watch()
        bar.progress(done / total, f"Rebuilding without bucket {done} of {total}")

    try:
        return run.removed_buckets(step, progress)
    except RunError as exc:
        st.markdown(_REMOVED, help=_REMOVED_HELP)
        st.info(str(exc))
        return None
    finally:
        bar.empty()
