"""What a restart costs without the optimizer's exact moments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from codec.bench.markdown import table
from demo_models import MODELS
from lcviz.lab.intervals import mean
from lcviz.lab.recovery.resume import EXACT, WAYS, Stop, restarts

from .base import (
    TITLES,
    Experiment,
    Tell,
    about,
    argument,
    grouped,
    whole,
    workload_arguments,
    workload_of,
)
from .results_file import Row

TEXT = "byte-transformer"


class Resume(Experiment):
    """A training with Adam goes on from checkpoints that hold its moments in several ways."""

    name = "resume"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        workload_arguments(parser, seeds=3, models=[TEXT])
        argument(parser, "--at", whole(2), 300, "N", "the last iteration before the stop")
        argument(parser, "--saves", whole(1), 60, "N", "checkpoints before it, after a base")
        argument(parser, "--interval", whole(1), 1, "K", "iterations between checkpoints")
        argument(parser, "--horizon", whole(1), 100, "N", "iterations after the restart")

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        model, seed = trial
        lr, _ = MODELS[model].optimizers["adam"]
        trained = replace(workload_of(options, model), optimizer="adam", lr=lr)
        stop = Stop(options.at, options.interval, options.saves, options.horizon)
        found = restarts(trained, seed, stop, progress=tell)
        (exact,) = (r for r in found if r.way.name == EXACT)
        rows = []
        for r in found:
            excess = [loss - other for loss, other in zip(r.losses, exact.losses)]
            rows.append(
                about(options, model, seed)
                | {
                    "way": r.way.name,
                    "share": r.share,
                    "extra": mean(excess).value,
                    "peak": max(excess),
                    "loss": r.losses[-1],
                }
            )
        return rows

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        head = ["moments", "record, of float32", "extra loss, mnat", "highest, mnat", "loss at end"]
        parts = []
        for (model,), own in grouped(rows, "model"):
            lines = []
            for way in (w.name for w in WAYS):
                same = [r for r in own if r["way"] == way]
                extra = mean([1000 * r["extra"] for r in same])
                peak = mean([1000 * r["peak"] for r in same]).value
                lines.append(
                    [
                        way,
                        f"{mean([r['share'] for r in same]).value:.2%}",
                        f"{extra.value:+.2f} ± {extra.half:.2f}"
                        if len(same) > 1
                        else f"{extra.value:+.2f}",
                        f"{peak:+.1f}",
                        f"{mean([r['loss'] for r in same]).value:.4f}",
                    ]
                )
            parts.append(f"{TITLES[model]}\n\n{table(head, lines)}")
        return "\n".join(parts)
