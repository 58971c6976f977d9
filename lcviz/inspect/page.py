"""Inspect: any chain or archive and one of its steps, also while somebody writes to it.

The cards and the sizes of the records are polling fragments: they change as records come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

import streamlit as st

import codec
from codec.errors import ChainNotFoundError, PayloadError
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.lab.records import RecordFacts
from lcviz.report.chain_figures import kinds_text
from lcviz.report.exponents import count_exponents
from lcviz.report.exponents_figure import exponents_over_steps
from lcviz.report.records_figure import records_table, sizes_over_steps
from lcviz.report.verdict import chain_warning, verdict
from lcviz.text import CODER_NAMES, behind_text, kept_text, nbytes_text, percent_text, plain, plural
from lcviz.ui import session, widgets
from lcviz.ui.coding_form import SCOPES
from lcviz.ui.glossary import explained
from lcviz.ui.polling import polled
from lcviz.ui.widgets import Cards

from . import page_watch
from .page_open import ChainSource, Findings, choose, leave, read
from .page_parts import deadline, more_button, progress_bar, sentence, show_damage
from .page_receipt import check_receipt
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
    with st.container(key="answer"):
        st.title("Inspect a chain", anchor=False)
        source = choose()
    if source == "compare":
        page_watch.side_by_side()
    elif source is not None and (findings := _findings(source)) is not None:
        _chain(source, findings)


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


def _chain(source: ChainSource, findings: Findings) -> None:
    """A chain that can be read."""
    head = st.container(horizontal=True, vertical_alignment="center", key="inspect-head")
    facts = st.container(key="inspect-facts")
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
    check_receipt(source)


def _controls(source: ChainSource, pace: float | None) -> tuple[bool, bool]:
    """What is shown, and whether to verify it now, and to follow its newest step."""
    page_watch.back(source.watched, leave)
    st.markdown(f"This is {source.what}.", width="content", help=explained(HELP))
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
        help="New records show up in the cards and sizes by themselves. With this, the step "
        "and the exponents follow them too.",
    )
    return verifying, follow


def _pace(source: ChainSource, findings: Findings) -> float | None:
    """Seconds between two looks at the chain; None if it cannot grow."""
    if source.run is not None:
        return session.poll_interval(source.run)
    return page_watch.pace(findings.newest) if source.grows else None


def _records(source: ChainSource, pace: float | None, records_drawn: int, follow: bool) -> None:
    """The records as they are now, in cards. records_drawn: how many the page below shows."""
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
    widgets.cards(_cards(summary), _cards_help(summary), "inspect-cards")
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


def _cards(summary: Summary) -> Cards:
    coding = summary.codings[-1] if summary.codings else None
    kept_note = "exactly"
    if earlier_settings := len(summary.codings[1:]):
        kept_note = f"{plural(earlier_settings, 'other setting')} before"
    elif coding is not None:
        kept_note = f"{CODER_NAMES[coding.coder].split(' ')[0]}, {SCOPES[coding.scope]}"
    lost_steps = len(summary.steps) - len(summary.reached)
    step_nbytes = "no delta" if summary.step_nbytes is None else nbytes_text(summary.step_nbytes)
    smaller = f"{summary.times:.1f} × smaller" if summary.times else None
    share = f"{percent_text(summary.share)} of float32" if summary.share else None
    complete = "no" if summary.problems or lost_steps else "yes"
    return {
        "Steps": (f"{len(summary.steps):,}", f"{summary.steps[0]:,} to {summary.newest:,}"),
        "Records": (f"{sum(summary.kinds.values()):,}", kinds_text(summary)),
        "On disk": (nbytes_text(summary.nbytes), smaller),
        "A step": (step_nbytes, share),
        "Kept": (kept_text(coding) if coding else "all", kept_note),
        "Behind": ("unknown" if summary.behind is None else behind_text(summary.behind), None),
        "Complete": (complete, f"{plural(lost_steps, 'step')} lost" if lost_steps else None),
    }


def _cards_help(summary: Summary) -> dict[str, str]:
    return {
        "Steps": "Saved steps in these records.",
        "Records": "Files of the chain. A base holds the whole state, exactly; a delta what a step "
        "changes.",
        "On disk": f"All records, {nbytes_text(summary.base_nbytes)} of it bases. Full float32 "
        f"checkpoints take {nbytes_text(summary.full_nbytes)}.",
        "A step": "Bytes of a delta on average, its header included. "
        f"The whole state takes {nbytes_text(summary.state_nbytes)} in float32.",
        "Kept": "How much of a change the newest record keeps. With x bits: the 2ˣ − 1 largest "
        "buckets. With a budget: what fits into it. With a distance: all but this share. Then its "
        "coder, and what shares one set of levels.",
        "Behind": "What a restart from the newest record would lack: the part of the weights' "
        "change that the record leaves out, as a share of the distance trained since the base.",
        "Complete": "All files were read: each matches its digest and names the record before it. "
        "*Verify* also decodes them. Records missing at the very end go unnoticed.",
    }


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
        widgets.verified(
            f"Verified: {plural(n, 'record')}, {verified.nbytes:,} bytes. "
            f"Each of {plural(len(verified.steps), 'step')}, {steps}, decodes bit for bit to what "
            f"was written. *Behind* says how close that is to the training.{remark}",
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
