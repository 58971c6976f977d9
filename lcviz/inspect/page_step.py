"""One step of a chain: its tensors, what its record changes in them, and its very bits."""

from __future__ import annotations

import numpy as np
import streamlit as st

import codec
from lcviz.lab.lesson import fields
from lcviz.lab.records import Overview
from lcviz.lab.step_tensors import StepFacts, restored
from lcviz.text import minus, plain, plural
from lcviz.ui import widgets

from .codewords import Word, first_words
from .figures import STORED, tensor_bars, tensors_table
from .page_open import Held, Source, reader, sentence

WORDS = 24  # of the bit view
MOST_STEPS = 20_000  # of the slider: a browser keeps every one of them


def one_step(source: Source, held: Held, seen: Overview, follow: bool) -> None:
    """The chosen step, or the newest."""
    st.subheader("One step, tensor by tensor", anchor=False)
    step = seen.reached[-1]
    if follow:
        st.markdown(f"**Step {step}**, the newest.")
    elif len(seen.steps) > 1:
        if len(seen.steps) > MOST_STEPS:
            st.caption(f"The newest {MOST_STEPS:,} of {len(seen.steps):,} steps can be chosen.")
        step = st.select_slider(
            "Step",
            seen.steps[-MOST_STEPS:],
            step,
            key="inspect_step",
            bind="query-params",
            persist_state="session",
            help="Any step that a record tells of, by hand or by the "
            "arrow keys. It is rebuilt from the last base before it.",
        )
    facts = _restored(source, held, step)
    if facts is None:
        return
    if any(t.changed is not None and t.stored == "codes" for t in facts.tensors):
        widgets.picture(tensor_bars(facts), "tensors")
    elif facts.kind == "base":
        st.info(f"Step {step} is a base: every tensor is stored exactly, and nothing as a change.")
    table = tensors_table(facts)
    if not table["not finite"].any():
        table = table.drop(columns="not finite")
    widgets.scrolling(table, "inspect-tensors")
    st.markdown(
        ":small[Minimum to standard deviation: of the values that a restart at this step gets. "
        "Bits a parameter: of the code words alone, without code table, levels and header; a run "
        f"of zeros counts where the value after it is.{_shared(facts)}]"
    )
    _bits(facts)


def _shared(facts: StepFacts) -> str:
    """Whose words they are, where they are not of this step alone."""
    if facts.together == 1:
        return ""
    return f" Here words stand for {facts.together} steps at once: given is an equal share of them."


def _restored(source: Source, held: Held, step: int) -> StepFacts | None:
    record = next(r for r in held.catalogue.records if step in r.facts.steps and not r.facts.aside)
    key = (record.key, step)
    if held.step is not None and held.step[0] == key:
        return held.step[1]
    bases = [r.facts.entry.step for r in held.catalogue.records if r.facts.entry.kind == "base"]
    begin = max((b for b in bases if b <= step), default=0)
    way = {s for r in held.catalogue.records for s in r.facts.steps if begin <= s <= step}
    progress, done = reader("Rebuilt", len(way))
    rebuilt = 0

    def told(_: int) -> None:
        nonlocal rebuilt
        rebuilt += 1
        if rebuilt % 20 == 0:
            progress(rebuilt)

    try:
        held.step = key, restored(source.chain(), step, told)
    except codec.LccError as exc:
        st.error(f"Step {step} cannot be restored. {sentence(exc)}", icon=":material/error:")
        return None
    finally:
        done()
    return held.step[1]


def _bits(facts: StepFacts) -> None:
    st.subheader("The very bits", anchor=False)
    grid = st.grid(2, min_column_width=420, border=True, key="inspect-bits")
    with grid.cell():
        _stream(facts)
    with grid.cell():
        _value(facts)


def _stream(facts: StepFacts) -> None:
    """The first code words of an alphabet's payload."""
    st.markdown("**The first code words of the payload**")
    coded = {}
    for group in facts.groups:
        whole = len(group.tensors) > 1
        coded[f"{len(group.tensors)} tensors" if whole else group.tensors[0].name] = group
    if not coded:
        st.markdown("This record has no code words: everything in it is stored exactly.")
        return
    name = next(iter(coded))
    if len(coded) > 1:
        name = st.selectbox(
            "Tensors",
            list(coded),
            key="inspect_alphabet",
            bind="query-params",
            help="Tensors that share buckets and code words.",
        )
    group = coded[name]
    e = group.encoded
    words = first_words(e, WORDS)
    if not words:
        st.markdown(f"No bits are needed: all {group.n:,} values have the same code.")
        return
    # Neighbours in two colours: there are no gaps between the words on disk.
    colours = ("blue", "orange")
    text = " ".join(f":{colours[i % 2]}-background[{w.word}{w.rest}]" for i, w in enumerate(words))
    st.markdown(text)
    nbits = sum(len(w.word) + len(w.rest) for w in words)
    st.markdown(
        f":small[{plural(nbits, 'bit')} of {e.payload_bits:,}, in {plural(len(words), 'word')}, "
        f"stand for the first {words[-1].at + 1:,} of {group.n:,} values. "
        "On disk there are no gaps between them.]"
    )
    levels = e.levels if facts.column is None else e.levels[:, facts.column]
    st.table(
        {
            "word": [w.word for w in words],
            "bits after it": [w.rest for w in words],
            "means": [_meaning(w, float(levels[w.code])) for w in words],
            "ends at value": [f"{w.at:,}" for w in words],
        },
        hide_index=True,
        height=260,
    )


def _meaning(word: Word, level: float) -> str:
    value = "0" if not word.code else minus(f"{level:.5g}")
    zeros = f"{plural(word.run, 'zero')}, then " if word.run else ""
    return zeros + value


def _value(facts: StepFacts) -> None:
    """Sign, exponent and mantissa of one restored value."""
    st.markdown("**One restored value**")
    names = [t.name for t in facts.tensors if t.dtype == "F32" and t.n]
    if not names:
        st.markdown("No tensor of this chain is in float32.")
        return
    name = st.selectbox("Tensor", names, key="inspect_tensor", bind="query-params")
    flat = facts.state[name].reshape(-1)
    index = widgets.whole_number(
        "Value",
        0,
        flat.size - 1,
        0,
        key=f"inspect_value_{name}",
        text="Its place in the tensor, counted in C order from 0: the last index runs fastest.",
    )
    value = np.float32(flat[index])
    place = ", ".join(str(int(i)) for i in np.unravel_index(index, facts.state[name].shape))
    f = fields(float(value))
    sign, exponent, mantissa = f.bits
    st.markdown(
        f"At ({place}) it is **{minus(f'{value:.9g}')}**, stored as  \n"
        f":blue-background[{sign}] :orange-background[{exponent}] :green-background[{mantissa}]"
    )
    if not np.isfinite(value):
        told = "all bits of the exponent are 1: infinite, or no number"
    elif f.exponent == -127:
        told = "all bits of the exponent are 0: zero, or too small for the usual rule"
    else:
        told = (
            f":blue[sign {sign}, {'negative' if f.sign else 'positive'}] · :orange[exponent: "
            f"{int(exponent, 2)} − 127 = {minus(f.exponent)}] · :green[mantissa "
            f"{f.mantissa:.8g}]"
        )
    st.markdown(f":small[{told}]")
    stored = next(t.stored for t in facts.tensors if t.name == name)
    st.markdown(f":small[In this step's record {plain(name)} is stored {STORED[stored]}.]")
