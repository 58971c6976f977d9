"""Learn's first three steps: the difference, its buckets, and which of them are kept."""

from __future__ import annotations

import streamlit as st

from lcviz.lab.lesson import fields
from lcviz.text import exponent_text, plural

from .page_example import Story
from .page_quiz import Quiz
from .page_tables import bits_of, bucket_table, number_table, product, text_of

# The steps. Each returns whether the next one may be seen.


def delta(story: Story, quiz: Quiz) -> bool:
    st.subheader("1 · δ: write the difference", anchor=False)
    st.markdown(
        "After a crash, a restart reads the checkpoints written so far. What they give is called "
        "the **track ũ**. The model has trained on since and is at **u**."
    )
    n = story.followed
    shown = quiz.ask(
        "delta",
        f"The track has {text_of(n.track)} for {n.name}, the model {text_of(n.live)}. What is the "
        "least that the next checkpoint has to say about it?",
        [text_of(n.live), text_of(n.delta), text_of(n.track + n.live)],
        text_of(n.delta),
        f"The restart has {text_of(n.track)} already: it only needs the difference, "
        f"{text_of(n.live)} − {text_of(n.track, bracket=True)} = {text_of(n.delta)}.",
    )
    numbers = story.lesson.numbers
    rows = {"u": [text_of(m.live) for m in numbers], "ũ": [text_of(m.track) for m in numbers]}
    if shown:
        rows["δ = u − ũ"] = [text_of(m.delta) for m in numbers]
    number_table(story, rows)
    if shown:
        st.markdown(
            "Differences are small and alike, where weights are neither: that is what the next "
            "steps live on. It is the difference to the **track**, not to the weights at the last "
            "checkpoint: whatever one checkpoint leaves out, the next one sees again."
        )
    return shown


def exponents(story: Story, quiz: Quiz) -> bool:
    st.subheader("2 · E: sort into buckets by sign and exponent", anchor=False)
    st.markdown(
        "A float32 number is stored as **sign, exponent and mantissa**: (−1)ˢ · m · 2ᵉ with "
        "1 ≤ m < 2. All numbers with the same sign and the same e go into one **bucket**."
    )
    bits_of(story.followed)
    numbers = story.lesson.numbers
    rows = {"δ": [text_of(m.delta) for m in numbers], "±m · 2ᵉ": [product(m) for m in numbers]}
    filled = {(m.part.name, m.bucket) for m in numbers if m.bucket is not None}
    alone = {fields(m.delta).exponent for m in numbers if m.delta}
    right = len(filled)
    others = {right, len(alone), len(numbers), right + 1} - {0}
    shown = quiz.ask(
        "exponents",
        f"How many different buckets do these {len(numbers)} numbers fall into? Numbers with "
        "another sign, or another e, are in another bucket.",
        [str(k) for k in sorted(others | {right})][:4],
        str(right),
        f"They fill {plural(right, 'bucket')}. Every member is now replaced by the middle of its "
        "bucket: half of the sum of its smallest and its largest member.",
    )
    if shown:
        rows["after E"] = [text_of(m.after_e) for m in numbers]
        rows["off by"] = [text_of(m.after_e - m.delta, 2) for m in numbers]
    number_table(story, rows)
    if shown:
        n = story.followed
        if n.bucket is not None:
            b = n.part.buckets[n.bucket]
            st.markdown(
                f"{n.name} is in bucket **{exponent_text(b.exponent, b.sign)}**, whose members lie "
                f"between {text_of(b.min)} and {text_of(b.max)}: ({text_of(b.min)} + "
                f"{text_of(b.max, bracket=True)}) / 2 = **{text_of(b.representative)}**."
            )
        bucket_table(story, promotion=False)
        st.markdown(
            "Within a bucket no member is twice as large as another, signs aside, so no number is "
            "off by half of its size or more. And an index of the bucket is all that has to "
            "be written, with a list of the buckets' middles."
        )
    return shown


def promotion(story: Story, quiz: Quiz) -> bool:
    st.subheader("3 · P: keep the largest buckets", anchor=False)
    if story.bits is None:
        st.markdown("“All” keeps every bucket: choose bits x above to see promotion.")
        return True
    x = story.bits
    st.markdown(
        f"Each number now gets exactly **x = {x}** {'bit' if x == 1 else 'bits'}: that tells "
        f"2{'' if x == 1 else _raised(x)} = {2**x} things apart. One of them has to be **0**, for "
        "what is left out."
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
        bucket_table(story, promotion=True)
        numbers = story.lesson.numbers
        number_table(
            story,
            {
                "δ": [text_of(m.delta) for m in numbers],
                "after E": [text_of(m.after_e) for m in numbers],
                "after P": [text_of(m.after_p) for m in numbers],
            },
        )
        n = story.followed
        if n.bucket is None:
            fate = "has not changed, so it is 0 anyway"
        elif n.code:
            fate = f"is in a bucket that is kept: {text_of(n.after_p)} is written"
        else:
            fate = "is in a bucket that is dropped: 0 is written, and its change waits"
        st.markdown(f"{n.name} {fate}.")
    return shown


def _raised(x: int) -> str:
    return str(x).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
