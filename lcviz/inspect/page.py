"""Inspect: any chain or archive, record by record, also while somebody writes to it.

What changes as records come stands in one polling fragment; what is decoded waits to be asked for.
"""

from __future__ import annotations

import time

import streamlit as st

import codec
from lcviz.lab.records import Keep, Overview, overview
from lcviz.text import CODER_NAMES, nbytes_text, percent_text, plural
from lcviz.ui import follow_weight as traced
from lcviz.ui import session as state
from lcviz.ui import widgets
from lcviz.ui.glossary import explained
from lcviz.ui.settings import SCOPES

from . import page_watch as watched
from .exponents import moved
from .figures import exponents_over_steps, records_table, sizes_over_steps
from .page_open import Held, Source, choose, leave, read, reader, sentence
from .page_receipt import check_receipt
from .page_step import one_step
from .rhythm import BUSY_SECONDS, gap
from .watch_figure import since_text

UNASKED_SECONDS = 3  # of decoding
RESTING = 4  # times as long as decoding took, the machine is left to whoever trains on it
_ALL = "inspect-all"  # in the session: decode all that is left, however long it takes
MOST_PROBLEMS = 5  # shown


def page() -> None:
    """The whole page."""
    st.title("Inspect a chain", anchor=False)
    st.markdown(
        explained(
            "A [[chain]] is a folder of [[records|record]]: a [[base]] holds the whole state, each "
            "[[delta]] one [[step]]. Open one to see what every record takes and says of itself, "
            "whether all are there, and what each step did to each tensor. To take a step out of "
            "it as a plain file, open it on Export, under *Files of mine*."
        )
    )
    source = choose()
    if source is None:
        return
    if source == "compare":
        watched.side_by_side()
        return
    if source.watched is not None and not source.watched.reached:
        watched.await_first(source.watched)
        return
    try:
        held = read(source)
    except codec.LccError as exc:
        if source.watched is not None and isinstance(exc, codec.ChainNotFoundError):
            watched.await_first(source.watched)
            return
        st.error(f"This cannot be opened. {sentence(exc)}", icon=":material/error:")
        st.button("Look again", icon=":material/refresh:", key="inspect-again")
        if source.watched is not None:
            watched.await_again(source)
        return
    with st.container(horizontal=True, vertical_alignment="center", key="inspect-head"):
        watched.back(source.watched, leave)
        st.markdown(f"This is {source.what}.", width="content")
        pace = _pace(source, held)
        follow = pace is not None and st.toggle(
            "Follow the newest step",
            source.watched is not None,
            key="inspect_follow",
            bind="query-params",
            help="New records show up above by themselves. With this, what is decoded below "
            "follows them too.",
        )
        widgets.tables_toggle()
    known = len(held.catalogue.records)
    st.fragment(_records, run_every=pace)(source, pace, known, follow)
    _verification(source, held)
    check_receipt(source)
    seen = overview(held.catalogue)
    if seen.reached:
        begun = time.monotonic()
        one_step(source, held, seen, follow)
        _exponents(source, held)
        held.follow_after = time.monotonic() + (time.monotonic() - begun) * RESTING


def _pace(source: Source, held: Held) -> float | None:
    """Seconds between looks at the folder; None where nothing can come."""
    if source.run is not None:
        return state.poll_interval(source.run)
    if not source.grows:
        return None
    busy = abs(time.time() - held.newest / 1e9) < BUSY_SECONDS
    return state.POLL_SECONDS if busy else state.RESTING_POLL_SECONDS


def _records(source: Source, pace: float | None, known: int, follow: bool) -> None:
    """The records as they are now. known: how many there were when the page below was made."""
    if source.run is not None:
        source.run.watch()
    try:
        held = read(source)
    except codec.LccError:
        st.rerun()  # the whole page says what is wrong
    records = held.catalogue.records
    more = len(records) != known
    if pace != _pace(source, held) or (follow and more and time.monotonic() >= held.follow_after):
        st.rerun()
    seen = overview(held.catalogue)
    if source.run is None and source.grows and held.newest:
        usual = gap([r.stamp for r in records])
        st.markdown(f":small[{since_text(held.newest, usual, time.time())}]")
    _cards(seen)
    _problems(seen)
    if (
        more
        and not follow
        and st.button(
            f"Go on below with the newest records, up to step {seen.steps[-1]}",
            icon=":material/refresh:",
            key="inspect-newer",
        )
    ):
        st.rerun()
    grid = st.grid(2, min_column_width=420, border=True, key="inspect-records")
    facts = held.catalogue.facts
    with grid.cell():
        widgets.picture(sizes_over_steps(facts), "sizes")
    with grid.cell():
        st.markdown("**Records**")
        table = records_table(facts)
        if table["state"].eq("ok").all():
            table = table.drop(columns="state")
        widgets.scrolling(table, "inspect-table", widgets.TABLE_HEIGHT)
        st.markdown(
            ":small[Levels: values that a change can become, zero not counted, of all code tables "
            "together. Digests are shortened; a record's parent is the one before it.]"
        )


def _cards(seen: Overview) -> None:
    deltas = {k: n for k, n in seen.kinds.items() if k != "base"}
    kinds = ", ".join(plural(n, kind) for kind, n in seen.kinds.items() if n)
    kinds = kinds.replace("mergeds", "merged")
    one, problems = seen.one_full_nbytes, len(seen.problems)
    lost = len(seen.steps) - len(seen.reached)
    cards = [
        (
            "Steps",
            f"{len(seen.steps):,}",
            f"{seen.steps[0]:,} to {seen.steps[-1]:,}",
            "How many saved steps the records tell of.",
        ),
        (
            "Records",
            f"{sum(seen.kinds.values()):,}",
            kinds,
            "Files of the chain. A base holds the whole state, exactly; a delta one step; a merged "
            "record several.",
        ),
        (
            "On disk",
            nbytes_text(seen.nbytes),
            f"{nbytes_text(seen.base_nbytes)} in bases",
            f"All records. As many full float32 checkpoints would take "
            f"{nbytes_text(seen.full_nbytes)}.",
        ),
        (
            "A step",
            nbytes_text(seen.step_nbytes) if deltas else "no delta",
            f"{percent_text(seen.step_nbytes / one)} of float32" if deltas and one else None,
            f"Bytes of delta and merged records, headers included, for each of their steps, "
            f"against the state in float32, {nbytes_text(one)}.",
        ),
        (
            "Kept",
            _kept(seen.keeps[-1]) if seen.keeps else "all",
            _also(seen) if seen.keeps else "exactly",
            "How much of a change the newest record keeps: "
            "its largest 2ˣ − 1 buckets with x bits, or as many as fit into a budget.",
        ),
        (
            "Coder",
            CODER_NAMES[seen.keeps[-1].coder].split(" ")[0] if seen.keeps else "none",
            f"buckets: {SCOPES[seen.keeps[-1].scope]}" if seen.keeps else None,
            "What the newest record was written with, and whether all tensors share one set of "
            "buckets.",
        ),
        (
            "Tables used again",
            f"{seen.again:,} of {seen.tables:,}",
            f"{seen.tables - seen.again:,} new",
            "Code tables that records need, and how many of "
            "them an earlier record had sent already.",
        ),
        (
            "Complete",
            "no" if problems or lost else "yes",
            f"{plural(lost, 'step')} lost" if lost else "every record there",
            "All files were read: each has the digest it gives, and names the record before it. "
            "Nothing was decoded for that. Records missing at the very end cannot be noticed.",
        ),
    ]
    widgets.cards(cards, "inspect-cards", 4)


def _kept(keep: Keep) -> str:
    if keep.budget is not None:
        return f"budget {percent_text(keep.budget)}"
    return "all buckets" if keep.bits is None else plural(keep.bits, "bit")


def _also(seen: Overview) -> str:
    """Whether all records were written so."""
    others = len(seen.keeps) - 1
    return f"{plural(others, 'other setting')} before" if others else "in every record"


def _problems(seen: Overview) -> None:
    for problem in seen.problems[:MOST_PROBLEMS]:
        st.error(sentence(Exception(problem)), icon=":material/error:")
    if (more := len(seen.problems) - MOST_PROBLEMS) > 0:
        st.error(f"And {plural(more, 'problem')} more: see the table.", icon=":material/error:")
    lost = sorted(set(seen.steps) - set(seen.reached))
    if lost:
        text = (
            f"{plural(len(lost), 'step')} from {lost[0]} to {lost[-1]} cannot be restored, since "
            "each record needs the one before it. For all others every record is there."
        )
        if not seen.reached:
            text = (
                "No step can be restored, since each record needs the one before it, and the first "
                "are not whole. Get the chain anew from where it came from."
            )
        st.warning(text, icon=":material/link_off:")


def _verification(source: Source, held: Held) -> None:
    st.subheader("Verify everything", anchor=False)
    st.markdown(
        "Reads all records anew, decodes every one from first to last, and compares each rebuilt "
        "state with the digest that was taken when it was saved."
    )
    with st.container(horizontal=True, vertical_alignment="center", key="inspect-verifying"):
        wanted = st.button(
            "Verify", type=widgets.main_button(), icon=":material/verified:", key="verify"
        )
        stop, bar = st.empty(), st.empty()
    if wanted:
        stop.button("Stop", icon=":material/stop:", key="stop")  # any click ends this run

        def progress(done: int, total: int) -> None:
            if source.run is not None:
                source.run.watch()
            bar.progress(done / total, f"Decoded {done:,} of {total:,} records")

        try:
            chain = source.chain()
            held.report = chain.verify(progress), len(chain.entries)
        except codec.LccError as exc:
            st.error(f"This cannot be verified. {sentence(exc)}", icon=":material/error:")
        stop.empty()
        bar.empty()
    if held.report is not None:
        _report(*held.report, len(held.catalogue.records))


def _report(report: codec.Report, records: int, now: int) -> None:
    since = f" {plural(now - records, 'record')} came since." if now > records else ""
    if report.ok:
        st.success(
            f"Verified: {plural(records, 'record')}, {report.nbytes:,} bytes, have the digests "
            f"they give; all of {plural(len(report.steps), 'step')}, {report.steps[0]} to "
            f"{report.steps[-1]}, were rebuilt, and each is bit for bit the state that was "
            f"saved.{since}",
            icon=":material/verified:",
        )
        return
    for problem in report.problems[:MOST_PROBLEMS]:
        st.error(sentence(Exception(problem)), icon=":material/error:")
    more = len(report.problems) - MOST_PROBLEMS
    also = (
        f" {plural(more, 'problem')} more, most of them of records that need these."
        if more > 0
        else ""
    )
    n = len(report.steps)
    left = f"{plural(n, 'step')} still restore{'s' if n == 1 else ''}" if n else "no step restores"
    digests = ", with the digests they were saved with" if n else ""
    st.warning(
        f"Damaged: of {plural(records, 'record')}, {left}{digests}.{also}{since}",
        icon=":material/warning:",
    )


def _exponents(source: Source, held: Held) -> None:
    """Decoded record by record; what is known stays, wherever the visitor goes meanwhile."""
    st.subheader("Exponents over time", anchor=False)
    more = st.empty()
    usable = [r for r in held.catalogue.records if r.facts.reached and not r.facts.aside]
    unknown = [r for r in usable if r.key not in held.moved]
    progress, done = reader("Decoded", len(usable))
    begun, failed = time.monotonic(), ""
    wanted = st.session_state.pop(_ALL, False)
    try:
        chain = source.chain()
        for i, record in enumerate(unknown, len(usable) - len(unknown)):
            if time.monotonic() - begun > UNASKED_SECONDS and not wanted:
                break
            try:
                held.moved[record.key] = moved(chain, record)
            except (codec.RecordError, codec.PayloadError) as exc:
                held.moved[record.key] = ()
                held.undecoded = held.undecoded or sentence(exc)
            if i % 20 == 0:
                progress(i)
    except codec.LccError as exc:
        failed = sentence(exc)
    done()
    if failed := failed or held.undecoded:
        st.warning(f"Not all could be decoded. {failed}", icon=":material/warning:")
    left = [r for r in usable if r.key not in held.moved]
    if left:
        more.button(
            f"Decode the other {len(left):,} of {len(usable):,} records",
            key="inspect-decode",
            icon=":material/play_arrow:",
            on_click=st.session_state.update,
            args=({_ALL: True},),
            help="Any click ends it; what is decoded until then is kept.",
        )
    every = [one for r in usable for one in held.moved.get(r.key, ())]
    if not any(one.counts for one in every):
        st.info("There is no step yet in which any value changed.")
        return
    marked = None if source.run is None else traced.marked(source.run, source.run.snapshot().newest)
    widgets.show(exponents_over_steps(every, marked), "exponents")
