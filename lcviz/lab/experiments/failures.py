"""Experiments on failures: what one costs, and what is left after many."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from codec import Coding
from codec.bench.markdown import table
from codec.errors import SettingsError
from lcviz.lab.intervals import mean
from lcviz.lab.progress import counted
from lcviz.lab.recovery.last_state import Restored, crash_at_last
from lcviz.lab.recovery.methods import SHARES, Method, lc, methods_at
from lcviz.lab.recovery.recovery import Outcome, RepeatedOutcome, fail_and_recover, fail_repeatedly
from lcviz.lab.recovery.recovery import Protocol as Failure

from .base import (
    TITLES,
    Experiment,
    Tell,
    about,
    argument,
    found_of,
    grouped,
    listed,
    own_arguments,
    percent,
    series_keys,
    share,
    whole,
    with_interval,
    workload_arguments,
    workload_of,
)
from .results_file import Row

OURS = lc(Coding(budget=SHARES[0])).name  # what others are compared with
ABOUT_REPEATED = (
    "Undisturbed: of a training that never failed. Below it: how far each way ends above or below "
    "that, accuracy in percentage points; the mean over seeds, with half of its 95 % interval if "
    "there are several. At: the share of float32 that a checkpoint takes.\n"
)
ABOUT_OWN = "Distance: ‖restored − u‖ / ‖u − u₀‖ of the weights, u the last state, u₀ the first.\n"


class Recovery(Experiment):
    """How much work a crash costs with each way to save, at equal bytes on disk."""

    name = "recovery"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        workload_arguments(parser)
        own_arguments(parser)
        parser.add_argument(
            "--loss",
            metavar="FILE.py:FUNCTION",
            help="with --own: takes a state as you saved it, and returns its loss",
        )
        shares = "of float32 that a checkpoint may take"
        argument(parser, "--shares", listed(share), list(SHARES), "S,…", shares)
        for flag, default, metavar, text in (
            ("--fail-at", Failure.fail_at, "T", "last iteration before the failure"),
            ("--interval", Failure.interval, "K", "iterations between checkpoints"),
            ("--cap", Failure.cap, "N", "give up looking for rework after so many iterations"),
        ):
            argument(parser, flag, whole(1), default, metavar, text)

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        if options.loss and not options.own:
            raise SettingsError("--loss is of your own checkpoints: name them with --own")
        return list(series_keys(options))

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        model, seed = trial
        failure = Failure(options.fail_at, options.interval, options.cap)
        methods = [Method("full"), *(m for most in options.shares for m in methods_at(most))]
        methods += [lc(Coding(bits)) for bits in (2, 3)]
        if options.own:
            last = crash_at_last(found_of(options), methods, tell)
            of_all = {"step": last.step, "by": options.loss or last.by}
            return [about(options, model, seed) | of_all | _row(r) for r in last.restored]
        of = workload_of(options, model)
        outcomes = fail_and_recover(of, seed, methods, failure, counted(tell))
        told = about(options, model, seed) | {"cap": options.cap}
        return [told | _row(outcome) for outcome in outcomes]

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        if options.own:
            return _of_own(rows)
        rework = _by_model(rows, "rework, iterations", _rework, lambda r: r["rework"])
        work = _by_model(rows, "work lost, ms (a save, ms)", _work)
        after = _by_model(rows, "loss after restoring (distance)", _after)
        return "\n".join([rework, comparison(rows), work, after])


class Repeated(Experiment):
    """What is left of the accuracy when a training fails and is restored again and again."""

    name = "repeated"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        workload_arguments(parser)
        argument(parser, "--share", share, 0.05, "S", "of float32 that a checkpoint may take")
        argument(parser, "--failures", whole(1), 10, "N", "of a training")
        argument(parser, "--iterations", whole(1), 400, "N", "of each training")

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        model, seed = trial
        methods = [Method("full"), *methods_at(options.share)]
        of = workload_of(options, model)
        found = fail_repeatedly(of, seed, methods, options.failures, options.iterations, tell)
        return [about(options, model, seed) | _row(endured) for endured in found]

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        models = list(dict.fromkeys(r["model"] for r in rows))
        units = {r["model"]: r["metric_name"] for r in rows}
        head = [f"after {options.failures} restores", *(f"{TITLES[m]}, {units[m]}" for m in models)]
        lines = []
        first = [[r for r in rows if r["model"] == m] for m in models]
        undisturbed = [mean([r["undisturbed"] for r in own]).value for own in first]
        lines.append(["undisturbed", *(_metric(v, units[m]) for v, m in zip(undisturbed, models))])
        for (name,), own in grouped(rows, "name"):
            cells = []
            for model in models:
                mine = [r for r in own if r["model"] == model]
                unit, digits = (100, 2) if units[model] == "accuracy" else (1, 4)
                change = mean([unit * (r["metric"] - r["undisturbed"]) for r in mine])
                size = mean([r["share"] for r in mine]).value
                cells.append(f"{with_interval(change, digits, '+')} at {size:.2%}")
            lines.append([name, *cells])
        return f"{table(head, lines)}\n{ABOUT_REPEATED}"


def _of_own(rows: Sequence[Row]) -> str:
    """A line for each way to save the user's own checkpoints."""
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
    told = f"Steps lost: read from the loss of {by} at the checkpoints.\n" if by else ""
    return f"{table(head, lines)}\n{ABOUT_OWN}{told}"


def _by_model(
    rows: Sequence[Row],
    what: str,
    cell: Callable[[Sequence[Row]], str],
    averaged: Callable[[Row], float] | None = None,
) -> str:
    """A line for each way to save, a column for each model."""
    models = list(dict.fromkeys(r["model"] for r in rows))
    head = [what, "may take", *(TITLES[m] for m in models), *(["mean of all"] if averaged else [])]
    lines = []
    for (budget, name), own in grouped(rows, "budget", "name"):
        by_model = [[r for r in own if r["model"] == m] for m in models]
        cells = [cell(mine) for mine in by_model]
        if averaged:
            means = [mean([averaged(r) for r in mine]).value for mine in by_model]
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
    """Mean rework over models of every way at the same share, compared with LC's.

    A mean that includes a capped rework is a lower bound; if LC's is, there is no ratio.
    """
    lines = []
    for (budget,), own in grouped([r for r in rows if r["budget"] is not None], "budget"):
        for key, words in (("rework", "on the trend"), ("rework_raw", "without smoothing")):
            capped = {r["name"] for r in own if r[key] >= r["cap"]}
            means = {
                name: mean(
                    [mean([r[key] for r in mine]).value for _, mine in grouped(same, "model")]
                ).value
                for (name,), same in grouped(own, "name")
            }
            least = means[OURS]
            told = {}
            for name, value in means.items():
                at_least = "≥ " if name in capped else ""
                told[name] = f"{name} {at_least}{value:.2f}"
                if least and name != OURS and OURS not in capped:
                    told[name] += f" ({at_least}{value / least:.1f} ×)"
            ours = told.pop(OURS)
            lines.append(f"- At {percent(budget)}, {words}: {ours}; {', '.join(told.values())}.\n")
    return "".join(lines)


def _row(found: Outcome | RepeatedOutcome | Restored) -> Row:
    told = {"name": found.method.name, "budget": found.method.share}
    return told | {k: v for k, v in asdict(found).items() if k not in ("method", "race")}


def _metric(value: float, name: str) -> str:
    return f"{value:.2%}" if name == "accuracy" else f"{value:.4f}"
