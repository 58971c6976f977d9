"""What the trainers' tests share."""

from __future__ import annotations

import os
import re
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codec.errors import RewoundWarning

Patch = pytest.MonkeyPatch

ROOT = Path(__file__).resolve().parents[2]


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


@pytest.fixture
def killed() -> Callable[[Callable[[], Any]], None]:
    """Runs something in a fork that is to kill itself with SIGKILL."""

    def run(what: Callable[[], Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads: none has a lock of ours
            pid = os.fork()
        if pid == 0:
            try:
                warnings.simplefilter("ignore", RewoundWarning)
                what()
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL

    return run
