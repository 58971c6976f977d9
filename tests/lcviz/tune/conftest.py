"""What the tests of this page share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from lcviz.run.run import Run

SECONDS = 60


@pytest.fixture
def tuning(page_of: Callable[[AppTest], Any]) -> Callable[..., Any]:
    """The Tune page of a session of its own, of a run or the example: tuning(tune_wide="all")."""

    def script() -> None:
        from lcviz.tune import page as tune

        tune.page()

    def open_page(run: Run | None = None, **parameters: str) -> Any:
        at = AppTest.from_function(script, default_timeout=SECONDS)
        if run is not None:
            at.query_params["run"] = run.id
        for name, value in parameters.items():
            at.query_params[name] = value
        return page_of(at).run()

    return open_page
