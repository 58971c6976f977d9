"""Experiments on failures: what one costs, and what is left after many."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from codec.bench.markdown import table

from ..lab.intervals import mean
from ..lab.kept import Row
from ..lab.methods import SHARES, Method
from ..lab.recovery import Endured, Outcome, fail_and_recover, fail_repeatedly
from ..lab.recovery import Protocol as Failure
from .base import TITLES, Tell, grouped, shares, workload_arguments, workload_keys, workload_of


class Recovery:
    """How much work a crash costs with each way to save, at equal bytes on disk."""

    name = "recovery"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """See `Experiment`."""
        workload_arguments(parser)
        usual = Failure()
        parser.add_argument(
            "--shares",
            type=shares,
            default=list(SHARES),
            metavar="S,…",
            help="of float32 that a checkpoint may take (default: .01,.02,.05,.1)",
        )
        parser.add_argument(
            "--fail-at",
            type=int,
            default=usual.fail_at,
            metavar="T",
            help=f"last iteration before the failure (default: {usual.fail_at})",
        )
        parser.add_argument(
            "--interval",
            type=int,
            default=usual.interval,
            metavar="K",
            help="iterations between checkpoints (default: 1)",
        )
        parser.add_argument(
            "--cap",
            type=int,
            default=usual.cap,
            metavar="N",
            help=f"most rework that is looked for (default: {usual.cap})",
        )

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        """See `Experiment`."""
        return list(workload_keys(options))

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """See `Experiment`."""
        model, seed = trial
        failure = Failure(options.fail_at, options.interval, options.cap)
        methods = [Method("full")]
        for share in options.shares:
            methods += [
                Method("scar", share), Method("topn", share),
                Method("lc", share, coder="huffman"), Method("lc", share),
            ]  # fmt: skip
        methods += [Method("lc", bits=bits) for bits in (2, 3)]
        outcomes = fail_and_recover(workload_of(options, model), seed, methods, failure, tell)
        return [{"model": model, "cap": options.cap} | _row(outcome) for outcome in outcomes]

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """See `Experiment`."""
        models = list(dict.fromkeys(r["model"] for r in rows))
        head = ["rework, iterations", "may take", *(TITLES[m] for m in models), "mean of all"]
        lines = []
        for (budget, name), own in grouped(rows, "budget", "name"):
            cells, means = [], []
            for model in models:
                mine = [r for r in own if r["model"] == model]
                rework, size = (mean([r[key] for r in mine]) for key in ("rework", "share"))
                capped = sum(r["capped"] for r in mine)
                text = f"{rework.value:.2f} ± {rework.half:.2f}"
                text += f" ({capped} of {len(mine)} capped)" if capped else ""
                cells.append(f"{text} at {size.value:.2%}")
                means.append(rework.value)
            share = "–" if budget is None else f"{budget:.0%}"
            lines.append([name, share, *cells, f"{mean(means).value:.2f}"])
        return table(head, lines)


class Repeated:
    """What is left of the accuracy when a training fails and is restored again and again."""

    name = "repeated"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """See `Experiment`."""
        workload_arguments(parser)
        parser.add_argument(
            "--share", type=float, default=0.05, metavar="S",
            help="of float32 that a checkpoint may take (default: 0.05)",
        )  # fmt: skip
        parser.add_argument("--failures", type=int, default=10, help="of a training (default: 10)")
        parser.add_argument(
            "--iterations", type=int, default=400, help="of each training (default: 400)"
        )

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        """See `Experiment`."""
        return list(workload_keys(options))

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """See `Experiment`."""
        model, seed = trial
        methods = [
            Method("full"), Method("scar", options.share), Method("topn", options.share),
            Method("lc", options.share, coder="huffman"), Method("lc", options.share),
        ]  # fmt: skip
        of = workload_of(options, model)
        found = fail_repeatedly(of, seed, methods, options.failures, options.iterations, tell)
        return [{"model": model} | _row(endured) for endured in found]

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """See `Experiment`."""
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
                change = mean([r["metric"] - r["undisturbed"] for r in mine])
                unit = 100 if units[model] == "accuracy" else 1
                digits = 2 if units[model] == "accuracy" else 4
                size = mean([r["share"] for r in mine]).value
                cells.append(
                    f"{unit * change.value:+.{digits}f} ± {unit * change.half:.{digits}f} "
                    f"at {size:.2%}"
                )
            lines.append([name, *cells])
        return table(head, lines)


def _row(found: Outcome | Endured) -> Row:
    told = {"name": found.method.name, "budget": found.method.share}
    return told | {key: value for key, value in asdict(found).items() if key != "method"}


def _metric(value: float, name: str) -> str:
    return f"{value:.2%}" if name == "accuracy" else f"{value:.4f}"
