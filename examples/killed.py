"""Kill train.py again and again, and compare with a run that was left alone.

    PYTHONPATH=. python examples/killed.py --seeds 5

A process that trains is killed (SIGKILL) at random moments, and a new one does the same again. With
everything saved exactly, every loss and every final weight has to be the same to the last bit;
the exit code is 1 if not. With lossy weights the table says how far off the run ends up, with
Adam's moments rounded to steps or exact.

Every process begins as a copy of one that has imported torch and done nothing else: starting Python
anew takes seconds each time.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import mean

import torch
import train as script

import codec

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torch._dynamo", "sklearn.datasets", "numba"])
LATEST = 0.02  # seconds from a step to its kill, at most: a few iterations
EXACT = "everything exact"
WAYS = {
    EXACT: ["--exact"],
    "weights 2 bits": ["--bits", "2"],
    "weights 3 bits": ["--bits", "3"],
    "weights 2 bits, optimizer exact": ["--bits", "2", "--exact-optimizer"],
    "weights 3 bits, optimizer exact": ["--bits", "3", "--exact-optimizer"],
}


@dataclass(frozen=True)
class Run:
    """A finished run.

    told: every step and its loss, in the order they were told. weights: in one vector. kills:
    how often it was killed. nbytes: of a delta record, on average. full: of the same state by
    torch.save.
    """

    told: tuple[tuple[int, float], ...]
    weights: torch.Tensor
    accuracy: float
    kills: int
    nbytes: float
    full: int


@dataclass(frozen=True)
class Difference:
    """Of a killed run from the one left alone.

    again: steps done twice. other: losses that are not the same, both where a step was told
    twice. most: the largest difference of a loss. distance: of the final weights, as a share of
    how far training moved them. accuracy: more than that of the other one.
    """

    run: Run
    again: int
    other: int
    most: float
    distance: float
    accuracy: float


def main(arguments: list[str] | None = None) -> int:
    """Print the table; returns 1 if an exact run is not the same to the last bit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--kills", type=int, default=5, help="of each run")
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0 on")
    options = parser.parse_args(arguments)
    found: dict[str, list[Difference]] = {way: [] for way in WAYS}
    accuracy: list[float] = []
    for seed in range(options.seeds):
        rng = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            common = ["--seed", str(seed), "--steps"]
            start = train(Path(folder, "start"), [*common, "0"]).weights
            steps = str(options.steps)
            alone = train(Path(folder, "alone"), [*common, steps, "--exact"])
            accuracy.append(alone.accuracy)
            at = sorted(rng.sample(range(1, options.steps), options.kills))
            moments = [(step, rng.uniform(0, LATEST)) for step in at]
            for number, (way, how) in enumerate(WAYS.items()):
                run = train(Path(folder, str(number)), [*common, steps, *how], moments)
                found[way].append(difference(run, alone, start))
                print(f"seed {seed}, {way}: killed {run.kills} times", file=sys.stderr)
    print(table(found, accuracy))
    same = all(d.other == 0 and d.distance == 0 for d in found[EXACT])
    return 0 if same else 1


def train(folder: Path, arguments: list[str], kills: Sequence[tuple[int, float]] = ()) -> Run:
    """Train to the end. kills: (step, seconds), as for `kill`, one after another."""
    killed = sum(kill(folder, arguments, step, after) for step, after in kills)
    process = started(folder, arguments)
    process.join()
    output = (folder / "output.txt").read_text()
    if process.exitcode:
        raise RuntimeError(f"exit code {process.exitcode}\n{output}")
    weights = torch.load(folder / "weights.pt", weights_only=True)
    nbytes, full = sizes(folder / "run.lcc")
    return Run(
        tuple(told(folder / "losses.csv")),
        torch.cat([tensor.flatten() for tensor in weights.values()]).double(),
        float(output.split()[-1]),
        killed,
        nbytes,
        full,
    )


def kill(folder: Path, arguments: list[str], step: int, after: float) -> bool:
    """Train, and kill it that many seconds after it told of the step.

    Returns False if it was done before that, or failed.
    """
    process = started(folder, arguments)
    while process.is_alive() and newest(folder / "losses.csv") < step:
        time.sleep(0.002)
    time.sleep(after)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def started(folder: Path, arguments: list[str]) -> BaseProcess:
    """A process that trains, its files in that folder."""
    folder.mkdir(exist_ok=True)
    process = PROCESSES.Process(target=trains, args=(folder, arguments))
    process.start()
    return process


def trains(folder: Path, arguments: list[str]) -> None:
    """What the process does; what it prints is added to output.txt."""
    os.chdir(folder)
    with open("output.txt", "a") as file, redirect_stdout(file), redirect_stderr(file):
        try:
            script.main([*arguments, "--weights", "weights.pt"])
        except Exception:
            traceback.print_exc()
            sys.exit(1)


def told(losses: Path) -> list[tuple[int, float]]:
    """Steps and losses of a file, in its order; none if it is not there yet."""
    text = losses.read_text() if losses.exists() else ""
    lines = (line.split(",") for line in text.splitlines(keepends=True) if line.endswith("\n"))
    return [(int(step), float.fromhex(loss)) for step, loss in lines]


def newest(losses: Path) -> int:
    """The last step told, or 0."""
    return max((step for step, _ in told(losses)), default=0)


def sizes(run: Path) -> tuple[float, int]:
    """Mean bytes of the deltas of a run, and of its newest state by torch.save. 0 if it is empty.

    Raises RuntimeError if a record is damaged, or was set aside.
    """
    if not list(run.glob("*.safetensors")):
        return 0.0, 0
    problems = [*codec.verify(run).problems, *(path.name for path in run.glob("*.unusable*"))]
    if problems:
        raise RuntimeError(f"{run}: {problems}")
    file = io.BytesIO()
    torch.save(codec.restore(run), file)
    deltas = [entry.nbytes for entry in codec.Chain(run).entries if entry.kind == "delta"]
    return mean(deltas), file.tell()


def difference(run: Run, alone: Run, start: torch.Tensor) -> Difference:
    """What the kills changed. Raises RuntimeError if a step is missing."""
    last, straight = dict(run.told), dict(alone.told)
    if last.keys() != straight.keys():
        raise RuntimeError(f"not the same steps: {sorted(last.keys() ^ straight.keys())}")
    return Difference(
        run,
        again=len(run.told) - len(last),
        other=sum(loss != straight[step] for step, loss in run.told),
        most=max(abs(last[step] - loss) for step, loss in straight.items()),
        distance=float((run.weights - alone.weights).norm() / (alone.weights - start).norm()),
        accuracy=run.accuracy - alone.accuracy,
    )


def table(found: dict[str, list[Difference]], accuracy: list[float]) -> str:
    """In Markdown; what has a range is the least and the most of all seeds."""
    lines = [
        "| saved | kills | done twice | other losses | largest difference of a loss | distance of "
        "weights | accuracy | bytes a checkpoint | of torch.save's |",
        f"|{'---|' * 9}",
        f"| left alone | 0 | 0 | 0 | 0 | 0 | {mean(accuracy):.4f} | | |",
    ]
    for way, differences in found.items():
        runs = [d.run for d in differences]
        nbytes, full = mean(r.nbytes for r in runs), mean(r.full for r in runs)
        cells = [
            way,
            str(sum(r.kills for r in runs)),
            str(sum(d.again for d in differences)),
            f"{sum(d.other for d in differences)} of {sum(len(r.told) for r in runs)}",
            spread([d.most for d in differences], ".3g"),
            spread([d.distance for d in differences], ".3g"),
            f"{mean(r.accuracy for r in runs):.4f} "
            f"({spread([d.accuracy for d in differences], '+.4f')})",
            f"{nbytes:,.0f}",
            f"{nbytes / full:.1%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def spread(values: list[float], form: str) -> str:
    """The least and the most, in one if they are the same."""
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


if __name__ == "__main__":
    sys.exit(main())
