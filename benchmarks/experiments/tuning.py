"""Which setting to use, and whether fresh trainings confirm it."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from benchmarks.markdown import table
from codec import Coding
from codec.inspect import CODERS, DEFAULT_DISTANCE, QUANTIZERS, SCOPES
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.lab.progress import as_report, part
from lcviz.lab.recovery.methods import SHARES, lc
from lcviz.lab.recovery.recovery import Protocol as Failure
from lcviz.lab.recovery.recovery import fail_and_recover
from lcviz.lab.tuner.candidates import DISTANCES, INTERVALS, Candidate, Grid, Setting
from lcviz.lab.tuner.replay import failure_points, just_before_a_checkpoint
from lcviz.lab.tuner.tuner import TARGETS, tune

from .base import (
    OWN,
    Experiment,
    Options,
    Progress,
    Trial,
    argument,
    bits,
    grouped,
    listed,
    series_arguments,
    series_of,
    share,
    some_of,
    titled,
    whole,
    workload_of,
)
from .results_file import Row

FRESH = 1000  # the checks begin with the seed of the run plus this
CAP = 100  # iterations after which a check gives up looking for rework


ABOUT = (
    "The Pareto frontier of bytes, distance and rework; --json has all settings. "
    "Bytes are shares of the float32 size of all that is saved, without the base. Distance: "
    "‖restored − u‖ / ‖u − u₀‖, with u the state before the failure and u₀ the first one. Distance "
    "and rework are means over 10 failures, or fewer if checkpoints are far apart; each failure "
    "comes just before the next checkpoint. 95 %: another failure (checkpoint) stays below in 95 "
    "of 100 cases. Of checkpoint files, failures come before every save and at the end, the "
    "largest values stand instead, and the table also has the codec's default.\n"
)


class Tune(Experiment):
    """The cheapest setting that meets a target of size, distance or rework."""

    name = "tune"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        series_arguments(parser, iterations=160)
        parser.add_argument(
            "--target",
            type=_target,
            metavar="WHAT=MOST",
            help="size=.05: share of float32 that a checkpoint may take; rate=.05: that an "
            "iteration may take; distance=.1: relative distance; rework=3: iterations "
            f"(default: rework=3; with --own distance={DEFAULT_DISTANCE:g})",
        )
        for flag, read, default, metavar, text in (
            ("--bits", listed(bits), EVERY_BITS, "X,…", "to try"),
            ("--budgets", listed(share), SHARES, "S,…", "to try, shares of float32"),
            ("--distances", listed(share), DISTANCES, "D,…", "to try, shares of a change"),
            ("--scopes", some_of(SCOPES), SCOPES, "S,…", "of one alphabet, to try"),
            ("--coders", some_of(tuple(CODERS)), CODERS, "C,…", "to try"),
            ("--quantizers", some_of(QUANTIZERS), QUANTIZERS, "Q,…", "of budgets, to try"),
            ("--intervals", listed(whole(1)), INTERVALS, "K,…", "between checkpoints, to try"),
        ):
            argument(parser, flag, read, list(default), metavar, text)
        check = "N trainings of fresh seeds that fail, to check the recommended setting"
        argument(parser, "--check", whole(0), 0, "N", check)

    def trials(self, options: Options) -> list[list[Any]]:
        default = ["distance", DEFAULT_DISTANCE] if options.own else ["rework", 3.0]
        options.target = options.target or default
        return super().trials(options)

    def rows(self, options: Options, trial: Trial, progress: Progress) -> list[Row]:
        model, seed = trial
        target, most = options.target
        unit = "checkpoint" if options.own else "iteration"
        candidates = Grid(*(getattr(options, f.name) for f in fields(Grid))).settings
        series, parts = series_of(options, model, seed), 1 + options.check
        answer = tune(series, target, most, candidates, part(progress, 0, parts))
        rows = [
            {"left_out": answer.left_out, "kind": "candidate"}
            | _row(c, unit)
            | {"on_frontier": c in answer.frontier, "recommended": c is answer.recommended}
            for c in answer.candidates
        ]
        if answer.recommended and not options.own:
            rows += _checked(options, model, seed, answer.recommended.setting, progress)
        return rows

    def tables(self, options: Options, rows: Sequence[Row]) -> str:
        parts = []
        for (model, seed), trial_rows in grouped(rows, "model", "seed"):
            unit = "checkpoint" if model == OWN else "iteration"
            sure = "largest" if model == OWN else "95 %"
            head = ["", f"bytes for every {unit}", "of a saved one", sure, "distance", sure]
            head += [] if model == OWN else ["rework, iterations", "95 %"]
            default = Setting(Coding.safe(), 1).text(unit) if model == OWN else ""
            listed_rows = [
                r
                for r in trial_rows
                if r["kind"] == "candidate"
                and (r["on_frontier"] or r["recommended"] or r["setting"] == default)
            ]
            lines = [
                [
                    "→" * r["recommended"] + " default" * (r["setting"] == default),
                    f"{r['rate']:.3%}",
                    f"{r['share']:.2%}",
                    f"{r['share_bound']:.2%}",
                    f"{r['distance']:.3f}",
                    f"{r['distance_bound']:.3f}",
                    *([] if model == OWN else map(_number, (r["rework"], r["rework_bound"]))),
                    r["setting"],
                ]
                for r in sorted(listed_rows, key=lambda r: r["rate"])
            ]
            parts.append(f"{titled(model, seed)}\n\n{table([*head, 'setting'], lines)}")
            target, most = options.target
            best = "→ the best" if any(r["recommended"] for r in trial_rows) else "None"
            left_out = trial_rows[0]["left_out"]
            parts.append(f"{best} with {target} at most {most:g}.{left_out}\n")
            if checks := [r for r in trial_rows if r["kind"] == "check"]:
                met = sum(r["met"] for r in checks)
                values = ", ".join(f"{r['reached']:.3g}" for r in checks)
                seeds = f"{len(checks)} fresh seed{'s' if len(checks) > 1 else ''}"
                parts.append(
                    f"Checked with trainings of {seeds} that failed: {met} of {len(checks)} within "
                    f"{options.target[1]:g} ({values}).\n"
                )
        return "\n".join([*parts, ABOUT])


def _checked(
    options: Options, model: str, seed: int, setting: Setting, progress: Progress
) -> list[Row]:
    """A row for each fresh seed; each training fails at another iteration."""
    target, most = options.target
    rows = []
    points = failure_points(options.iterations)
    for i in range(options.check):
        fail_at = just_before_a_checkpoint(points[i % len(points)], setting.interval)
        fail_at = max(fail_at, 2 * setting.interval - 1)  # something has to be saved before
        failure = Failure(fail_at, setting.interval, CAP)
        (outcome,) = fail_and_recover(
            workload_of(options, model),
            seed + FRESH + i,
            [lc(setting.coding)],
            failure,
            as_report(part(progress, 1 + i, 1 + options.check)),
        )
        reached = {
            "size": outcome.share,
            "rate": outcome.share / setting.interval,
            "distance": outcome.distance,
            "rework": outcome.rework,
        }[target]
        check = {"kind": "check", "fresh_seed": outcome.seed, "fail_at": fail_at}
        check |= {"reached": reached, "met": reached <= most}
        rows.append(check)
    return rows


def _row(c: Candidate, unit: str) -> Row:
    return c.setting.coding.header() | {
        "interval": c.setting.interval,
        "setting": c.setting.text(unit),
        "share": c.share,
        "rate": c.rate,
        "share_bound": c.share_bound,
        "exact_share": c.exact_share,
        "distance": c.distance.value,
        "distance_bound": c.distance_bound,
        "rework": c.rework.value if c.rework else None,
        "rework_half": c.rework.half if c.rework else None,
        "rework_bound": c.rework_bound,
    }


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return "not reached" if value == math.inf else f"{value:.2f}"


def _target(text: str) -> list[Any]:
    name, equals, most = text.partition("=")
    try:
        if name not in TARGETS or not equals or not 0 < float(most) < math.inf:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"a target is size=, rate=, distance= or rework= with a number above 0; got {text!r}"
        ) from None
    if name in ("size", "rate") and float(most) > 1:
        raise argparse.ArgumentTypeError(f"a {name} is a share: 0.05 is 5 %; got {text!r}")
    return [name, float(most)]
