"""What holds for every panel, whatever it shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from lcviz.figures.panel import Panel, inked
from lcviz.lab.methods import Method
from lcviz.lab.recovery import Outcome, Race


def _walk(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from _walk(one)


def _check(panel: Panel) -> dict[str, Any]:
    option = panel.chart
    assert isinstance(option, dict)
    assert json.loads(json.dumps(option, allow_nan=False)) == option  # plain JSON, NumPy-free
    for one in _walk(option):
        assert not (isinstance(one, dict) and one.get("decal") == "none")  # makes ECharts throw
    assert option["animation"] is False
    assert option["legend"].get("selectedMode") is False or option["legend"]["show"] is False
    for theme, ink in (("light", "#31333f"), ("dark", "#fafafa")):
        dyed = inked(option, theme)
        json.dumps(dyed, allow_nan=False)
        axes = [
            a for k in ("xAxis", "yAxis") for a in _as_list(dyed.get(k, [])) if a.get("show", True)
        ]
        assert all(a["axisLabel"]["color"] == a["nameTextStyle"]["color"] == ink for a in axes)
        assert dyed["legend"]["textStyle"]["color"] == ink
    assert panel.title
    assert panel.sentence.endswith(".")
    assert panel.alt.endswith(".")
    assert len(panel.table.columns) > 1
    return option


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.fixture(scope="session")
def check_option() -> Callable[[Panel], dict[str, Any]]:
    """Checks an ECharts panel: JSON without NaN, inked in both themes, with words. Its option."""
    return _check


METHODS = [
    Method("full"),
    Method("scar", 0.05),
    Method("topn", 0.05),
    Method("lc", 0.05, coder="huffman"),
    Method("lc", 0.05),
]
CALM = (2.0, 1.9, 1.8, 1.7, 1.6)
TREND = (2.0, 1.8, 1.6, 1.4, 1.2)


def _outcome(method: Method, seed: int, rework: float, above: Sequence[float]) -> Outcome:
    """above: what the restored training is above the undisturbed one, by iteration."""
    restored = tuple(c + a for c, a in zip(CALM, above))
    raw = [r for r, loss in enumerate(restored) if loss <= CALM[0]]
    return Outcome(
        method,
        seed,
        rework,
        rework == 4,
        raw[0] if raw else 4,
        CALM[0],
        restored[0],
        0.1,
        1234.0,
        0.0499,
        0.002,
        0.001,
        Race(CALM, TREND, restored),
    )


def _seed_of(seed: int) -> tuple[Outcome, ...]:
    above = [(0.0,), (0.3, 0.25, 0.15), (3.0,) * 5, (0.1, 0.05), (0.0,)]
    return tuple(
        _outcome(m, seed, r, a) for m, r, a in zip(METHODS, [0.0, 1.4 + seed, 4.0, 0.4, 0.0], above)
    )


@pytest.fixture(scope="session")
def seeds() -> list[tuple[Outcome, ...]]:
    """Two seeds of full, SCAR, TOPN, LC Huffman and LC run-length: TOPN is capped at 4."""
    return [_seed_of(0), _seed_of(1)]
