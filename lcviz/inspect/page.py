"""Inspect: any chain or archive, record by record, also while somebody writes to it.

What changes as records come is in one polling fragment; the rest is decoded only on request.
"""

from __future__ import annotations

import time

import streamlit as st

import codec
from codec.errors import ChainNotFoundError, PayloadError
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.report.exponents import count_exponents
from lcviz.report.exponents_figure import exponents_over_steps
from lcviz.report.records_figure import records_table, sizes_over_steps
from lcviz.text import CODER_NAMES, kept_text, nbytes_text, percent_text, plural
from lcviz.ui import follow_weight, session, widgets
from lcviz.ui.coding_form import SCOPES
from lcviz.ui.glossary import explained

from . import page_watch
from .page_open import ChainSource, Findings, choose, leave, read
from .page_parts import MOST_PROBLEMS, progress_bar, sentence, show_problems
from .page_receipt import check_receipt
from .page_step import one_step
from .watch_figure import BUSY_SECONDS, since_text

UNASKED_SECONDS = 3  # of decoding
RESTING = 4  # times as long as decoding took, the machine is left to the training
_ALL = "inspect-all"  # in the session: decode all that is left, however long it takes


def page() -> None:
    """The whole page."""
    st.title("Inspect a chain", anchor=False)
    st.markdown(
        explained(
            "A [[chain]] is a folder of [[records|record]]: a [[base]] holds the whole state, each "
            "[[delta]] one [[step]]. Open a chain to see the size and contents of each record, "
            "whether all records are there, and what each step changed in each tensor. To get a "
            "step as a plain file, open the chain on Export, under *Files of mine*."
        )
    )
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
    with st.container(horizontal=True, vertical_alignment="center", key="inspect-head"):
        page_watch.back(source.watched, leave)
        st.markdown(f"This is {source.what}.", width="content")
        pace = _pace(source, findings)
        follow = pace is not None and st.toggle(
            "Follow the newest step",
            source.watched is not None,
            key="inspect_follow",
            bind="query-params",
            help="New records show up above by themselves. With this, the step and the exponents "
            "below follow them too.",
        )
        widgets.tables_toggle()
    known = len(findings.catalogue.records)
    st.fragment(_records, run_every=pace)(source, pace, known, follow)
    _verification(source, findings)
    check_receipt(source)
    summary = summarize(findings.catalogue.records)
    if summary.reached:
        begun = time.monotonic()
        one_step(source, findings, summary, follow)
        _exponents(source, findings)
        findings.follow_after = time.monotonic() + (time.monotonic() - begun) * RESTING


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
    _problems(summary)
    newer = f"Go on below with the newest records, up to step {summary.newest}"
    if (
        more
        and not follow
        and widgets.button(newer, icon=":material/refresh:", key="inspect-newer")
    ):
        st.rerun()
    grid = st.grid(2, min_column_width=420, border=True, key="inspect-records")
    with grid.cell():
        widgets.picture(sizes_over_steps(records), "sizes")
    with grid.cell():
        st.markdown("**Records**")
        table = records_table(records)
        if table["state"].eq("ok").all():
            table = table.drop(columns="state")
        widgets.scrolling(table, "inspect-table", widgets.TABLE_HEIGHT)
        st.markdown(
            ":small[Levels: the values other than 0 that a change can become, in all code tables "
            "together. Digests are shortened. The parent of a record is the one before it.]"
        )


def _cards(summary: Summary) -> None:
    kinds = ", ".join(
        f"{n} merged" if kind == "merged" else plural(n, kind) for kind, n in summary.kinds.items()
    )
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
            kinds,
            "Files of the chain. A base holds the whole state, exactly; a delta one step; a merged "
            "record several.",
        ),
        (
            "On disk",
            nbytes_text(summary.nbytes),
            f"{nbytes_text(summary.base_nbytes)} in bases",
            "All records. As many full float32 checkpoints would take "
            f"{nbytes_text(summary.full_nbytes)}.",
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
            else "in every record",
            "How much of a change the newest record keeps: "
            "its largest 2ˣ − 1 buckets with x bits, or as many as fit into a budget.",
        ),
        (
            "Coder",
            CODER_NAMES[keep.coder].split(" ")[0] if keep else "none",
            f"buckets: {SCOPES[keep.scope]}" if keep else None,
            "The coder of the newest record, and whether all tensors share one set of buckets.",
        ),
        (
            "Code tables reused",
            f"{summary.again:,} of {summary.tables:,}",
            f"{summary.tables - summary.again:,} new",
            "Code tables that records need, and how many of them an earlier record already holds.",
        ),
        (
            "Complete",
            "no" if summary.problems or lost else "yes",
            f"{plural(lost, 'step')} lost" if lost else "every record there",
            "All files were read: each has the digest it gives and names the record before it. "
            "Nothing was decoded for that. Records missing at the very end go unnoticed.",
        ),
    ]
    widgets.cards(cards, "inspect-cards", 4)


def _problems(summary: Summary) -> None:
    show_problems(summary.problems, "And {} more: see the table.")
    lost = sorted(set(summary.steps) - set(summary.reached))
    if not lost:
        return
    why = "since each record needs the one before it"
    if summary.reached:
        text = f"{plural(len(lost), 'step')} from {lost[0]} to {lost[-1]} cannot be restored, {why}"
        text += ". For all others every record is there."
    else:
        text = f"No step can be restored, {why}, and the first is damaged. Get a new copy of the "
        text += "chain from where it came from."
    st.warning(text, icon=":material/link_off:")


def _verification(source: ChainSource, findings: Findings) -> None:
    st.subheader("Verify everything", anchor=False)
    st.markdown(
        "Reads all records again, decodes them from first to last, and compares each rebuilt state "
        "with the digest taken when it was saved."
    )
    with st.container(horizontal=True, vertical_alignment="center", key="inspect-verifying"):
        kind = widgets.main_button()
        if st.button("Verify", type=kind, icon=":material/verified:", key="verify"):
            try:
                with progress_bar("Decoded {} of {} records", source.run, "stop") as progress:
                    chain = source.chain()
                    findings.report = chain.verify(progress), len(chain.entries)
            except codec.LccError as exc:
                st.error(f"This cannot be verified. {sentence(exc)}", icon=":material/error:")
    if findings.report is not None:
        _report(*findings.report, len(findings.catalogue.records))


def _report(report: codec.Report, n_records: int, now: int) -> None:
    records, steps = plural(n_records, "record"), plural(len(report.steps), "step")
    since = f" {plural(now - n_records, 'record')} came since." if now > n_records else ""
    if report.ok:
        st.success(
            f"Verified: {records}, {report.nbytes:,} bytes, have the digests they give. All of "
            f"{steps}, {report.steps[0]} to {report.steps[-1]}, were rebuilt; each is bit for bit "
            f"the state that was saved.{since}",
            icon=":material/verified:",
        )
        return
    show_problems(report.problems)
    left = "no step restores"
    if n := len(report.steps):
        left = f"{steps} still restore{'s' * (n == 1)}, with the digests they were saved with"
    more = len(report.problems) - MOST_PROBLEMS
    also = f" {plural(more, 'more problem')}, most in records that need these." if more > 0 else ""
    text = f"Damaged: of {records}, {left}.{also}{since}"
    st.warning(text, icon=":material/warning:")


def _exponents(source: ChainSource, findings: Findings) -> None:
    """Decodes record by record; results stay, wherever the visitor goes meanwhile."""
    st.subheader("Exponents over time", anchor=False)
    more = st.empty()
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
        st.warning(f"Not all could be decoded. {failed}", icon=":material/warning:")
    left = [r for r in usable if r.key not in findings.exponents]
    if left:
        more.button(
            f"Decode the other {len(left):,} of {len(usable):,} records",
            key="inspect-decode",
            icon=":material/play_arrow:",
            on_click=st.session_state.update,
            args=({_ALL: True},),
            help="Any click stops it; what is decoded by then is kept.",
        )
    steps = [one for r in usable for one in findings.exponents.get(r.key, ())]
    if not any(one.counts for one in steps):
        st.info("No value has changed in any step yet.")
        return
    run = source.run
    marked = None if run is None else follow_weight.marked(run, run.snapshot().newest)
    widgets.show(exponents_over_steps(steps, marked), "exponents")
