"""Files of one's own on the Export page: opened, compressed, compared, and exported."""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

import codec
from lcviz.lab.progress import Progress
from lcviz.lab.records import Catalogue, overview, read_on, stamps
from lcviz.run.snapshot import RunError
from lcviz.server.jobs import View
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text, plain, plural
from lcviz.ui import session as state
from lcviz.ui import widgets
from lcviz.ui.experiment import Asking, ControlTexts
from lcviz.ui.settings import BITS, CODERS, KEEP, SCOPES, bits_name

from . import archive as export
from . import compress as compressing
from . import page_downloads as offered
from .archive import Package
from .compress import Compressed, How
from .opened import Opened, OwnFile
from .page_comparison import HELD, own_step, results
from .page_upload import opened
from .receipt import Receipt, of_archive

MOST_KEPT = 3  # chains of one session, the newest
MOST_SAID = 5  # sentences about single files
_NUMBERS = itertools.count()
_MADE = "export-made"  # in the session: what was opened, and its chain by how it is compressed
_AS_IS = "export-as-is"  # in the session: the package of the chain that was opened
USES = {"again": "Compress it", "as_is": "Export it as it is"}


@dataclass(eq=False)
class Made:
    """A chain that is asked for: as long as this session holds it, its place on disk is there, and
    what was measured of it."""

    number: int = field(default_factory=lambda: next(_NUMBERS))
    place: VisitorFolder | None = None

    def __post_init__(self) -> None:
        weakref.finalize(self, state.all_jobs().forget, self.experiment)

    @property
    def experiment(self) -> tuple[str, int]:
        """What it is called among the jobs of this server."""
        return "compress", self.number

    def work(self, own: Opened, how: How, _part: int, progress: Progress) -> Compressed:
        """Compress; an attempt that fails leaves no place behind, for others need one."""
        place = state.shelf().place()
        try:
            made = compressing.compress(own, how, place, progress)
        except BaseException:
            place.close()
            raise
        self.place = place
        return made


def own() -> None:
    """All of it."""
    st.markdown(
        "Open a series of checkpoints, or a single one: they are compressed into a chain step by "
        "step, every restored step is compared with its original, and the chain is yours to keep. "
        "Or open a chain that you were given, as an .lcc.zip: *Export it as it is* takes any step "
        "out of it as a plain file."
    )
    found = opened()
    if found is None:
        for held in (_MADE, _AS_IS, *HELD):  # and with it what lies on disk
            st.session_state.pop(held, None)
        return
    _contents(found)
    if found.archive is None and not found.files:
        return
    if found.archive is not None:
        use = widgets.choice(
            "With this chain",
            list(USES),
            default="again",
            key="export_use",
            format_func=USES.__getitem__,
            bind="query-params",
            help="Compressed again, what is compared is what the chain restores: what it had left "
            "out before cannot be judged any more.",
        )
        if use == "as_is":
            _exported(found)
            return
    how = _how()
    made = _made(found, how)
    asking: Asking[Compressed] = Asking(
        "export", made.experiment, 1, partial(made.work, found, how)
    )

    def dashboard(view: View[Compressed], watching: bool) -> None:
        if view.found:
            results(view.found[0].value)
        else:
            asking.controls(view, watching, _words(found, view))

    asking.follow(dashboard)


def _contents(found: Opened) -> None:
    """What was opened, in its order, and what was not."""
    for sentence in _few(found.refused, "file that was not taken"):
        st.error(plain(sentence), icon=":material/error:")
    if found.archive is not None:
        file = found.archive
        st.markdown(f"This is the chain **{plain(file.name)}**, {nbytes_text(file.nbytes)}.")
        return
    if not found.files:
        return
    total = sum(file.nbytes for file in found.files)
    st.markdown(
        f"**{plural(len(found.files), 'checkpoint')}**, {nbytes_text(total)}. {found.order}"
    )
    for sentence in _few(found.odd, "file that is unlike the rest"):
        st.warning(plain(sentence), icon=":material/difference:")
    if inner := sorted({"/".join(f.under) for f in found.files if f.under}):
        st.markdown(f"The weights were found under **{plain(', '.join(inner))}**.{_rest(found)}")
    elif rest := _rest(found):
        st.markdown(rest.strip())
    rows = pd.DataFrame(list(map(_row, found.files)))
    widgets.scrolling(rows, "export-files", min(widgets.TABLE_HEIGHT, 38 + 35 * len(rows)))


def _few(sentences: Sequence[str], of: str) -> list[str]:
    """The first sentences, and how many more there are."""
    more = len(sentences) - MOST_SAID
    return [*sentences[:MOST_SAID], *([f"And {more} more, each of a {of}."] if more > 0 else [])]


def _rest(found: Opened) -> str:
    names = dict.fromkeys(name for file in found.files for name in file.left_out)
    if not names:
        return ""
    few = ", ".join(list(names)[:6]) + (" and more" if len(names) > 6 else "")
    return f" Left out, for they are no weights: {plain(few)}."


def _row(file: OwnFile) -> dict[str, Any]:
    weights = sum(_size(shape) for _, shape in file.tensors.values())
    return {
        "step": file.step,
        "file": file.name,
        "bytes": file.nbytes,
        "tensors": len(file.tensors),
        "values": weights,
        "dtypes": ", ".join(sorted({dtype for dtype, _ in file.tensors.values()})),
        "SHA-256": file.sha256,
    }


def _size(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def _how() -> How:
    """The settings of the chain."""
    bits: int | None = How.bits
    budget: float | None = None
    with st.container(border=True, key="export-how"):
        grid = st.grid(2, min_column_width=320, key="export-settings")
        with grid.cell():
            keep = widgets.choice(
                "Keep",
                list(KEEP),
                default="bits",
                key="export_keep",
                format_func=KEEP.__getitem__,
                bind="query-params",
                help="Bits x: the 2ˣ − 1 buckets of largest magnitude. Budget: as many as fit into "
                "so many bytes for each record.",
            )
            if keep == "budget":
                budget = (
                    st.number_input(
                        "Budget, % of float32",
                        0.5,
                        50.0,
                        5.0,
                        0.5,
                        format="%g",
                        key="export_budget",
                        bind="query-params",
                        persist_state="session",
                    )
                    / 100
                )
                bits = None
            else:
                bits = st.select_slider(
                    "Bits x for priority promotion",
                    BITS,
                    How.bits,
                    format_func=bits_name,
                    key="export_bits",
                    bind="query-params",
                    persist_state="session",
                )
        with grid.cell():
            coder = widgets.choice(
                "Coder",
                list(CODERS),
                default=How.coder,
                key="export_coder",
                format_func=CODERS.__getitem__,
                bind="query-params",
                help="How what is kept becomes bits; both are without loss.",
            )
            scope = widgets.choice(
                "Buckets over",
                list(SCOPES),
                default=How.scope,
                key="export_scope",
                format_func=SCOPES.__getitem__,
                bind="query-params",
            )
            every = widgets.whole_number(
                "A base after so many deltas",
                1,
                1000,
                1000,
                key="export_base",
                text="A base stores its step exactly, and takes as much as float32. One comes "
                "earlier where tensors change, and once the deltas outgrow the base before them.",
            )
    return How(bits, budget, str(scope), str(coder), every)


def _made(found: Opened, how: How) -> Made:
    """The chain of these settings; of another one that was opened, or of older ones, none."""
    held = st.session_state.get(_MADE)
    if held is None or held[0] is not found:
        held = st.session_state[_MADE] = (found, {})
    chains: dict[How, Made] = held[1]
    made = chains.pop(how, None) or Made()
    chains[how] = made  # the newest last
    while len(chains) > MOST_KEPT:
        del chains[next(iter(chains))]
    return made


def _words(found: Opened, view: View[Compressed]) -> ControlTexts:
    n = plural(len(found.steps), "checkpoint")
    part = "compressing" if view.share < 0.5 else "verifying what was packed"
    return ControlTexts(
        start=f"Compress {n}",
        icon=":material/compress:",
        working=f"{100 * view.share:.0f} %: {part}.",
        help="Saves one after another as a training would, packs the chain, and rebuilds every "
        "step from the packed bytes.",
        failed="Compressing failed",
    )


def _exported(found: Opened) -> None:
    """The chain that was opened, verified and offered as it is."""
    widgets.tables_toggle()
    assert found.archive is not None
    try:
        package, receipt = _as_is(found, found.archive)
        offered.archive(package, receipt["sizes"]["float32"], "what its own record tells")
        step = own_step(package)
    except (RunError, FullError, codec.LccError) as exc:
        st.error(plain(str(exc).rstrip(".")) + ".", icon=":material/error:")
        return
    offered.papers(package, receipt)
    offered.restoring(package, step)


def _as_is(found: Opened, file: OwnFile) -> tuple[Package, Receipt]:
    """The chain and its receipt: checked once, also if it fails. Raises RunError, FullError."""
    held = st.session_state.get(_AS_IS)
    if held is None or held[0] is not found:
        if file.nbytes > compressing.MOST_ARCHIVE:
            most = nbytes_text(compressing.MOST_ARCHIVE)
            raise FullError(f"This page offers archives of {most} at most")
        bar = st.empty()
        try:
            held = (found, _checked(file, bar))
        except (RunError, codec.LccError) as exc:
            reason = str(exc).rstrip(".")
            held = (found, f"{reason}. Inspect shows which steps of the chain still restore")
        bar.empty()
        st.session_state[_AS_IS] = held
    if isinstance(held[1], str):
        raise RunError(held[1])
    package, receipt = held[1]
    return package, receipt


def _checked(file: OwnFile, bar: DeltaGenerator) -> tuple[Package, Receipt]:
    """Raises RunError, codec.LccError."""
    chain = codec.Chain(file.source)
    records = Catalogue()
    for found in read_on(chain, stamps(chain, None), records):
        records, total = found, len(chain.entries)
        done = len(records.records)
        bar.progress(done / total / 2, f"Read {done:,} of {total:,} records")
    seen = overview(records)
    name = re.sub(r"(\.lcc)?\.zip$", "", file.name, flags=re.IGNORECASE)
    data = file.source.read_bytes()

    def progress(done: int, total: int) -> None:
        bar.progress(min(0.5 + done / total / 2, 1.0), f"Rebuilt {plural(done, 'step')}")

    package = export.check(export.safe_name(name), data, None, progress)
    keep = seen.keeps[-1] if seen.keeps else None
    kept = {
        "bits": keep and keep.bits,
        "budget": keep and keep.budget,
        "scope": keep.scope if keep else "model",
        "coder": keep.coder if keep else "runlength",
    }
    return package, of_archive(package, seen.full_nbytes, kept)
