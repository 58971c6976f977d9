"""Experiments on single checkpoints: what each stage saves, and what each bucket is worth."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from codec.bench.markdown import table

from ..lab.breakdown import breakdown
from ..lab.intervals import mean
from ..lab.kept import Row
from ..lab.removed import removed_of
from .base import (
    TITLES,
    Tell,
    about,
    bits,
    choice_arguments,
    grouped,
    listed,
    series_arguments,
    series_keys,
    series_of,
    titled,
)

PAPER = ("85.47%", "93.73%", "95.87%")  # Chen, Liu, Ren, Jin, ICML 2020: E, E+P, E+P+H


class Breakdown:
    """What each stage of the codec saves."""

    name = "breakdown"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """See `Experiment`."""
        series_arguments(parser)
        choice_arguments(parser)
        parser.add_argument(
            "--bits",
            type=listed(bits),
            default=[None, 2, 3],
            metavar="X,…",
            help="of priority promotion; all: without it (default: all,2,3)",
        )

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        """See `Experiment`."""
        return [[*of, bits] for of in series_keys(options) for bits in options.bits]

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """See `Experiment`."""
        model, seed, bits = trial
        series = series_of(options, model, seed)
        rows, total = [], len(series) - 1
        for stages in breakdown(series, bits, options.scope):
            rows.append(about(options, model, seed) | asdict(stages))
            tell(len(rows), total)
        return rows

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """See `Experiment`."""
        head = ["float32 bytes saved by", "x", "symbols", "E", "E+P", "E+P+H", "run-length",
                "entropy of H"]  # fmt: skip
        lines = []
        of_models: dict[Any, list[list[float]]] = {}
        for (model, x), own in grouped(rows, "model", "bits"):
            symbols = mean([r["symbols"] for r in own]).value
            saved = [
                mean([1 - r[stage] / (4 * r["n"]) for r in own]).value
                for stage in ("e", "ep", "huffman", "runlength", "entropy")
            ]
            of_models.setdefault(x, []).append([symbols, *saved])
            lines.append([TITLES[model], *_saved(x, symbols, saved)])
        for x, several in of_models.items():
            if len(several) > 1:
                symbols, *saved = (mean(column).value for column in zip(*several))
                lines.append([f"mean of {len(several)}", *_saved(x, symbols, saved)])
        lines.append(["the paper, averages", "2", "–", *PAPER, "–", "–"])
        return table(head, lines)


class RemovedBucket:
    """What the loss becomes without a bucket, and without all smaller ones."""

    name = "removed-bucket"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """See `Experiment`."""
        series_arguments(parser)
        choice_arguments(parser)
        parser.add_argument(
            "--bits",
            type=bits,
            default=2,
            metavar="X",
            help="of the chain up to there; all: every bucket (default: 2)",
        )

    def trials(self, options: argparse.Namespace) -> list[list[Any]]:
        """See `Experiment`."""
        return list(series_keys(options))

    def run(self, options: argparse.Namespace, trial: Sequence[Any], tell: Tell) -> list[Row]:
        """See `Experiment`."""
        model, seed = trial
        found = removed_of(series_of(options, model, seed), options.bits, options.scope, tell)
        whole = {"step": found.step, "loss_whole": found.loss, "distance_whole": found.distance}
        return [about(options, model, seed) | whole | asdict(b) for b in found.buckets]

    def tables(self, options: argparse.Namespace, rows: Sequence[Row]) -> str:
        """See `Experiment`."""
        parts = []
        head = ["bucket", "members", "kept", "loss without it", "distance without it",
                "loss without it and smaller ones", "distance so"]  # fmt: skip
        for (model, seed), own in grouped(rows, "model", "seed"):
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
            told = f"{titled(model, seed)}, step {first['step']}"
            told += f"; with every bucket: distance {first['distance_whole']:.4f}"
            if math.isfinite(first["loss_whole"]):
                told += f", loss {first['loss_whole']:.5f}, to which losses below are relative"
            parts.append(f"{told}\n\n{table(head, lines)}")
        return "\n".join(parts)


def _saved(x: int | None, symbols: float, saved: Sequence[float]) -> list[str]:
    return [str(x or "all"), f"{symbols:.0f}", *(f"{share:.2%}" for share in saved)]


def _relative(loss: float, whole: float) -> str:
    return f"{loss / whole - 1:+.3%}" if math.isfinite(whole) else "–"
