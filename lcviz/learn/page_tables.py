"""How Learn shows numbers: in tables, as bits, in buckets, in words."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from lcviz.lab.lesson import Number, fields
from lcviz.text import exponent_text, minus

from .page_example import Example

ACROSS = 10  # numbers that fit beside one another


def number_table(
    example: Example,
    columns: Mapping[str, str],
    texts: Mapping[str, list[str]] | None = None,
) -> None:
    """A column for each of up to ten numbers, a row for each of more; the followed one bold.

    Args:
        example: the numbers.
        columns: title -> field of `Number`.
        texts: more columns: title -> cells.
    """
    numbers = example.lesson.numbers
    rows = {"tensor": [m.group.name for m in numbers]} if len(example.lesson.groups) > 1 else {}
    for title, field in columns.items():
        rows[title] = [text_of(getattr(m, field)) for m in numbers]
    table = pd.DataFrame(rows | dict(texts or {}), index=[m.name for m in numbers])
    at = example.followed.name
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
    meaning = "all bits of the exponent are 0: zero, or too small for the rule above"
    if f.exponent != -127:
        meaning = (
            f":blue[sign s = {sign}], {'negative' if f.sign else 'positive'} · :orange[exponent: "
            f"{int(exponent, 2)} − 127 = {minus(f.exponent)}] · :green[mantissa m = "
            f"{f.mantissa:.6g}], together {product(number)}"
        )
    st.markdown(f":small[{meaning}]")


def product(number: Number) -> str:
    """A delta as ±m · 2ᵉ."""
    f = fields(number.delta)
    if f.exponent == -127:
        return text_of(number.delta)
    return f"{'−' if f.sign else '+'}{f.mantissa:.4g} · {exponent_text(f.exponent)}"


def bucket_table(example: Example, *, promotion: bool) -> None:
    """The buckets of the numbers, with promotion also every kept one."""
    rows = []
    for group in example.lesson.groups:
        for i, b in enumerate(group.buckets):
            names = [m.name for m in example.lesson.numbers if m.group is group and m.bucket == i]
            if not names and not (promotion and b.level):
                continue
            row = {"tensor": group.name} if len(example.lesson.groups) > 1 else {}
            row["bucket"] = exponent_text(b.exponent, b.sign)
            if example.of_run:
                row["members in the model"] = f"{b.count:,}"
            members = "of ours" if example.of_run else "members"
            row |= {members: ", ".join(names) or "none", "smallest": text_of(b.min)}
            row |= {"largest": text_of(b.max), "middle": text_of(b.representative)}
            rows.append(row | ({"": "**kept**" if b.level else "dropped"} if promotion else {}))
    st.table(pd.DataFrame(rows), hide_index=True)


def text_of(value: float, digits: int = 6, *, bracket: bool = False) -> str:
    """A number as people write it. bracket: put a negative one in brackets, after an operator."""
    text = minus(f"{value:.{digits}g}") if value else "0"
    return f"({text})" if bracket and value < 0 else text
