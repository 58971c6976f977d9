"""An S3 server for tests, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def server() -> Iterator[int]:
    """Yields its port. It has no bucket yet."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = (re.search(r"on http://127\.0\.0\.1:(\d+)", line) for line in process.stderr)
        port = int(next(filter(None, lines))[1])
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        try:
            yield port
        finally:
            process.kill()
            drain.join()


def environment(port: int) -> dict[str, str]:
    """The variables that lead there."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "anna",
        "AWS_SECRET_ACCESS_KEY": "geheim",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
