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


@pytest.fixture(scope="session")
def differences() -> Callable[..., list[str]]:
    """See `names_of_differences`."""
    return names_of_differences


def names_of_differences(a: Any, b: Any, name: str = "") -> list[str]:
    """Names of the parts with another type, length, keys, order of keys, or value; of tensors,
    with another bit."""
    if type(a) is not type(b):
        return [name]
    if isinstance(a, dict):
        if list(a) != list(b):
            return [name]
        pairs = [(a[key], b[key], key) for key in a]
    elif isinstance(a, list | tuple):
        if len(a) != len(b):
            return [name]
        pairs = list(zip(a, b, range(len(a))))
    else:
        same = same_bits(a, b) if hasattr(a, "untyped_storage") else a == b
        return [] if same else [name]
    return [d for x, y, part in pairs for d in names_of_differences(x, y, f"{name}/{part}")]
