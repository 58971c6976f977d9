"""Saves and loads of several processes on this machine, by gloo: three launches for all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = 170.0  # nothing hangs for longer; it takes a tenth of that on two idle cores


def launch(ranks: int, script: str, *arguments: str | Path) -> tuple[int, str]:
    """Run a script on several ranks: exit code, and whatever it says."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(HERE / script), *map(str, arguments)]
    threads = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    root = str(HERE.parents[1])
    process = subprocess.Popen(
        command,
        env=os.environ | threads | {"PYTHONPATH": root},
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        pytest.fail(f"{script} hangs: {out[-5000:]}")
    return process.returncode, out[-10_000:]


def test_every_scenario(tmp_path: Path) -> None:
    """Four ranks: see scenarios.py for what each of them shows."""
    code, out = launch(4, "scenarios.py", tmp_path)
    assert code == 0, out
    done = (tmp_path / "done").read_text().split("\n")
    assert done == ["from 2", "from 4", "owner", "fsdp", "full", "overlap", "alone", ""]


def test_a_rank_is_killed(tmp_path: Path) -> None:
    """Two ranks, started a second time: see killed.py."""
    code, out = launch(2, "killed.py", tmp_path, "first")
    assert (code != 0, "SIGKILL" in out) == (True, True), out
    whole = [path.parent.name for path in tmp_path.glob("*/.metadata")]
    assert sorted(whole) == ["0", "1", "2"], out
    code, out = launch(2, "killed.py", tmp_path, "again")
    assert code == 0, out
