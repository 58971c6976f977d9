"""Files of one's own on the Export page: opened, compressed, compared, and exported."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

import codec
from codec import Coding
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.lab.progress import Progress
from lcviz.lab.records import read_all
from lcviz.report.figure_parts import shortened
from lcviz.report.verdict import chain_warning
from lcviz.run.snapshot import RunError
from lcviz.server.jobs import View
from lcviz.server.own_files import OwnFile, OwnFiles
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text, plain, plural
from lcviz.ui import session, widgets
from lcviz.ui.coding_form import coding_form
from lcviz.ui.experiment import ControlTexts, PageJob
from lcviz.ui.own_files import MOST_SENTENCES, opened_files

from . import compress as compressing
from . import page_downloads as downloads
from .archive import Package
from .compress import Compressed, Compression, verify_as_is
from .page_comparison import SESSION_KEYS, comparison
from .receipt import Receipt

MOST_KEPT = 3  # chains of one session: the newest ones
MOST_ROWS = 5  # of the table of files; with more it scrolls, so that the button stays in view
_NUMBERS = itertools.count()
_CHAINS = "export-made"  # in the session: what was opened, and its chains by their settings
_LEFT_OUT = "export_without"  # in the URL: outermost keys of the files
_RECORDS = "export-records"  # in the session: those of the chain that was opened
_AS_IS = "export-as-is"  # in the session: the package of the chain that was opened
USES = {"again": "Compress it", "as_is": "Export it as it is"}


@dataclass(eq=False)
class RequestedChain:
    """A chain that the visitor asked for. Its place on disk and its results live as long as the
    session holds it."""

    number: int = field(default_factory=lambda: next(_NUMBERS))
    place: VisitorFolder | None = None

    def __post_init__(self) -> None:
        weakref.finalize(self, session.all_jobs().forget, self.experiment)

    @property
    def experiment(self) -> tuple[str, int]:
        """Its name among the jobs of this server."""
        return "compress", self.number

    def work(
        self, opened: OwnFiles, settings: Compression, _part: int, progress: Progress
    ) -> Compressed:
        """Compress the files; if that fails, free the place on disk for others."""
        place = session.shelf().place()
        try:
            compressed = compressing.compress(opened, settings, place, progress)
        except BaseException:
            place.close()
            raise
        self.place = place
        return compressed


def own_files() -> None:
    """The whole section."""
    st.markdown(
        "Open checkpoints to compress them into a chain, compared step by step with the originals; "
        "or a chain, .lcc.zip, to take any step out of it as a plain file."
    )
    opened = opened_files("export_path")
    if opened is None:
        for key in (_CHAINS, _RECORDS, _AS_IS, *SESSION_KEYS):  # their files on disk go with them
            st.session_state.pop(key, None)
        return
    answer = st.container(key="export-answer")  # above what it was made of
    _contents(opened)
    if not opened.files:
        return
    if opened.archive is not None:
        source = opened.archive.source
        records = session.cached(_RECORDS, opened, lambda: read_all(codec.Chain(source)))
        if warning := chain_warning(records, grows=False):
            widgets.error(warning)
        use = widgets.choice(
            "With this chain",
            USES,
            default="again",
            key="export_use",
            help="A new chain is compared with what this one restores; what this one left out is "
            "not known here.",
        )
        if use == "as_is":
            with answer:
                _export_as_is(opened, opened.archive, summarize(records), warning)
            return
    settings = _settings(opened.parts)
    if settings is None:
        return
    chain = _requested_chain(opened, settings)
    job: PageJob[Compressed] = PageJob(
        "export", chain.experiment, 1, partial(chain.work, opened, settings)
    )

    def dashboard(view: View[Compressed], watching: bool) -> None:
        if view.finished_parts:
            comparison(view.finished_parts[0].value)
        else:
            job.controls(view, watching, _texts(opened, view))

    with answer:
        job.follow(dashboard)


def _contents(opened: OwnFiles) -> None:
    """What was opened, in its order, and what was not."""
    for sentence in _first_sentences(opened.refused, "file that was not taken"):
        widgets.error(plain(sentence))
    if not opened.files:
        return
    nbytes = nbytes_text(opened.nbytes)
    if opened.archive is not None:
        st.markdown(f"This is the chain **{plain(opened.archive.name)}**, {nbytes}.")
        return
    st.markdown(f"**{plural(len(opened.files), 'checkpoint')}**, {nbytes}. {opened.order}")
    for sentence in _first_sentences(opened.odd, "file that is unlike the rest"):
        st.warning(plain(sentence), icon=":material/difference:")
    if reasons := {name: why for file in opened.files for name, why in file.left_out.items()}:
        few = list(reasons.items())[:MOST_SENTENCES]
        parts = ", ".join(f"**{plain(name)}** ({plain(why)})" for name, why in few)
        more = ", and more" if len(reasons) > len(few) else ""
        st.warning(
            f"Left out of files and chain, because a chain cannot hold it: {parts}{more}.",
            icon=":material/remove_selection:",
        )
    rows = pd.DataFrame(list(map(_row, opened.files)))
    widgets.scrolling(rows, "export-files", widgets.rows_height(rows, MOST_ROWS))


def _first_sentences(sentences: Sequence[str], about: str) -> list[str]:
    """The first sentences, and how many more there are."""
    more = len(sentences) - MOST_SENTENCES
    remark = [f"And {more} more, each about a {about}."] if more > 0 else []
    return [*sentences[:MOST_SENTENCES], *remark]


def _row(file: OwnFile) -> dict[str, Any]:
    return {
        "step": file.step,
        "file": file.name,
        "bytes": file.nbytes,
        "tensors": len(file.tensors),
        "values": sum(math.prod(shape) for _, shape in file.tensors.values()),
        "dtypes": ", ".join(sorted({dtype for dtype, _ in file.tensors.values()})),
    }


def _settings(parts: Mapping[str, int]) -> Compression | None:
    """The settings that the visitor chooses; None if they cannot be used, as the page then says.

    parts: outermost keys of the files, each with the bytes of the tensors below it.
    """
    with st.container(border=True, key="export-how"):
        grid = st.grid(2, min_column_width=320, key="export-settings")
        first_column, second_column = grid.cell(), grid.cell()
        with first_column:
            coding = coding_form("export_", Coding.safe(), coder_place=second_column)
        left_out = _left_out(parts)
        if parts and left_out >= parts.keys():
            widgets.wrong("Keep at least one of them.")
            return None
    return None if coding is None else Compression(coding, left_out)


def _left_out(parts: Mapping[str, int]) -> frozenset[str]:
    """The parts of the files that the visitor leaves out: none at first."""
    if len(parts) < 2:
        return frozenset()
    chosen = st.session_state.get(_LEFT_OUT, [])
    if any(name not in parts for name in chosen):  # of other files
        st.session_state[_LEFT_OUT] = [name for name in chosen if name in parts]
    return frozenset(
        st.pills(
            "Leave out",
            list(parts),
            selection_mode="multi",
            key=_LEFT_OUT,
            format_func=lambda name: plain(
                shortened(name, 40) + (f", {nbytes_text(parts[name])}" if parts[name] else "")
            ),
            **widgets.IN_URL,
            help="Click a part to leave it out; at first everything is kept: weights as you set "
            "above, an optimizer's moments rounded to steps, all else exactly. When sizes are "
            "compared, the part does not count in the files either.",
        )
    )


def _requested_chain(opened: OwnFiles, settings: Compression) -> RequestedChain:
    """The chain of these settings. Chains of other files, and the oldest ones, are dropped."""
    chains: dict[Compression, RequestedChain] = session.cached(_CHAINS, opened, dict)
    chain = chains.pop(settings, None) or RequestedChain()
    chains[settings] = chain  # the newest last
    while len(chains) > MOST_KEPT:
        del chains[next(iter(chains))]
    return chain


def _texts(opened: OwnFiles, view: View[Compressed]) -> ControlTexts:
    part = "compressing" if view.share < 0.5 else "verifying the archive"
    return ControlTexts(
        start=f"Compress {plural(len(opened.steps), 'checkpoint')}",
        icon=":material/compress:",
        working=f"{100 * view.share:.0f} %: {part}.",
        help="Saves one checkpoint after another as a training would, packs the chain, and "
        "rebuilds every step from the packed bytes.",
        failed="Compressing failed",
    )


def _export_as_is(opened: OwnFiles, file: OwnFile, summary: Summary, warning: str) -> None:
    """The chain that was opened, verified and offered as it is. warning: see `downloads.offer`."""
    try:
        package, receipt = _verified(opened, file)
        st.header(downloads.headline(package, summary), anchor=False)
        restored = downloads.offer(package, receipt, "as their records describe them", warning)
    except (RunError, FullError, codec.LccError) as exc:
        widgets.error(plain(str(exc)))
        return
    downloads.instructions(package, receipt, restored.step)


def _verified(opened: OwnFiles, file: OwnFile) -> tuple[Package, Receipt]:
    """The chain and its receipt, checked once, even if it fails. Raises RunError, FullError."""
    bar = st.empty()

    def progress(done: int, total: int) -> None:
        bar.progress(min(done / total, 1.0), f"Rebuilt {plural(done, 'step')}")

    def verified() -> tuple[Package, Receipt] | str:
        try:
            return verify_as_is(file, progress)
        except RunError as exc:
            reason = str(exc).rstrip(".")
            return f"{reason}. Inspect shows which steps of the chain still restore"
        finally:
            bar.empty()

    package = session.cached(_AS_IS, opened, verified)
    if isinstance(package, str):
        raise RunError(package)
    return package
