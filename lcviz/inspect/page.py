"""Inspect: any chain or archive and one of its steps, also while somebody writes to it.

The cards and the sizes of the records are polling fragments: they change as records come.
"""

from __future__ import annotations

import time
from contextlib import suppress

import streamlit as st

import codec
from codec.errors import ChainNotFoundError, PayloadError
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.report.chain_figures import kinds_text
from lcviz.report.exponents import count_exponents
from lcviz.report.exponents_figure import exponents_over_steps
from lcviz.report.records_figure import records_table, sizes_over_steps
from lcviz.report.verdict import verdict
from lcviz.text import CODER_NAMES, kept_text, nbytes_text, percent_text, plain, plural
from lcviz.ui import session, widgets
from lcviz.ui.coding_form import SCOPES
from lcviz.ui.glossary import explained
from lcviz.ui.polling import polled

from . import page_watch
from .page_open import ChainSource, Findings, choose, leave, read
from .page_parts import progress_bar, sentence, show_damage
from .page_receipt import check_receipt
from .page_step import one_step
from .watch_table import BUSY_SECONDS, since_text

UNASKED_SECONDS = 3  # of decoding without a click
RESTING = 4  # pauses are this many times as long as decoding: the training needs the machine
HELP = (
    "A [[chain]] is a folder of [[records|record]]: a [[base]] holds the whole state, each "
    "[[delta]] one [[step]]. To get a step as a plain file, open the chain on Export, under *Files "
    "of mine*."
)
_ALL = "inspect-all"  # in the session: decode all remaining records, however long it takes


def page() -> None:
    """The whole page."""
    with st.container(key="answer"):
        st.title("Inspect a chain", anchor=False)
        source = choose()
    if source is None:
        return
    if source == "compare":
        page_watch.side_by_side()
        return
    if source.watched is not None and not source.watched.reached:
        page_watch.await_first(source.watched)
        return
    try:
        findings = read(source)
    except codec.LccError as exc:
        if source.watched is not None and isinstance(exc, ChainNotFoundError):
            page_watch.await_first(source.watched)
            return
        st.error(f"This cannot be opened. {sentence(exc)}", icon=":material/error:")
        st.button("Try again", icon=":material/refresh:", key="inspect-again")
        if source.watched is not None:
            page_watch.await_again(source.chain)
        return
    head = st.container(horizontal=True, vertical_alignment="center", key="inspect-head")
    facts = st.container(key="inspect-facts")
    step = st.container()
    grid = st.grid(2, min_column_width=420, border=True, key="inspect-pictures")
    pace = _pace(source, findings)
    with grid.cell():  # sent first: the browser loads its drawing code while the rest is computed
        polled(pace, _sizes, source)
    with head:
        page_watch.back(source.watched, leave)
        st.markdown(f"This is {source.what}.", width="content", help=explained(HELP))
        verifying = st.button(
            "Verify",
            type=widgets.main_button(),
            icon=":material/verified:",
            key="verify",
            help="Reads and decodes all records again, and compares each rebuilt state with the "
            "digest taken when it was saved.",
        )
        follow = pace is not None and st.toggle(
            "Follow the newest step",
            source.watched is not None,
            key="inspect_follow",
            bind="query-params",
            help="New records show up in the cards and sizes by themselves. With this, the step "
            "and the exponents follow them too.",
        )
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
    check_receipt(source)


def _pace(source: ChainSource, findings: Findings) -> float | None:
    """Seconds between two looks at the chain; None if it cannot grow."""
    if source.run is not None:
        return session.poll_interval(source.run)
    if not source.grows:
        return None
    busy = abs(time.time() - findings.newest / 1e9) < BUSY_SECONDS
    return session.POLL_SECONDS if busy else session.RESTING_POLL_SECONDS


def _records(source: ChainSource, pace: float | None, records_drawn: int, follow: bool) -> None:
    """The records as they are now, in cards. records_drawn: how many the page below shows."""
    if source.run is not None:
        source.run.watch()
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
    if source.run is None and source.grows and findings.newest:
        st.markdown(f":small[{since_text(findings.newest, summary.gap, time.time())}]")
    _cards(summary)
    if summary.moments:
        st.markdown(f":small[{sentence(summary.moments)}]")
    _integrity(findings, summary)
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


def _cards(summary: Summary) -> None:
    lost_steps = len(summary.steps) - len(summary.reached)
    coding = summary.codings[-1] if summary.codings else None
    earlier_settings = len(summary.codings) - 1
    step_nbytes = summary.step_nbytes
    cards = [
        (
            "Steps",
            f"{len(summary.steps):,}",
            f"{summary.steps[0]:,} to {summary.newest:,}",
            "Saved steps in these records.",
        ),
        (
            "Records",
            f"{sum(summary.kinds.values()):,}",
            kinds_text(summary),
            "Files of the chain. A base holds the whole state, exactly; a delta one step; a merged "
            "record several.",
        ),
        (
            "On disk",
            nbytes_text(summary.nbytes),
            f"{summary.times:.1f} × smaller" if summary.times else None,
            f"All records, {nbytes_text(summary.base_nbytes)} of it bases. Full float32 "
            f"checkpoints take {nbytes_text(summary.full_nbytes)}.",
        ),
        (
            "A step",
            "no delta" if step_nbytes is None else nbytes_text(step_nbytes),
            f"{percent_text(summary.share)} of float32" if summary.share else None,
            "Bytes of delta and merged records, headers included, for each of their steps. The "
            f"whole state takes {nbytes_text(summary.state_nbytes)} in float32.",
        ),
        (
            "Kept",
            kept_text(coding) if coding else "all",
            "exactly"
            if coding is None
            else f"{plural(earlier_settings, 'other setting')} before"
            if earlier_settings
            else f"{CODER_NAMES[coding.coder].split(' ')[0]}, {SCOPES[coding.scope]}",
            "How much of a change the newest record keeps. With x bits: the 2ˣ − 1 largest "
            "buckets. With a budget: what fits into it. With a distance: all but this share. Then "
            "its coder, and what shares one set of levels.",
        ),
        (
            "Behind",
            "unknown" if summary.behind is None else percent_text(summary.behind),
            None,
            "What a restart from the newest record would lack: the part of the weights' change "
            "that the record leaves out, as a share of the distance trained since the base.",
        ),
        (
            "Complete",
            "no" if summary.problems or lost_steps else "yes",
            f"{plural(lost_steps, 'step')} lost" if lost_steps else None,
            "All files were read: each matches its digest and names the record before it. "
            "*Verify* also decodes them. Records missing at the very end go unnoticed.",
        ),
    ]
    widgets.cards(cards, "inspect-cards", len(cards))


def _integrity(findings: Findings, summary: Summary) -> None:
    """A box once all is verified, or one that says which steps restore and what to do."""
    report, records = findings.report, findings.catalogue.records
    verified = report[0] if report else None
    new_records = len(records) - report[1] if report else 0
    remark = f" {plural(new_records, 'record')} came since." if new_records > 0 else ""
    problems = [*summary.problems, *(verified.problems if verified else ())]
    if problems or len(summary.reached) < len(summary.steps):
        restored_steps = verified.steps if verified else summary.reached
        text = plain(verdict(records, summary, restored_steps, False))
        show_damage(text + remark, list(dict.fromkeys(problems)), "chain")
    elif verified:
        steps = f"{verified.steps[0]} to {verified.steps[-1]}"
        st.success(
            f"Verified: {plural(report[1] if report else 0, 'record')}, {verified.nbytes:,} bytes. "
            f"Each of {plural(len(verified.steps), 'step')}, {steps}, is bit for bit the state "
            f"that was saved.{remark}",
            icon=":material/verified:",
        )


def _verify(source: ChainSource, findings: Findings) -> None:
    """Decode everything; the session keeps the report."""
    try:
        with progress_bar("Decoded {} of {} records", source.run, "stop") as progress:
            chain = source.chain()
            findings.report = chain.verify(progress), len(chain.entries)
    except codec.LccError as exc:
        st.error(f"This cannot be verified. {sentence(exc)}", icon=":material/error:")


def _exponents(source: ChainSource, findings: Findings) -> None:
    """The exponents over time, decoded record by record; what is decoded stays known if the visitor
    leaves meanwhile."""
    usable = [r for r in findings.catalogue.records if r.reached and not r.aside]
    undecoded = [r for r in usable if r.key not in findings.exponents]
    begun, failed = time.monotonic(), ""
    decode_all = st.session_state.pop(_ALL, False)
    with progress_bar("Decoded {} of {}") as progress:
        try:
            chain = source.chain()
            for i, record in enumerate(undecoded, len(usable) - len(undecoded)):
                if time.monotonic() - begun > UNASKED_SECONDS and not decode_all:
                    break
                try:
                    findings.exponents[record.key] = count_exponents(chain, record)
                except (codec.RecordError, PayloadError) as exc:
                    findings.exponents[record.key] = ()
                    findings.undecoded = findings.undecoded or sentence(exc)
                if i % 20 == 0:
                    progress(i, len(usable))
        except codec.LccError as exc:
            failed = sentence(exc)
    if failed := failed or findings.undecoded:
        text = "Not all records decode. *Verify* finds the steps that restore."
        show_damage(text, [failed], "decoding")
    remaining = [r for r in usable if r.key not in findings.exponents]
    histograms = [histogram for r in usable for histogram in findings.exponents.get(r.key, ())]
    if any(histogram.counts for histogram in histograms):
        widgets.show(exponents_over_steps(histograms), "exponents")
    else:
        st.info("No lossy value has changed in any step yet.")
    if remaining:
        st.button(
            f"Decode the other {len(remaining):,} of {len(usable):,} records",
            key="inspect-decode",
            icon=":material/play_arrow:",
            on_click=st.session_state.update,
            args=({_ALL: True},),
            help="Any click stops it; what is decoded by then is kept.",
        )
