"""Inspect: any chain or archive, opened on one step, also while somebody writes to it.

What changes as records come is in polling fragments: the cards, and the sizes of the records.
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

UNASKED_SECONDS = 3  # of decoding
RESTING = 4  # times as long as decoding took, the machine is left to the training
HELP = (
    "A [[chain]] is a folder of [[records|record]]: a [[base]] holds the whole state, each "
    "[[delta]] one [[step]]. To get a step as a plain file, open the chain on Export, under *Files "
    "of mine*."
)
_ALL = "inspect-all"  # in the session: decode all that is left, however long it takes


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
    with grid.cell():  # sent first: the browser loads what draws it while the rest is computed
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
        known = len(findings.catalogue.records)
        polled(pace, _records, source, pace, known, follow)
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
    """Seconds between looks at the folder; None where nothing can come."""
    if source.run is not None:
        return session.poll_interval(source.run)
    if not source.grows:
        return None
    busy = abs(time.time() - findings.newest / 1e9) < BUSY_SECONDS
    return session.POLL_SECONDS if busy else session.RESTING_POLL_SECONDS


def _records(source: ChainSource, pace: float | None, known: int, follow: bool) -> None:
    """The records as they are now. known: how many there were when the page below was made."""
    if source.run is not None:
        source.run.watch()
    try:
        findings = read(source)
    except codec.LccError:
        st.rerun()  # the whole page says what is wrong
    records = findings.catalogue.records
    more = len(records) != known
    rested = time.monotonic() >= findings.follow_after
    if pace != _pace(source, findings) or (follow and more and rested):
        st.rerun()
    summary = summarize(records)
    if source.run is None and source.grows and findings.newest:
        st.markdown(f":small[{since_text(findings.newest, summary.gap, time.time())}]")
    _cards(summary)
    if summary.moments:
        st.markdown(f":small[{sentence(summary.moments)}]")
    _integrity(findings, summary)
    newer = f"Go on below with the newest records, up to step {summary.newest}"
    if (
        more
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
        ":small[Levels: other than 0, in all code tables. Digests are shortened. Parent: the "
        "record before.]"
    )


def _cards(summary: Summary) -> None:
    lost = len(summary.steps) - len(summary.reached)
    keep = summary.codings[-1] if summary.codings else None
    others = len(summary.codings) - 1
    per_step = summary.step_nbytes
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
            "no delta" if per_step is None else nbytes_text(per_step),
            f"{percent_text(summary.share)} of float32" if summary.share else None,
            "Bytes of delta and merged records, headers included, for each of their steps. The "
            f"whole state takes {nbytes_text(summary.state_nbytes)} in float32.",
        ),
        (
            "Kept",
            kept_text(keep) if keep else "all",
            "exactly"
            if keep is None
            else f"{plural(others, 'other setting')} before"
            if others
            else f"{CODER_NAMES[keep.coder].split(' ')[0]}, {SCOPES[keep.scope]}",
            "How much of a change the newest record keeps. With x bits: the 2ˣ − 1 largest "
            "buckets. With a budget: what fits into it. With a distance: all but this share. Then "
            "its coder, and what shares one set of levels.",
        ),
        (
            "Behind",
            "unknown" if summary.behind is None else percent_text(summary.behind),
            None,
            "How far a restart from the newest record would be behind: what the record leaves of "
            "the change of the weights, as a share of how far they were trained since the base.",
        ),
        (
            "Complete",
            "no" if summary.problems or lost else "yes",
            f"{plural(lost, 'step')} lost" if lost else None,
            "All files were read: each has the digest it gives and names the record before it. "
            "*Verify* also decodes them. Records missing at the very end go unnoticed.",
        ),
    ]
    widgets.cards(cards, "inspect-cards", len(cards))


def _integrity(findings: Findings, summary: Summary) -> None:
    """One box: all is verified, or which steps restore and what to do."""
    report, records = findings.report, findings.catalogue.records
    verified = report[0] if report else None
    since = len(records) - report[1] if report else 0
    came = f" {plural(since, 'record')} came since." if since > 0 else ""
    problems = [*summary.problems, *(verified.problems if verified else ())]
    if problems or len(summary.reached) < len(summary.steps):
        restored = verified.steps if verified else summary.reached
        text = plain(verdict(records, summary, restored, False))
        show_damage(text + came, list(dict.fromkeys(problems)), "chain")
    elif verified:
        steps = f"{verified.steps[0]} to {verified.steps[-1]}"
        st.success(
            f"Verified: {plural(report[1] if report else 0, 'record')}, {verified.nbytes:,} bytes. "
            f"Each of {plural(len(verified.steps), 'step')}, {steps}, is bit for bit the state "
            f"that was saved.{came}",
            icon=":material/verified:",
        )


def _verify(source: ChainSource, findings: Findings) -> None:
    """Decode everything; what is found stays."""
    try:
        with progress_bar("Decoded {} of {} records", source.run, "stop") as progress:
            chain = source.chain()
            findings.report = chain.verify(progress), len(chain.entries)
    except codec.LccError as exc:
        st.error(f"This cannot be verified. {sentence(exc)}", icon=":material/error:")


def _exponents(source: ChainSource, findings: Findings) -> None:
    """Decodes record by record; results stay, wherever the visitor goes meanwhile."""
    usable = [r for r in findings.catalogue.records if r.reached and not r.aside]
    unknown = [r for r in usable if r.key not in findings.exponents]
    begun, failed = time.monotonic(), ""
    wanted = st.session_state.pop(_ALL, False)
    with progress_bar("Decoded {} of {}") as progress:
        try:
            chain = source.chain()
            for i, record in enumerate(unknown, len(usable) - len(unknown)):
                if time.monotonic() - begun > UNASKED_SECONDS and not wanted:
                    break
                try:
                    counts = count_exponents(chain, record)
                except (codec.RecordError, PayloadError) as exc:
                    counts = ()
                    findings.undecoded = findings.undecoded or sentence(exc)
                findings.exponents[record.key] = counts
                if i % 20 == 0:
                    progress(i, len(usable))
        except codec.LccError as exc:
            failed = sentence(exc)
    if failed := failed or findings.undecoded:
        text = "Not all records decode. *Verify* finds the steps that restore."
        show_damage(text, [failed], "decoding")
    left = [r for r in usable if r.key not in findings.exponents]
    steps = [one for r in usable for one in findings.exponents.get(r.key, ())]
    if any(one.counts for one in steps):
        widgets.show(exponents_over_steps(steps), "exponents")
    else:
        st.info("No lossy value has changed in any step yet.")
    if left:
        st.button(
            f"Decode the other {len(left):,} of {len(usable):,} records",
            key="inspect-decode",
            icon=":material/play_arrow:",
            on_click=st.session_state.update,
            args=({_ALL: True},),
            help="Any click stops it; what is decoded by then is kept.",
        )
