"""How the quick sets are run: each by its own script, as the long ones are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def quick() -> Callable[..., str]:
    """Runs a script of this folder with arguments, asserts that it found nothing; its output."""

    def run(name: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(HERE / f"{name}.py"), *arguments],
            env=os.environ | {"PYTHONPATH": str(HERE.parents[1])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
