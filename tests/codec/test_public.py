"""The public surface; the direction of imports is checked by the contracts in pyproject.toml."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import codec
import codec.inspect

ROOT = Path(codec.__file__).parents[1]
OPTIONAL = {"torch", "fsspec", "transformers", "lightning", "accelerate"}
SLOW = {"numba", "filelock", "urllib.request"}  # to import, and needed by some calls only
FIRST_CALL = """
import sys, threading
import numpy as np
import codec

assert "numba" not in sys.modules
values = np.linspace(-1, 1, 1000, dtype=np.float32)
begin, counts = threading.Barrier(4), []
def work():
    begin.wait()
    counts.append(codec.quantize(values, 2).counts.tolist())
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
assert len(counts) == 4 and counts.count(counts[0]) == 4, counts
"""


def test_import_loads_nothing_that_is_optional() -> None:
    code = (
        "import sys, codec, codec.inspect, codec.cli.main, codec.trainers; "
        f"sys.exit(bool({OPTIONAL | SLOW!r} & {{*sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_threads_that_call_the_first_kernel_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_CALL], cwd=ROOT, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def names_in(module: ModuleType) -> list[str]:
    """The public names of a module, which it lists or has imported."""
    return getattr(module, "__all__", [name for name in vars(module) if name[0] != "_"])


@pytest.mark.parametrize("name", ["codec", "codec.inspect", "codec.dcp", "codec.rerun"])
def test_public_names_are_documented(name: str) -> None:
    module = pytest.importorskip(name)
    names = names_in(module)
    assert sorted(set(names)) == sorted(names)
    for name in names:
        value = getattr(module, name)
        if not inspect.isclass(value) and not inspect.isroutine(value):
            continue
        assert inspect.getdoc(value), name
        if inspect.isclass(value):
            its = [m for k, m in vars(value).items() if inspect.isfunction(m) and k[0] != "_"]
            assert all(inspect.getdoc(member) for member in its), name


def test_each_name_of_the_facade_has_a_sentence() -> None:
    assert codec.inspect.__doc__
    listed = re.findall(r"^    (\w+) +\S", codec.inspect.__doc__, re.MULTILINE)
    assert sorted(listed) == sorted(names_in(codec.inspect))
