"""How time and memory grow with the number of parameters, and a cold start.

Each figure comes from its own process, without memory or compiled kernels of an earlier one.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from codec.scheme.coders import RUNLENGTH
from codec.scheme.tracker import Tracker
from codec.scheme.warmup import warm_up
from codec.scheme.workers import set_threads, threads

from . import samples
from .cases import measure, median_ratio
from .tasks import COPY, ENCODE, IN_PLACE, Copier, copies, ours

SIZES = "1M,4M,16M,64M,256M"
DATA = ("lap", 3)  # its share of zeros is the same at every size
ROOT = Path(__file__).parents[2]
START = """
import json, time
begin = time.perf_counter()
import codec
imported = time.perf_counter()
import numpy as np
if {warm_up}:
    codec.warm_up()
else:
    tracker = codec.Tracker({{"w": np.zeros({n}, np.float32)}}, bits=3)
    tracker.step({{"w": np.linspace(-1, 1, {n}, dtype=np.float32)}})
print(json.dumps([imported - begin, time.perf_counter() - imported]))
"""
START_N = 2**20  # parameters of the first step


class ChildError(RuntimeError):
    """A measuring process failed; the message is its output."""


def growth(
    sizes: Sequence[int], rounds: int, report: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """One row per size: n, ns (median nanoseconds per parameter: copy, encode, decode in place),
    to_copy (speed relative to the copy of the same round), and extra (see `memory`).

    Raises ChildError.
    """
    rows = []
    for n in sizes:
        begin = time.perf_counter()
        row = _child("timing", n, *DATA, rounds, threads())
        row["extra"] = memory(n, *DATA, RUNLENGTH.name)
        rows.append(row)
        name, seconds = samples.size_name(n), time.perf_counter() - begin
        report(f"growth: {name} parameters in {seconds:.0f} s")
    return rows


def fit_line(sizes: Sequence[int], ns: Sequence[float]) -> tuple[float, float, float]:
    """Fit a line to times, by relative deviations.

    sizes: parameters. ns: nanoseconds per parameter. Returns the fixed cost (ms), the cost of each
    parameter (ns), and the largest deviation, 0.1 for 10 %.
    """
    n, times = np.array(sizes, float), np.array(sizes, float) * np.array(ns, float)
    rows = np.stack((1 / times, n / times), axis=1)
    solved = np.linalg.lstsq(rows, np.ones(n.size), rcond=None)[0]
    return float(solved[0]) / 1e6, float(solved[1]), float(abs(rows @ solved - 1).max())


def memory(n: int, name: str, bits: int, coder: str) -> float | None:
    """Peak bytes per parameter while encoding, beyond the state and its track.

    Includes what the first step leaves behind: its payload, and memory kept for reuse. None if the
    system does not say (only Linux does). Raises ChildError.
    """
    extra = _child("peak", n, name, bits, coder, threads())["extra"]
    return None if extra is None else float(extra)


def cold_start(report: Callable[[str], None] = lambda _: None) -> list[dict[str, Any]]:
    """Seconds of a new process: the import, then the first step or warm_up alone.

    Rows: cache ("empty" or "warm", that of numba), what ("first step" or "warm_up"), import,
    seconds. Raises ChildError.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as warm:
        for cache, what, kernels in (
            ("empty", "first step", folder),
            ("empty", "warm_up", warm),
            ("warm", "first step", warm),
            ("warm", "warm_up", warm),
        ):
            imported, seconds = start(what, kernels)
            rows.append({"cache": cache, "what": what, "import": imported, "seconds": seconds})
            report(f"cold start: {what}, {cache} cache, in {imported + seconds:.1f} s")
    return rows


def start(what: str, cache: str) -> tuple[float, float]:
    """Seconds to import codec, and of the first step or of warm_up, in a new process.

    cache: folder for numba's compiled kernels. Raises ChildError.
    """
    code = START.format(warm_up=what == "warm_up", n=START_N)
    imported, seconds = json.loads(_python(code, cache))
    return float(imported), float(seconds)


def timing(n: int, name: str, bits: int, rounds: int, n_threads: int) -> dict[str, Any]:
    """A row of `growth`, measured in this process."""
    set_threads(n_threads)
    warm_up()
    sample = samples.make(name, n)
    out = np.zeros(sample.n, np.float32)
    with Copier() as copy:
        tools = (copies(sample, out, copy), ours(sample, bits, RUNLENGTH.name, out, copy))
        tasks = [
            task
            for part in tools
            for task in part.tasks
            if task.tool in (COPY, RUNLENGTH.name) and task.action in ("copy", ENCODE, IN_PLACE)
        ]
        seconds = dict(zip((task.action for task in tasks), measure(tasks, rounds)))
    return {
        "n": sample.n,
        "ns": {action: 1e9 * statistics.median(s) / sample.n for action, s in seconds.items()},
        "to_copy": {action: median_ratio(seconds["copy"], s) for action, s in seconds.items()},
    }


def peak(n: int, name: str, bits: int, coder: str, n_threads: int) -> dict[str, Any]:
    """Extra memory of the first step, measured in this process."""
    set_threads(n_threads)
    warm_up()
    sample = samples.make(name, n)
    tracker = Tracker(sample.tensors(sample.track), bits, coder=coder)
    state = sample.tensors(sample.state)
    with suppress(OSError, AttributeError):  # freed memory must not count as memory in use
        ctypes.CDLL(None).malloc_trim(0)
    if not forget_peak():
        return {"extra": None}
    before = resident("VmRSS")
    step = tracker.step(state)
    extra = (resident("VmHWM") - before) / sample.n
    assert step.groups
    return {"extra": extra}


def child(what: str, arguments: Sequence[Any]) -> None:
    """Print the answer of `timing` or `peak`; `_child` runs this in a new process."""
    functions: dict[str, Callable[..., dict[str, Any]]] = {"timing": timing, "peak": peak}
    print(json.dumps(functions[what](*arguments)))


def _child(what: str, *arguments: Any) -> dict[str, Any]:
    code = f"from {__name__} import child; child({what!r}, {arguments!r})"
    answer = json.loads(_python(code, None))
    assert isinstance(answer, dict)
    return answer


def _python(code: str, cache: str | None) -> str:
    """The output of a new Python. cache: folder of numba's kernels, None for the usual one."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise ChildError(done.stderr.strip() or f"a process ended with {done.returncode}")
    return done.stdout


def forget_peak() -> bool:
    """Restart the count of this process's peak memory; False where the system cannot do that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def resident(key: str) -> int:
    """A figure of this process's memory in bytes: VmRSS (in use) or VmHWM (the peak)."""
    line = re.search(rf"^{key}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert line, key
    return int(line[1]) * 1024
