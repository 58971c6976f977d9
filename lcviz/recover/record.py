"""Write the recorded experiment of the Recover page: python -m lcviz.recover.record [FILE]

It takes about a minute. Losses, distances and bytes come out the same every time, seconds do not.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import torch
from tqdm import tqdm

import codec
from lcviz.lab.experiments.results_file import PACKAGES
from lcviz.lab.machine import machine
from lcviz.lab.recovery.recovery import Protocol
from lcviz.lab.recovery.rework import CrashExperiment

from .recorded import FILE, Recording

EXPERIMENT = CrashExperiment("logistic-regression", 0.05, Protocol())  # the page's own default
SEEDS = 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiment and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=FILE, metavar="FILE")
    path: Path = parser.parse_args(arguments).file
    recording = record(EXPERIMENT, SEEDS)
    path.write_text(recording.dump(), encoding="utf-8")
    print(f"{path}: {path.stat().st_size:,} bytes")


def record(experiment: CrashExperiment, seeds: int) -> Recording:
    """Run an experiment for the seeds from 0 to seeds - 1."""
    torch.set_num_threads(1)  # the same sums every time
    by_seed = []
    for seed in range(seeds):
        with tqdm(desc=f"seed {seed} of {seeds}", leave=False, disable=None) as bar:

            def tell(done: int, total: int, bar: tqdm = bar) -> None:
                bar.total = total
                bar.update(done - bar.n)

            by_seed.append(experiment.fail(seed, tell))
    this_machine = machine(PACKAGES)
    versions = {"lcviz": codec.__version__} | this_machine["versions"]
    made_on = {"cpu": this_machine["cpu"], "versions": versions, "date": date.today().isoformat()}
    return Recording(experiment, tuple(by_seed), made_on)


if __name__ == "__main__":
    main()
