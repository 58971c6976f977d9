"""What the trainers' tests share."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Patch = pytest.MonkeyPatch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def few_objects() -> Iterator[Callable[[], None]]:
    """A function that hides all present objects from the garbage collector. A library collects
    garbage at each training, which took half a second."""
    yield gc.freeze
    gc.unfreeze()


@pytest.fixture(scope="session")
def snippets() -> Callable[[str], list[str]]:
    """The snippets of a trainer's how-to page, by its module."""

    def of(module: str) -> list[str]:
        text = (ROOT / "docs" / "how-to" / f"{module}.md").read_text(encoding="utf-8")
        return re.findall(r"```python\n(.*?)```", text, re.DOTALL)

    return of


@pytest.fixture
def examples(monkeypatch: Patch) -> None:
    """The examples can be imported, as where they are run."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
