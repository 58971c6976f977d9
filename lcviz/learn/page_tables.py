"""How Learn shows numbers: in tables, as bits, in buckets, in words."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lcviz.lab.lesson import Number, fields
from lcviz.text import exponent_text, minus

from .page_example import Story

ACROSS = 10  # numbers that fit beside one another


def number_table(story: Story, rows: dict[str, list[str]]) -> None:
    """A column for each of ten numbers, a row for each of more; the followed one bold."""
    numbers = story.lesson.numbers
    if len(story.lesson.parts) > 1:
        rows = {"tensor": [m.part.name for m in numbers]} | rows
    table = pd.DataFrame(rows, index=[m.name for m in numbers])
    at = story.followed.name
    table.loc[at] = [f"**{cell}**" for cell in table.loc[at]]
    st.table(table if len(numbers) > ACROSS else table.T)


def bits_of(number: Number) -> None:
    """Sign, exponent and mantissa of a delta, as they stand in memory."""
    f = fields(number.delta)
    sign, exponent, mantissa = f.bits
    st.markdown(
        f"{number.name}: δ = {text_of(number.delta)} is stored as  \n"
        f":blue-background[{sign}] :orange-background[{exponent}] :green-background[{mantissa}]"
    )
    if f.exponent == -127:
        told = "all bits of the exponent are 0: zero, or too small for the rule above"
    else:
        told = (
            f":blue[sign s = {sign}], {'negative' if f.sign else 'positive'} · :orange[exponent: "
            f"{int(exponent, 2)} − 127 = {minus(f.exponent)}] · :green[mantissa m = "
            f"{f.mantissa:.6g}], together {product(number)}"
        )
    st.markdown(f":small[{told}]")


def product(number: Number) -> str:
    f = fields(number.delta)
    if f.exponent == -127:
        return "0" if not number.delta else text_of(number.delta)
    return f"{'−' if f.sign else '+'}{f.mantissa:.4g} · {exponent_text(f.exponent)}"


def bucket_table(story: Story, *, promotion: bool) -> None:
    """The buckets that the numbers are in, or all of them where they are all there is."""
    rows = []
    several = len(story.lesson.parts) > 1
    for part in story.lesson.parts:
        for i, b in enumerate(part.buckets):
            own = [m.name for m in story.lesson.numbers if m.part is part and m.bucket == i]
            if story.of_run and not own and not (promotion and b.level):
                continue
            row = {"tensor": part.name} if several else {}
            row |= {"bucket": exponent_text(b.exponent, b.sign)}
            if story.of_run:
                row |= {"members in the model": f"{b.count:,}", "of ours": ", ".join(own) or "none"}
            else:
                row |= {"members": ", ".join(own)}
            row |= {"smallest": text_of(b.min), "largest": text_of(b.max)}
            row |= {"middle": text_of(b.representative)}
            if promotion:
                row |= {"": "**kept**" if b.level else "dropped"}
            rows.append(row)
    st.table(pd.DataFrame(rows), hide_index=True)


def text_of(value: float, digits: int = 6, *, bracket: bool = False) -> str:
    """A number as a person writes it; a negative one in brackets where it follows a sign."""
    text = minus(f"{value:.{digits}g}") if value else "0"
    return f"({text})" if bracket and value < 0 else text
