"""A chain of own files and its originals: what it gained and lost, and the downloads."""

from __future__ import annotations

import streamlit as st

import codec
from lcviz.run.snapshot import RunError
from lcviz.text import nbytes_text, percent_text, plain, plural
from lcviz.ui import widgets

from . import page_downloads as downloads
from .archive import Package
from .comparison import EXACTLY, LOSSY, totals
from .comparison_figure import distance_by_step, sizes_by_step, stored_text, tensors_of_step
from .compress import MOST_ZIPPED, Compressed
from .receipt import describe, names_left_out

_LOADED = "export-loaded"  # in the session: a package with its bytes
HELD = (_LOADED, downloads.RESTORED)


def comparison(made: Compressed) -> None:
    """Cards, pictures, downloads."""
    _cards(made)
    grid = st.grid(2, min_column_width=420, border=True, key="export-pictures")
    with grid.cell():
        widgets.show(sizes_by_step(made.steps), "bytes")
    with grid.cell():
        widgets.show(distance_by_step(made.steps), "distances")
    try:
        package = _loaded(made)
        restored = downloads.offer(package, made.receipt, "as they were saved here")
    except (RunError, codec.LccError) as exc:
        st.error(plain(str(exc).rstrip(".")) + ".", icon=":material/error:")
        return
    table, sentence = tensors_of_step(next(c for c in made.steps if c.step == restored.step))
    with st.container(border=True, key="export-tensors"):
        st.markdown(f"**Tensors of step {restored.step}**")
        widgets.show_table(table, "tensors")
        st.markdown(f":small[{sentence}]")
    st.caption(
        "u is the original, u₀ the first of the series. Tensors that shared memory are stored "
        "once for each of their names."
    )
    downloads.instructions(package, made.receipt, restored.step)


def _cards(made: Compressed) -> None:
    t = totals(made.steps)
    furthest = t.furthest.distance
    left_out = names_left_out(made.receipt)
    alike = ", same parts" if left_out else ""
    cards = [
        (
            "The chain",
            nbytes_text(t.chain),
            f"{percent_text(t.chain / t.full)} of float32",
            "All records, headers and exact bases included, against the same states in float32.",
        ),
        (
            "In float32",
            nbytes_text(t.full),
            plural(len(made.steps), "step"),
            "Every step in full, 4 bytes a weight; exactly stored tensors in their own dtype.",
        ),
        (
            f"As files{alike}",
            nbytes_text(t.files) if t.files else "a chain",
            f"chain: {percent_text(t.chain / t.files)} of it" if t.files else None,
            "The bytes of the files that were opened, without parts that were left out, and the "
            "share of them that the chain takes.",
        ),
        (
            f"Zipped{alike}" if left_out else "As zipped files",
            nbytes_text(t.zipped) if t.zipped is not None else "not tried",
            None,
            "Each file deflated as zip programs do, for comparison: weights hardly shrink. Only "
            f"tried up to {nbytes_text(MOST_ZIPPED)} of files.",
        ),
        (
            "Furthest step",
            percent_text(furthest) if furthest < 1e9 else "not finite",
            f"step {t.furthest.step}",
            "The largest relative distance of any step: how far the restored step is from the "
            "original, as a share of the distance from the first step.",
        ),
        (
            "Largest error",
            f"{t.largest:.3g}" if t.largest < 1e30 else "not finite",
            "of a weight",
            "max |restored − original| over all weights of all steps.",
        ),
    ]
    widgets.cards(cards, "export-cards", 6)
    kept = describe(made.receipt)["Kept"]
    sentences = [f"{kept[0].upper()}{kept[1:]}."]
    last = made.steps[-1].tensors
    if moments := sorted({e.stored for e in last if e.stored not in (LOSSY, EXACTLY)}):
        bits = " or ".join(map(stored_text, moments))
        sentences.append(f"Of an optimizer's moments, {bits} each.")
    if left_out:
        sentences.append(f"Left out, of the files too: {plain(', '.join(left_out))}.")
    st.caption(" ".join(sentences))


def _loaded(made: Compressed) -> Package:
    """The package, read from disk once while it is shown."""
    held = st.session_state.get(_LOADED)
    if held is None or held[0] != (made.archive, made.sha256):
        held = st.session_state[_LOADED] = (made.archive, made.sha256), made.load()
    package: Package = held[1]
    return package
