"""Run every long set of fault tests and print a table of what they found.

    PYTHONPATH=. python tests/faults/all.py

It takes about an hour of one processor; the sets run one after another. Names of sets
as arguments run these alone.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

SETS = {
    "kills": ["--random", "2000"],
    "store_kills": ["--random", "150"],
    "training_kills": ["--kills", "2000"],
    "disks": [],
    "interrupts": ["--random", "1000", "--chains", "200"],
    "hostile": [],
    "fuzz": ["--inputs", "1000000"],
    "writers": [],
    "length": ["--restore"],
    "races": ["--minutes", "3", "--load", "2", "--fresh"],
}


def main() -> int:
    """Returns the number of sets that found something."""
    failed, table = 0, []
    for name in sys.argv[1:] or SETS:
        arguments = SETS[name]
        script = Path(__file__).with_name(f"{name}.py")
        command = [sys.executable, "-W", "ignore", str(script), *arguments]
        started = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - started
        failed += done.returncode != 0
        result = "found nothing" if done.returncode == 0 else "FOUND SOMETHING"
        print(f"== {name} {' '.join(arguments)}\n{done.stdout}{done.stderr}", flush=True)
        last = (done.stdout.strip().splitlines() or ["nothing was printed"])[-1]
        table.append(f"{name:11} {seconds:6.0f} s  {result:15}  {last}")
    print("\n".join(table))
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
