"""Experiments on failures: what one costs, and how accurate a training is after many."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.markdown import table
from codec import Coding
from codec.errors import SettingsError
from lcviz.lab.intervals import mean
from lcviz.lab.progress import as_report
from lcviz.lab.recovery.last_state import Restored, crash_at_last
from lcviz.lab.recovery.methods import SHARES, Method, lc, methods_at
from lcviz.lab.recovery.recovery import Outcome, fail_and_recover
from lcviz.lab.recovery.recovery import Protocol as Failure

from .base import (
    TITLES,
    Experiment,
    Options,
    Progress,
    Trial,
    argument,
    average,
    grouped,
    listed,
    own_arguments,
    percent,
    share,
    user_series,
    whole,
    with_interval,
    workload_arguments,
    workload_of,
)
from .repeated import RepeatedOutcome, fail_repeatedly
from .results_file import Row

OURS = lc(Coding(budget=SHARES[0])).name  # the other methods are compared with it
ABOUT_REPEATED = (
    "Undisturbed: a training that never failed. Below: each method's final value minus that, "
    "accuracy in percentage points; the mean over seeds, with half of its 95 % interval if there "
    "are several. At: the share of float32 that a checkpoint takes.\n"
)
ABOUT_OWN = "Distance: ‖restored − u‖ / ‖u − u₀‖ of the weights, u the last state, u₀ the first.\n"


class Recovery(Experiment):
    """How much work a crash costs with each method of saving, at equal bytes on disk."""

    name = "recovery"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        workload_arguments(parser)
        own_arguments(parser)
        parser.add_argument(
            "--loss",
            metavar="FILE.py:FUNCTION",
            help="with --own: a function that takes a state as you saved it and returns its loss",
        )
        shares = "of float32 that a checkpoint may take"
        argument(parser, "--shares", listed(share), list(SHARES), "S,…", shares)
        for flag, default, metavar, text in (
            ("--fail-at", Failure.fail_at, "T", "last iteration before the failure"),
            ("--interval", Failure.interval, "K", "iterations between checkpoints"),
            ("--cap", Failure.cap, "N", "stop looking for rework after N iterations"),
        ):
            argument(parser, flag, whole(1), default, metavar, text)

    def trials(self, options: Options) -> list[list[Any]]:
        if options.loss and not options.own:
            raise SettingsError("--loss needs your own checkpoints: name them with --own")
        return super().trials(options)

    def rows(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        model, seed = trial
        failure = Failure(options.fail_at, options.interval, options.cap)
        methods = [Method("full"), *(m for most in options.shares for m in methods_at(most))]
        methods += [lc(Coding(bits)) for bits in (2, 3)]
        if options.own:
            last = crash_at_last(user_series(options), methods, progress)
            common = {"step": last.step, "by": options.loss or last.by}
            return [common | _row(r) for r in last.restored]
        workload = workload_of(options, model)
        outcomes = fail_and_recover(workload, seed, methods, failure, as_report(progress))
        return [{"cap": options.cap} | _row(outcome) for outcome in outcomes]

    def tables(self, options: Options, rows: Sequence[Row]) -> str:
        if options.own:
            return _of_own(rows)
        rework = _by_model(rows, "rework, iterations", _rework, lambda r: r["rework"])
        work = _by_model(rows, "work lost, ms (a save, ms)", _work)
        after = _by_model(rows, "loss after restoring (distance)", _after)
        return "\n".join([rework, comparison(rows), work, after])


class Repeated(Experiment):
    """How accurate a training becomes that fails and is restored many times."""

    name = "repeated"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        workload_arguments(parser)
        argument(parser, "--share", share, 0.05, "S", "of float32 that a checkpoint may take")
        argument(parser, "--failures", whole(1), 10, "N", "of a training")
        argument(parser, "--iterations", whole(1), 400, "N", "of each training")

    def rows(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        model, seed = trial
        methods = [Method("full"), *methods_at(options.share)]
        workload = workload_of(options, model)
        n, iterations = options.failures, options.iterations
        outcomes = fail_repeatedly(workload, seed, methods, n, iterations, progress)
        return [_row(outcome) for outcome in outcomes]

    def tables(self, options: Options, rows: Sequence[Row]) -> str:
        models = list(dict.fromkeys(r["model"] for r in rows))
        units = {r["model"]: r["metric_name"] for r in rows}
        head = [f"after {options.failures} restores", *(f"{TITLES[m]}, {units[m]}" for m in models)]
        lines = []
        by_model = [[r for r in rows if r["model"] == m] for m in models]
        undisturbed = [average(group, "undisturbed") for group in by_model]
        lines.append(["undisturbed", *(_metric(v, units[m]) for v, m in zip(undisturbed, models))])
        for (name,), name_rows in grouped(rows, "name"):
            cells = []
            for model in models:
                model_rows = [r for r in name_rows if r["model"] == model]
                unit, digits = (100, 2) if units[model] == "accuracy" else (1, 4)
                change = mean([unit * (r["metric"] - r["undisturbed"]) for r in model_rows])
                size = average(model_rows, "share")
                cells.append(f"{with_interval(change, digits, '+')} at {size:.2%}")
            lines.append([name, *cells])
        return f"{table(head, lines)}\n{ABOUT_REPEATED}"


def _of_own(rows: Sequence[Row]) -> str:
    """A table of the user's own checkpoints: a line for each method of saving."""
    by, step = rows[0]["by"], rows[0]["step"]
    head = [f"restored at step {step}", "may take", "takes", "distance"]
    head += ["loss", "steps lost"] if by else []
    lines = []
    for r in rows:
        may_take = "–" if r["budget"] is None else percent(r["budget"])
        line = [r["name"], may_take, f"{r['share']:.2%}", f"{r['distance']:.4f}"]
        if by:
            line += [f"{r['loss']:.5f}", "all" if r["lost"] is None else f"{r['lost']:.1f}"]
        lines.append(line)
    note = f"Steps lost: read from the loss of {by} at the checkpoints.\n" if by else ""
    return f"{table(head, lines)}\n{ABOUT_OWN}{note}"


def _by_model(
    rows: Sequence[Row],
    title: str,
    cell: Callable[[Sequence[Row]], str],
    averaged: Callable[[Row], float] | None = None,
) -> str:
    """A table with a line for each method of saving and a column for each model."""
    models = list(dict.fromkeys(r["model"] for r in rows))
    head = [title, "may take", *(TITLES[m] for m in models), *(["mean of all"] if averaged else [])]
    lines = []
    for (budget, name), method_rows in grouped(rows, "budget", "name"):
        by_model = [[r for r in method_rows if r["model"] == m] for m in models]
        cells = [cell(model_rows) for model_rows in by_model]
        if averaged:
            means = [mean([averaged(r) for r in model_rows]).value for model_rows in by_model]
            cells.append(f"{mean(means).value:.2f}")
        lines.append([name, "–" if budget is None else percent(budget), *cells])
    return table(head, lines)


def _rework(rows: Sequence[Row]) -> str:
    rework, size = (mean([r[key] for r in rows]) for key in ("rework", "share"))
    capped = sum(r["capped"] for r in rows)
    text = with_interval(rework)
    text += f" ({capped} of {len(rows)} capped)" if capped else ""
    return f"{text} at {size.value:.2%}"


def _work(rows: Sequence[Row]) -> str:
    lost = mean([1e3 * r["rework"] * r["seconds"] for r in rows])
    save = mean([1e3 * r["save_seconds"] for r in rows])
    return f"{with_interval(lost)} ({save.value:.1f})"


def _after(rows: Sequence[Row]) -> str:
    loss = mean([100 * (r["loss_restored"] / r["loss_before"] - 1) for r in rows])
    far = mean([r["distance"] for r in rows])
    return f"{with_interval(loss, sign='+')} % ({far.value:.3f})"


def comparison(rows: Sequence[Row]) -> str:
    """The mean rework of each method over models, compared with LC's at the same share.

    A mean that includes a capped rework is a lower bound; if LC's is capped, there is no ratio.
    """
    lines = []
    for (budget,), budget_rows in grouped([r for r in rows if r["budget"] is not None], "budget"):
        for key, words in (("rework", "on the trend"), ("rework_raw", "without smoothing")):
            capped = {r["name"] for r in budget_rows if r[key] >= r["cap"]}
            means = {}
            for (name,), name_rows in grouped(budget_rows, "name"):
                by_model = [group for _, group in grouped(name_rows, "model")]
                means[name] = mean([average(group, key) for group in by_model]).value
            our_mean = means[OURS]
            texts = {}
            for name, value in means.items():
                at_least = "≥ " if name in capped else ""
                texts[name] = f"{name} {at_least}{value:.2f}"
                if our_mean and name != OURS and OURS not in capped:
                    texts[name] += f" ({at_least}{value / our_mean:.1f} ×)"
            ours = texts.pop(OURS)
            lines.append(f"- At {percent(budget)}, {words}: {ours}; {', '.join(texts.values())}.\n")
    return "".join(lines)


def _row(outcome: Outcome | RepeatedOutcome | Restored) -> Row:
    method = {"name": outcome.method.name, "budget": outcome.method.share}
    return method | {k: v for k, v in asdict(outcome).items() if k not in ("method", "race")}


def _metric(value: float, name: str) -> str:
    return f"{value:.2%}" if name == "accuracy" else f"{value:.4f}"
