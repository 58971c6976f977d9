"""The paper's experiments on models that this machine trains.

    PYTHONPATH=. python -m benchmarks.experiments recovery

Tables go to standard output, progress to standard error. Every finished trial is kept in a file; an
interrupted experiment goes on with --resume. With --json, standard output is one JSON object: the
answer, or {"error": …}.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import codec
import demo_models
from codec import console
from codec.console import BAD_DATA, OK, WRONG_USE, Parser
from lcviz.cli.tools import bar
from lcviz.lab.recovery.recovery import ProtocolError

from . import EXPERIMENTS, Experiment
from .base import caution, data_of, provenance
from .results_file import ResultsFile, ResultsFileError, Row

EXIT_CODES: dict[type[Exception], int] = {
    **dict.fromkeys((demo_models.ArgumentError, codec.SettingsError, ProtocolError), WRONG_USE),
    **dict.fromkeys((demo_models.DataError, codec.LccError, ResultsFileError), BAD_DATA),
}
# Options that change no value of a trial.
NOT_SETTINGS = ("experiment", "resume", "keep", "json", "csv", "folder")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment; returns the exit code. A user's mistake gives no traceback."""

    def command() -> int:
        options = _parser().parse_args(arguments)
        torch.set_num_threads(1)  # the same sums every time
        codec.warm_up()
        return _run(options.experiment, options)

    return console.run(command, arguments, EXIT_CODES)


def _run(experiment: Experiment, options: argparse.Namespace) -> int:
    settings = {k: v for k, v in sorted(vars(options).items()) if k not in NOT_SETTINGS}
    settings = {"experiment": experiment.name} | settings | {"data": data_of(options)}
    settings = json.loads(json.dumps(settings, default=str))
    path = options.keep or Path("lab") / f"{experiment.name}.jsonl"
    trials = experiment.trials(options)
    file = ResultsFile(path, settings, resume=options.resume)
    rows: list[Row] = []
    for i, trial in enumerate(trials, 1):
        if file.rows(trial) is None:
            file.check_alike()
            name = " ".join(str(key) for key in trial if key is not None)
            try:
                with bar(f"{name} ({i} of {len(trials)})") as progress:
                    file.add(trial, experiment.run(options, trial, progress))
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"{i - 1} of {len(trials)} trials are in {path}; go on with --resume"
                ) from None
        rows += file.rows(trial) or []
    if options.json:
        answer = {"asked": settings, "on": file.on, "rows": [_as_json(row) for row in rows]}
        print(json.dumps(answer, allow_nan=False))
    elif options.csv:
        writer = csv.DictWriter(sys.stdout, list(dict.fromkeys(k for row in rows for k in row)))
        writer.writeheader()
        writer.writerows(rows)
    else:
        print(experiment.tables(options, rows))
        if warning := caution(options):
            print(f"{warning}\n")
        print(provenance(rows, file.on))
        console.say(f"{len(rows)} rows are kept in {path}.")
    return OK


def _as_json(row: Row) -> Row:
    """The row for JSON, which has neither NaN nor infinity: they become null."""
    return {k: None if v in (math.inf, -math.inf) or v != v else v for k, v in row.items()}


def _parser() -> Parser:
    parser = Parser(prog="python -m benchmarks.experiments", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True, metavar="EXPERIMENT")
    for experiment in EXPERIMENTS:
        about = type(experiment).__doc__
        command = commands.add_parser(experiment.name, help=about, description=about)
        command.set_defaults(experiment=experiment)
        _add_options(command, experiment)
    return parser


def _add_options(command: Parser, experiment: Experiment) -> None:
    """The options of an experiment: its own, and those that all have."""
    experiment.arguments(command)
    keep_help = f"where finished trials are kept (default: lab/{experiment.name}.jsonl)"
    command.add_argument("--keep", type=Path, metavar="FILE", help=keep_help)
    resume_help = "continue from the trials in that file"
    command.add_argument("--resume", action="store_true", help=resume_help)
    output = command.add_mutually_exclusive_group()
    json_help = "all rows as one JSON object; values that are not finite are null"
    output.add_argument("--json", action="store_true", help=json_help)
    output.add_argument("--csv", action="store_true", help="all rows as CSV")


if __name__ == "__main__":
    raise SystemExit(main())
