"""One step of a chain: one of its values, and what its record changes in each tensor."""

from __future__ import annotations

import itertools

import streamlit as st

import codec
from lcviz.lab.chain_summary import Summary
from lcviz.lab.step_tensors import StepFacts, rebuild_step
from lcviz.report.tensors_figure import tensor_bars, tensors_table
from lcviz.ui import session, widgets

from .page_open import ChainSource, Findings
from .page_parts import progress_bar, show_damage
from .page_value import one_value

_STEP = "inspect-rebuilt"  # in the session: the step that was rebuilt last


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
    elif facts.kind == "base":
        st.info(f"Step {step} is a base: it stores every tensor exactly, and no changes.")
    one_value(source, findings, facts)
    label = f"What step {step} changes in each tensor"
    if (box := widgets.opened(label, "table_rows", "inspect-all-tensors")) is not None:
        with box:
            if any(t.changed is not None and t.stored == "codes" for t in facts.tensors):
                widgets.picture(tensor_bars(facts), "tensors")
            _table(facts)


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
