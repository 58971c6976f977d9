"""A chain of own files and its originals: what it gained and lost, and the downloads."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

import codec
from codec.inspect import restart_warning
from lcviz.run.snapshot import RunError
from lcviz.text import enumerated, nbytes_text, percent_text, plain
from lcviz.ui import session, widgets

from . import page_downloads as downloads
from .archive import Package
from .comparison import EXACTLY, LOSSY, ComparedStep, totals
from .comparison_figure import distance_by_step, sizes_by_step, stored_text, tensors_of_step
from .compress import Compressed
from .receipt import describe, names_left_out

_LOADED = "export-loaded"  # in the session: a package with its bytes
SESSION_KEYS = (_LOADED, downloads.RESTORED)


def comparison(compressed: Compressed) -> None:
    """Whether the chain is close enough to the files; pictures, downloads."""
    try:
        package = _loaded(compressed)
    except codec.LccError as exc:
        widgets.error(plain(str(exc)))
        return
    st.header(headline(compressed, len(package.data)), anchor=False)
    if warning := restart_warning(compressed.deltas):
        widgets.error(warning)
    st.caption(_what_is_kept(compressed, names_left_out(compressed.receipt)))
    grid = st.grid(2, min_column_width=420, border=True, key="export-pictures")
    with grid.cell():
        widgets.show(sizes_by_step(compressed.steps), "bytes")
    with grid.cell():
        widgets.show(distance_by_step(compressed.steps), "distances")
    try:
        restored = downloads.offer(
            package,
            compressed.receipt,
            "as they were saved here",
            warning,
            told=lambda restored: _distance(compressed, restored.step),
        )
    except (RunError, codec.LccError) as exc:
        widgets.error(plain(str(exc)))
        return
    label = f"Tensors of step {restored.step}"
    if (box := widgets.opened(label, "table_rows", "export-tensors")) is not None:
        shown = _at(compressed, restored.step)
        table, sentence = tensors_of_step(shown)
        with box:
            widgets.show_table(table, "tensors")
            st.markdown(
                f":small[{sentence} u is the original, u₀ the first of the series. Tensors that "
                "shared memory are stored once for each of their names.]"
            )
    downloads.instructions(package, compressed.receipt, restored.step)


def headline(compressed: Compressed, nbytes: int) -> str:
    """What was saved and what was lost. nbytes: size of the archive."""
    sums = totals(compressed.steps)
    text = f"{nbytes_text(nbytes)} instead of {nbytes_text(sums.full)} in float32"
    furthest = sums.furthest.distance
    if not furthest:
        return f"{text}, to the last bit"
    if not furthest < 1e9:
        return f"{text}; step {sums.furthest.step} is not finite"
    off = percent_text(furthest)
    return f"{text}; step {sums.furthest.step} is furthest off, {off} of what was trained"


def _at(compressed: Compressed, step: int) -> ComparedStep:
    return next(c for c in compressed.steps if c.step == step)


def _distance(compressed: Compressed, step: int) -> str:
    """How far a step is from its file, in a sentence."""
    if not (distance := _at(compressed, step).distance):
        return "Equal to the file, to the last bit."
    return f"Distance from the file: {percent_text(distance)} of what was trained."


def _what_is_kept(compressed: Compressed, left_out: Sequence[str]) -> str:
    """What the chain keeps of the files, in sentences."""
    settings = describe(compressed.receipt)["Kept"]
    sentences = [f"{settings[0].upper()}{settings[1:]}."]
    last = compressed.steps[-1].tensors
    if moments := sorted({e.stored for e in last if e.stored not in (LOSSY, EXACTLY)}):
        steps = enumerated([stored_text(target) for target in moments])
        sentences.append(f"An optimizer's moments are kept in {steps}.")
    if left_out:
        sentences.append(f"Left out of chain and files: {plain(', '.join(left_out))}.")
    return " ".join(sentences)


def _loaded(compressed: Compressed) -> Package:
    """The package with its bytes, read from disk once while the page shows it."""
    return session.cached(_LOADED, (compressed.archive, compressed.sha256), compressed.load)
