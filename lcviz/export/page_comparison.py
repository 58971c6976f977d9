"""A chain of a visitor's own beside its originals: what it gained and lost, and the downloads."""

from __future__ import annotations

import streamlit as st

import codec
from lcviz.run.snapshot import RunError
from lcviz.text import CODER_NAMES, nbytes_text, percent_text, plain, plural
from lcviz.ui import widgets
from lcviz.ui.settings import over

from . import compress as compressing
from . import page_downloads as offered
from .archive import Package
from .comparison import totals
from .comparison_figure import distance_by_step, sizes_by_step, tensors_of_step
from .compress import Compressed

HELD = ("export-loaded", offered.RESTORED)  # in the session: a package, and a step of it


def results(made: Compressed) -> None:
    """Cards, pictures, downloads."""
    widgets.tables_toggle()
    _cards(made)
    grid = st.grid(2, min_column_width=420, border=True, key="export-pictures")
    with grid.cell():
        widgets.show(sizes_by_step(made.steps), "bytes")
    with grid.cell():
        widgets.show(distance_by_step(made.steps), "distances")
    try:
        package = _loaded(made)
        offered.archive(
            package, totals(made.steps).full, "what was saved here, step by step, a moment ago"
        )
        step = own_step(package)
    except (RunError, codec.LccError) as exc:
        st.error(plain(str(exc).rstrip(".")) + ".", icon=":material/error:")
        return
    panel = tensors_of_step(next(c for c in made.steps if c.step == step))
    with st.container(border=True, key="export-tensors"):
        widgets.picture(panel, "tensors")
        widgets.show_table(panel.table, "tensors")
    st.caption(
        "Relative distance: ‖restored − u‖ / ‖u − u₀‖, with u the original and u₀ the first one "
        "of the series; both, and errors, in float32. Tensors that shared memory in a file are "
        "stored once for each of their names."
    )
    offered.papers(package, made.receipt)
    offered.restoring(package, step)


def _cards(made: Compressed) -> None:
    t = totals(made.steps)
    files = nbytes_text(t.files) if t.files is not None else None
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
            f"{plural(t.n, 'step')}",
            "Every step in full, 4 bytes a weight; tensors that are stored exactly in their own "
            "dtype.",
        ),
        (
            "As files",
            files or "a chain",
            f"chain: {percent_text(t.chain / t.files)} of it" if t.files else None,
            "The bytes of the files that were opened, and what share of them the chain takes.",
        ),
        (
            "As zipped files",
            nbytes_text(t.zipped) if t.zipped is not None else "not tried",
            None,
            "Each file deflated as zip programs do, for comparison: weights hardly shrink. Only "
            f"tried up to {nbytes_text(compressing.MOST_ZIPPED)} of files.",
        ),
        (
            "Furthest step",
            percent_text(t.distance) if t.distance < 1e9 else "not finite",
            f"step {t.worst}",
            "The largest relative distance of any step: how far what is restored "
            "is from the original, as a share of the way from the first step.",
        ),
        (
            "Largest error",
            f"{t.largest:.3g}" if t.largest < 1e30 else "not finite",
            "of a weight",
            "max |restored − original| over all weights of all steps.",
        ),
    ]
    widgets.cards(cards, "export-cards", 6)
    kept = (
        f"a budget of {percent_text(made.how.budget)}"
        if made.how.budget is not None
        else ("all buckets" if made.how.bits is None else plural(made.how.bits, "bit"))
    )
    st.caption(
        f"{kept[0].upper()}{kept[1:]}, buckets over {over(made.how.scope)}, "
        f"{CODER_NAMES[made.how.coder]}."
    )


def _loaded(made: Compressed) -> Package:
    """The package, read from disk once for as long as it is looked at."""
    loaded, _ = HELD
    held = st.session_state.get(loaded)
    if held is None or held[0] != (made.archive, made.sha256):
        held = st.session_state[loaded] = (made.archive, made.sha256), made.loaded()
    package: Package = held[1]
    return package


def own_step(package: Package) -> int:
    """One step of a visitor's own chain, restored and offered; which one."""
    step = offered.choose_step(package)
    offered.one_step(offered.plain_step(package, step))
    return step
