"""What saving costs a training."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.markdown import table
from codec.inspect import STAGES

from .base import (
    TITLES,
    Experiment,
    Options,
    Progress,
    Trial,
    argument,
    bits,
    grouped,
    whole,
    workload_arguments,
    workload_of,
)
from .overhead import NONE, SYNCHRONOUS, round_of
from .results_file import Row


class Overhead(Experiment):
    """What saving costs a training, and when it pays."""

    name = "overhead"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        workload_arguments(parser)
        argument(parser, "--iterations", whole(1), 200, "N", "of each training")
        argument(parser, "--bits", bits, 2, "X", "1 to 8, or all")
        argument(parser, "--fail-at", whole(1), 7, "T", "iteration of the failure below the table")

    def rows(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        model, seed = trial
        settings = {"bits": options.bits}
        costs = round_of(workload_of(options, model), seed, options.iterations, settings, progress)
        rows = [asdict(cost) for cost in costs]
        for row in rows:
            stages = row.pop("stages")
            row |= {f"{stage}_seconds": stages.get(stage, 0.0) for stage in STAGES}
        return rows

    def tables(self, options: Options, rows: Sequence[Row]) -> str:
        head = [
            "saved every iteration",
            "",
            "ms an iteration",
            "above it",
            "ms in save",
            *(f"{stage}, ms" for stage in STAGES),
            "bytes",
            "saved",
        ]
        lines, sums = [], []
        medians: dict[tuple[str, str], dict[str, float]] = {}
        for (model, mode), mode_rows in grouped(rows, "model", "mode"):
            keys = ["iteration", "above", "call", "nbytes", "saved"]
            keys += [f"{stage}_seconds" for stage in STAGES]
            m = {key: statistics.median(r[key] for r in mode_rows) for key in keys}
            medians[model, mode] = m
            cells = ["–"] * (3 + len(STAGES))
            if mode != NONE:
                seconds = [m["call"], *(m[f"{stage}_seconds"] for stage in STAGES)]
                cells = [f"{1e3 * s:.2f}" for s in seconds]
                cells += [f"{m['nbytes']:,.0f}", f"{m['saved']:.0%}"]
            iteration = f"{1e3 * m['iteration']:.2f}"
            lines.append([TITLES[model], mode, iteration, f"{m['above']:+.1%}", *cells])
        last = options.fail_at
        for model in dict.fromkeys(r["model"] for r in rows):
            plain, slow = (medians[model, mode]["iteration"] for mode in (NONE, SYNCHRONOUS))
            gained, spent = ((last - 1) * 1e3 * s for s in (plain, slow - plain))
            sums.append(
                f"- {TITLES[model]}: if nothing was saved, a failure in iteration {last} costs the "
                f"{last - 1} before it, {gained:.1f} ms of work; saving after each of them in the "
                f"loop takes {spent:.1f} ms.\n"
            )
        return table(head, lines) + "\n" + "".join(sums)
