"""Does Live tell its story with the default settings? Seeds 0 to 4, one line each.

    PYTHONPATH=. python benchmarks/story.py [--seeds 5]

A training with the settings that Live opens with, to its end, then a crash:

    calm      share of the checkpoints after the first 20 whose restored loss is within 5 % of the
              live one, or above it
    bucket    how much the loss rises at the last checkpoint without the largest kept bucket
    rework    iterations until the loss is back where it was, of LC, SCAR and TOPN; the last two
              write as many bytes as LC
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from lcviz.lab.progress import unreported
from lcviz.lab.recovery.kill import Crash, OnDisk
from lcviz.live.step_record import saved_record
from lcviz.run.run import Run
from lcviz.run.snapshot import PLAYING, RunSettings

FIRST = 20  # checkpoints that do not count: weights still change much


def story(seed: int, folder: Path) -> tuple[float, float, dict[str, float]]:
    """The three figures of one seed."""
    run = Run("story", replace(RunSettings(), seed=seed, loss_share=None), folder / f"{seed}.lcc")
    run.play()
    while (snapshot := run.wait(1.0)).status == PLAYING:
        run.watch()  # else it pauses
    later = [c for c in snapshot.checkpoints if c.kind == "delta"][FIRST:]
    losses = [c.losses for c in later if c.losses]
    assert len(losses) == len(later)
    calm = sum(on.restored >= 0.95 * on.live for on in losses) / len(later)

    removed = saved_record(run, snapshot.newest).removed_buckets(run.task.probe_loss)
    largest = max((b for b in removed.buckets if b.kept), key=lambda b: b.exponent)

    run.kill()
    kill = run.snapshot().kills[-1]
    deltas = [c for c in snapshot.checkpoints if c.kind == "delta"]
    share = sum(c.nbytes for c in deltas) / sum(c.full_nbytes for c in deltas)
    crash = Crash(
        run.settings.workload,
        seed,
        kill.iteration,
        run.settings.interval,
        OnDisk("lc", chain=run.path, newest=kill.step),
        share,
        kill.last_fingerprint,
    )
    raced = crash.race(unreported)
    run.close()
    return calm, largest.loss - removed.loss, {o.method.name: o.rework for o in raced.outcomes}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(parser.parse_args().seeds):
            calm, rise, rework = story(seed, Path(folder))
            said = ", ".join(f"{name} {iterations:.1f}" for name, iterations in rework.items())
            print(f"seed {seed}: calm {calm:.3f} · bucket {rise:+.5f} · rework: {said}", flush=True)


if __name__ == "__main__":
    main()
