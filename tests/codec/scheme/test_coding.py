"""The settings of a delta: what is out of range, what contradicts itself, and the defaults."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme.coding import DEFAULT_DISTANCE, Coding

F32 = np.float32
BITS = "bits must be an integer from 1 to 8, or None"
BUDGET = "above 0 and at most 1; got"
TOLERANCE = "tolerance is the largest error"
DISTANCE = r"above 0 and below 1, as 0\.3; got"
WRONG: dict[str, list[Any]] = {
    "bits": [0, 9, -1, True, 2.0, "2", np.int8(9)],
    "budget": [0, 0.0, -0.1, 1.0001, 5, np.nan, np.inf, F32(2), True, False, "0.1", [0.1], 1j],
    "tolerance": [0, -1, True, "1", 1e39, np.nan, np.inf, 10**400, [1], 1j, *F32([0, 1e-45, 3e38])],
    "distance": [0, 1, -0.1, 1.5, np.nan, np.inf, True, "0.3"],
    "scope": ["layer", ["model"]],
    "coder": ["zip", "", "Huffman", None, ["huffman"]],
}
MESSAGES = {"bits": BITS, "budget": BUDGET, "tolerance": TOLERANCE, "distance": DISTANCE}
MESSAGES |= {"scope": "scope must be one of model, tensor; got"}
MESSAGES |= {"coder": "coder must be one of runlength, huffman, context; got"}
PAIRS: list[dict[str, Any]] = [
    {"bits": 2, "budget": 0.1},
    {"bits": 8, "tolerance": 0.1},
    {"bits": 1, "distance": 0.1},
    {"budget": 0.1, "distance": 0.1},
    {"tolerance": 0.1, "distance": 0.1},
    {"budget": 0.1, "tolerance": 0.1},
]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({name: value}, MESSAGES[name]) for name, values in WRONG.items() for value in values),
        *((pair, "; got " + " and ".join(pair)) for pair in PAIRS),
        ({"quantizer": "uniform"}, "need a budget, a tolerance or a distance, not bits"),
        ({"tolerance": 0.1, "quantizer": "exponent"}, "a tolerance needs uniform steps"),
        ({"distance": 0.3, "quantizer": "exponent"}, "a distance needs uniform steps"),
        ({"quantizer": "steps", "budget": 0.1}, "quantizer must be one of exponent, uniform"),
    ],
    ids=str,
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    for use in (lambda: Coding(**settings), lambda: codec.Tracker({}, **settings)):
        with pytest.raises(codec.SettingsError, match=message):
            use()


def test_defaults() -> None:
    """The paper's 2 bits where nothing trains for real, else a distance."""
    assert Coding() == Coding(2) == Coding(distance=None)
    assert Coding.safe() == Coding(distance=DEFAULT_DISTANCE)
    assert Coding.safe(bits=2) == Coding(2)
    assert Coding.safe(bits=None) == Coding(None)
    assert Coding.safe(quantizer="exponent") == Coding(2)
    assert Coding.safe(budget=0.05, scope="tensor") == Coding(budget=0.05, scope="tensor")
    assert Coding(distance=0.25).describe() == (
        "a distance of 0.25, steps over the whole model, run-length"
    )
    assert Coding(budget=0.1).quantizer == Coding(tolerance=0.1).quantizer == "uniform"
    assert Coding().quantizer == Coding(bits=None).quantizer == "exponent"
    assert not Coding(budget=0.1, quantizer="exponent").uniform


@pytest.mark.parametrize("value", [1, 1.0, 1e-300, F32(0.25), np.int8(1)])
def test_numbers_of_python(value: Any) -> None:
    """A record holds them as JSON, which knows none of numpy's."""
    coding = codec.Tracker({}, budget=value).step({}).coding
    assert (coding.bits, coding.budget, type(coding.budget)) == (None, value, float)
    assert type(Coding(tolerance=F32(0.5)).tolerance) is float
    assert type(Coding(np.int64(3)).bits) is int  # type: ignore[arg-type]
    assert math.isclose(Coding(distance=F32(0.5)).distance or 0, 0.5)
