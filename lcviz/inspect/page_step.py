"""One step of a chain: its tensors, what its record changes in them, and the bits."""

from __future__ import annotations

import itertools

import streamlit as st

import codec
from lcviz.lab.chain_summary import Summary
from lcviz.lab.codewords import CodeWord, first_words
from lcviz.lab.step_tensors import StepFacts, alphabet_text, rebuild_step
from lcviz.report.tensors_figure import tensor_bars, tensors_table
from lcviz.text import level_text, nbytes_text, plural
from lcviz.ui import session, widgets

from .page_open import ChainSource, Findings
from .page_parts import progress_bar, show_damage
from .page_value import one_value

WORDS = 24  # code words shown
_STEP = "inspect-rebuilt"  # in the session: the step that was rebuilt last
COLOURS = ("blue", "orange")  # of neighbouring words: on disk there are no gaps between them


def one_step(source: ChainSource, findings: Findings, summary: Summary, follow: bool) -> None:
    """The chosen step. At first, and always if follow is set: the newest step that restores."""
    step = summary.reached[-1]
    if follow:
        st.markdown(f"**Step {step}**, the newest.")
    elif len(summary.steps) > 1:
        text = "It is rebuilt from the last base before it. The arrow keys go step by step."
        step = widgets.step_slider(summary.steps, step, "inspect_step", text)
    facts = _rebuilt(source, findings, step)
    if facts is None:
        return
    if facts.needs_rerun:
        st.info(
            "This record holds gradients. The parameters and moments below are those of the base; "
            "a restart repeats the optimizer's steps from there, see `codec.rerun.restore`."
        )
    if any(t.changed is not None and t.stored == "codes" for t in facts.tensors):
        widgets.picture(tensor_bars(facts), "tensors")
    elif facts.kind == "base":
        st.info(f"Step {step} is a base: it stores every tensor exactly, and no changes.")
    if (box := widgets.opened("All tensors", "table_rows", "inspect-all-tensors")) is not None:
        with box:
            _table(facts)
    grid = st.grid(2, min_column_width=420)
    with grid.cell():
        _stream(facts)
    with grid.cell():
        one_value(source, findings, facts)


def _table(facts: StepFacts) -> None:
    """All tensors, in numbers."""
    table = tensors_table(facts)
    if not table["not finite"].any():
        table = table.drop(columns="not finite")
    widgets.scrolling(table, "inspect-tensors")
    of_moments = " Largest level of an optimizer's moment: in octaves, roots of v, or sizes."
    st.markdown(
        ":small[Minimum to standard deviation: of what a restart gets. Bits: of the code words "
        f"alone.{of_moments * any(t.target for t in facts.tensors)}]"
    )


def _rebuilt(source: ChainSource, findings: Findings, step: int) -> StepFacts | None:
    """The rebuilt step, kept until another is chosen; None if it cannot be restored, as the page
    then says."""
    records = findings.catalogue.records
    record = next(r for r in records if r.entry.step == step)

    def rebuilt() -> StepFacts:
        bases = [r.entry.step for r in records if r.entry.kind == "base" and r.entry.step <= step]
        total = sum(max(bases, default=0) <= r.entry.step <= step for r in records)
        count = itertools.count(1)

        def report(_: int) -> None:
            if (done := next(count)) % 20 == 0:
                progress(done, total)

        return rebuild_step(source.chain(), step, report)

    try:
        with progress_bar("Rebuilt {} of {}") as progress:
            return session.cached(_STEP, (source.key, record.key, step), rebuilt)
    except codec.LccError as exc:
        show_damage(f"Step {step} cannot be restored.", [str(exc)], "step")
        return None


def _stream(facts: StepFacts) -> None:
    """The first code words of an alphabet's payload."""
    st.markdown("**The first code words of the payload**")
    group_by_name = {alphabet_text(g): g for g in facts.groups}
    if not group_by_name:
        st.markdown("This record has no code words: everything in it is stored exactly.")
        return
    name = next(iter(group_by_name))
    if len(group_by_name) > 1:
        text = "Tensors that share levels and code words."
        name = widgets.select("Tensors", group_by_name.keys(), key="inspect_alphabet", help=text)
    group, encoded = group_by_name[name], group_by_name[name].encoded
    if encoded.payload.SHARED:
        st.markdown(
            f"This is one {encoded.payload.TITLE} of {nbytes_text(encoded.payload.nbytes)} for "
            f"{group.n:,} values, {encoded.payload_bits / group.n:.3f} bits each. No value has a "
            "code word of its own."
        )
        return
    words = first_words(encoded, WORDS)
    if not words:
        st.markdown(f"No bits are needed: all {group.n:,} values have the same code.")
        return
    colours = itertools.cycle(COLOURS)
    st.markdown(" ".join(f":{c}-background[{w.word}{w.rest}]" for w, c in zip(words, colours)))
    nbits = sum(len(w.word) + len(w.rest) for w in words)
    st.markdown(
        f":small[{plural(nbits, 'bit')} of {encoded.payload_bits:,}, in "
        f"{plural(len(words), 'word')}, stand for the first {words[-1].at + 1:,} of {group.n:,} "
        "values. On disk there are no gaps between them.]"
    )
    st.table(
        {
            "word": [w.word for w in words],
            "bits after it": [w.rest for w in words],
            "means": [_meaning(w, encoded) for w in words],
            "ends at value": [f"{w.at:,}" for w in words],
        },
        hide_index=True,
        height=480,
    )


def _meaning(word: CodeWord, e: codec.Encoded) -> str:
    zeros = f"{plural(word.run, 'zero')}, then " if word.run else ""
    return zeros + level_text(float(e.levels[word.code]), e.measure)
