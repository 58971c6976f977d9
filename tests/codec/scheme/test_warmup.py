"""Kernels are loaded, or compiled, while others work; nobody has to wait for them."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import codec
from codec import child
from codec.scheme import twins, warmup
from codec.scheme.kernels import machine
from codec.scheme.warmup import COMPILING_SECONDS, LOADING_SECONDS, NS_A_BYTE, NS_A_VALUE

Patch = pytest.MonkeyPatch

pytest.importorskip("numba")


def run(code: str, **environment: str) -> str:
    """What a new process prints."""
    done = subprocess.run(
        child.command(code), env=os.environ | environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WARM = """
import tempfile
import numpy as np
import codec
from codec.scheme import kernels
from codec.scheme.kernels import machine

def compiled():
    modules = [getattr(kernels, file) for file in machine.FILES]
    made = {id(f): f for module in modules for f in vars(module).values()}
    return sum(len(getattr(f, "signatures", [])) for f in made.values())

codec.warm_up()
before = compiled()
values = np.linspace(-1, 1, 300_000, dtype=np.float32)
for coder in ("runlength", "huffman"):
    for target in ({"tolerance": 0.1}, {"tolerance": 0.001}, {"budget": 0.04}, {"budget": 0.3}):
        tracker = codec.Tracker({"w": values * 0}, coder=coder, **target)
        tracker.commit(tracker.prepare({"w": values}))
        step = tracker.step({"w": values * values})
        codec.decode(step.groups[0].encoded)
with tempfile.TemporaryDirectory() as folder, codec.Checkpointer(folder + "/run.lcc") as saved:
    for step in range(3):  # the third reads the table of the second
        exact = {"all": np.arange(5000) + step, "few": np.arange(5000) // (5000 - step)}
        saved.save(step, {"w": values * step, **exact})
print(before > 10, compiled() == before)
"""


def test_kernels_are_warm() -> None:
    """Steps and saves compile nothing after warm_up, with codes of 1 byte nor of 2."""
    assert run(WARM).split() == ["True", "True"]


@pytest.mark.parametrize("file", ["kernels/machine.py", "limits.py"])
def test_the_stamp_is_of_every_file(file: str, tmp_path: Path, monkeypatch: Patch) -> None:
    scheme = tmp_path / "scheme"
    shutil.copytree(machine.FOLDER.parent, scheme, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(machine, "FOLDER", scheme / "kernels")
    stamp = machine.stamp.__wrapped__
    assert stamp() == machine.stamp()
    with (scheme / file).open("a") as opened:
        opened.write("# edited")
    assert stamp() != machine.stamp()


@pytest.mark.exhaustive
def test_an_edited_callee_is_noticed(tmp_path: Path) -> None:
    """numba itself looks at the file of a function alone; the stamp is that of the folder."""
    folder = tmp_path / "codec" / "scheme"
    source = Path(codec.__file__).parent
    for path in source.rglob("*.py"):
        target = tmp_path / "codec" / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    code = "import numpy as np; from codec.scheme.twins import PAIRS; import codec.scheme.stream; "
    code += "print(codec.__file__, PAIRS['huffman.log2'].compiled(np.full(1, 8.0))[0])"

    def logarithm() -> str:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        place, number = done.stdout.split()
        assert Path(place).parent == tmp_path / "codec"
        return number

    assert logarithm() == "3.0"
    assert list((folder / "kernels" / "__pycache__").glob("*.nbi"))
    edited = folder / "kernels" / "instructions.py"
    text = edited.read_text()
    assert text.count("return exponent + 2 /") == 1
    edited.write_text(text.replace("return exponent + 2 /", "return 40 + exponent + 2 /"))
    assert logarithm() == "43.0"


@pytest.fixture
def fresh(monkeypatch: Patch) -> None:
    """As in a process that has no kernels yet."""
    monkeypatch.setattr(twins._choice, "is_loaded", False)
    monkeypatch.setattr(warmup, "_beside", warmup._Beside())
    monkeypatch.setattr(warmup.atexit, "register", lambda end: None)


def load_beside_and_wait() -> None:
    warmup.load_beside()
    assert warmup._beside.thread is not None
    warmup._beside.thread.join()


def test_once_a_process(monkeypatch: Patch) -> None:
    codec.warm_up()
    monkeypatch.setattr(warmup, "_call_all", None)  # any work from here on fails
    codec.warm_up()
    warmup.load_beside()
    assert twins.takes_compiled()


@pytest.mark.parametrize("compiled", [False, True])
def test_kernels_are_loaded_beside(compiled: bool, fresh: None, monkeypatch: Patch) -> None:
    """What numba's cache lacks is compiled by another process first."""
    commands: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **_: Any) -> None:
            commands.append(command)

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(warmup.subprocess, "Popen", Process)
    monkeypatch.setattr(warmup, "is_compiled", lambda: compiled)
    assert not twins.takes_compiled()
    warmup.load_beside()
    load_beside_and_wait()  # once is enough
    assert twins.takes_compiled()
    assert [command[0] for command in commands] == [] if compiled else [sys.executable]


def test_a_process_that_starts_while_this_one_ends(fresh: None, monkeypatch: Patch) -> None:
    """Nobody else would end it."""
    ended: list[bool] = []

    class Process:
        def __init__(self, *_: Any, **__: Any) -> None:
            warmup._beside.ends = True

        def terminate(self) -> None:
            ended.append(True)

    monkeypatch.setattr(warmup.subprocess, "Popen", Process)
    monkeypatch.setattr(warmup, "is_compiled", lambda: False)
    load_beside_and_wait()
    assert ended == [True]
    assert not twins.takes_compiled()


def test_a_fork_made_while_kernels_are_loaded(
    fresh: None, in_fork: Callable[[Callable[[], Any]], tuple[int, str]]
) -> None:
    """It waits for no lock of the parent's, and works in numpy. A later one loads them."""

    def load() -> None:
        codec.warm_up()
        print(twins.takes_compiled())

    with warmup._loading.lock:
        assert in_fork(load) == (0, "False\n")
    assert in_fork(load) == (0, "True\n")


def test_without_numba_nothing_is_loaded(fresh: None, monkeypatch: Patch) -> None:
    monkeypatch.setattr(warmup, "can_load", lambda: False)
    codec.warm_up()
    warmup.load_beside()
    warmup.wait_for(10**12)
    assert not twins.takes_compiled()
    assert warmup._beside.thread is None
    assert not warmup.is_too_slow(10**12)  # no better way will come


def test_nobody_compiles_beside_a_compiler(fresh: None, monkeypatch: Patch) -> None:
    """Two take longer than one."""
    order: list[str] = []
    compiled = threading.Event()
    beside = threading.Thread(target=lambda: compiled.wait(60) and order.append("beside"))
    monkeypatch.setattr(warmup._beside, "pid", os.getpid())
    monkeypatch.setattr(warmup._beside, "thread", beside)
    monkeypatch.setattr(warmup, "_call_all", lambda: order.append("here"))
    beside.start()
    here = threading.Thread(target=codec.warm_up)
    here.start()
    here.join(0.2)
    assert (order, warmup.is_loading()) == ([], True)
    compiled.set()
    here.join()
    assert order == ["beside", "here"]


def test_no_process_is_no_error(
    fresh: None, monkeypatch: Patch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(warmup.subprocess, "Popen", refused)
    monkeypatch.setattr(warmup, "is_compiled", lambda: False)
    with caplog.at_level(logging.INFO):
        load_beside_and_wait()
    assert "no more processes" in caplog.text
    assert not twins.takes_compiled()


def test_what_is_large_waits_and_what_is_small_does_not(fresh: None, monkeypatch: Patch) -> None:
    loaded: list[bool] = []
    monkeypatch.setattr(warmup, "warm_up", lambda: loaded.append(True))
    for compiled, seconds in ((True, LOADING_SECONDS), (False, COMPILING_SECONDS)):
        monkeypatch.setattr(warmup, "is_compiled", lambda compiled=compiled: compiled)
        nbytes = int(seconds * 1e9 / NS_A_BYTE)
        warmup.wait_for(nbytes - 10)
        assert not loaded
        warmup.wait_for(nbytes + 10)
        assert loaded.pop()
    values = int(warmup.PLAIN_SECONDS * 1e9 / NS_A_VALUE)
    assert [warmup.is_too_slow(n) for n in (values - 10, values + 10)] == [False, True]
    monkeypatch.setattr(twins._choice, "is_loaded", True)
    assert not warmup.is_too_slow(values + 10)


def test_nothing_goes_on_behind_the_end(tmp_path: Path) -> None:
    """A process that ends at once leaves no compiler behind."""
    code = "import time; from codec.scheme import warmup; warmup.load_beside()\n"
    code += "while warmup._beside.process is None: time.sleep(0.01)\n"
    pid = int(run(f"{code}print(warmup._beside.process.pid)", NUMBA_CACHE_DIR=str(tmp_path)))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
