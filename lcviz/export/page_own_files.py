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
from lcviz.lab.progress import Progress
from lcviz.report.figure_parts import shortened
from lcviz.run.snapshot import RunError
from lcviz.server.jobs import View
from lcviz.server.own_files import OwnFile, OwnFiles
from lcviz.server.quota import FullError, VisitorFolder
from lcviz.text import nbytes_text, plain, plural
from lcviz.ui import session, widgets
from lcviz.ui.coding_form import coding_form
from lcviz.ui.experiment import Asking, ControlTexts
from lcviz.ui.own_files import opened_files

from . import compress as compressing
from . import page_downloads as downloads
from .archive import Package
from .compress import ChainSettings, Compressed, verify_as_is
from .page_comparison import HELD, comparison
from .receipt import Receipt

MOST_KEPT = 3  # chains of one session, the newest
MOST_ROWS = 5  # of the table of files; with more it scrolls, so that the button stays in view
MOST_SENTENCES = 5  # about single files
_NUMBERS = itertools.count()
_CHAINS = "export-made"  # in the session: what was opened, and its chains by their settings
_LEFT_OUT = "export_without"  # in the URL: outermost keys of the files
_AS_IS = "export-as-is"  # in the session: the package of the chain that was opened
USES = {"again": "Compress it", "as_is": "Export it as it is"}


@dataclass(eq=False)
class RequestedChain:
    """A chain that is asked for. While this session holds it, its place on disk and its results
    are kept."""

    number: int = field(default_factory=lambda: next(_NUMBERS))
    place: VisitorFolder | None = None

    def __post_init__(self) -> None:
        weakref.finalize(self, session.all_jobs().forget, self.experiment)

    @property
    def experiment(self) -> tuple[str, int]:
        """Its name among the jobs of this server."""
        return "compress", self.number

    def work(
        self, own: OwnFiles, settings: ChainSettings, _part: int, progress: Progress
    ) -> Compressed:
        """Compress; a failed attempt leaves no place behind, because others need one."""
        place = session.shelf().place()
        try:
            made = compressing.compress(own, settings, place, progress)
        except BaseException:
            place.close()
            raise
        self.place = place
        return made


def own_files() -> None:
    """All of it."""
    st.markdown(
        "Open checkpoints to compress them into a chain, compared step by step with the originals; "
        "or a chain, .lcc.zip, to take any step out of it as a plain file."
    )
    own = opened_files("export_path")
    if own is None:
        for held in (_CHAINS, _AS_IS, *HELD):  # and their files on disk
            st.session_state.pop(held, None)
        return
    _contents(own)
    if own.archive is None and not own.files:
        return
    if own.archive is not None:
        use = widgets.choice(
            "With this chain",
            list(USES),
            default="again",
            key="export_use",
            format_func=USES.__getitem__,
            bind="query-params",
            help="Compressed again, it is compared with what the chain restores; what the chain "
            "left out before is not known here.",
        )
        if use == "as_is":
            _export_as_is(own, own.archive)
            return
    settings = _settings(own.parts)
    if settings is None:
        return
    chain = _requested_chain(own, settings)
    asking: Asking[Compressed] = Asking(
        "export", chain.experiment, 1, partial(chain.work, own, settings)
    )

    def dashboard(view: View[Compressed], watching: bool) -> None:
        if view.found:
            comparison(view.found[0].value)
        else:
            asking.controls(view, watching, _words(own, view))

    asking.follow(dashboard)


def _contents(own: OwnFiles) -> None:
    """What was opened, in its order, and what was not."""
    for sentence in _first(own.refused, "file that was not taken"):
        st.error(plain(sentence), icon=":material/error:")
    if own.archive is not None:
        name, nbytes = plain(own.archive.name), nbytes_text(own.archive.nbytes)
        st.markdown(f"This is the chain **{name}**, {nbytes}.")
        return
    if not own.files:
        return
    nbytes = nbytes_text(sum(file.nbytes for file in own.files))
    st.markdown(f"**{plural(len(own.files), 'checkpoint')}**, {nbytes}. {own.order}")
    for sentence in _first(own.odd, "file that is unlike the rest"):
        st.warning(plain(sentence), icon=":material/difference:")
    if reasons := {name: why for file in own.files for name, why in file.left_out.items()}:
        few = list(reasons.items())[:MOST_SENTENCES]
        parts = ", ".join(f"**{plain(name)}** ({plain(why)})" for name, why in few)
        more = ", and more" if len(reasons) > len(few) else ""
        st.warning(
            f"Left out of files and chain, because a chain cannot hold it: {parts}{more}.",
            icon=":material/remove_selection:",
        )
    rows = pd.DataFrame(list(map(_row, own.files)))
    widgets.scrolling(rows, "export-files", 38 + 35 * min(len(rows), MOST_ROWS))


def _first(sentences: Sequence[str], about: str) -> list[str]:
    """The first sentences, and how many more there are."""
    more = len(sentences) - MOST_SENTENCES
    rest = [f"And {more} more, each about a {about}."] if more > 0 else []
    return [*sentences[:MOST_SENTENCES], *rest]


def _row(file: OwnFile) -> dict[str, Any]:
    return {
        "step": file.step,
        "file": file.name,
        "bytes": file.nbytes,
        "tensors": len(file.tensors),
        "values": sum(math.prod(shape) for _, shape in file.tensors.values()),
        "dtypes": ", ".join(sorted({dtype for dtype, _ in file.tensors.values()})),
    }


def _settings(parts: Mapping[str, int]) -> ChainSettings | None:
    """The settings that the visitor chooses; None, and why on the page, if they cannot be used.

    parts: outermost keys of the files, each with the bytes of the tensors below it.
    """
    with st.container(border=True, key="export-how"):
        grid = st.grid(2, min_column_width=320, key="export-settings")
        kept, others = grid.cell(), grid.cell()
        with kept:
            coding = coding_form("export_", others=others)
        with others:
            base_every = widgets.checked_number(
                "Deltas between bases",
                1,
                1000,
                1000,
                1,
                key="export_base",
                text="A base stores its step exactly, and takes as much as float32. One comes "
                "earlier if most of the state is new, and once the deltas outgrow the last base.",
            )
        left_out = _left_out(parts)
        if parts and left_out >= parts.keys():
            widgets.wrong("Keep at least one of them.")
            return None
    if coding is None or base_every is None:
        return None
    return ChainSettings(coding, base_every, left_out)


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
            format_func=lambda name: plain(_part_text(name, parts[name])),
            bind="query-params",
            persist_state="session",
            help="Click a part to leave it out; at first everything is kept: weights as you set "
            "above, an optimizer's moments with 3 bits each, all else exactly. When sizes are "
            "compared, the part does not count in the files either.",
        )
    )


def _part_text(name: str, nbytes: int) -> str:
    return f"{shortened(name, 40)}, {nbytes_text(nbytes)}" if nbytes else shortened(name, 40)


def _requested_chain(own: OwnFiles, settings: ChainSettings) -> RequestedChain:
    """The chain of these settings. Chains of other files, and the oldest ones, are dropped."""
    held = st.session_state.get(_CHAINS)
    if held is None or held[0] is not own:
        held = st.session_state[_CHAINS] = (own, {})
    chains: dict[ChainSettings, RequestedChain] = held[1]
    chain = chains.pop(settings, None) or RequestedChain()
    chains[settings] = chain  # the newest last
    while len(chains) > MOST_KEPT:
        del chains[next(iter(chains))]
    return chain


def _words(own: OwnFiles, view: View[Compressed]) -> ControlTexts:
    part = "compressing" if view.share < 0.5 else "verifying the archive"
    return ControlTexts(
        start=f"Compress {plural(len(own.steps), 'checkpoint')}",
        icon=":material/compress:",
        working=f"{100 * view.share:.0f} %: {part}.",
        help="Saves one checkpoint after another as a training would, packs the chain, and "
        "rebuilds every step from the packed bytes.",
        failed="Compressing failed",
    )


def _export_as_is(own: OwnFiles, file: OwnFile) -> None:
    """The chain that was opened, verified and offered as it is."""
    try:
        package, receipt = _verified(own, file)
        restored = downloads.offer(package, receipt, "as their records describe them")
    except (RunError, FullError, codec.LccError) as exc:
        st.error(plain(str(exc).rstrip(".")) + ".", icon=":material/error:")
        return
    downloads.instructions(package, receipt, restored.step)


def _verified(own: OwnFiles, file: OwnFile) -> tuple[Package, Receipt]:
    """The chain and its receipt, checked once, even if it fails. Raises RunError, FullError."""
    held = st.session_state.get(_AS_IS)
    if held is None or held[0] is not own:
        bar = st.empty()

        def progress(done: int, total: int) -> None:
            bar.progress(min(done / total, 1.0), f"Rebuilt {plural(done, 'step')}")

        try:
            held = (own, verify_as_is(file, progress))
        except RunError as exc:
            reason = str(exc).rstrip(".")
            held = (own, f"{reason}. Inspect shows which steps of the chain still restore")
        bar.empty()
        st.session_state[_AS_IS] = held
    if isinstance(held[1], str):
        raise RunError(held[1])
    package, receipt = held[1]
    return package, receipt
