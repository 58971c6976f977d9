"""Reads .pt files in a process of its own, see unpickle; it starts with the first file."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

START_SECONDS = 120.0  # to import torch on a busy machine
SECONDS = 20.0  # for a file, and more for a large one:
SECONDS_A_BYTE = 1 / 10e6
LOOK_SECONDS = 0.2
AT_ONCE = 2  # files that this server reads at a time: each may take several times its size
# -I isolates the process from the user's paths and variables, so it needs this project's path.
_PROGRAM = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r}); "
    "from lcviz.server.unpickle import main; main()"
)
_TURNS = threading.BoundedSemaphore(AT_ONCE)


class Reader:
    """A process that turns .pt files into .safetensors, one after another."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def convert(self, source: Path, target: Path, look: Callable[[], None]) -> dict[str, Any]:
        """Convert a file; returns the answer of the process, see unpickle.

        The answer is an "error" also if the process had to be ended.

        Args:
            source: The .pt file.
            target: The .safetensors file to write.
            look: Called every LOOK_SECONDS, also while other visitors' files are read first. What
                it raises ends the process, and is raised here.
        """
        while not _TURNS.acquire(timeout=LOOK_SECONDS):
            look()
        try:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-c", _PROGRAM],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
                if self._answer(START_SECONDS, look) is None:
                    self.close()
                    return {"error": "cannot be read: the process that reads it does not start"}
            assert self._process.stdin is not None
            question = {"source": str(source), "target": str(target)}
            self._process.stdin.write((json.dumps(question) + "\n").encode())
            self._process.stdin.flush()
            answer = self._answer(SECONDS + source.stat().st_size * SECONDS_A_BYTE, look)
        except BrokenPipeError:
            answer = None
        except BaseException:
            self.close()
            raise
        finally:
            _TURNS.release()
        if answer is None:
            self.close()
            return {"error": "takes far more time or memory than a file of its size needs"}
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _answer(self, seconds: float, look: Callable[[], None]) -> dict[str, Any] | None:
        """The next line of the process; None if it has ended, or writes none within `seconds`."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor, line = self._process.stdout.fileno(), b""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            look()
            if select.select([descriptor], [], [], LOOK_SECONDS)[0]:
                piece = os.read(descriptor, 65536)
                if not piece:
                    return None
                line += piece
                if line.endswith(b"\n"):
                    answer: dict[str, Any] = json.loads(line)
                    return answer
        return None
