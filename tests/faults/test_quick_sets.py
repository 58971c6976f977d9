"""A quick set of each script of this folder, which run as the long sets of all.py do."""

from __future__ import annotations

import os
import re
import runpy
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="its limits are Linux's")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
SETS = {
    # Calls that are refused, once or from there on, and what the kernel refuses.
    "disks": ("--codes 1 --every 9 --stride 20", [(r"(\d+) calls refused", 25)]),
    # Bits and lengths of records in memory, as files, and of an archive.
    "flips": (
        "--every 11 --files 700 --archive 320 --bits 1",
        [(r"(\d+) noticed, \d+ harmless, 0 UNNOTICED", 40), (r"files: (\d+) damaged, 0 un", 20)],
    ),
    "fuzz": ("--inputs 2000 --seed 1", [(r"(2,000) inputs, 0 findings", 0)]),
    # All files that are soon made; a slow machine is no fault.
    "hostile": ("--small --seconds 120", [(r"(\d+) cases, 0 WRONG", 50)]),
    # Every kind of writer, and a few chains that are interrupted often.
    "interrupts": ("--random 50 --chains 2", [(r"(\d+) interrupted", 60), (r"(0) lost", 0)]),
    # Calls of a save, and a few random times.
    "kills": ("--random 3 --every 5", [(r"(\d+) planned, \1 reached", 16), (r" (\d+) fsync", 5)]),
    "length": ("--records 100 --count", [(r"(0) figures beyond their limit", 0)]),
    "races": ("", [(r"^(10) rounds of 10 cases, 0 differ\n$", 10)]),
    # A few requests of a writer to a store, and a random time.
    "store_kills": (
        "--random 1 --every 37",
        [(r"(\d+) planned, \1 reached", 2), (r" (\d+) steps read", 3), (r" (\d+) remove", 5)],
    ),
    "writers": (
        "--rounds 3 --steps 60",
        [(r"(\d) rounds of two", 3), (r"(\d+) reads beside", 3), (r"(\d) steps of a clock", 9)],
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=LINUX) if n in ("disks", "hostile", "interrupts") else n for n in SETS],
)
def test_a_quick_set_finds_nothing(
    name: str, forks: None, in_fork: Callable[..., tuple[int, str]]
) -> None:
    """It returns 0, and has done as much as is asked for."""
    arguments, least = SETS[name]

    def run() -> None:
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        sys.path.insert(0, str(HERE))
        sys.exit(runpy.run_path(str(HERE / f"{name}.py"))["main"](arguments.split()))

    code, out = in_fork(run)
    assert code == 0, out
    for pattern, number in least:
        match = re.search(pattern, out)
        assert match is not None, (pattern, out)
        assert int(match[1].replace(",", "")) >= number, (pattern, out)
