"""Saves and loads of several processes on this machine, by gloo: three launches for all of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 900.0  # nothing hangs for longer


def launch(ranks: int, script: str, *arguments: str | Path) -> tuple[int, str]:
    """Run a script on several ranks: exit code, and whatever it says."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(ranks), str(HERE / script), *map(str, arguments)]
    threads = {"OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        threads["GLOO_SOCKET_IFNAME"] = "lo"  # whatever the name of this host leads to
    root = str(HERE.parents[1])
    environment = os.environ | threads | {"PYTHONPATH": root}
    with tempfile.TemporaryFile("w+") as said:  # no pipe: ranks that are left would keep it open
        process = subprocess.Popen(
            command, env=environment, cwd=root, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # it ends its ranks, each in a session of its own
            code = process.wait(300)
        said.seek(0)
        return code, said.read()[-10_000:]


def test_every_scenario(tmp_path: Path) -> None:
    """Four ranks: see scenarios.py for what each of them shows."""
    code, out = launch(4, "scenarios.py", tmp_path)
    assert code == 0, out
    done = (tmp_path / "done").read_text().split("\n")
    names = "from 2,from 4,exact,owner,fsdp,full,mixed,contested,overlap,alone,patterns,keeping,"
    assert done == [*names.split(",")[:-1], "budgets", ""]


def test_a_rank_is_killed(tmp_path: Path) -> None:
    """Two ranks, started a second time: see killed.py."""
    code, out = launch(2, "killed.py", tmp_path, "first")
    assert (code != 0, "SIGKILL" in out) == (True, True), out
    whole = [path.parent.name for path in tmp_path.glob("*/.metadata")]
    assert sorted(whole) == ["0", "1", "2"], out
    code, out = launch(2, "killed.py", tmp_path, "again")
    assert code == 0, out
