"""A quick set of each script of this folder, which run as the long sets of all.py do."""

from __future__ import annotations

import os
import re
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="its limits are Linux's")
TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="it trains a model")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
# Arguments of a short and of a longer set, and how much each must have done by what it says.
SETS = {
    # Calls that are refused, once or from there on, and what the kernel refuses.
    "disks": (
        "--codes 1 --every 12 --sample 2 --stride 20",
        "--codes 1 --every 9 --stride 20",
        [(r"(\d+) calls refused", 12, 25)],
    ),
    "fuzz": (
        "--inputs 500 --seed 1",
        "--inputs 20000 --seed 1",
        [(r"\n([\d,]+) inputs, 0 findings", 500, 20_000)],
    ),
    # Files that are soon made, then all of these; a slow machine is no fault.
    "hostile": (
        "--small --every 6 --seconds 120",
        "--small --seconds 120",
        [(r"(\d+) cases, 0 WRONG", 8, 50)],
    ),
    # Every kind of writer, and a few chains that are interrupted often.
    "interrupts": (
        "--every 20 --random 1 --chains 0",
        "--random 50 --chains 2",
        [(r"(\d+) interrupted", 2, 60)],
    ),
    # Calls of a save, and a few random times.
    "kills": (
        "--random 1 --every 23",
        "--random 40 --every 5",
        [(r"(\d+) planned, \1 reached", 8, 16), (r" (\d+) fsync", 5, 5)],
    ),
    "length": (
        "--records 50 --count",
        "--records 100 --count",
        [(r"(0) figures beyond their limit", 0, 0)],
    ),
    "races": ("--cases 3", "", [(r"^(\d+) rounds of \1 cases, 0 differ\n$", 3, 10)]),
    # A few requests of a writer to a store, and a random time.
    "store_kills": (
        None,
        "--random 1 --every 37",
        [
            (r"(\d+) planned, \1 reached", 1, 2),
            (r" (\d+) steps read", 1, 3),
            (r" (\d+) remove", 5, 5),
        ],
    ),
    "training_kills": (
        "--kills 20",
        "--kills 200",
        [
            (r"(\d+) killed by SIGKILL", 5, 60),
            (r"(\d+) killed by SIGTERM", 5, 60),
            (r"(\d+) trainings that ended, exact", 1, 5),
            (r"(\d+) trainings that ended, lossy", 1, 5),
        ],
    ),
    "writers": (
        "--rounds 2 --steps 40",
        "--rounds 3 --steps 60",
        [
            (r"(\d) rounds of two", 2, 3),
            (r"(\d+) reads beside", 2, 3),
            (r"(\d) steps of a clock", 9, 9),
        ],
    ),
}


def cases() -> Iterator[Any]:
    """Each set short, if there is a short one, and long."""
    for name, (short, *_) in SETS.items():
        marks = [LINUX] if name in ("disks", "hostile", "interrupts") else []
        marks += [TORCH] if name == "training_kills" else []
        if short is not None:
            yield pytest.param(name, False, id=f"{name}-short", marks=marks)
        yield pytest.param(name, True, id=f"{name}-long", marks=[*marks, pytest.mark.exhaustive])


@pytest.mark.parametrize(("name", "longer"), [*cases()])
def test_a_quick_set_finds_nothing(
    name: str, longer: bool, forks: None, in_fork: Callable[..., tuple[int, str]]
) -> None:
    """It returns 0, and has done as much as is asked for."""
    *arguments, least = SETS[name]

    def run() -> None:
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        sys.path.insert(0, str(HERE))
        sys.exit(runpy.run_path(str(HERE / f"{name}.py"))["main"](arguments[longer].split()))

    code, out = in_fork(run)
    assert code == 0, out
    for pattern, *numbers in least:
        match = re.search(pattern, out)
        assert match is not None, (pattern, out)
        assert int(match[1].replace(",", "")) >= numbers[longer], (pattern, out)
