"""What the trainers' tests share."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codec.rerun.steps import same_bits

Patch = pytest.MonkeyPatch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def few_objects() -> Iterator[Callable[[], None]]:
    """Makes what is there invisible to the collections that a library asks for at each training,
    half a second each."""
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


@pytest.fixture(scope="session")
def differences() -> Callable[..., list[str]]:
    """See `names_of_differences`."""
    return names_of_differences


def names_of_differences(a: Any, b: Any, name: str = "") -> list[str]:
    """Names of what has another type, other keys or their order, or another bit."""
    if type(a) is not type(b):
        return [name]
    if isinstance(a, dict) and list(a) == list(b):
        pairs = [(a[key], b[key], key) for key in a]
    elif isinstance(a, list | tuple) and len(a) == len(b):
        pairs = list(zip(a, b, range(len(a))))
    else:
        same = same_bits(a, b) if hasattr(a, "untyped_storage") else a == b
        return [] if same else [name]
    return [d for x, y, part in pairs for d in names_of_differences(x, y, f"{name}/{part}")]
