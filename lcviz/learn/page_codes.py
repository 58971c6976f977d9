"""Learn's last two steps: what is kept becomes bits, and a restart reads them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from lcviz.lab.lesson import Number
from lcviz.text import plural
from lcviz.ui import widgets

from .page_example import Example
from .page_growing_tree import growing_tree
from .page_quiz import Quiz
from .page_tables import number_table, text_of
from .stages_figure import stages_panel


def huffman(example: Example, quiz: Quiz) -> bool:
    """Step 4."""
    st.subheader("4 · H: short words for what is frequent", anchor=False)
    st.markdown(
        "Few different **symbols** remain, some of them far more frequent than others. Huffman's "
        "code gives each a word of its own length, and no word is the beginning of another one: "
        "then the words can stand next to each other without gaps."
    )
    group = example.followed.group
    if len(example.lesson.groups) > 1:
        st.caption(
            f"Every tensor has a code of its own. Below is that of {group.name}, with "
            f"{example.followed.name}."
        )
    labels = [text_of(float(level)) for level in group.levels]
    counts = group.counts.tolist()
    present = [i for i, count in enumerate(counts) if count]
    frequent = [labels[i] for i in present if counts[i] == max(counts)]
    count_of = ", ".join(f"{labels[i]}: {counts[i]:,} ×" for i in present)
    st.markdown(f"How often each occurs: {count_of}.")
    shown = quiz.ask(
        "huffman",
        "Which symbol should get the shortest word?",
        [labels[i] for i in present],
        frequent,
        f"{frequent[0]} is written {max(counts):,} times: a bit saved there is saved most often.",
    )
    if shown:
        growing_tree(counts, labels, f"{example.of_run}-{group.name}")
        lengths = group.lengths.tolist()
        table = {
            "symbol": labels,
            "count": [f"{count:,}" for count in counts],
            "word": [word or "(none)" for word in group.words],
            "bits": [str(length) for length in lengths],
            "count × bits": [f"{n * length:,}" for n, length in zip(counts, lengths)],
        }
        st.table(pd.DataFrame(table).iloc[present], hide_index=True)
        st.caption(
            "These are the words of the canonical code: words of one length are consecutive "
            "binary numbers, and a record only has to hold the lengths."
        )
        _stream(example)
    return shown


def restart(example: Example, quiz: Quiz) -> bool:
    """Step 5."""
    st.subheader("5 · A restart, and the next checkpoint", anchor=False)
    numbers = example.lesson.numbers
    columns = {"track ũ": "track", "written": "after_p", "new track": "rebuilt", "u": "live"}
    number_table(example, columns, {"still missing": [text_of(_missing(m), 3) for m in numbers]})
    widgets.show(stages_panel(example.lesson.stage_bits), "stages")
    dropped = next((m for m in numbers if m.delta and not m.code), None)
    if dropped is None:
        return True
    missing = text_of(_missing(dropped))
    return quiz.ask(
        "restart",
        f"The change of {dropped.name}, {text_of(dropped.delta)}, was not written. If training did "
        "not move it any more, what would the next δ of it be?",
        ["0: it is lost", missing, text_of(2 * dropped.delta)],
        missing,
        f"The next δ is taken to the new track, where {dropped.name} still is "
        f"{text_of(dropped.rebuilt)}: {text_of(dropped.live)} − "
        f"{text_of(dropped.rebuilt, bracket=True)} = {missing}. Small changes add up until their "
        "bucket is among the largest. That is why so few buckets are enough.",
    )


def _missing(number: Number) -> float:
    return float(np.float32(number.live) - np.float32(number.rebuilt))


def _stream(example: Example) -> None:
    """The words one after the other."""
    numbers = example.lesson.numbers
    n = st.slider(
        "Numbers written",
        0,
        len(numbers),
        len(numbers),
        key=f"learn_written_{len(numbers)}",
        bind="query-params",
        persist_state="session",
        help="Move it to see the bit string grow.",
    )
    words = [m.word for m in numbers[:n]]
    # Neighbours in two colours: there are no gaps between the words on disk.
    colours = ("blue", "orange")
    text = "".join(f":{colours[i % 2]}-background[{w}]" for i, w in enumerate(words) if w)
    st.markdown(text or "(no bits yet)" if any(m.word for m in numbers) else "(no bits needed)")
    st.markdown(
        f":small[{plural(sum(map(len, words)), 'bit')} for {plural(n, 'number')}, which as float32 "
        f"are {32 * n:,} bits.]"
    )
