"""The experiments that `python -m lcviz` runs: what may be asked, the trials, the tables.

A trial is what is kept as a whole when a run is interrupted. Its rows are plain values, as they go
into JSON and CSV; a table is made of them, and of nothing else.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from codec.bench.markdown import table
from codec.recorder import STAGES
from demo_models import MODELS

from .lab.breakdown import breakdown
from .lab.intervals import mean
from .lab.kept import Row
from .lab.methods import SHARES, Method
from .lab.overhead import NONE, SYNCHRONOUS, round_of
from .lab.recovery import Endured, Outcome, fail_and_recover, fail_repeatedly
from .lab.recovery import Protocol as Failure
from .lab.removed import removed_of
from .lab.series import Found, Series, Trained
from .lab.workload import Workload, workload

Tell = Callable[[int, int], None]
TITLES = {name: card.title for name, card in MODELS.items()}


class Experiment(Protocol):
    """One subcommand."""

    name: str

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """What can be asked of this one."""

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        """Their keys, as JSON holds them."""

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """One trial."""

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """Markdown."""


class Breakdown:
    """What each stage of the codec saves."""

    name = "breakdown"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """See `Experiment`."""
        _series_arguments(parser)
        parser.add_argument(
            "--bits",
            type=_bits_list,
            default=[None, 2, 3],
            metavar="X,…",
            help="of priority promotion; all: without it (default: all,2,3)",
        )

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        """See `Experiment`."""
        return [[*of, bits] for of in _series_keys(options) for bits in options.bits]

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """See `Experiment`."""
        model, seed, bits = trial
        series = _series(options, model, seed)
        rows = []
        for stages in breakdown(series, bits, options.scope):
            rows.append({"model": model, "seed": seed} | asdict(stages))
            tell(len(rows), len(series) - 1)
        return rows

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """See `Experiment`."""
        head = ["float32 bytes saved by", "x", "symbols", "E", "E+P", "E+P+H", "run-length",
                "entropy of H"]  # fmt: skip
        lines = []
        for (model, bits), own in _grouped(rows, "model", "bits"):
            saved = [
                f"{mean([1 - r[stage] / (4 * r['n']) for r in own]).value:.2%}"
                for stage in ("e", "ep", "huffman", "runlength", "entropy")
            ]
            symbols = mean([r["symbols"] for r in own]).value
            lines.append([TITLES.get(model, model), str(bits or "all"), f"{symbols:.0f}", *saved])
        return table(head, lines)


class RemovedBucket:
    """What the loss becomes without a bucket, and without all smaller ones."""

    name = "removed-bucket"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """See `Experiment`."""
        _series_arguments(parser)
        parser.add_argument(
            "--bits",
            type=_bits,
            default=2,
            metavar="X",
            help="of the chain up to there; all: every bucket (default: 2)",
        )

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        """See `Experiment`."""
        return list(_series_keys(options))

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """See `Experiment`."""
        model, seed = trial
        found = removed_of(_series(options, model, seed), options.bits, options.scope, tell)
        whole = {"step": found.step, "loss_whole": found.loss, "distance_whole": found.distance}
        return [{"model": model, "seed": seed} | whole | asdict(b) for b in found.buckets]

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """See `Experiment`."""
        parts = []
        head = ["bucket", "members", "kept", "loss without it", "distance without it",
                "loss without it and smaller ones", "distance so"]  # fmt: skip
        for (model, seed), own in _grouped(rows, "model", "seed"):
            first = own[0]
            lines = [
                [
                    f"{'-' if r['sign'] else '+'}2^{r['exponent']}", f"{r['count']:,}",
                    "yes" if r["kept"] else "no", _relative(r["loss"], first["loss_whole"]),
                    f"{r['distance']:.4f}", _relative(r["loss_below"], first["loss_whole"]),
                    f"{r['distance_below']:.4f}",
                ]
                for r in own
            ]  # fmt: skip
            told = f"{TITLES.get(model, model)}, seed {seed}, step {first['step']}"
            told += f"; with every bucket: distance {first['distance_whole']:.4f}"
            if math.isfinite(first["loss_whole"]):
                told += f", loss {first['loss_whole']:.5f}, to which losses below are relative"
            parts.append(f"{told}\n\n{table(head, lines)}")
        return "\n".join(parts)


class Recovery:
    """How much work a crash costs with each way to save, at equal bytes on disk."""

    name = "recovery"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """See `Experiment`."""
        _workload_arguments(parser)
        usual = Failure()
        parser.add_argument(
            "--shares",
            type=_shares,
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
        return list(_workload_keys(options))

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
        outcomes = fail_and_recover(_workload(options, model), seed, methods, failure, tell)
        return [{"model": model, "cap": options.cap} | _row(outcome) for outcome in outcomes]

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """See `Experiment`."""
        models = list(dict.fromkeys(r["model"] for r in rows))
        head = ["rework, iterations", "may take", *(TITLES[m] for m in models), "mean of all"]
        lines = []
        for (budget, name), own in _grouped(rows, "budget", "name"):
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
        _workload_arguments(parser)
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
        return list(_workload_keys(options))

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """See `Experiment`."""
        model, seed = trial
        methods = [
            Method("full"), Method("scar", options.share), Method("topn", options.share),
            Method("lc", options.share, coder="huffman"), Method("lc", options.share),
        ]  # fmt: skip
        of = _workload(options, model)
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
        for (name,), own in _grouped(rows, "name"):
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


class Overhead:
    """What saving costs a training, and when it pays."""

    name = "overhead"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """See `Experiment`."""
        _workload_arguments(parser)
        parser.add_argument(
            "--iterations", type=int, default=200, help="of each training (default: 200)"
        )
        parser.add_argument(
            "--bits", type=_bits, default=2, metavar="X", help="1 to 8, or all (default: 2)"
        )
        parser.add_argument(
            "--fail-at", type=int, default=7, metavar="T",
            help="of the sum below the table (default: 7, the paper's)",
        )  # fmt: skip

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        """See `Experiment`."""
        return list(_workload_keys(options))

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """See `Experiment`."""
        model, seed = trial
        settings = {"bits": options.bits}
        costs = round_of(_workload(options, model), seed, options.iterations, settings, tell)
        rows = []
        for cost in costs:
            row = asdict(cost)
            stages = {f"{stage}_seconds": row["stages"].get(stage, 0.0) for stage in STAGES}
            del row["stages"]
            rows.append({"model": model, "seed": seed} | row | stages)
        return rows

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """See `Experiment`."""
        head = ["saved every iteration", "", "ms an iteration", "above it", "ms in save",
                *(f"{stage}, ms" for stage in STAGES), "bytes", "saved"]  # fmt: skip
        lines, sums = [], []
        medians: dict[tuple[str, str], dict[str, float]] = {}
        for (model, mode), own in _grouped(rows, "model", "mode"):
            keys = ("iteration", "above", "call", "nbytes", "saved",
                    *(f"{stage}_seconds" for stage in STAGES))  # fmt: skip
            m = {key: statistics.median(r[key] for r in own) for key in keys}
            medians[model, mode] = m
            cells = ["–"] * (3 + len(STAGES))
            if mode != NONE:
                stages = [f"{1e3 * m[f'{stage}_seconds']:.2f}" for stage in STAGES]
                cells = [f"{1e3 * m['call']:.2f}", *stages, f"{m['nbytes']:,.0f}",
                         f"{m['saved']:.0%}"]  # fmt: skip
            lines.append(
                [TITLES[model], mode, f"{1e3 * m['iteration']:.2f}", f"{m['above']:+.1%}", *cells]
            )
        last = options.fail_at
        for model in dict.fromkeys(r["model"] for r in rows):
            plain, slow = (medians[model, mode]["iteration"] for mode in (NONE, SYNCHRONOUS))
            gained, spent = 1e3 * (last - 1) * plain, 1e3 * last * (slow - plain)
            sums.append(
                f"- {TITLES[model]}: a failure in iteration {last} costs {gained:.1f} ms of work "
                f"without checkpoints; saving {last} times in the loop takes {spent:.1f} ms.\n"
            )
        return table(head, lines) + "\n" + "".join(sums)


EXPERIMENTS: tuple[Experiment, ...] = (
    Breakdown(), RemovedBucket(), Recovery(), Repeated(), Overhead(),
)  # fmt: skip


def _workload_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--models",
        type=_models,
        default=list(MODELS),
        metavar="M,…",
        help=f"of {', '.join(MODELS)} (default: all)",
    )
    parser.add_argument(
        "--data", help="of the image models (default: mnist if --folder is given, else digits)"
    )
    parser.add_argument("--folder", help="where MNIST, MovieLens or Jester files are")
    parser.add_argument("--seed", type=int, default=0, help="the first one (default: 0)")
    parser.add_argument("--seeds", type=int, default=5, help="how many (default: 5)")


def _series_arguments(parser: argparse.ArgumentParser) -> None:
    _workload_arguments(parser)
    parser.set_defaults(seeds=1)
    parser.add_argument(
        "--own",
        type=Path,
        nargs="+",
        metavar="PATH",
        help="instead of a training: checkpoints of your own, or a chain",
    )
    parser.add_argument("--iterations", type=int, default=100, help="of a training (default: 100)")
    parser.add_argument(
        "--interval",
        type=int,
        default=1,
        metavar="K",
        help="iterations between checkpoints (default: 1)",
    )
    parser.add_argument(
        "--scope",
        choices=("model", "tensor"),
        default="model",
        help="of one alphabet (default: model)",
    )


def _workload_keys(options: argparse.Namespace) -> Iterable[list[Any]]:
    seeds = range(options.seed, options.seed + options.seeds)
    return ([model, seed] for model in options.models for seed in seeds)


def _series_keys(options: argparse.Namespace) -> Iterable[list[Any]]:
    return [["own", None]] if options.own else _workload_keys(options)


def _workload(options: argparse.Namespace, model: str) -> Workload:
    data = options.data or ("mnist" if options.folder else None)
    takes = MODELS[model].data
    return workload(model, data if data in takes else None, options.folder)


def _series(options: argparse.Namespace, model: str, seed: int) -> Series:
    if options.own:
        return Found(options.own)
    return Trained(_workload(options, model), seed, options.iterations, options.interval)


def _grouped(rows: Sequence[Row], *keys: str) -> Iterable[tuple[list[Any], list[Row]]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return ((list(key), own) for key, own in groups.items())


def _row(found: Outcome | Endured) -> Row:
    told = {"name": found.method.name, "budget": found.method.share}
    return told | {key: value for key, value in asdict(found).items() if key != "method"}


def _metric(value: float, name: str) -> str:
    return f"{value:.2%}" if name == "accuracy" else f"{value:.4f}"


def _relative(loss: float, whole: float) -> str:
    return f"{loss / whole - 1:+.3%}" if math.isfinite(whole) else "–"


def _models(text: str) -> list[str]:
    found = text.split(",")
    for name in found:
        if name not in MODELS:
            raise argparse.ArgumentTypeError(f"no model {name!r}; choose of {', '.join(MODELS)}")
    return found


def _shares(text: str) -> list[float]:
    found = [float(part) for part in text.split(",")]
    if not all(0 < share <= 1 for share in found):
        raise argparse.ArgumentTypeError("shares lie above 0 and are at most 1: 0.05 is 5 %")
    return found


def _bits(text: str) -> int | None:
    if text == "all":
        return None
    if text not in tuple("12345678"):
        raise argparse.ArgumentTypeError(f"bits are 1 to 8, or all; got {text!r}")
    return int(text)


def _bits_list(text: str) -> list[int | None]:
    return [_bits(part) for part in text.split(",")]
