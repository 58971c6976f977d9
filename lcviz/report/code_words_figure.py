"""The code words of a step: how many of its bits each takes."""

from __future__ import annotations

import pandas as pd

import codec
from codec.inspect import Group
from lcviz.lab.batches import meaning_of
from lcviz.lab.codewords import CountedWord, counted_words
from lcviz.lab.step_tensors import StepFacts
from lcviz.text import minus, nbytes_text, percent_text, plain, plural
from lcviz.ui.charts import BLUE, GREY, Panel, base_figure

MOST_WORDS = 16  # in the picture; the table has all


def code_words(facts: StepFacts) -> Panel | None:
    """A bar for each code word of the step's largest payload; None if it has no code words."""
    groups = [g for g in facts.groups if g.encoded.table and g.encoded.payload_bits]
    if not groups:
        return None
    group = max(groups, key=lambda g: g.encoded.payload_bits)
    encoded = group.encoded
    words = counted_words(encoded, codec.decode(encoded).codes)
    meanings = [
        _meaning(w, None if w.code is None else meaning_of(group, w.code, facts.column))
        for w in words
    ]
    total, top_words = encoded.payload_bits, words[:MOST_WORDS]
    shares = [100 * w.nbits / total for w in top_words]
    names = [f"{w.word}  {meaning}" for w, meaning in zip(top_words, meanings)]
    counts = [w.count for w in top_words]
    if other_words := words[MOST_WORDS:]:
        names.append(plural(len(other_words), "more word"))
        shares.append(100 * sum(w.nbits for w in other_words) / total)
        counts.append(sum(w.count for w in other_words))
    height = 26 * len(names) + 80
    figure = base_figure("share of the code words' bits, %", "", height, l=250, t=8)
    figure.add_bar(
        x=[round(share, 3) for share in shares],
        y=list(range(len(names))),
        customdata=list(zip(names, counts)),
        orientation="h",
        marker={
            "color": [BLUE] * len(top_words) + [GREY] * (len(names) - len(top_words)),
            "pattern": {"shape": [""] * len(top_words) + ["/"] * (len(names) - len(top_words))},
        },
        hovertemplate="%{customdata[0]}<br>%{x} %, %{customdata[1]:,} times<extra></extra>",
    )
    figure.update_layout(hovermode="closest", showlegend=False, bargap=0.3)
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(range=[len(names) - 0.5, -0.5], showgrid=False, ticklabelstandoff=6)
    figure.update_yaxes(tickvals=list(range(len(names))), ticktext=names)
    table = pd.DataFrame(
        {
            "code word": [w.word for w in words],
            "stands for": meanings,
            "times": [w.count for w in words],
            "bits, extra bits included": [w.nbits for w in words],
        }
    )
    return Panel(
        f"Code words of step {facts.step}",
        _sentence(group, words, len(groups)),
        figure,
        "Share of the bits that each code word takes.",
        table,
    )


def _sentence(group: Group, words: tuple[CountedWord, ...], n_tables: int) -> str:
    nbits, largest = group.encoded.payload_bits, words[0]
    text = (
        f"{plural(len(words), 'code word')} for {group.n:,} values: "
        f"{nbytes_text(nbits / 8)}, {nbits / group.n:.3f} bits a value. {largest.word} takes "
        f"{percent_text(largest.nbits / nbits)} of the bits. "
        f"The code table is {'reused' if group.encoded.cached else 'new'}."
    )
    if n_tables > 1:
        where = plain(group.tensors[0].name) if len(group.tensors) == 1 else "several tensors"
        text += f" Of {n_tables} tables, the one with most bits: {where}."
    return text


def _meaning(word: CountedWord, level: float | str | None) -> str:
    """What a word stands for: "16–19 zeros, then +0.79"."""
    if level is None:
        return "escape: rare runs"
    value = level if isinstance(level, str) else minus(f"{level:+.3g}") if level else "0"
    if not word.last:
        return value
    run = str(word.first) if word.first == word.last else f"{word.first}–{word.last}"
    return f"{run} {'zero' if word.last == 1 else 'zeros'}, then {value}"
