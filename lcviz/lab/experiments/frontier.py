"""Bytes against distance and rework, for buckets and for uniform steps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from codec import Coding
from codec.bench.markdown import table
from codec.inspect import QUANTIZERS
from demo_models import MODELS
from lcviz.lab.frontier import points
from lcviz.lab.intervals import mean, ratio
from lcviz.lab.progress import counted
from lcviz.lab.recovery.methods import DEFAULT, NONE, SHARES, Method, lc
from lcviz.lab.recovery.recovery import Protocol, fail_and_recover
from lcviz.lab.workload import Workload

from .base import (
    TITLES,
    Experiment,
    Tell,
    about,
    argument,
    bits,
    grouped,
    listed,
    percent,
    share,
    whole,
    with_interval,
    workload_arguments,
    workload_of,
)
from .results_file import Row

EXPONENT, UNIFORM = QUANTIZERS
OPTIMIZERS = ("sgd", "momentum", "adam")
MOMENTS = {"none": NONE, "default": DEFAULT, "exact": "exact"}
SLOWER = 0.2  # of the learning rate with momentum 0.9: each gradient counts ten times


class Frontier(Experiment):
    """How close a track stays at each size, with exponent buckets and with uniform steps."""

    name = "frontier"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        workload_arguments(parser, seeds=3)
        shares = "of float32 that a checkpoint may take"
        argument(parser, "--shares", listed(share), list(SHARES), "S,…", shares)
        argument(parser, "--bits", listed(bits), [1, 2, 3], "X,…", "the paper's points")
        argument(parser, "--saves", whole(4), 80, "N", "checkpoints before the failure")
        argument(parser, "--interval", whole(1), 1, "K", "iterations between checkpoints")
        argument(parser, "--cap", whole(1), 100, "N", "give up looking for rework after so many")
        parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd", help="(default: sgd)")
        parser.add_argument(
            "--moments",
            choices=MOMENTS,
            default="none",
            help="of the optimizer, beside the weights (default: none, so a restart resets them)",
        )
        batch = "examples of a batch, with a learning rate in proportion"
        argument(parser, "--batch", whole(1), None, "N", batch)

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        model, seed = trial
        trained = _optimized(workload_of(options, model), options.optimizer)
        if options.batch is not None:
            lr = trained.lr * options.batch / trained.batch_size
            trained = replace(trained, lr=lr, batch_size=options.batch)
        codings = [Coding(x) for x in options.bits]
        for quantizer in (EXPONENT, UNIFORM):
            codings += [Coding(budget=most, quantizer=quantizer) for most in options.shares]
        found = points(trained, seed, codings, options.saves, options.interval, tell)
        moments, saved = MOMENTS[options.moments], options.moments != "none"
        methods = [lc(coding, moments) for coding in codings]
        methods.append(Method("full"))  # what any restart of this kind costs
        if not saved:
            methods += [Method(kind, most) for kind in ("scar", "topn") for most in options.shares]
        at, first = options.saves * options.interval, options.interval if saved else 0
        failure = Protocol(at, options.interval, options.cap, optimizer=saved, first=first)
        outcomes = fail_and_recover(trained, seed, methods, failure, counted(tell))
        rows = []
        for i, outcome in enumerate(outcomes):
            coding = outcome.method.coding
            row = about(options, model, seed) | {
                "kind": coding.quantizer if coding else outcome.method.kind,
                "bits": coding and coding.bits,
                "budget": outcome.method.share,
                "rework": outcome.rework,
                "capped": outcome.capped,
                "share": found[i].share if coding else outcome.share,
                "distance": found[i].distance if coding else outcome.distance,
                "gap": found[i].gap if coding else outcome.loss_restored - outcome.loss_before,
                "failed": found[i].failed if coding else 0,
                "whole": outcome.share,
                "changed": found[0].changed,
            }
            rows.append(row)
        return rows

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        saved = options.moments != "none"
        head = ["", "may take", "on disk", *(["with moments"] if saved else [])]
        head += ["distance", "loss gap", "rework, iterations"]
        parts = []
        for (model,), own in grouped(rows, "model"):
            lines = []
            for (kind, x, budget), same in grouped(own, "kind", "bits", "budget"):
                keys = ("share", "distance", "gap", "whole")
                m = {k: mean([r[k] for r in same]).value for k in keys}
                rework = with_interval(mean([r["rework"] for r in same]))
                capped = sum(r["capped"] for r in same)
                rework += f" ({capped} of {len(same)} capped)" if capped else ""
                limit = f"{x} bits" if x else percent(budget) if budget else "all"
                measured = [f"{m['share']:.2%}", *([f"{m['whole']:.2%}"] if saved else [])]
                measured += [f"{m['distance']:.4f}", f"{m['gap']:+.4f}"]
                lines.append([kind, limit, *measured, rework])
            changed = f"{mean([r['changed'] for r in own]).value:.1%} of the values change"
            title = f"{TITLES[model]}, {changed} between checkpoints"
            parts.append(f"{title}\n\n{table(head, lines)}")
        return "\n".join([*parts, _ratios(rows)])


def _ratios(rows: Sequence[Row]) -> str:
    """Uniform steps as a share of buckets, at equal budgets: by model, and the mean of all."""
    models = list(dict.fromkeys(r["model"] for r in rows))
    head = ["uniform ÷ exponent", "", *(TITLES[m] for m in models), "mean of all"]
    lines = []
    for (budget,), own in grouped([r for r in rows if r["budget"] is not None], "budget"):
        for what in ("distance", "rework"):
            cells, sums = [], {EXPONENT: 0.0, UNIFORM: 0.0}
            ratios = []
            for model in models:
                both = {
                    kind: [r[what] for r in own if r["model"] == model and r["kind"] == kind]
                    for kind in sums
                }
                means = {kind: mean(values).value for kind, values in both.items()}
                for kind, value in means.items():
                    sums[kind] += value / len(models)
                pair = f"{means[UNIFORM]:.4g} ÷ {means[EXPONENT]:.4g}"
                if means[EXPONENT] > 0:
                    found = ratio(both[UNIFORM], both[EXPONENT])
                    ratios.append(found.value)
                    pair = f"{with_interval(found)} ({pair})"
                cells.append(pair)
            whole = f"{mean(ratios).value:.2f}" if what == "distance" and ratios else ""
            pair = f"{sums[UNIFORM]:.4g} ÷ {sums[EXPONENT]:.4g}"
            lines.append([percent(budget), what, *cells, f"{whole} ({pair})".strip()])
    return table(head, lines)


def _optimized(trained: Workload, optimizer: str) -> Workload:
    if optimizer == "momentum":
        return replace(trained, lr=SLOWER * trained.lr, momentum=0.9)
    if optimizer == "adam":
        lr, _ = MODELS[trained.model].optimizers["adam"]
        return replace(trained, optimizer="adam", lr=lr)
    return trained
