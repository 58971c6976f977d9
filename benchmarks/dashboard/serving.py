"""A Streamlit server of its own for a measurement, and what that server holds."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE = 60_000  # milliseconds for anything awaited


def chromium() -> str:
    """The browser to measure with, unless another is asked for."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser")
    return next(filter(None, map(shutil.which, names)), names[0])


@dataclass(frozen=True)
class Held:
    """What a server's process holds at one moment.

    rss: bytes of memory. threads, files: how many are open. disk: bytes of its temporary files.
    runs: folders of chains, the example's included.
    """

    rss: int
    threads: int
    files: int
    disk: int
    runs: int

    def __str__(self) -> str:
        return (
            f"{self.rss / 1e6:.0f} MB of memory, {self.threads} threads, {self.files} open files, "
            f"{self.disk / 1e6:.1f} MB of temporary disk, {self.runs} runs"
        )


@dataclass(frozen=True)
class Server:
    """url: where it answers. pid: its process. temporary: the folder for all it puts on disk."""

    url: str
    pid: int
    temporary: Path

    def held(self) -> Held:
        """As /proc and its temporary folder tell; needs Linux."""
        process = Path("/proc") / str(self.pid)
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        disk = 0
        for path in self.temporary.rglob("*"):
            with contextlib.suppress(OSError):  # it is gone already
                disk += path.stat().st_size
        return Held(
            int(status["VmRSS"].split()[0]) * 1024,
            int(status["Threads"]),
            len(list((process / "fd").iterdir())),
            disk,
            sum(path.is_dir() for path in self.temporary.glob("lcviz-scratch-runs-*/*")),
        )

    def log(self) -> str:
        """All that it has written so far."""
        return (self.temporary / "log").read_text(errors="replace")


@contextlib.contextmanager
def server(
    script: str, root: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A Streamlit server for one script of a tree, healthy. environment: in addition to ours."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.headless", "true"]
    command += ["--server.port", str(port)]
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=root,
            env=os.environ | {"TMPDIR": folder, "PYTHONPATH": str(root)} | (environment or {}),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            for _ in range(600):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"{url}/_stcore/health", timeout=1)
                    break
                time.sleep(0.1)
            yield Server(url, process.pid, Path(folder))
        finally:
            process.terminate()
            process.wait()
