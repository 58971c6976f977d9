"""A chain of own files and its originals: what it gained and lost, and the downloads."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

import codec
from codec.inspect import restart_warning
from lcviz.run.snapshot import RunError
from lcviz.text import enumerated, nbytes_text, percent_text, plain, plural
from lcviz.ui import session, widgets

from . import page_downloads as downloads
from .archive import Package
from .comparison import EXACTLY, LOSSY, totals
from .comparison_figure import distance_by_step, sizes_by_step, stored_text, tensors_of_step
from .compress import MOST_ZIPPED, Compressed
from .receipt import describe, names_left_out

_LOADED = "export-loaded"  # in the session: a package with its bytes
SESSION_KEYS = (_LOADED, downloads.RESTORED)


def comparison(compressed: Compressed) -> None:
    """Whether the chain is close enough to the files; cards, pictures, downloads."""
    if warning := restart_warning(compressed.deltas):
        widgets.error(warning)
    _cards(compressed)
    grid = st.grid(2, min_column_width=420, border=True, key="export-pictures")
    with grid.cell():
        widgets.show(sizes_by_step(compressed.steps), "bytes")
    with grid.cell():
        widgets.show(distance_by_step(compressed.steps), "distances")
    try:
        package = _loaded(compressed)
        restored = downloads.offer(package, compressed.receipt, "as they were saved here", warning)
    except (RunError, codec.LccError) as exc:
        widgets.error(plain(str(exc)))
        return
    table, sentence = tensors_of_step(next(c for c in compressed.steps if c.step == restored.step))
    with st.container(border=True, key="export-tensors"):
        st.markdown(f"**Tensors of step {restored.step}**")
        widgets.show_table(table, "tensors")
        st.markdown(f":small[{sentence}]")
    st.caption(
        "u is the original, u₀ the first of the series. Tensors that shared memory are stored "
        "once for each of their names."
    )
    downloads.instructions(package, compressed.receipt, restored.step)


def _cards(compressed: Compressed) -> None:
    sums = totals(compressed.steps)
    left_out = names_left_out(compressed.receipt)
    files, zipped = "As files", "As zipped files"
    if left_out:
        files, zipped = "As files, same parts", "Zipped, same parts"
    share = f"{percent_text(sums.chain / sums.full)} of float32"
    share_of_files = f"chain: {percent_text(sums.chain / sums.files)} of it" if sums.files else None
    furthest = sums.furthest.distance
    furthest_text = percent_text(furthest) if furthest < 1e9 else "not finite"
    largest = f"{sums.largest:.3g}" if sums.largest < 1e30 else "not finite"
    cards = {
        "The chain": (nbytes_text(sums.chain), share),
        "In float32": (nbytes_text(sums.full), plural(len(compressed.steps), "step")),
        files: (nbytes_text(sums.files) if sums.files else "a chain", share_of_files),
        zipped: ("not tried" if sums.zipped is None else nbytes_text(sums.zipped), None),
        "Furthest step": (furthest_text, f"step {sums.furthest.step}"),
        "Largest error": (largest, "of a weight"),
    }
    texts = {
        "The chain": "All records, headers and exact bases included, against the same states in "
        "float32.",
        "In float32": "Every step in full, 4 bytes a weight; exactly stored tensors in their own "
        "dtype.",
        files: "The bytes of the files that were opened, without parts that were left out, and the "
        "share of them that the chain takes.",
        zipped: "Each file deflated as zip programs do, for comparison: weights hardly shrink. "
        f"Only tried up to {nbytes_text(MOST_ZIPPED)} of files.",
        "Furthest step": "The largest relative distance of any step: how far the restored step is "
        "from the original, as a share of the distance from the first step.",
        "Largest error": "max |restored − original| over all weights of all steps.",
    }
    widgets.cards(cards, texts, "export-cards")
    st.caption(_what_is_kept(compressed, left_out))


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
