"""Inspect: any chain or archive and one of its steps, also while somebody writes to it.

What was found and the sizes of the records are polling fragments: they change as records come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import codec
from codec.errors import ChainNotFoundError, PayloadError
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.lab.records import RecordFacts
from lcviz.report.chain_figures import kinds_text
from lcviz.report.exponents import count_exponents
from lcviz.report.exponents_figure import exponents_over_steps
from lcviz.report.records_figure import records_table, sizes_over_steps
from lcviz.report.verdict import chain_warning, misses, verdict
from lcviz.text import CODER_NAMES, kept_text, nbytes_text, percent_text, plain, plural
from lcviz.ui import session, widgets
from lcviz.ui.coding_form import SCOPES
from lcviz.ui.glossary import explained
from lcviz.ui.polling import polled

from . import page_watch
from .page_open import ChainSource, Findings, choose, leave, read
from .page_parts import deadline, more_button, progress_bar, sentence, show_damage
from .page_step import one_step
from .watch_table import since_text

UNASKED_SECONDS = 3  # of decoding without a click
RESTING = 4  # pauses are this many times as long as decoding: the training needs the machine
HELP = (
    "A [[chain]] is a folder of [[records|record]]: a [[base]] holds the whole state, each "
    "[[delta]] one [[step]]. To get a step as a plain file, open the chain on Export, under *Files "
    "of mine*."
)
_DECODE = "inspect-decode"  # key of the button that decodes all remaining records


def page() -> None:
    """The whole page."""
    top = st.container(key="answer")
    source = choose()
    findings = _findings(source) if isinstance(source, ChainSource) else None
    if source == "compare":
        top.title("Inspect: all runs that are watched", anchor=False)
        page_watch.side_by_side()
    elif isinstance(source, ChainSource) and findings is not None:
        _chain(source, findings, top)
    else:
        top.title("Inspect a chain", anchor=False)


def _findings(source: ChainSource) -> Findings | None:
    """What is known of the chain; None, with the reason on the page, if it cannot be read."""
    watched = source.watched
    if watched is None or watched.reached:
        try:
            return read(source)
        except codec.LccError as exc:
            if watched is None or not isinstance(exc, ChainNotFoundError):
                widgets.error(f"This cannot be opened. {sentence(exc)}")
                st.button("Try again", icon=":material/refresh:", key="inspect-again")
                if watched is not None:
                    page_watch.await_again(source.chain)
                return None
    if watched is not None:
        page_watch.await_first(watched)
    return None


def _chain(source: ChainSource, findings: Findings, top: DeltaGenerator) -> None:
    """A chain that can be read. top: the place of what was found, and of the controls."""
    facts, head = top.container(key="inspect-facts"), top.container(horizontal=True, key="head")
    step = st.container()
    grid = st.grid(2, min_column_width=420, border=True, key="inspect-pictures")
    pace = _pace(source, findings)
    with grid.cell():  # sent first: the browser loads its drawing code while the rest is computed
        polled(pace, _sizes, source)
    with head:
        verifying, follow = _controls(source, pace)
    with facts:
        if verifying:
            _verify(source, findings)
        records_drawn = len(findings.catalogue.records)
        polled(pace, _records, source, pace, records_drawn, follow)
    begun = time.monotonic()
    summary = summarize(findings.catalogue.records)
    if summary.reached:
        with step.container(border=True, key="inspect-step"):
            one_step(source, findings, summary, follow)
    with grid.cell():
        _exponents(source, findings)
    findings.follow_after = time.monotonic() + (time.monotonic() - begun) * RESTING
    if (box := widgets.opened("All records", "table_rows", "inspect-records")) is not None:
        with box:
            _table(findings)


def _controls(source: ChainSource, pace: float | None) -> tuple[bool, bool]:
    """Whether to verify the chain now, and to follow its newest step."""
    page_watch.back(source.watched, leave)
    verifying = st.button(
        "Verify",
        type="primary",
        icon=":material/verified:",
        key="verify",
        help="Reads and decodes all records again, and compares each rebuilt state with the "
        "digest taken when it was saved. It does not compare them with what was trained.",
    )
    follow = pace is not None and st.toggle(
        "Follow the newest step",
        source.watched is not None,
        key="inspect_follow",
        bind="query-params",
        help="New records show up in the numbers and sizes by themselves. With this, the step "
        "and the exponents follow them too.",
    )
    return verifying, follow


def _pace(source: ChainSource, findings: Findings) -> float | None:
    """Seconds between two looks at the chain; None if it cannot grow."""
    if source.run is not None:
        return session.poll_interval(source.run)
    return page_watch.pace(findings.newest) if source.grows else None


def _records(source: ChainSource, pace: float | None, records_drawn: int, follow: bool) -> None:
    """The records as they are now. records_drawn: how many the page below shows."""
    try:
        findings = read(source)
    except codec.LccError:
        st.rerun()  # the whole page says what is wrong
    records = findings.catalogue.records
    changed = len(records) != records_drawn
    may_follow = time.monotonic() >= findings.follow_after
    if pace != _pace(source, findings) or (follow and changed and may_follow):
        st.rerun()
    summary = summarize(records)
    verified, _ = findings.report or (None, 0)
    n_problems = len({*summary.problems, *(verified.problems if verified else ())})
    st.title(f"Inspect: {finding(summary, n_problems or bool(findings.undecoded))}", anchor=False)
    st.markdown(f":small[{source.what}: {_facts(summary)}]", help=explained(HELP))
    if source.run is None and source.grows and findings.newest:
        st.markdown(f":small[{since_text(findings.newest, summary.gap, time.time())}]")
    if summary.moments:
        st.markdown(f":small[{sentence(summary.moments)}]")
    _integrity(source, findings, summary)
    newer = f"Show the newest records below, up to step {summary.newest}"
    if (
        changed
        and not follow
        and widgets.button(newer, icon=":material/refresh:", key="inspect-newer")
    ):
        st.rerun()


def _sizes(source: ChainSource) -> None:
    """The sizes of the records as they are now."""
    with suppress(codec.LccError):  # the whole page says what is wrong
        widgets.show(sizes_over_steps(read(source).catalogue.records), "sizes")


def _table(findings: Findings) -> None:
    table = records_table(findings.catalogue.records)
    if table["state"].eq("ok").all():
        table = table.drop(columns="state")
    widgets.scrolling(table, "inspect-table", widgets.TABLE_HEIGHT)
    st.markdown(
        ":small[Levels: number of levels other than 0 in all code tables. Digests are shortened. "
        "Parent: the record before.]"
    )


def finding(summary: Summary, n_problems: int) -> str:
    """What is in the chain, whether it is whole, and what a restart from its end would miss."""
    n, lost_steps = len(summary.steps), len(summary.steps) - len(summary.reached)
    if lost_steps:
        return f"{lost_steps:,} of {plural(n, 'step')} cannot be restored"
    text = f"{plural(n, 'step')} in {nbytes_text(summary.nbytes)}"
    if n_problems:
        return f"{text}, with {plural(n_problems, 'problem')}"
    return f"{text}, all whole{misses(summary)}"


def _facts(summary: Summary) -> str:
    """Steps, sizes and settings, in a sentence or two."""
    texts = [f"steps {summary.steps[0]:,} to {summary.newest:,}, {kinds_text(summary)}"]
    if summary.times:
        full = nbytes_text(summary.full_nbytes)
        texts[0] += f", {summary.times:.1f} × smaller than float32 checkpoints, {full}"
    if summary.step_nbytes is not None and summary.share:
        share = percent_text(summary.share)
        texts.append(f"A delta takes {nbytes_text(summary.step_nbytes)}, {share} of float32")
    if summary.codings:
        coding, n = summary.codings[-1], len(summary.codings) - 1
        coder = CODER_NAMES[coding.coder].split(" ")[0]
        earlier = f"; {plural(n, 'other setting')} before" * bool(n)
        texts.append(f"Kept: {kept_text(coding)}, {coder}, {SCOPES[coding.scope]}{earlier}")
    return ". ".join(texts) + "."


def _integrity(source: ChainSource, findings: Findings, summary: Summary) -> None:
    """A box once all is verified, or one that says which steps restore and what to do.

    Another one if restarts are too far from what was trained. Of a run, Live says it.
    """
    records = findings.catalogue.records
    verified, n = findings.report or (None, len(records))
    remark = f" {plural(len(records) - n, 'record')} came since." if len(records) > n else ""
    problems = [*summary.problems, *(verified.problems if verified else ())]
    far = "" if source.run else chain_warning(records, grows=source.grows)
    if far:
        widgets.error(plain(far))
    if problems or len(summary.reached) < len(summary.steps):
        restored_steps = verified.steps if verified else summary.reached
        text = plain(verdict(records, summary, restored_steps, False))
        show_damage(text + remark, list(dict.fromkeys(problems)), "chain")
    elif verified:
        steps = f"{verified.steps[0]} to {verified.steps[-1]}"
        close = " The title says how close that is to the training." * bool(misses(summary))
        widgets.verified(
            f"Verified: {plural(n, 'record')}, {verified.nbytes:,} bytes. "
            f"Each of {plural(len(verified.steps), 'step')}, {steps}, decodes bit for bit to what "
            f"was written.{close}{remark}",
            far,
        )


def _verify(source: ChainSource, findings: Findings) -> None:
    """Decode everything; the session keeps the report."""
    try:
        with progress_bar("Decoded {} of {} records", "stop") as progress:
            chain = source.chain()
            findings.report = chain.verify(progress), len(chain.entries)
    except codec.LccError as exc:
        widgets.error(f"This cannot be verified. {sentence(exc)}")


def _exponents(source: ChainSource, findings: Findings) -> None:
    """The exponents over time, as far as the records are decoded."""
    usable = [r for r in findings.catalogue.records if r.reached]
    if failed := _decode(source, findings, usable) or findings.undecoded:
        text = "Not all records decode. *Verify* finds the steps that restore."
        show_damage(text, [failed], "decoding")
    histograms = [h for r in usable if (h := findings.exponents.get(r.key))]
    if any(histogram.counts for histogram in histograms):
        widgets.show(exponents_over_steps(histograms), "exponents")
    else:
        st.info("No lossy weight has changed in any step yet.")
    if remaining := sum(r.key not in findings.exponents for r in usable):
        label = f"Decode the other {remaining:,} of {len(usable):,} records"
        more_button(label, _DECODE, "decoded")


def _decode(source: ChainSource, findings: Findings, usable: Sequence[RecordFacts]) -> str:
    """Decode records, which stay known if the visitor leaves meanwhile; returns what went wrong."""
    undecoded = [r for r in usable if r.key not in findings.exponents]
    end = deadline(_DECODE, UNASKED_SECONDS)
    with progress_bar("Decoded {} of {}") as progress:
        try:
            chain = source.chain()
            for i, record in enumerate(undecoded, len(usable) - len(undecoded)):
                if time.monotonic() > end:
                    break
                try:
                    findings.exponents[record.key] = count_exponents(chain, record)
                except (codec.RecordError, PayloadError) as exc:
                    findings.exponents[record.key] = None
                    findings.undecoded = findings.undecoded or sentence(exc)
                if i % 20 == 0:
                    progress(i, len(usable))
        except codec.LccError as exc:
            return sentence(exc)
    return ""
