"""Kernels are compiled beside, unless they are there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codec import child
from codec.scheme import warmup
from codec.scheme.quantize import quantize
from codec.scheme.stream import decode, encode
from codec.scheme.tables import CodeTable


def test_the_encoding_made_by_hand_is_what_the_encoder_makes() -> None:
    """Else a decoder might be compiled for other types, or read nonsense."""
    values = np.zeros(300, np.float32)
    values[[3, 50, 120, 121, 290]] = 0.5, -0.25, 0.5, 1, 0.5
    encoded = encode(quantize(values, 2))
    assert encoded.table is not None
    by_hand = warmup.made_by_hand(CodeTable(encoded.table.lengths, classes=1))
    for made, expected in ((by_hand, encoded), (by_hand.payload, encoded.payload)):
        for name in vars(expected).keys() - {"payload", "table"}:
            np.testing.assert_array_equal(getattr(made, name), getattr(expected, name), name)
    np.testing.assert_array_equal(warmup._LENGTHS, encoded.table.lengths)
    np.testing.assert_array_equal(decode(by_hand).codes, decode(encoded).codes)


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
from codec.scheme import kernels, warmup
from codec.scheme.payload import LOOK

def compiled():
    signatures = (getattr(kernel, "signatures", []) for kernel in vars(kernels).values())
    return sum(len(each) for each in signatures)

everything, warmup.warm_up = warmup.warm_up, lambda: None
warmup.compile_all()
decoders = list(kernels.read.signatures)
values = np.linspace(-1, 1, 300_000, dtype=np.float32)
tracker = codec.Tracker({"w": values * 0}, coder="huffman")
tracker.track.after(tracker.prepare({"w": values}), LOOK)
print(len(decoders), kernels.read.signatures == decoders)
everything()
before = compiled()
for coder in ("runlength", "huffman"):
    for target in ({"tolerance": 0.1}, {"tolerance": 0.001}, {"budget": 0.04}, {"budget": 0.3}):
        tracker = codec.Tracker({"w": values * 0}, coder=coder, **target)
        tracker.commit(tracker.prepare({"w": values}))
        step = tracker.step({"w": values * values})
        codec.decode(step.groups[0].encoded)
with tempfile.TemporaryDirectory() as folder, codec.Checkpointer(folder + "/run.lcc") as saved:
    for step in range(3):  # the third reads the table of the second
        saved.save(step, {"w": values * step})
codec.quantize(values, 2).buckets.energies(values)
print(before > 10, compiled() == before)
"""


def test_kernels_are_warm() -> None:
    """Steps and saves compile nothing after warm_up, with codes of 1 byte nor of 2; nor another
    decoder than the one that is compiled first."""
    assert run(WARM).split() == ["1", "True", "True", "True"]


LOOK = """
import os
from pathlib import Path
from codec.scheme import kernels, warmup
print(warmup.is_compiled())
folder = Path(kernels.read.stats.cache_path)
folder.mkdir(parents=True, exist_ok=True)
(folder / "kernels.read-1.py311.nbi").touch()
print(warmup.is_compiled())
entry = folder / "kernels.read_steps-1.py311.nbi"
entry.touch()
print(warmup.is_compiled())
os.utime(entry, (1, 1))
print(warmup.is_compiled())
"""


def test_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "_LOADED", threading.Event())
    warmup.warm_up()
    monkeypatch.setattr(warmup, "quantize", None)  # any work from here on fails
    warmup.warm_up()


def test_what_counts_as_compiled(tmp_path: Path) -> None:
    """The first kernel and the last one; an older entry is of another version of the kernels."""
    answers = run(LOOK, NUMBA_CACHE_DIR=str(tmp_path)).split()
    assert answers == ["False", "False", "True", "False"]


def test_a_process_starts_only_where_something_is_to_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no process is no error: what is needed is compiled here."""
    commands: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **_: Any) -> None:
            commands.append(command)

        def wait(self) -> int:
            return 0

    ends: list[Any] = []
    monkeypatch.setattr(warmup.subprocess, "Popen", Process)
    monkeypatch.setattr(warmup.atexit, "register", lambda *call: ends.append(call))
    monkeypatch.setattr(warmup, "threads", lambda: 2)
    monkeypatch.setattr(warmup, "is_compiled", lambda: True)
    assert warmup.warm_up_beside() is None
    assert not commands
    monkeypatch.setattr(warmup, "is_compiled", lambda: False)
    process: Any = warmup.warm_up_beside()
    assert type(process) is Process
    assert ends == [(warmup._end, process, os.getpid())]
    warmup._end(process, os.getpid() + 1)  # in a fork: nothing is ended, and nobody waits
    assert commands[0][0] == sys.executable
    assert commands[0][-1].endswith("compile_all()")
    monkeypatch.setattr(warmup, "threads", lambda: 1)
    assert warmup.warm_up_beside() is None
    monkeypatch.setattr(warmup, "threads", lambda: 2)

    def refused(*_: Any, **__: Any) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(warmup.subprocess, "Popen", refused)
    assert warmup.warm_up_beside() is None
    monkeypatch.setattr(warmup.subprocess, "Popen", Process)
    monkeypatch.setattr(warmup, "is_compiled", refused)
    assert warmup.warm_up_beside() is None


def test_the_process_ends_with_this_one(tmp_path: Path) -> None:
    """It does not go on compiling for a server that was stopped."""
    code = "from codec.scheme import warmup; warmup.threads = lambda: 2; "
    code += "print(warmup.warm_up_beside().pid)"
    pid = int(run(code, NUMBA_CACHE_DIR=str(tmp_path)))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
