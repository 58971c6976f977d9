"""Command line: python -m codec COMMAND …; python -m codec COMMAND --help says more.

RUN is a run.lcc directory, a .lcc.zip or the URL of one; the URL's filesystem takes its credentials
from the environment. Exit codes: 0 all is well; 1 data is damaged or could not be written; 2 wrong
use; 130 interrupted. With --json, standard output gets one JSON object: the answer, or
{"error": …}.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from codec import console
from codec.bench import command as bench
from codec.bench.scaling import ChildError
from codec.bench.tasks import RoundTripError
from codec.console import BAD_DATA, WRONG_USE, Parser
from codec.errors import LccError, SettingsError, StepNotFoundError, StepOrderError
from codec.scheme.coders import CODERS
from codec.scheme.coding import DEFAULT_DISTANCE, QUANTIZERS, SCOPES, UNSET
from codec.storage.location import local_path

from . import commands
from .commands import Command

EXIT_CODES: dict[type[Exception], int] = {
    SettingsError: WRONG_USE,
    StepNotFoundError: WRONG_USE,
    StepOrderError: WRONG_USE,
    LccError: BAD_DATA,
    RoundTripError: BAD_DATA,
    ChildError: BAD_DATA,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code and never shows a traceback for a user's mistake."""

    def command() -> int:
        options = _parser().parse_args(arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # shown below, also under python -W error
            warnings.showwarning = lambda message, *_args, **_kw: console.say(str(message))
            return int(options.command(options))

    return console.run(command, arguments, EXIT_CODES)


def _parser() -> Parser:
    parser = Parser(
        prog="python -m codec",
        description="Inspect, check, make and maintain LC-Checkpoint chains.",
        epilog="python -m codec COMMAND --help explains a command.",
    )
    sub = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (commands.info, commands.verify):
        _with_run(sub, command)
    own = _with_run(sub, commands.restore)
    _step_and_output(own, "the .safetensors or .pt file to write")
    own = _with_run(sub, commands.export)
    _step_and_output(own, "the .safetensors or .pt file to write; with --all a folder")
    own.add_argument("--all", choices=("safetensors", "pt"), help="write every step, as such files")
    own = _with_run(sub, commands.merge)
    own.add_argument("--steps", type=int, default=8, help="deltas per record (default: 8)")
    own = _with_run(sub, commands.compact)
    own.add_argument("--keep", type=int, default=2, help="bases to keep (default: 2)")
    own.add_argument(
        "--base", action="store_true", help="write a base of the newest step in any case"
    )
    own = _with_run(sub, commands.pack)
    _output(own, "the .lcc.zip to write")
    own = _with_run(sub, commands.unpack)
    own.add_argument("-o", "--output", required=True, help="a directory without records")
    _compress(_command(sub, commands.compress))
    bench.add_arguments(_command(sub, bench.run))
    return parser


def _compress(own: Parser) -> None:
    own.add_argument(
        "files",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="a .safetensors or .pt file (read with weights_only); its step is the last whole "
        "number that all names have in the same place",
    )
    own.add_argument(
        "--steps",
        type=_steps,
        metavar="N,N,…",
        help="the steps, in the order of the files; 'order' for 0, 1, 2…",
    )
    own.add_argument("-o", "--output", required=True, metavar="RUN", help="the run.lcc to write")
    own.add_argument("--json", action="store_true", help="answer as one JSON object")
    own.add_argument(
        "--distance",
        type=float,
        help="the share of a change that a delta may leave for the next one (default: "
        f"{DEFAULT_DISTANCE:g})",
    )
    own.add_argument(
        "--bits",
        type=_bits,
        default=UNSET,
        help="instead of --distance: the bits of priority promotion, 1 to 8, or all",
    )
    own.add_argument(
        "--budget",
        type=float,
        help="instead of --distance: the largest delta, as a share of the lossy tensors' float32 "
        "size",
    )
    own.add_argument(
        "--tolerance",
        type=float,
        help="instead of --distance: the largest error of a saved value",
    )
    own.add_argument(
        "--quantizer",
        choices=QUANTIZERS,
        help="exponent buckets (the paper) or uniform steps (default: exponent with --bits, "
        "uniform otherwise)",
    )
    own.add_argument(
        "--scope",
        choices=SCOPES,
        default="model",
        help="one alphabet for the whole model or for each tensor (default: model)",
    )
    own.add_argument(
        "--coder", choices=CODERS, default="runlength", help="lossless code (default: runlength)"
    )
    own.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="PATTERN=KIND",
        help="lossy, exact, skip, distance=D, tolerance=T or bits=X for the names that match; a ? "
        "at the end lets the pattern match nothing; may be repeated",
    )
    own.add_argument(
        "--resume",
        action="store_true",
        help="continue an existing chain; files that it has are skipped, others must come after "
        "its newest step",
    )


def _command(sub: argparse._SubParsersAction[Parser], command: Command) -> Parser:
    about = command.__doc__ or ""
    name = "bench" if command is bench.run else command.__name__
    own = sub.add_parser(name, help=about.partition("\n")[0], description=about)
    own.set_defaults(command=command)
    return own


def _with_run(sub: argparse._SubParsersAction[Parser], command: Command) -> Parser:
    own = _command(sub, command)
    own.add_argument("run", metavar="RUN", help="a run.lcc directory, a .lcc.zip, or its URL")
    own.add_argument("--json", action="store_true", help="answer as one JSON object")
    return own


def _step_and_output(own: Parser, file: str) -> None:
    own.add_argument("--step", type=int, help="the step (default: the newest)")
    _output(own, file)


def _output(own: Parser, file: str) -> None:
    kind = bench.checked(local_path)
    own.add_argument("-o", "--output", type=kind, required=True, help=file)


def _steps(text: str) -> list[int] | str:
    try:
        return text if text == "order" else [int(step) for step in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"steps are whole numbers with commas between them, or 'order'; got {text!r}"
        ) from None


def _bits(text: str) -> int | None:
    return None if text == "all" else int(text)


if __name__ == "__main__":
    sys.exit(main())
