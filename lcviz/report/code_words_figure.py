"""The code words of a step: how many of its bits each takes."""

from __future__ import annotations

import pandas as pd

import codec
from codec.inspect import Group
from lcviz.lab.codewords import CountedWord, counted_words
from lcviz.lab.step_tensors import StepFacts, alphabet_text
from lcviz.text import level_text, nbytes_text, percent_text, plain, plural
from lcviz.ui.charts import KEPT, OTHER, Panel, base_figure, name_rows

MOST_WORDS = 16  # in the picture; the table has all


def code_words(facts: StepFacts) -> Panel | None:
    """A bar for each code word of the step's largest payload; None if it has no code words."""
    groups = [g for g in facts.groups if g.encoded.table and g.encoded.payload_bits]
    if not groups:
        return None
    group = max(groups, key=lambda g: g.encoded.payload_bits)
    encoded = group.encoded
    words = counted_words(encoded, codec.decode(encoded).codes)
    meanings = [_meaning(w, encoded) for w in words]
    rows = [
        (f"{w.word}  {meaning}", w.nbits, w.count, KEPT, "")
        for w, meaning in zip(words[:MOST_WORDS], meanings)
    ]
    if other := words[MOST_WORDS:]:
        nbits, count = sum(w.nbits for w in other), sum(w.count for w in other)
        rows.append((plural(len(other), "more word"), nbits, count, OTHER, "/"))
    names, nbits_each, counts, colours, patterns = (list(column) for column in zip(*rows))
    title = "share of the code words' bits, %"
    figure = base_figure(title, "", 26 * len(names) + 80, l=250, t=8)
    figure.add_bar(
        x=[round(100 * nbits / encoded.payload_bits, 3) for nbits in nbits_each],
        y=list(range(len(names))),
        customdata=list(zip(names, counts)),
        orientation="h",
        marker={"color": colours, "pattern": {"shape": patterns}},
        hovertemplate="%{customdata[0]}<br>%{x} %, %{customdata[1]:,} times<extra></extra>",
    )
    figure.update_layout(hovermode="closest", bargap=0.3)
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(ticklabelstandoff=6)
    name_rows(figure, names)
    table = pd.DataFrame(
        {
            "code word": [w.word for w in words],
            "stands for": meanings,
            "times": [w.count for w in words],
            "bits, extra bits included": [w.nbits for w in words],
        }
    )
    total = sum(g.encoded.payload_bits for g in groups)
    share = percent_text(words[0].nbits / total)
    return Panel(
        f"{share} of the bits of step {facts.step} go to the word {words[0].word}",
        _sentence(group, words, len(groups)),
        figure,
        "Share of the bits that each code word takes.",
        table,
    )


def _sentence(group: Group, words: tuple[CountedWord, ...], n_tables: int) -> str:
    nbits = group.encoded.payload_bits
    text = (
        f"{plural(len(words), 'code word')} for {group.n:,} values: "
        f"{nbytes_text(nbits / 8)}, {nbits / group.n:.3f} bits a value. "
        f"The code table is {'reused' if group.encoded.cached else 'new'}."
    )
    if n_tables > 1:
        where = plain(alphabet_text(group))
        text += f" Of {n_tables} tables, the one with most bits: {where}."
    return text


def _meaning(word: CountedWord, e: codec.Encoded) -> str:
    """What a word stands for: "16–19 zeros, then +0.79"."""
    if word.code is None:
        return "escape: rare runs"
    value = level_text(float(e.levels[word.code]), e.measure)
    if not word.last:
        return value
    run = str(word.first) if word.first == word.last else f"{word.first}–{word.last}"
    return f"{run} {'zero' if word.last == 1 else 'zeros'}, then {value}"
