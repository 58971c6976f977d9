"""What a restart costs without the optimizer's exact moments."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from codec import Coding
from codec.inspect import MEASURE_OF
from demo_models import MODELS
from demo_models.model import TEXT_DATA
from lcviz.lab.intervals import mean
from lcviz.lab.markdown import table
from lcviz.lab.progress import as_report
from lcviz.lab.recovery.methods import BLOCKS, EXACT, NONE, Method, lc
from lcviz.lab.recovery.recovery import Outcome, Protocol, fail_and_recover
from lcviz.text import step_text

from .base import (
    TITLES,
    Experiment,
    Options,
    Progress,
    Trial,
    argument,
    average,
    grouped,
    keys_of,
    listed,
    number,
    whole,
    workload_arguments,
    workload_of,
)
from .results_file import Row

M, V = MEASURE_OF["exp_avg"], MEASURE_OF["exp_avg_sq"]


def _times(factor: float) -> str:
    """The policy with this multiple of the default steps."""
    targets = {"exp_avg": M, "exp_avg_sq": V}
    return " ".join(f"*/{k}={t.name}={factor * (t.number or 0)}?" for k, t in targets.items())


EXACTLY = "exact moments"  # the other ways are compared with it
WAYS = {
    "whole state, exact": Method("full"),
    EXACTLY: lc(Coding(), EXACT),
    "moments in half the steps": lc(Coding(), _times(0.5)),
    "moments in steps": lc(Coding()),
    "moments in double steps": lc(Coding(), _times(2)),
    "moments in 8-bit blocks": lc(Coding(), BLOCKS),
    "new optimizer": lc(Coding(), NONE),
}
OF_A_STATE = 3  # float32 values a parameter: the weight and two moments
TEXTS = [name for name, card in MODELS.items() if card.data == TEXT_DATA]


class Resume(Experiment):
    """What a stop costs a training with AdamW, for each way to save its moments."""

    name = "resume"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        workload_arguments(parser, seeds=3, models=TEXTS)
        at, interval = "last iterations before the stop", "iterations between checkpoints"
        argument(parser, "--at", listed(whole(2)), [300], "T,…", at)
        argument(parser, "--interval", listed(whole(1)), [1, 10], "K,…", interval)
        beta = number(lambda v: 0 <= v < 1, "beta2 is at least 0 and below 1")
        argument(parser, "--beta2", listed(beta), [0.95, 0.999], "B,…", "of AdamW")
        most = "checkpoints before the stop, at most; the first third of the training has none"
        argument(parser, "--saves", whole(1), 60, "N", most)
        argument(parser, "--horizon", whole(1), 100, "N", "iterations after the stop")

    def trials(self, options: Options) -> list[list[Any]]:
        keys = keys_of(options)
        return [
            [*key, *setting]
            for key, *setting in product(keys, options.beta2, options.at, options.interval)
        ]

    def rows(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        model, seed, beta2, at, interval = trial
        card = MODELS[model]
        trained = replace(
            workload_of(options, model),
            optimizer="adamw",
            lr=card.optimizers["adam"][0],
            batch_size=card.batch_size,
            beta2=beta2,
        )
        saves = min(options.saves, 2 * at // (3 * interval))
        first = at - saves * interval
        stop = Protocol(at, interval, options.horizon, first=first, whole=True)
        outcomes = fail_and_recover(trained, seed, list(WAYS.values()), stop, as_report(progress))
        by_way = dict(zip(WAYS, outcomes, strict=True))
        exact = mean(_above(by_way[EXACTLY])).value
        columns = {"beta2": beta2, "at": at, "interval": interval}
        return [
            columns
            | {
                "way": way,
                "share": outcome.share / OF_A_STATE,
                "extra": mean(_above(outcome)).value - exact,
                "peak": max(_above(outcome)),
                "fall": _fall(outcome.race.undisturbed),
            }
            for way, outcome in by_way.items()
        ]

    def tables(self, options: Options, rows: Sequence[Row]) -> str:
        parts = []
        for (model, interval), chain_rows in grouped(rows, "model", "interval"):
            settings = [key for key, _ in grouped(chain_rows, "beta2", "at")]
            head = [
                f"{TITLES[model]}, saved every {interval}",
                "of the state",
                *(f"β2 {beta2:g}, stopped at {at}" for beta2, at in settings),
                "highest",
                "rework, iterations",
            ]
            lines = []
            for (way,), way_rows in grouped(chain_rows, "way"):
                by = {tuple(key): group for key, group in grouped(way_rows, "beta2", "at")}
                extra = [_with_error([1e3 * r["extra"] for r in by[tuple(s)]]) for s in settings]
                fall = average(way_rows, "fall")
                behind = average(way_rows, "extra") / fall if fall > 0 else math.nan
                rework = f"{behind:+.1f}" if math.isfinite(behind) else "–"
                share = f"{average(way_rows, 'share'):.2%}"
                peak = f"{1e3 * average(way_rows, 'peak'):+.1f}"
                lines.append([way, share, *extra, peak, rework])
            parts.append(table(head, lines))
        return "\n".join([*parts, ABOUT.format(horizon=options.horizon)])


ABOUT = (
    "Below each setting: held-out loss over the {horizon} iterations after the restart, minus that "
    "with exact moments, in thousandths: the mean over seeds ± its standard error. Rework: the "
    "same in iterations, by how much one lowers the loss without a stop. Highest: the largest "
    "rise of the loss above that of the training that did not stop, same unit. Of the state: bytes "
    "of a checkpoint after the first, as a share of weights and moments in float32. Weights are "
    f"saved with 2 bits, except in the first line. By default v is in {step_text(str(V))}, m in "
    f"{step_text(str(M))}.\n"
)


def _above(outcome: Outcome) -> list[float]:
    """The loss of the restored training minus that of the undisturbed one, at each iteration
    after the restart."""
    race = outcome.race
    return [r - u for r, u in zip(race.restored[1:], race.undisturbed[1:], strict=True)]


def _fall(losses: Sequence[float]) -> float:
    """How much a loss falls in an iteration, by the least-squares line through all losses."""
    slope, _ = np.polyfit(np.arange(len(losses)), losses, 1)
    return -float(slope)


def _with_error(values: Sequence[float]) -> str:
    """Mean ± standard error; the mean alone of a single value."""
    average, n = mean(values).value, len(values)
    if n == 1:
        return f"{average:+.2f}"
    variance = math.fsum((v - average) ** 2 for v in values) / (n - 1)
    return f"{average:+.2f} ± {math.sqrt(variance / n):.2f}"
