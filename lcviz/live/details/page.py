"""Live's details: sizes over time, bits by x, the code as a tree, and code for your training."""

from __future__ import annotations

import streamlit as st

from codec.inspect import Codes
from lcviz.lab.anatomy import EVERY_BITS, Alphabet, promotions
from lcviz.lab.tuner.candidates import Setting
from lcviz.live.page_step import viewed_checkpoint
from lcviz.run.run import Run
from lcviz.run.snapshot import CLOSED, Checkpoint
from lcviz.ui import widgets
from lcviz.ui.charts import Panel
from lcviz.ui.live_settings import own_training
from lcviz.ui.polling import polled

from .bits_figure import bits_panel
from .code_tables import code_table, token_table
from .huffman_figure import code_panel, token_panel
from .moments_figure import moments_panel
from .size_figure import size_panel


def show_details(run: Run) -> None:
    """Everything that does not fit on the first screen.

    While the run plays, the figures stay as they are. A chosen step or a pause runs the page and
    draws them anew.
    """
    polled(None, _checkpoint, run)
    setting = Setting(run.settings.coding, run.settings.interval)
    own_training(setting, optimizer=run.settings.optimizer_state)


def _checkpoint(run: Run) -> None:
    """Figures of one checkpoint."""
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
    coding, codes = run.settings.coding, run.saved.codes(viewed.step)
    grid = st.grid(2, min_column_width=420, border=True, key="checkpoint")
    with grid.cell():
        widgets.show(size_panel(snapshot.checkpoints, viewed.step, coding.budget), "size")
    if not viewed.alphabets:
        with grid.cell():
            st.info("In this step every tensor was stored exactly: there is no δ to show.")
        return
    if not any(a.uniform for a in viewed.alphabets):
        with grid.cell():
            choices = promotions(viewed.alphabets, codes, coding)
            now = EVERY_BITS.index(coding.bits) if coding.by_bits else len(choices) - 1
            widgets.show(bits_panel(choices, now), "by-bits")
    with grid.cell(column_span="all"):
        i = _alphabet(viewed)
        alphabet = viewed.alphabets[i]
        name = "The whole model" if coding.scope == "model" else alphabet.names[0]
        widgets.show(_code(alphabet, codes[i] if codes else None, name), "huffman")
    if viewed.moments:
        with grid.cell(column_span="all"):
            widgets.show(moments_panel(viewed), "moments")


def _alphabet(viewed: Checkpoint) -> int:
    """The index of the alphabet whose code is shown: the only one, or a chosen tensor's."""
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


def _code(alphabet: Alphabet, codes: Codes | None, name: str) -> Panel:
    """The record's own code, or the paper's if a visitor prefers it."""
    runs = alphabet.encoded.table is not None and alphabet.encoded.table.classes > 1
    if runs and not st.toggle(
        "Show the paper's code of single values instead",
        key="paper",
        persist_state="session",
        bind="query-params",
        help="In the paper every value has a code word. In this record a run of zeros and the "
        "level after it share one.",
    ):
        return token_panel(token_table(alphabet, codes), alphabet, name)
    return code_panel(code_table(alphabet), alphabet, name)
