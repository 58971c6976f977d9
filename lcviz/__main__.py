"""Command line of the lab: python -m lcviz EXPERIMENT …; see --help.

`python -m lcviz receipt FILE` checks a receipt of the dashboard against its archive;
`python -m lcviz report CHAIN -o FILE` writes a chain's figures as one file;
`python -m lcviz learn -o FILE` the Learn page.
Tables go to standard output, progress to standard error. Every finished trial is kept in a file; an
interrupted experiment goes on with --resume. Exit codes: 0 done; 1 the data or the disk does not
allow it; 2 wrong use; 130 interrupted. With --json, standard output is one JSON object: the answer,
or {"error": …}.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from tqdm import tqdm

import codec
import demo_models
from codec import console
from codec.console import BAD_DATA, OK, WRONG_USE, Parser
from lcviz.lab.experiments import EXPERIMENTS, Experiment
from lcviz.lab.experiments.base import caution, data_of, provenance
from lcviz.lab.experiments.results_file import ResultsFile, ResultsFileError, Row
from lcviz.lab.progress import Progress
from lcviz.lab.recovery.recovery import ProtocolError

from .export import receipt

EXIT_CODES: dict[type[Exception], int] = {
    **dict.fromkeys((demo_models.ArgumentError, codec.SettingsError, ProtocolError), WRONG_USE),
    **dict.fromkeys((demo_models.DataError, codec.LccError, ResultsFileError), BAD_DATA),
    receipt.ReceiptError: BAD_DATA,
}
NOT_ASKED = ("experiment", "resume", "keep", "json", "csv", "folder")  # these change no value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment; returns the exit code. A user's mistake gives no traceback."""

    def command() -> int:
        options = _parser().parse_args(arguments)
        torch.set_num_threads(1)  # the same sums every time
        codec.warm_up()
        if isinstance(options.experiment, Experiment):
            return _run(options.experiment, options)
        return int(options.experiment(options))

    return console.run(command, arguments, EXIT_CODES)


def _run(experiment: Experiment, options: argparse.Namespace) -> int:
    asked = {k: v for k, v in sorted(vars(options).items()) if k not in NOT_ASKED}
    asked = {"experiment": experiment.name} | asked | {"data": data_of(options)}
    asked = json.loads(json.dumps(asked, default=str))
    path = options.keep or Path("lab") / f"{experiment.name}.jsonl"
    trials = experiment.trials(options)
    kept = ResultsFile(path, asked, resume=options.resume)
    rows: list[Row] = []
    for i, trial in enumerate(trials, 1):
        if kept.rows(trial) is None:
            kept.check_alike()
            what = (
                f"{' '.join(str(key) for key in trial if key is not None)} ({i} of {len(trials)})"
            )
            try:
                with _bar(what) as tell:
                    kept.add(trial, experiment.run(options, trial, tell))
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"{i - 1} of {len(trials)} trials are in {path}, go on with --resume"
                ) from None
        rows += kept.rows(trial) or []
    if options.json:
        told = {"asked": asked, "on": kept.on, "rows": [_as_json(row) for row in rows]}
        print(json.dumps(told, allow_nan=False))
    elif options.csv:
        writer = csv.DictWriter(sys.stdout, list(dict.fromkeys(k for row in rows for k in row)))
        writer.writeheader()
        writer.writerows(rows)
    else:
        print(experiment.tables(options, rows))
        if said := caution(options):
            print(f"{said}\n")
        print(provenance(rows, kept.on))
        console.say(f"{len(rows)} rows are kept in {path}.")
    return OK


def _check_receipt(options: argparse.Namespace) -> int:
    """Hash every record, rebuild every step, and compare them with the receipt."""
    try:
        stated = receipt.load(options.receipt.read_bytes())
        archive = options.archive or options.receipt.with_name(stated["archive"]["file"])
        data = archive.read_bytes()
    except OSError as exc:
        raise receipt.ReceiptError(f"{exc.filename} cannot be read: {exc.strerror}.") from exc
    with _bar("checking", "step") as tell:
        problems = receipt.problems(stated, data, tell)
    if options.json:
        print(json.dumps({"ok": not problems, "archive": str(archive), "problems": problems}))
    else:
        for problem in problems:
            print(f"problem: {problem}")
        steps, records = len(stated["tracks"]), len(stated["records"])
        verdict = "DIFFERENT" if problems else "ok"
        print(f"{verdict}: {archive}, {len(data):,} bytes, {records} records, {steps} steps")
    return BAD_DATA if problems else OK


def _write_learn(options: argparse.Namespace) -> int:
    """The Learn page as a file."""
    from .learn.one_file import learn_html  # streamlit, which the other commands do without

    return _write(options.output, learn_html())


def _write_report(options: argparse.Namespace) -> int:
    """The figures of a chain as a file."""
    from .report.chain_figures import figures_of  # plotly, which the other commands do without

    with _bar("reading") as tell:
        figures = figures_of(options.chain, options.step, tell)
    done = _write(options.output, figures.to_html())
    if done == OK:
        console.say(figures.verdict)
    return done


def _write(path: Path, page: str) -> int:
    """Write a page, and say where it is."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as exc:
        console.say(f"{path} cannot be written: {exc.strerror}.")
        return BAD_DATA
    console.say(f"{path}: {len(page.encode()):,} bytes. Open it in a browser.")
    return OK


@contextmanager
def _bar(what: str, unit: str = "it") -> Iterator[Progress]:
    """A bar on standard error while something takes long."""
    with tqdm(desc=what, unit=unit, leave=False, disable=None) as bar:

        def tell(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield tell


def _as_json(row: Row) -> Row:
    """JSON has no NaN and no infinity: they become null."""
    return {k: None if v in (math.inf, -math.inf) or v != v else v for k, v in row.items()}


def _parser() -> Parser:
    parser = Parser(
        prog="python -m lcviz",
        description="The paper's experiments and others, on models trained on this machine.",
    )
    sub = parser.add_subparsers(required=True, metavar="EXPERIMENT")
    for experiment in EXPERIMENTS:
        about = type(experiment).__doc__
        own = sub.add_parser(experiment.name, help=about, description=about)
        own.set_defaults(experiment=experiment)
        experiment.arguments(own)
        own.add_argument(
            "--keep",
            type=Path,
            metavar="FILE",
            help=f"where finished trials are kept (default: lab/{experiment.name}.jsonl)",
        )
        own.add_argument(
            "--resume", action="store_true", help="continue from the trials in that file"
        )
        shown = own.add_mutually_exclusive_group()
        shown.add_argument(
            "--json",
            action="store_true",
            help="all rows as one JSON object; values that are not finite are null",
        )
        shown.add_argument("--csv", action="store_true", help="all rows as CSV")
    check = sub.add_parser(
        "receipt",
        help="check a receipt of the dashboard against its archive",
        description="Hashes the archive and its records, rebuilds every step, and compares them "
        "with the receipt.",
    )
    check.set_defaults(experiment=_check_receipt)
    check.add_argument("receipt", type=Path, metavar="FILE", help="the receipt, a .json")
    check.add_argument(
        "archive",
        type=Path,
        nargs="?",
        metavar="ARCHIVE",
        help="the .lcc.zip (default: the one it names, in the same folder)",
    )
    check.add_argument("--json", action="store_true", help="answer as one JSON object")
    report = sub.add_parser(
        "report",
        help="write the figures of a chain as one file",
        description="Sizes, exponents over time, buckets, code words, removed bucket, integrity "
        "and settings of a chain in one HTML file, without a server or a network. A damaged chain "
        "gets one too: it says which steps restore.",
    )
    report.set_defaults(experiment=_write_report)
    report.add_argument("chain", metavar="CHAIN", help="a run.lcc, a .lcc.zip, or a URL")
    report.add_argument("-o", "--output", type=Path, default=Path("report.html"), metavar="FILE")
    report.add_argument(
        "--step", type=int, metavar="N", help="the step to look into (default: the newest delta)"
    )
    learn = sub.add_parser(
        "learn",
        help="write the Learn page as one file",
        description="Six pictures of the scheme in one HTML file, without a server or a network.",
    )
    learn.set_defaults(experiment=_write_learn)
    learn.add_argument("-o", "--output", type=Path, default=Path("learn.html"), metavar="FILE")
    return parser


if __name__ == "__main__":
    sys.exit(main())
