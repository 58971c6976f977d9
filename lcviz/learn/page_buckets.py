"""Learn's first three steps: the difference, its buckets, and which of them are kept."""

from __future__ import annotations

import streamlit as st

from lcviz.lab.lesson import fields
from lcviz.text import exponent_text, plural

from .page_example import Example
from .page_quiz import Quiz
from .page_tables import bits_of, bucket_table, number_table, product, text_of

# Each step returns whether the next one may be shown.


def delta(example: Example, quiz: Quiz) -> bool:
    """Step 1."""
    st.subheader("1 · δ: write the difference", anchor=False)
    st.markdown(
        "After a crash, a restart reads the checkpoints written so far. They rebuild the "
        "**track ũ**. The model has trained on since and is at **u**."
    )
    n = example.followed
    shown = quiz.ask(
        "delta",
        f"The track has {text_of(n.track)} for {n.name}, the model {text_of(n.live)}. What must "
        "the next checkpoint store?",
        [text_of(n.live), text_of(n.delta), text_of(n.track + n.live)],
        text_of(n.delta),
        f"The restart has {text_of(n.track)} already: it only needs the difference, "
        f"{text_of(n.live)} − {text_of(n.track, bracket=True)} = {text_of(n.delta)}.",
    )
    columns = {"u": "live", "ũ": "track"} | ({"δ = u − ũ": "delta"} if shown else {})
    number_table(example, columns)
    if shown:
        st.markdown(
            "Differences are small and similar, unlike the weights: the next steps exploit that. "
            "δ is the difference to the **track**, not to the weights at the last checkpoint: what "
            "is left out stays in the next δ."
        )
    return shown


def exponents(example: Example, quiz: Quiz) -> bool:
    """Step 2."""
    st.subheader("2 · E: sort into buckets by sign and exponent", anchor=False)
    st.markdown(
        "A float32 number is stored as **sign, exponent and mantissa**: (−1)ˢ · m · 2ᵉ with "
        "1 ≤ m < 2. All numbers with the same sign and the same e go into one **bucket**."
    )
    n, numbers = example.followed, example.lesson.numbers
    bits_of(n)
    right = len({(m.group.name, m.bucket) for m in numbers if m.bucket is not None})
    without_sign = len({fields(m.delta).exponent for m in numbers if m.delta})
    options = {right, without_sign, len(numbers), right + 1} - {0} | {right}
    shown = quiz.ask(
        "exponents",
        f"How many different buckets do these {len(numbers)} numbers fall into? Numbers with "
        "another sign, or another e, are in another bucket.",
        [str(k) for k in sorted(options)],
        str(right),
        f"They fill {plural(right, 'bucket')}. Every member is now replaced by the middle of its "
        "bucket: half of the sum of its smallest and its largest member.",
    )
    rows = {"±m · 2ᵉ": [product(m) for m in numbers]}
    if shown:
        rows["after E"] = [text_of(m.after_e) for m in numbers]
        rows["off by"] = [text_of(m.after_e - m.delta, 2) for m in numbers]
    number_table(example, {"δ": "delta"}, rows)
    if shown:
        if n.bucket is not None:
            b = n.group.buckets[n.bucket]
            st.markdown(
                f"{n.name} is in bucket **{exponent_text(b.exponent, b.sign)}**, whose members lie "
                f"between {text_of(b.min)} and {text_of(b.max)}: ({text_of(b.min)} + "
                f"{text_of(b.max, bracket=True)}) / 2 = **{text_of(b.representative)}**."
            )
        bucket_table(example, promotion=False)
        st.markdown(
            "Within a bucket no member is twice as large as another, signs aside: every number is "
            "off by less than half of its size. Only an index of the bucket has to be written, "
            "with a list of the buckets' middles."
        )
    return shown


def promotion(example: Example, quiz: Quiz) -> bool:
    """Step 3."""
    st.subheader("3 · P: keep the largest buckets", anchor=False)
    x = example.bits
    if x is None:
        st.markdown("“All” keeps every bucket: choose bits x above to see promotion.")
        return True
    raised = "" if x == 1 else exponent_text(x)[1:]
    st.markdown(
        f"Each number now gets exactly **x = {x}** {'bit' if x == 1 else 'bits'}, which encodes "
        f"2{raised} = {2**x} values. One of them has to be **0**, for what is left out."
    )
    right = 2**x - 1
    shown = quiz.ask(
        "promotion",
        "For how many buckets is there room? (The largest ones get it: they hold most of what has "
        "changed.)",
        [str(k) for k in sorted({right, right + 1, right + 2, max(right - 1, 1)})],
        str(right),
        f"2ˣ − 1 = {right}, besides 0. Every other number becomes 0 in this checkpoint.",
    )
    if shown:
        bucket_table(example, promotion=True)
        number_table(example, {"δ": "delta", "after E": "after_e", "after P": "after_p"})
        n = example.followed
        if n.bucket is None:
            result = "has not changed: it is 0 anyway"
        elif n.code:
            result = f"is in a bucket that is kept: {text_of(n.after_p)} is written"
        else:
            result = "is in a bucket that is dropped: 0 is written, and its change is postponed"
        st.markdown(f"{n.name} {result}.")
    return shown
