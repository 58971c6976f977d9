"""What the tests of this page share."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from lcviz.inspect import watch as watching
from tests.lcviz.common import SECONDS, Make, MakePath, save_steps

APP = Path(__file__).resolve().parents[3] / "app.py"
FOLDED = ("inspect-else", "inspect-records", "inspect-all-tensors")  # boxes


@pytest.fixture(scope="session")
def save() -> MakePath:
    """Save steps first to last of a chain, see `save_steps`."""
    return save_steps


@pytest.fixture
def inspecting(visit: Make) -> Make:
    """The Inspect page with these URL parameters. unfold: whether its boxes are open."""
    return lambda *, unfold=True, **parameters: visit(
        "inspect", held=dict.fromkeys(FOLDED if unfold else (), True), **parameters
    )


@pytest.fixture
def started(page_of: Callable[[AppTest], Any], monkeypatch: pytest.MonkeyPatch) -> Make:
    """The dashboard at the root, of a server that was started with these arguments."""

    def open_page(*arguments: object, **parameters: object) -> Any:
        monkeypatch.setattr(watching, "FRESH_SECONDS", 0.0)  # every run looks anew
        monkeypatch.setattr(sys, "argv", [str(APP), *map(str, arguments)])
        at = AppTest.from_file(str(APP), default_timeout=SECONDS)
        for name, value in parameters.items():
            at.query_params[name] = str(value)
        return page_of(at).run()

    return open_page


@pytest.fixture(scope="session")
def upload() -> Callable[[Any, str, bytes], Any]:
    """Upload an archive: upload(page, name, data)."""

    def give(page: Any, name: str, data: bytes) -> Any:
        turn = page.at.session_state["own-uploaded"].turn
        given = [(name, data, "application/zip")]
        page.at.file_uploader(key=f"own_upload_{turn}").set_value(given)
        return page.run()

    return give
