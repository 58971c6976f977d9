"""The other end of unpickle: a process that reads .pt files, started when the first one comes."""

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
AT_ONCE = 2  # files of this server that are read at a time: each may take several times its size
_TURNS = threading.BoundedSemaphore(AT_ONCE)


class Reader:
    """A process of its own that turns .pt files into .safetensors, one after another."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def convert(self, source: Path, target: Path, look: Callable[[], None]) -> dict[str, Any]:
        """What the process answers, see unpickle; an "error" too if it has to be ended.

        look() is called now and then, also while files of other visitors have their turn; if it
        raises, so does this, and the process is ended.
        """
        while not _TURNS.acquire(timeout=LOOK_SECONDS):
            look()
        try:
            return self._convert(source, target, look)
        finally:
            _TURNS.release()

    def _convert(self, source: Path, target: Path, look: Callable[[], None]) -> dict[str, Any]:
        """As `convert`, without waiting for a turn."""
        try:
            if self._process is None:
                self._start()
                if self._answer(START_SECONDS, look) is None:
                    self.close()
                    return {"error": "cannot be read: the process that reads it does not start"}
            assert self._process is not None
            assert self._process.stdin is not None
            asked = {"source": str(source), "target": str(target)}
            self._process.stdin.write((json.dumps(asked) + "\n").encode())
            self._process.stdin.flush()
            seconds = SECONDS + source.stat().st_size * SECONDS_A_BYTE
            answer = self._answer(seconds, look)
        except BrokenPipeError:
            answer = None
        except BaseException:
            self.close()
            raise
        if answer is None:
            self.close()
            return {"error": "takes much more time or memory than its size is worth"}
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> None:
        script = Path(__file__).with_name("unpickle.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _answer(self, seconds: float, look: Callable[[], None]) -> dict[str, Any] | None:
        """A line of the process; None if it has ended, or said nothing for so long."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor, line = self._process.stdout.fileno(), b""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            look()
            if select.select([descriptor], [], [], LOOK_SECONDS)[0]:
                read = os.read(descriptor, 65536)
                if not read:
                    return None
                line += read
                if line.endswith(b"\n"):
                    answer: dict[str, Any] = json.loads(line)
                    return answer
        return None
