"""Bytes against distance and rework, for buckets and for uniform steps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.markdown import table
from codec import Coding
from codec.inspect import CODERS, QUANTIZERS
from demo_models import MODELS
from lcviz.lab.intervals import mean, ratio
from lcviz.lab.progress import as_report
from lcviz.lab.recovery.methods import DEFAULT, EXACT, NONE, SHARES, Method, lc
from lcviz.lab.recovery.recovery import Protocol, fail_and_recover
from lcviz.lab.workload import Workload

from .base import (
    TITLES,
    Experiment,
    Options,
    Progress,
    Trial,
    argument,
    average,
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
from .points import points
from .results_file import Row

EXPONENT, UNIFORM = QUANTIZERS
RUNLENGTH = Coding(1).coder  # the default
OPTIMIZERS = ("sgd", "momentum", "adam")
MOMENTS = {"none": NONE, "default": DEFAULT, "exact": EXACT}
SLOWER = 0.2  # of the learning rate with momentum 0.9: each gradient counts ten times


class Frontier(Experiment):
    """How close a track stays at each size, with buckets and with uniform steps."""

    name = "frontier"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        workload_arguments(parser, seeds=3)
        shares = "of float32 that a checkpoint may take"
        argument(parser, "--shares", listed(share), list(SHARES), "S,…", shares)
        argument(parser, "--bits", listed(bits), [1, 2, 3], "X,…", "the paper's points")
        parser.add_argument(
            "--coder", choices=CODERS, default=RUNLENGTH, help="(default: %(default)s)"
        )
        argument(parser, "--saves", whole(4), 80, "N", "checkpoints before the failure")
        argument(parser, "--interval", whole(1), 1, "K", "iterations between checkpoints")
        argument(parser, "--cap", whole(1), 100, "N", "stop looking for rework after N iterations")
        parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd", help="(default: sgd)")
        parser.add_argument(
            "--moments",
            choices=MOMENTS,
            default="none",
            help="how the optimizer's moments are saved (default: none, so a restart resets them)",
        )
        batch = "examples in a batch; the learning rate is scaled in proportion"
        argument(parser, "--batch", whole(1), None, "N", batch)

    def rows(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        model, seed = trial
        trained = _optimized(workload_of(options, model), options.optimizer)
        if options.batch is not None:
            lr = trained.lr * options.batch / trained.batch_size
            trained = replace(trained, lr=lr, batch_size=options.batch)
        codings = [Coding(x, coder=options.coder) for x in options.bits]
        codings += [
            Coding(budget=most, quantizer=quantizer, coder=options.coder)
            for quantizer in (EXPONENT, UNIFORM)
            for most in options.shares
        ]
        tracks = points(trained, seed, codings, options.saves, options.interval, progress)
        moments, with_moments = MOMENTS[options.moments], options.moments != "none"
        methods = [lc(coding, moments) for coding in codings]
        methods.append(Method("full"))  # the cost of any restart of this kind
        if not with_moments:
            methods += [Method(kind, most) for kind in ("scar", "topn") for most in options.shares]
        at, first = options.saves * options.interval, options.interval if with_moments else 0
        failure = Protocol(at, options.interval, options.cap, optimizer=with_moments, first=first)
        outcomes = fail_and_recover(trained, seed, methods, failure, as_report(progress))
        rows = []
        for i, outcome in enumerate(outcomes):
            coding = outcome.method.coding
            row: Row = {
                "kind": coding.quantizer if coding else outcome.method.kind,
                "bits": coding and coding.bits,
                "budget": outcome.method.share,
                "rework": outcome.rework,
                "capped": outcome.capped,
                "share": tracks[i].share if coding else outcome.share,
                "distance": tracks[i].distance if coding else outcome.distance,
                "gap": tracks[i].gap if coding else outcome.loss_restored - outcome.loss_before,
                "failed": tracks[i].failed if coding else 0,
                "whole": outcome.share,
                "changed": tracks[0].changed,
            }
            rows.append(row)
        return rows

    def tables(self, options: Options, rows: Sequence[Row]) -> str:
        with_moments = options.moments != "none"
        head = ["", "may take", "on disk", *(["with moments"] if with_moments else [])]
        head += ["distance", "loss gap", "rework, iterations"]
        parts = []
        for (model,), model_rows in grouped(rows, "model"):
            lines = []
            for (kind, x, budget), setting_rows in grouped(model_rows, "kind", "bits", "budget"):
                keys = ("share", "distance", "gap", "whole")
                m = {k: average(setting_rows, k) for k in keys}
                rework = with_interval(mean([r["rework"] for r in setting_rows]))
                capped = sum(r["capped"] for r in setting_rows)
                rework += f" ({capped} of {len(setting_rows)} capped)" if capped else ""
                limit = f"{x} bits" if x else percent(budget) if budget else "all"
                measured = [f"{m['share']:.2%}", *([f"{m['whole']:.2%}"] if with_moments else [])]
                measured += [f"{m['distance']:.4f}", f"{m['gap']:+.4f}"]
                lines.append([kind, limit, *measured, rework])
            changed = f"{average(model_rows, 'changed'):.1%} of the values change"
            title = f"{TITLES[model]}, {changed} between checkpoints"
            parts.append(f"{title}\n\n{table(head, lines)}")
        return "\n".join([*parts, _ratios(rows)])


def _ratios(rows: Sequence[Row]) -> str:
    """Uniform steps divided by buckets, at equal budgets: for each model, and the mean of all."""
    models = list(dict.fromkeys(r["model"] for r in rows))
    head = ["uniform ÷ exponent", "", *(TITLES[m] for m in models), "mean of all"]
    lines = []
    for (budget,), group in grouped([r for r in rows if r["budget"] is not None], "budget"):
        for measure in ("distance", "rework"):
            cells, sums = [], {EXPONENT: 0.0, UNIFORM: 0.0}
            ratios = []
            for model in models:
                by_kind = {
                    kind: [r[measure] for r in group if r["model"] == model and r["kind"] == kind]
                    for kind in sums
                }
                means = {kind: mean(values).value for kind, values in by_kind.items()}
                for kind, value in means.items():
                    sums[kind] += value / len(models)
                pair = f"{means[UNIFORM]:.4g} ÷ {means[EXPONENT]:.4g}"
                if means[EXPONENT] > 0:
                    quotient = ratio(by_kind[UNIFORM], by_kind[EXPONENT])
                    ratios.append(quotient.value)
                    pair = f"{with_interval(quotient)} ({pair})"
                cells.append(pair)
            whole = f"{mean(ratios).value:.2f}" if measure == "distance" and ratios else ""
            pair = f"{sums[UNIFORM]:.4g} ÷ {sums[EXPONENT]:.4g}"
            lines.append([percent(budget), measure, *cells, f"{whole} ({pair})".strip()])
    return table(head, lines)


def _optimized(trained: Workload, optimizer: str) -> Workload:
    if optimizer == "momentum":
        return replace(trained, lr=SLOWER * trained.lr, momentum=0.9)
    if optimizer == "adam":
        lr, _ = MODELS[trained.model].optimizers["adam"]
        return replace(trained, optimizer="adam", lr=lr)
    return trained
