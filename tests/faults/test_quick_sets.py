"""A quick set of each script of this folder, which run as the long sets of all.py do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
STEPS = 5  # that each process of `kills` saves
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="its limits are Linux's")
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def number(out: str, words: str) -> int:
    """The one before these words."""
    assert f" {words}" in out, out
    return int(out.split(f" {words}")[0].split()[-1])


def disks(out: str) -> bool:
    """Every second call is refused once, and so is what the kernel refuses."""
    return number(out, "calls refused") >= 110 and number(out, "records too large") >= 8


def flips(out: str) -> bool:
    """A bit of every few bytes, and of the zip's directory of most."""
    lengths = out.count("lengths, 0 unnoticed") == 6
    noticed = "UNNOTICED" not in out.replace("0 UNNOTICED", "") and number(out, "noticed,") > 300
    return lengths and noticed and "files: " in out


def fuzz(out: str) -> bool:
    """Some thousand inputs."""
    return "12,000 inputs, 0 findings" in out


def hostile(out: str) -> bool:
    """All files that are soon made."""
    return number(out, "cases, 0 WRONG") >= 70


def kills(out: str) -> bool:
    """Every call to the file system once, and a few random times."""
    planned = number(out, "planned")
    # Each save at least opens, writes and fsyncs a file, and gives it its name, in a new chain and
    # in one that goes on; half of these calls before, and half of them after it.
    enough = planned >= 2 * STEPS * 4 and f"{planned} reached" in out
    calls = ("open", "write", "fsync", "link", "unlink")
    named = all(f" {name}" in out.splitlines()[-2] for name in calls)
    return enough and named and "LOST" not in out and "MISSED" not in out


def length(out: str) -> bool:
    """Some hundred records."""
    return all(words in out for words in ("0 figures beyond their limit", "append: ", "of 200\n"))


def writers(out: str) -> bool:
    """Two writers, and a reader beside some hundred steps, for which the writer waits every 20."""
    done = "10 rounds of two writers" in out and "9 steps of a clock that jumps" in out
    return done and number(out, "reads beside a writer") >= 4


@pytest.mark.parametrize(
    ("name", "arguments", "is_fine"),
    [
        pytest.param("disks", "--codes 1 --every 2 --lasting 5 --stride 20", disks, marks=LINUX),
        ("flips", "--every 5 --files 200 --archive 64 --bits 1", flips),
        pytest.param("fuzz", "--inputs 12000 --seed 1", fuzz, marks=FORK),
        # A slow machine is no fault.
        pytest.param("hostile", "--small --seconds 120", hostile, marks=LINUX),
        pytest.param("kills", "--random 10 --every 2", kills, marks=FORK),
        ("length", "--records 200 --count", length),
        ("races", "", lambda out: out == "10 rounds of 10 cases, 0 differ\n"),
        pytest.param("writers", "--rounds 10 --steps 100", writers, marks=FORK),
    ],
    ids=["disks", "flips", "fuzz", "hostile", "kills", "length", "races", "writers"],
)
def test_a_quick_set_finds_nothing(
    name: str, arguments: str, is_fine: Callable[[str], bool]
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / f"{name}.py"), *arguments.split()],
        env=os.environ | {"PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert is_fine(done.stdout), done.stdout
