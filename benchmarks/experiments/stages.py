"""Experiments on single checkpoints: what each stage saves, and what each bucket contributes."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.markdown import table
from codec import Coding
from lcviz.lab.intervals import mean

from .base import (
    TITLES,
    Experiment,
    Options,
    Progress,
    Trial,
    argument,
    average,
    bits,
    choice_arguments,
    grouped,
    keys_of,
    listed,
    series_arguments,
    series_of,
    titled,
)
from .breakdown import breakdown
from .removed import remove_buckets_of_last
from .results_file import Row

PAPER = ("85.47%", "93.73%", "95.87%")  # Chen, Liu, Ren, Jin, ICML 2020: E, E+P, E+P+H


ABOUT_STAGES = (
    "Means over checkpoints of what is delta-coded, without a record's header. x: bits of "
    "priority promotion; all: without it. Symbols: buckets and zero. E: an index of fixed length "
    "for each value, and a level for each bucket. P: x bits. H: Huffman codewords of single "
    "values, their table and levels. Run-length: codewords of runs of zeros with the level after "
    "them; they may take less than the entropy, which is that of single values.\n"
)
ABOUT_BUCKETS = (
    "Distance: ‖rebuilt − u‖ / ‖u − u₀‖; above 0 with every bucket, because E rounds. “And "
    "smaller”: without the bucket and all smaller ones.\n"
)


class Breakdown(Experiment):
    """What each stage of the codec saves."""

    name = "breakdown"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        series_arguments(parser)
        choice_arguments(parser)
        about = "of priority promotion; all: without it"
        argument(parser, "--bits", listed(bits), [None, 2, 3], "X,…", about)

    def trials(self, options: Options) -> list[list[Any]]:
        return [[*of, bits] for of in keys_of(options) for bits in options.bits]

    def rows(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        model, seed, bits = trial
        series = series_of(options, model, seed)
        rows, total = [], len(series) - 1
        for stages in breakdown(series, Coding(bits, options.scope)):
            rows.append(asdict(stages))
            progress(len(rows), total)
        return rows

    def tables(self, options: Options, rows: Sequence[Row]) -> str:
        head = [
            "float32 bytes saved by",
            "x",
            "symbols",
            "E",
            "E+P",
            "E+P+H",
            "run-length",
            "entropy of H",
        ]
        lines = []
        of_models: dict[Any, list[list[float]]] = {}
        for (model, x), setting_rows in grouped(rows, "model", "bits"):
            symbols = average(setting_rows, "symbols")
            saved = [
                mean([1 - r[stage] / (4 * r["n"]) for r in setting_rows]).value
                for stage in ("e", "ep", "huffman", "runlength", "entropy")
            ]
            of_models.setdefault(x, []).append([symbols, *saved])
            lines.append([TITLES[model], *_saved(x, symbols, saved)])
        for x, several in of_models.items():
            if len(several) > 1:
                symbols, *saved = (mean(column).value for column in zip(*several))
                lines.append([f"mean of {len(several)}", *_saved(x, symbols, saved)])
        lines.append(["the paper, averages", "2", "–", *PAPER, "–", "–"])
        return f"{table(head, lines)}\n{ABOUT_STAGES}"


class RemovedBucket(Experiment):
    """What the loss becomes without a bucket, and without all smaller ones."""

    name = "removed-bucket"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        series_arguments(parser)
        choice_arguments(parser)
        argument(parser, "--bits", bits, 2, "X", "of the chain before that step; all: every bucket")

    def rows(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        model, seed = trial
        removed = remove_buckets_of_last(
            series_of(options, model, seed), Coding(options.bits, options.scope), progress
        )
        whole = {"step": removed.step, "loss_whole": removed.loss}
        whole["distance_whole"] = removed.distance
        return [whole | asdict(b) for b in removed.buckets]

    def tables(self, options: Options, rows: Sequence[Row]) -> str:
        parts = []
        head = [
            "without bucket",
            "members",
            "kept",
            "loss",
            "distance",
            "loss, and smaller",
            "distance, and smaller",
        ]
        for (model, seed), bucket_rows in grouped(rows, "model", "seed"):
            first = bucket_rows[0]
            lines = [
                [
                    f"{'-' if r['sign'] else '+'}2^{r['exponent']}",
                    f"{r['count']:,}",
                    "yes" if r["kept"] else "no",
                    _relative(r["loss"], first["loss_whole"]),
                    f"{r['distance']:.4f}",
                    _relative(r["loss_below"], first["loss_whole"]),
                    f"{r['distance_below']:.4f}",
                ]
                for r in bucket_rows
            ]
            far = f"{first['distance_whole']:.4f}"
            no_effect = [_relative(first["loss_whole"], first["loss_whole"]), far] * 2
            end = 1 + max((i for i, line in enumerate(lines) if line[3:] != no_effect), default=0)
            unlisted = bucket_rows[end:]
            heading = f"{titled(model, seed)}, step {first['step']}"
            heading += f"; with every bucket: distance {first['distance_whole']:.4f}"
            if math.isfinite(first["loss_whole"]):
                heading += f", loss {first['loss_whole']:.5f}, to which losses below are relative"
            parts.append(f"{heading}\n\n{table(head, lines[:end])}")
            if unlisted:
                n = sum(r["count"] for r in unlisted)
                parts.append(f"{len(unlisted)} smaller buckets, {n:,} members: no effect.\n")
        keeps = "every bucket" if options.bits is None else f"those of x = {options.bits}"
        return "\n".join([*parts, f"Kept by the chain before this step: {keeps}. {ABOUT_BUCKETS}"])


def _saved(x: int | None, symbols: float, saved: Sequence[float]) -> list[str]:
    return [str(x or "all"), f"{symbols:.0f}", *(f"{share:.2%}" for share in saved)]


def _relative(loss: float, whole: float) -> str:
    return f"{round(loss / whole - 1, 5) + 0.0:+.3%}" if math.isfinite(whole) else "–"
