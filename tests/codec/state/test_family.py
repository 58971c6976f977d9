"""Families and targets, from their texts and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.state.family import MODEL, Family, Target

BITS = Target("bits", 3)


@pytest.mark.parametrize(
    ("text", "family", "alone"),
    [
        ("", MODEL, False),
        ("exp_avg", Family("exp_avg"), False),
        ("bits=3", Family(target=BITS), False),
        ("bits=3 exp_avg", Family("exp_avg", BITS), True),
        ("bits=all a b", Family("a b", Target("bits", None)), True),
        ("bits=9 exp_avg", Family("exp_avg", Target("bits", 9)), False),
        ("distance=0.1", Family(target=Target("distance", 0.1)), False),
        ("tolerance=1e-05 m", Family("m", Target("tolerance", 1e-5)), False),
        ("bits=03 m", Family("bits=03 m"), False),  # a number is written in one way
        ("bits=3 ", Family("bits=3 "), False),
        ("bits=x m", Family("bits=x m"), False),
    ],
)
def test_a_text_is_one_family(text: str, family: Family, alone: bool) -> None:
    assert Family.of(text) == family
    assert (str(family), family.alone, family.is_model) == (text, alone, text == "")


TARGETS = st.builds(
    "{}={}{}".format,
    st.sampled_from(["bits", "distance", "tolerance"]),
    st.text("0123456789.e+-", min_size=1, max_size=5),
    st.sampled_from(["", " ", " m", "m"]),
)


@given(st.text() | TARGETS)
def test_every_text_comes_back(text: str) -> None:
    assert str(Family.of(text)) == text
