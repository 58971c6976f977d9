"""The quick set: every call to the file system, and a few random times. See kills.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import codec


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_nothing_that_was_told_is_lost() -> None:
    root = Path(codec.__file__).parents[1]
    script = Path(__file__).with_name("kills.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), "--random", "20"],
        env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "LOST" not in done.stdout
    killed = int(done.stdout.split(" killed")[0].split()[-1])
    assert killed >= 110, done.stdout  # that many calls there are
