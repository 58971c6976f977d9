"""Families and targets, from their texts and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec import reader
from codec.state.family import MODEL, Family, Target

BITS = Target("bits", 3)


@pytest.mark.parametrize(
    ("text", "family", "measure"),
    [
        ("", MODEL, None),
        ("exp_avg", Family("exp_avg"), None),
        ("bits=3", Family(target=BITS), None),
        ("bits=3 exp_avg", Family("exp_avg", BITS), None),
        ("roots=0.5 exp_avg", Family("exp_avg", Target("roots", 0.5)), "roots"),
        ("octaves=1e-05 a b", Family("a b", Target("octaves", 1e-5)), "octaves"),
        ("sizes=0.5", Family(target=Target("sizes", 0.5)), None),
        ("distance=0.1", Family(target=Target("distance", 0.1)), None),
        ("sizes=0.50 m", Family("sizes=0.50 m"), None),  # a number is written in one way
        ("sizes=0.5 ", Family("sizes=0.5 "), None),
        ("sizes=x m", Family("sizes=x m"), None),
    ],
)
def test_a_text_is_one_family(text: str, family: Family, measure: str | None) -> None:
    """To `reader` too."""
    assert Family.of(text) == family
    assert (str(family), family.measure, family.is_model) == (text, measure, text == "")
    tensor = reader.Tensor("x", "F32", (9,), True, "numpy", text)
    assert reader.measure_of(tensor) == (measure or "")


TARGETS = st.builds(
    "{}={}{}".format,
    st.sampled_from(["bits", "distance", "tolerance", "roots"]),
    st.text("0123456789.e+-", min_size=1, max_size=5),
    st.sampled_from(["", " ", " m", "m"]),
)


@given(st.text() | TARGETS)
def test_every_text_comes_back(text: str) -> None:
    """And has a measure here if it has one in `reader`."""
    assert str(Family.of(text)) == text
    tensor = reader.Tensor("x", "F32", (9,), True, "numpy", text)
    assert reader.measure_of(tensor) == (Family.of(text).measure or "")
