"""What holds for every panel, whatever it shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lcviz.figures.panel import Panel, inked


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
